# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: tells a wait when to look again: watches on a deployment, its pods and what events say about them.

A watch only says that something changed, and what is true is read anew: one that is lost costs time, never a verdict.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ansible_collections.inferops.dynamo.plugins.module_utils._dgd import GRAPH, Object
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

if TYPE_CHECKING:
    from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import Cluster

# What docs/rbac.yaml allows to watch; a kind that may not be watched is looked at often instead.
WATCHED = (("nvidia.com/v1beta1", "DynamoGraphDeployment"), ("v1", "Pod"), ("v1", "Event"))
# Seconds that the API server keeps one watch open: so long may a thread outlive its wait.
PERIOD = 60.0
# Changes come in groups: a pod, its events, the deployment's status.
SETTLE = 0.5
PAUSES = (0.5, 10.0)  # seconds between a watch that ended at once and the next one: at first, and at most


class Changes:
    """Watches in threads of their own, until close(). blind: a kind can't be watched, so one has to look often."""

    def __init__(self, cluster: Callable[[], Cluster], namespace: str, name: str, period: float = PERIOD) -> None:
        self.cluster, self.namespace, self.period, self.blind = cluster, namespace, period, False
        self._changed, self._closed = threading.Event(), threading.Event()

        def about(event: Object) -> bool:
            involved = event.get("involvedObject") or {}
            return involved.get("kind") == "PersistentVolumeClaim" or str(involved.get("name")).startswith(name)

        ours: tuple[tuple[dict[str, str], Callable[[Object], bool]], ...] = (
            ({"field_selector": f"metadata.name={name}"}, bool),
            ({"label_selector": f"{GRAPH}={name}"}, bool),
            ({}, about),
        )
        for kind, selected in zip(WATCHED, ours, strict=True):
            threading.Thread(target=self._follow, args=(*kind, *selected), daemon=True).start()

    def wait(self, seconds: float) -> None:
        """Until something changed, at most `seconds`."""
        if self._changed.wait(seconds):
            time.sleep(min(SETTLE, seconds))
        self._changed.clear()

    def close(self) -> None:
        self._closed.set()

    def _follow(self, api_version: str, kind: str, selectors: dict[str, str], mine: Callable[[Object], bool]) -> None:
        version: str | None = None  # without one the server begins with what there is
        pause = PAUSES[0]
        try:
            while not self._closed.is_set():
                began = time.monotonic()
                try:
                    query: dict[str, Any] = {**selectors, "resource_version": version}
                    for event in self.cluster().watch(api_version, kind, self.namespace, self.period, **query):
                        version = event["object"]["metadata"].get("resourceVersion") or version
                        if event["type"] != "BOOKMARK" and mine(event["object"]):
                            self._changed.set()
                        if self._closed.is_set():
                            return
                except DynamoError as error:
                    if error.code in ("FORBIDDEN", "API_ABSENT"):
                        return
                    if error.result.get("status") == 410:
                        version = None
                quick = time.monotonic() - began < 1
                pause = min(pause * 2, PAUSES[1]) if quick else PAUSES[0]
                self._closed.wait(pause if quick else 0)
        finally:
            self.blind = True
