# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _benchload, _benchsummary
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._benchmark_objects import (
    IDENTITY,
    LOAD,
    files,
    measured,
    summary,
)


def test_a_whole_run() -> None:
    found = summary()
    assert found["whole"] and found["warnings"] == [] and found["aiperf"] == "0.13.0"
    last = found["points"][-1]
    assert (last["name"], last["concurrency"], last["done"], last["failed"]) == ("concurrency-4", 4, 40, 0)
    assert last["output_tokens_per_s"] == pytest.approx(589.8, abs=0.1)
    assert last["output_tokens_per_s_per_gpu"] == pytest.approx(589.8 / 4, abs=0.1)
    assert last["ttft_ms"]["p50"] == pytest.approx(53.4, abs=0.1)
    assert last["itl_ms"]["p99"] == pytest.approx(6.18, abs=0.01)
    # the scripted worker reports no cached tokens: no hit rate, rather than one of 0
    assert last["cache_hit"] is None
    json.dumps(found)


def test_cache_hits_are_those_of_the_frontend() -> None:
    found = files("concurrency-1")
    metrics = json.loads(found["server_metrics_export.json"])
    read = metrics["metrics"]["dynamo_frontend_input_sequence_tokens"]["series"][0]["stats"]["sum"]
    metrics["metrics"]["dynamo_frontend_cached_tokens"]["series"][0]["stats"] = {"count": 40, "sum": read / 2}
    found["server_metrics_export.json"] = json.dumps(metrics).encode()
    assert _benchsummary.point(LOAD["points"][0], found, 4)["cache_hit"] == 0.5


def test_fewer_requests_than_were_asked_for_are_not_all() -> None:
    assert _benchsummary.point({**LOAD["points"][-1], "requests": 40}, files("concurrency-4"), 4)["whole"]
    assert not _benchsummary.point({**LOAD["points"][-1], "requests": 400}, files("concurrency-4"), 4)["whole"]


def test_a_number_that_is_not_known_any_more_does_not_pass_the_gate() -> None:
    comparison = _benchsummary.compare(summary(), summary())
    comparison["rows"][0]["now"] = comparison["rows"][0]["worse"] = None
    assert "is not known" in _benchsummary.regressions(comparison, 10)[0]
    assert _benchsummary.regressions(comparison, 0) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        # AIPerf calls this one complete and not cancelled, and ends with 0
        ({"found": measured(c4=files("failed"))}, "NOT WHOLE: 326 of 400 requests of concurrency-4 failed: 1 x"),
        ({"found": measured(c4=files("concurrency-4", was_cancelled=True))}, "concurrency-4 was cancelled"),
        ({"found": {"concurrency-1": files("concurrency-1")}}, "not measured: concurrency-2, concurrency-4"),
        *(
            ({"found": measured(c4={**files("failed"), "phase_manifest.json": manifest})}, "326 of 400 requests")
            for manifest in (b"", b'{"phases": [')
        ),
        ({"found": {}}, "not measured: concurrency-1"),
        ({"failure": {"code": "WORKER_LOST", "message": "gone"}}, "the run ended with WORKER_LOST: gone"),
        ({"found": measured(c4={"profile_export_aiperf.json": b"{cut"})}, None),
    ],
)
def test_what_is_not_whole_says_so_first(given: dict[str, Any], words: str | None) -> None:
    found = summary(**given)
    assert found["whole"] is False
    lines = _benchsummary.table(found)
    assert words is None or (words in str(found["warnings"]) and words in lines[1] and lines[1].startswith("! "))
    with pytest.raises(DynamoError) as raised:
        _benchsummary.comparable(summary(), found)
    assert raised.value.code == "BENCHMARK_INCOMPLETE"


def test_what_is_not_complete_without_an_error_says_so_too() -> None:
    for given, words in (
        ({"request_count": {"avg": 38.0}}, "concurrency-4 is not complete: 38 of 40 requests were measured"),
        ({"is_complete": False}, "concurrency-4 is not complete: AIPerf's export says so"),
    ):
        found = summary(measured(c4=files("concurrency-4", **given)))
        assert found["whole"] is False and found["warnings"] == [f"NOT WHOLE: {words}"]


def test_synthetic_acceptance_is_marked() -> None:
    found = summary(identity={"synthetic_acceptance": True})
    assert found["whole"] and found["warnings"][0].startswith("SYNTHETIC ACCEPTANCE")


def test_a_trace_is_known_by_what_the_pod_read() -> None:
    load = _benchload.normalise({"trace": {"path": "t.jsonl"}, "concurrency": [1, 2, 4]})
    found = summary(load=load, trace={"trace_sha256": "a" * 64, "rows": 40})
    assert found["load"]["trace"]["sha256"] == "a" * 64
    assert "cache is warm" in str(found["warnings"])


def test_table() -> None:
    lines = _benchsummary.table(summary())
    assert lines[0].startswith("minimax-m3.1/sglang/agg-gb300 on 4 x GB300: 200 tokens in, 50% of it shared, 20 out")
    assert [line.split()[0] for line in lines[1:]] == ["point", "concurrency-1", "concurrency-2", "concurrency-4"]
    assert len({len(line) for line in lines[1:]}) == 1


def slower(factor: float) -> dict[str, Any]:
    found = summary(run="slow")
    for point in found["points"]:
        point["output_tokens_per_s"] *= factor
        point["ttft_ms"]["p50"] /= factor
    return found


def test_the_same_run_compares_as_equal() -> None:
    comparison = _benchsummary.compare(summary(), summary(run="before"))
    assert {row["change"] for row in comparison["rows"]} == {0.0} and comparison["notes"] == []
    assert _benchsummary.regressions(comparison, 0.1) == []
    assert _benchsummary.comparison_table(comparison)[0] == "against before:"


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (5, 6), (10.5, 3), (12, 0)])
def test_regressions(limit: float, count: int) -> None:
    """10 percent fewer tokens/s, and 11 percent later first tokens, of three points."""
    worse = _benchsummary.regressions(_benchsummary.compare(slower(0.9), summary()), limit)
    assert len(worse) == count
    assert all("% worse" in line for line in worse)
    assert _benchsummary.regressions(_benchsummary.compare(summary(), slower(0.9)), limit) == []


def test_deployments_may_differ_and_are_named() -> None:
    comparison = _benchsummary.compare(summary(), summary(identity={"framework": "vllm"}))
    assert comparison["notes"] == ["framework: sglang, before vllm"]


def test_another_load_is_refused_with_the_difference() -> None:
    other = _benchload.normalise({"input_tokens": 300, "output_tokens": 20, "concurrency": [1, 2, 4], "requests": 40})
    with pytest.raises(DynamoError, match=r"input_tokens: 200, 300; shared_prefix: 0.5, 0") as raised:
        _benchsummary.comparable(summary(), summary(load=other))
    assert raised.value.code == "BENCHMARK_DIFFERS"
    with pytest.raises(DynamoError, match="another version"):
        _benchsummary.comparable(summary(), {"run": "old", "schema": 0})


def test_last_is_the_newest_whole_run_of_host_and_deployment() -> None:
    runs = [
        summary(run="old", finished="2026-11-01T00:00:00Z"),
        summary(run="new", finished="2026-11-02T00:00:00Z"),
        summary(run="broken", finished="2026-11-03T00:00:00Z", failure={"code": "X", "message": ""}),
        summary(run="elsewhere", finished="2026-11-04T00:00:00Z", host="par1"),
        summary(run="other", finished="2026-11-05T00:00:00Z", identity={"name": "other"}),
        {},
    ]
    last = _benchsummary.newest(runs, "fra1", IDENTITY["name"])
    assert last and last["run"] == "new"
    synthetic = summary(run="synthetic", finished="2026-11-06T00:00:00Z", identity={"synthetic_acceptance": True})
    assert _benchsummary.newest([*runs, synthetic], "fra1", IDENTITY["name"]) == last
    assert _benchsummary.newest([*runs, synthetic], "fra1", IDENTITY["name"], True) == synthetic
    with pytest.raises(DynamoError, match="only one of this run and new") as raised:
        _benchsummary.comparable(synthetic, last)
    assert raised.value.code == "BENCHMARK_DIFFERS"
    assert _benchsummary.newest(runs[2:], "fra1", IDENTITY["name"]) is None
