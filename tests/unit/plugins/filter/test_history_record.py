# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.inferops.dynamo.plugins.filter.history_record import history_record
from ansible_collections.inferops.dynamo.plugins.module_utils import _history

RELEASE: dict[str, Any] = {
    "name": "lab-agg",
    "namespace": "llm",
    "target": "m/f/agg",
    "digest": "d" * 64,
    "models": [],
    "config_maps": [],
    "manifest": {"kind": "DynamoGraphDeployment", "metadata": {"name": "lab-agg"}},
}


def test_the_record_can_be_read_back() -> None:
    plan = {"record": {"number": 3, "name": "lab-agg-r3"}, "operator_version": "1.5.0"}
    record = history_record(RELEASE, plan, who="eve", when="2026-11-30T15:00:00Z")
    (parsed,) = _history.records([record], "lab-agg")
    assert (parsed["name"], parsed["number"], parsed["who"], parsed["outcome"]) == ("lab-agg-r3", 3, "eve", "applied")
    assert parsed["operator_version"] == "1.5.0"
