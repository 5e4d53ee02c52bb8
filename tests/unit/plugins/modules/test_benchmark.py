# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""benchmark_plan, benchmark_wait and benchmark_summary: files, and what is refused before and after a measurement."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run
from ansible_collections.inferops.dynamo.plugins.modules import benchmark_plan, benchmark_summary, benchmark_wait
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._benchmark_objects import (
    LOAD,
    files,
    measured,
    summary,
)
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils.test__benchjob import HUB, JOB, release

GIVEN = {"input_tokens": 200, "output_tokens": 20, "shared_prefix": 0.5, "concurrency": [1, 2, 4], "requests": 40}


def plan(output: Path, run: Run | None = None, **params: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "release": release(),
        "host": "fra1",
        "preset": "",
        "load": GIVEN,
        "script": "#",
        "job": JOB,
    }
    base |= {"output": str(output), "baseline": "", "claim_uid": "", "staged": [], "synthetic_acceptance": False}
    base["max_regression"] = 0.0
    return benchmark_plan.run({**base, **params}, run or Run())


def keep(output: Path, found: dict[str, Any]) -> None:
    (output / found["run"]).mkdir(parents=True)
    (output / found["run"] / "summary.json").write_text(json.dumps(found))


def test_plan(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert found["load"] == LOAD
    assert found["folder"] == str(tmp_path / found["run"]) and found["run"].endswith("Z-fra1")
    assert [d["kind"] for d in found["definitions"]] == ["ConfigMap", "Job"]
    assert (found["record"], found["baseline"]) == ({}, "")
    assert list(tmp_path.iterdir()) == []
    json.dumps(found)


@pytest.mark.parametrize("path", ["summary.json", "summary.json/runs"])
def test_a_place_that_holds_no_runs_is_refused_before_anything_is_measured(tmp_path: Path, path: str) -> None:
    (tmp_path / "summary.json").touch()
    with pytest.raises(
        DynamoError, match=f"benchmark_output is {tmp_path}/{path}, and .*json is no directory"
    ) as caught:
        plan(tmp_path / path)
    assert caught.value.code == "REPORT_DIRECTORY"


def test_a_preset_and_what_wins_over_it(tmp_path: Path) -> None:
    found = plan(tmp_path, release=release(HUB), preset="agentic", load={"concurrency": [8]})
    assert [p["name"] for p in found["load"]["points"]] == ["concurrency-8"]
    assert found["load"]["trace"]["name"].startswith("traces/64k")
    argv = json.loads(found["definitions"][0]["data"]["plan.json"])["points"][0]["argv"]
    assert "--tokenizer-trust-remote-code" in argv


@pytest.mark.parametrize(
    ("params", "code", "words"),
    [
        ({"preset": "agentic"}, "BENCHMARK_LOAD", "benchmark_preset: .* has no preset agentic; it has none"),
        ({"preset": "x", "release": release(HUB)}, "BENCHMARK_LOAD", "has no preset x; it has agentic"),
        ({"job": {"image": ""}}, "BENCHMARK_IMAGE", "benchmark_image"),
        ({"synthetic_acceptance": True}, "BENCHMARK_SYNTHETIC", "benchmark_synthetic_acceptance is True"),
        ({"job": {**JOB, "env": {"HF_TOKEN": "hf_" + "x" * 20}}}, "BAD_OPTION", "benchmark_env.HF_TOKEN: "),
        ({"max_regression": 5.0}, "BAD_OPTION", "benchmark_max_regression is 5, and benchmark_baseline"),
        ({"baseline": "nowhere"}, "BENCHMARK_DIFFERS", "benchmark_baseline: nowhere is neither"),
        (
            {"load": {"trace": {"file": "/no/such"}}},
            "BENCHMARK_LOAD",
            "benchmark_load.trace.file: /no/such can't be read",
        ),
    ],
)
def test_refused(tmp_path: Path, params: dict[str, Any], code: str, words: str) -> None:
    with pytest.raises(DynamoError, match=words) as raised:
        plan(tmp_path, **params)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("text", "words"),
    [("{}\n{", ":2 is no JSON"), ("{}\n \n[]", ":3 is no request, but list"), (" \n", "has no request")],
)
def test_a_bad_line_of_a_trace_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(DynamoError, match=words):
        plan(tmp_path, load={"trace": {"file": str(tmp_path / "t")}})


def test_a_trace_of_the_controller_is_staged_once(tmp_path: Path) -> None:
    (tmp_path / "t").write_text('{"input_length": 5}\n')
    sha256 = hashlib.sha256((tmp_path / "t").read_bytes()).hexdigest()
    load = {"trace": {"file": str(tmp_path / "t")}, "concurrency": [1]}
    first = plan(tmp_path, load=load, claim_uid="uid-1")
    assert [d["kind"] for d in first["definitions"]] == ["ConfigMap", "ConfigMap", "Job"]
    assert first["record"]["data"]["sha256"] == sha256 == first["load"]["trace"]["sha256"]
    second = plan(tmp_path, load=load, claim_uid="uid-1", staged=[first["record"]])
    assert len(second["definitions"]) == 2 and second["record"] == {}
    with pytest.raises(DynamoError, match=r"benchmark_load\.trace\.sha256"):
        plan(tmp_path, load={"trace": {"file": str(tmp_path / "t"), "sha256": "b" * 64}})


def test_baselines(tmp_path: Path) -> None:
    run = Run()
    assert plan(tmp_path, run, baseline="last")["baseline"] == "" and "nothing to compare" in run.lines[0]
    keep(tmp_path, summary(run="old", finished="2026-11-01T00:00:00Z"))
    keep(tmp_path, summary(run="new"))
    assert plan(tmp_path, baseline="last")["baseline"] == str(tmp_path / "new/summary.json")
    assert plan(tmp_path, baseline="old")["baseline"] == str(tmp_path / "old/summary.json")
    assert plan(tmp_path / "x", baseline=str(tmp_path / "old"))["baseline"] == str(tmp_path / "old/summary.json")
    with pytest.raises(DynamoError, match=r"new had another load .*output_tokens: 21, 20"):
        plan(tmp_path, baseline="last", load={**GIVEN, "output_tokens": 21})
    keep(tmp_path, summary(measured(c4=files("failed")), run="bad"))
    with pytest.raises(DynamoError, match="bad is not whole"):
        plan(tmp_path, baseline="bad")


def sum_up(output: Path, found: dict[str, dict[str, bytes]] | None = None, **params: Any) -> dict[str, Any]:
    """A plan, its files as benchmark_wait writes them, and the summary."""
    planned = plan(output, baseline=params.pop("baseline", ""))
    benchmark_wait.kept({"files": measured() if found is None else found}, planned["folder"])
    base: dict[str, Any] = {"plan": planned, "host": "fra1", "trace": {}, "failure": {}, "max_regression": 0.0}
    return benchmark_summary.run({**base, **params}, Run(check_mode=params.pop("check", False)))


def test_summary_and_page(tmp_path: Path) -> None:
    result = sum_up(tmp_path)
    folder = Path(result["page"]).parent
    assert json.loads((folder / "summary.json").read_text()) == result["summary"]
    assert result["summary"]["whole"] and "concurrency-4" in (folder / "index.html").read_text()
    assert (folder / "concurrency-2/profile_export_aiperf.json").exists()
    assert folder.stat().st_mode & 0o077 == 0
    assert "concurrency-4" in result["table"][-1]


def test_check_mode_writes_nothing(tmp_path: Path) -> None:
    planned = plan(tmp_path)
    params: dict[str, Any] = {"plan": planned, "host": "fra1", "trace": {}, "failure": {}, "max_regression": 0.0}
    assert benchmark_summary.run(params, Run(check_mode=True))["page"] == ""
    assert list(tmp_path.iterdir()) == []


def better() -> dict[str, Any]:
    found = summary(run="better")
    for point in found["points"]:
        point["output_tokens_per_s"] *= 1.2
    return found


def test_the_gate(tmp_path: Path) -> None:
    keep(tmp_path, better())
    result = sum_up(tmp_path, baseline="better")
    assert "against better:" in result["table"] and result["summary"]["comparison"]["limit"] == 0
    with pytest.raises(DynamoError, match=r"worse than better by more than 5%: output tokens/s of") as raised:
        sum_up(tmp_path, baseline="better", max_regression=5.0)
    assert raised.value.code == "BENCHMARK_REGRESSION"
    assert "more than 5% worse" in Path(raised.value.result["page"]).read_text()
    sum_up(tmp_path, baseline="better", max_regression=20.0)


def test_what_is_not_whole_is_written_and_not_compared(tmp_path: Path) -> None:
    keep(tmp_path, better())
    broken = measured(c4=files("failed"))
    with pytest.raises(DynamoError) as raised:
        sum_up(tmp_path, broken, baseline="better")
    assert raised.value.code == "BENCHMARK_INCOMPLETE"
    assert "comparison" not in raised.value.result["summary"]
    assert "NOT WHOLE" in Path(raised.value.result["page"]).read_text()
    # a failed run fails by its own cause
    failed = sum_up(tmp_path, {}, baseline="better", failure={"code": "WORKER_LOST", "message": "gone"})
    assert failed["summary"]["failure"]["code"] == "WORKER_LOST" and not failed["summary"]["whole"]


def test_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DynamoError, match="Set benchmark_output"):
        benchmark_wait.kept({"files": measured()}, str(tmp_path / "file"))
