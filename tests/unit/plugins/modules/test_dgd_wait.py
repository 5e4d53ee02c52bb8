# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run
from ansible_collections.inferops.dynamo.plugins.modules import dgd_wait
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._dgd_objects import OLD, dcd, dgd, pod

PARAMS: dict[str, Any] = {
    "name": "lab-agg",
    "namespace": "llm",
    "timeout": 5,
    "interval": 3,
    "budgets": {},
    "manifest": None,
}


class FakeCluster:
    def get(self, *_asked: str) -> dict[str, Any]:
        return dgd()

    def list(self, _api: str, kind: str, *_where: str, **_selectors: Any) -> list[dict[str, Any]]:
        return [pod(ready=True)] if kind == "Pod" else [dcd(OLD)]


def test_a_ready_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dgd_wait.Cluster, "connect", lambda _params: FakeCluster())
    run = Run()
    result = dgd_wait.run(PARAMS, run)
    assert result["verdict"]["state"] == "READY" and result["changed"] is False
    assert run.lines == ["lab-agg: ready, Frontend 1/1, Worker 1/1 ready"]


def test_check_mode_asks_nothing() -> None:
    assert dgd_wait.run(PARAMS, Run(check_mode=True))["verdict"]["state"] == "STARTING"
