# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of the benchmark's Job, with a program in AIPerf's place that leaves the same files."""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._benchwait import unpack

ROOT = Path(__file__).resolve().parents[3]
TRACE = b'{"input_length": 5}\n\n{"input_length": 6}\n'
# Writes one record for each request; FAKE says what goes wrong.
AIPERF = f"""#!{sys.executable}
import json, os, pathlib, sys, time
words = sys.argv[1:]
option = lambda name: words[words.index(name) + 1] if name in words else None
folder, fake = pathlib.Path(option("--artifact-dir")), os.environ.get("FAKE", "")
if fake == "usage":
    print("12:00:00.000 INFO     fine (a.py:1)")
    print("12:00:00.001 ERROR    Dataset configuration failed: 'odd' (dataset_manager.py:193)")
    print("12:00:00.002 ERROR    and what follows from it (b.py:2)")
    sys.exit(1)
with (folder / "profile_export.jsonl").open("w") as out:
    for number in range(int(option("--request-count"))):
        bad = fake == "all" or (fake == "some" and number % 2) or (fake == "one" and number == 3)
        metrics = {{"output_sequence_length": {{"value": 7}}}}
        line = {{"metadata": {{"benchmark_phase": "profiling"}}, "metrics": {{}} if bad else metrics}}
        if bad:
            line["error"] = {{"code": 503, "message": "not ready"}}
        out.write(json.dumps(line) + "\\n")
    out.flush()
    while fake == "all":
        time.sleep(0.1)
if fake != "silent":
    (folder / "profile_export_aiperf.json").write_text(json.dumps({{"argv": words}}))
"""


class Pod:
    """The surroundings of the program."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.place, self.capsys = place, capsys
        program = place / "bin/aiperf"
        program.parent.mkdir()
        program.write_text(AIPERF)
        program.chmod(0o755)
        (place / "model").mkdir()
        for name, value in {
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "HF_HOME": str(place / "hf"),
            "BENCHMARK_TERMINATION_LOG": str(place / "termination"),
            "BENCHMARK_ARTIFACTS": str(place / "artifacts"),
        }.items():
            monkeypatch.setenv(name, value)
        spec = importlib.util.spec_from_file_location("sweep", ROOT / "roles/benchmark/files/sweep.py")
        assert spec and spec.loader
        self.sweep: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.sweep)
        monkeypatch.setattr(self.sweep, "LOOK_EVERY", 0.02)
        monkeypatch.setattr(self.sweep.signal, "signal", lambda *_: None)

    def run(self, *points: dict[str, Any], trace: dict[str, Any] | None = None, **plan: Any) -> tuple[int, str]:
        tokenizer = {"id": "acme/tiny", "commit": "c" * 40, "directory": str(self.place / "model")}
        whole = {"seconds": 60, "points": list(points), "trace": trace, "tokenizer": tokenizer, **plan}
        (self.place / "plan.json").write_text(json.dumps(whole))
        code: int = self.sweep.main([str(self.place / "plan.json")])
        return code, self.capsys.readouterr().out

    @property
    def said(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.place / "termination").read_text())
        return found


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pod:
    return Pod(tmp_path, monkeypatch, capsys)


def point(number: int, requests: int | None = 40) -> dict[str, Any]:
    count = ["--request-count", str(requests)] if requests else []
    name = f"concurrency-{number}"
    return {"name": name, "concurrency": number, "requests": requests, "argv": ["--url", "http://f", *count]}


def test_every_point_is_measured_and_handed_over(pod: Pod) -> None:
    code, out = pod.run(point(1), point(2))
    assert (code, pod.said) == (0, {"message": ""})
    found = unpack(out)
    assert list(found) == ["concurrency-1", "concurrency-2"]
    argv = json.loads(found["concurrency-2"]["profile_export_aiperf.json"])["argv"]
    assert argv[:3] == ["profile", "--url", "http://f"] and argv[-1].endswith("/concurrency-2")
    last = [json.loads(line.partition(" ")[2]) for line in out.splitlines() if line.startswith("progress ")][-1]
    assert (last["point"], last["points"], last["done"], last["total"], last["errors"]) == (2, 2, 40, 40, 0)


def test_the_checkpoint_looks_like_a_cache_of_the_hub(pod: Pod) -> None:
    (pod.place / "model/tokenizer.json").write_text("{}")
    pod.run(point(1))
    repository = pod.place / "hf/hub/models--acme--tiny"
    assert (repository / "snapshots" / ("c" * 40) / "tokenizer.json").read_text() == "{}"
    assert (repository / "refs/main").read_text() == "c" * 40


@pytest.mark.parametrize(
    ("fake", "code", "words", "points"),
    [
        # AIPerf ends with 0 here
        ("some", 3, "point concurrency-1: 20 of 40 requests failed, the last with 503: not ready", 1),
        # and would go on for ever here
        ("all", 3, "point concurrency-1: 40 of 40 requests failed", 1),
        ("usage", 4, "AIPerf ended with exit code 1: Dataset configuration failed: 'odd'", 1),
        ("silent", 4, "AIPerf ended with exit code 0", 1),
        ("one", 0, "", 2),
    ],
)
def test_what_goes_wrong_ends_the_sweep(
    pod: Pod, monkeypatch: pytest.MonkeyPatch, fake: str, code: int, words: str, points: int
) -> None:
    monkeypatch.setenv("FAKE", fake)
    found, out = pod.run(point(1), point(2))
    assert found == code and words in pod.said["message"]
    assert len(unpack(out)) == points


def test_the_time_is_over_before_the_job_s_own(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE", "all")
    monkeypatch.setattr(pod.sweep, "FAILED_ROW", 1000)
    code, _out = pod.run(point(1), seconds=0)
    assert code == 5 and pod.said["message"] == "point concurrency-1 was not done when the time was over"


def test_what_is_too_much_for_a_log_is_left_out(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod.sweep, "FILES", (*pod.sweep.FILES, "profile_export.jsonl"))
    monkeypatch.setattr(pod.sweep, "POINT_BYTES", 600)
    monkeypatch.setattr(pod.sweep, "LINE", 100)
    big = "".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(99))
    code, out = pod.run({**point(1), "argv": [*point(1)["argv"], big]})
    assert code == 0
    assert "note profile_export.jsonl of concurrency-1 is too much for the log and left out" in out


def test_a_missing_checkpoint_is_said_at_once(pod: Pod) -> None:
    tokenizer = {"id": "a/b", "commit": "c" * 40, "directory": "/no/such"}
    assert pod.run(point(1), tokenizer=tokenizer)[0] == 2
    assert "there is no directory /no/such" in pod.said["message"]


def test_a_trace_is_staged_once_and_replayed_whole(pod: Pod) -> None:
    sha256 = hashlib.sha256(TRACE).hexdigest()
    file, parts = pod.place / f"cache/traces/{sha256}.jsonl", pod.place / "parts"
    parts.mkdir()
    text = base64.b64encode(gzip.compress(TRACE)).decode()
    (parts / "part-00").write_text(text[:20])
    (parts / "part-01").write_text(text[20:])
    trace = {"file": str(file), "sha256": sha256, "parts": str(parts), "max_input_tokens": None}
    code, out = pod.run(point(1, None), trace=trace)
    assert code == 0 and file.read_bytes() == TRACE
    assert pod.said == {"message": "", "trace_sha256": sha256, "rows": 2}
    assert json.loads(unpack(out)["concurrency-1"]["profile_export_aiperf.json"])["argv"][3:5] == [
        "--request-count",
        "2",
    ]
    assert list(file.parent.iterdir()) == [file]
    before = file.stat().st_mtime_ns
    (parts / "part-01").write_text("broken")
    (pod.place / "hf/hub/models--acme--tiny/snapshots" / ("c" * 40)).unlink()
    assert pod.run(point(1, None), trace=trace)[0] == 0 and file.stat().st_mtime_ns == before


def test_the_whole_trace_is_what_aiperf_does_not_skip(pod: Pod) -> None:
    """AIPerf begins again at the first row when more requests are asked for than it has rows."""
    rows = [{"input_length": 9}, {"input_length": 10}, {"input_length": 11}, {"text_input": "any length"}]
    (pod.place / "t").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    trace = {"file": str(pod.place / "t"), "sha256": "", "parts": "", "max_input_tokens": 10}
    code, out = pod.run(point(1, None), trace=trace)
    assert code == 0 and pod.said["rows"] == 3
    argv = json.loads(unpack(out)["concurrency-1"]["profile_export_aiperf.json"])["argv"]
    assert argv[3:5] == ["--request-count", "3"]


@pytest.mark.parametrize(
    ("content", "sha256", "limit", "words"),
    [
        (None, "", None, "can't be read: No such file"),
        (TRACE, "b" * 64, None, "has sha256"),
        (b"\n", "", None, "is empty"),
        (b'{"input_length": 9}', "", 8, "no request of at most 8 input tokens"),
        (b'{"input_length": 9}\n\n[]', "", 8, "line 3 is no JSON object"),
        (b'{"input_length":', "", 8, "line 1 is no JSON object"),
    ],
)
def test_a_trace_that_can_not_be_used(
    pod: Pod, content: bytes | None, sha256: str, limit: int | None, words: str
) -> None:
    if content is not None:
        (pod.place / "t").write_bytes(content)
    trace = {"file": str(pod.place / "t"), "sha256": sha256, "parts": "", "max_input_tokens": limit}
    assert pod.run(point(1, None), trace=trace)[0] == 2
    assert words in pod.said["message"]


def test_parts_that_are_damaged(pod: Pod) -> None:
    (pod.place / "part-00").write_text("broken")
    trace = {"file": str(pod.place / "x/t"), "sha256": "b" * 64, "parts": str(pod.place), "max_input_tokens": None}
    assert pod.run(point(1, None), trace=trace)[0] == 2
    assert "can't be staged" in pod.said["message"]
