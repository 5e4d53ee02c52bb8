# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records: what is written is what is read."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _history

RELEASE: dict[str, Any] = {
    "name": "dgd",
    "namespace": "llm",
    "target": "m/sglang/agg-gb300",
    "digest": "d" * 64,
    "models": [{"id": "acme/tiny", "commit": "c" * 40, "path": "/cache/tiny/cccccccccccc", "bytes": 5}],
    "config_maps": [{"kind": "ConfigMap", "metadata": {"name": "dgd-config-12345678"}}],
    "compute_domain": {"name": "cd", "template": "t", "manifest": {"kind": "ComputeDomain"}},
    "manifest": {"kind": "DynamoGraphDeployment", "metadata": {"name": "dgd"}},
}


def record(number: int, release: dict[str, Any] | None = None) -> dict[str, Any]:
    return _history.build(release or RELEASE, number, who="eve", when="2026-11-30T15:00:00Z", outcome="applied")


def test_build_and_parse() -> None:
    config_map = record(3)
    assert config_map["metadata"]["name"] == "dgd-r3"
    assert config_map["metadata"]["labels"] == {
        "app.kubernetes.io/part-of": "dynamo",
        "app.kubernetes.io/managed-by": "inferops.dynamo",
        "inferops.dynamo/release": "dgd",
        "inferops.dynamo/record": "dgd",
    }
    assert all(isinstance(value, str) for value in config_map["data"].values())
    parsed = _history.parse(config_map)
    assert (parsed["number"], parsed["target"], parsed["who"]) == (3, "m/sglang/agg-gb300", "eve")
    assert parsed["models"] == [{"id": "acme/tiny", "commit": "c" * 40, "path": "/cache/tiny/cccccccccccc"}]


def test_manifests_come_back_in_the_order_of_application() -> None:
    packed = record(1)["data"]["manifests"]
    assert [o["kind"] for o in _history.unpack(packed)] == ["ConfigMap", "ComputeDomain", "DynamoGraphDeployment"]
    assert packed == record(1)["data"]["manifests"]
    without = {**RELEASE, "compute_domain": None}
    assert [o["kind"] for o in _history.manifests(without)] == ["ConfigMap", "DynamoGraphDeployment"]


def test_records_are_sorted_by_number_and_of_one_release() -> None:
    other = record(12, {**RELEASE, "name": "dgd-two"})
    plain = {"metadata": {"name": "dgd-config", "labels": None}}
    found = _history.records([record(9), other, record(10), plain], "dgd")
    assert [r["number"] for r in found] == [10, 9]
    assert _history.next_number(found) == 11
    assert _history.next_number([]) == 1


@pytest.mark.parametrize(
    ("name", "data", "number"), [("dgd-r7", {}, 7), ("dgd-r7", {"number": "x"}, 0), ("odd", None, 0)]
)
def test_a_damaged_record_is_read_as_far_as_it_goes(name: str, data: Any, number: int) -> None:
    parsed = _history.parse({"metadata": {"name": name}, "data": data})
    assert (parsed["number"], parsed["models"], parsed["outcome"]) == (number, [], "")
