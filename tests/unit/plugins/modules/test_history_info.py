# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""history_info against a list of ConfigMaps."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _history
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run
from ansible_collections.inferops.dynamo.plugins.modules import history_info

RELEASE: dict[str, Any] = {
    "name": "dgd",
    "namespace": "llm",
    "target": "t",
    "digest": "d",
    "models": [],
    "config_maps": [],
    "compute_domain": None,
    "manifest": {"kind": "DynamoGraphDeployment"},
}


class FakeCluster:
    def __init__(self) -> None:
        self.records = [_history.build(RELEASE, n, who="eve", when="now", outcome="applied") for n in (1, 2)]
        self.asked: tuple[str, ...] = ()

    def list(self, *asked: str) -> list[dict[str, Any]]:
        self.asked = asked
        return self.records


@pytest.mark.parametrize("manifests", [True, False])
def test_records_newest_first(monkeypatch: pytest.MonkeyPatch, manifests: bool) -> None:
    cluster = FakeCluster()
    monkeypatch.setattr(history_info.Cluster, "connect", lambda _params: cluster)
    records = history_info.run({"name": "dgd", "namespace": "llm", "manifests": manifests}, Run())["records"]
    assert cluster.asked == ("v1", "ConfigMap", "llm", "inferops.dynamo/record=dgd")
    assert [r["number"] for r in records] == [2, 1]
    assert [r.get("manifests") for r in records] == [[RELEASE["manifest"]] if manifests else None] * 2
