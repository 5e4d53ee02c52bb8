# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import io
import json
import tarfile
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _benchwait
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Clock
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils.test__job import RUNNING, ended, job


def packed(**files: bytes) -> str:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return base64.b64encode(buffer.getvalue()).decode()


def lines(point: str, text: str, size: int = 60) -> list[str]:
    parts = [text[i : i + size] for i in range(0, len(text), size)]
    return [f"artifact {point} {number}/{len(parts)} {part}" for number, part in enumerate(parts, 1)]


ONE, TWO = lines("concurrency-1", packed(a=b"one")), lines("concurrency-2", packed(a=b"two", b=b"b"))


def test_unpack() -> None:
    log = "\n".join(["progress {}", *ONE, "some words", *TWO, "artifact is a word"])
    assert _benchwait.unpack(log) == {"concurrency-1": {"a": b"one"}, "concurrency-2": {"a": b"two", "b": b"b"}}
    assert _benchwait.unpack("\n".join([*ONE, *TWO[:-1]])) == {"concurrency-1": {"a": b"one"}}
    # what would land elsewhere, or nowhere, isn't written
    assert _benchwait.unpack("\n".join(lines("p", packed(**{"../x": b"x", ".y": b"y", "z": b"z"})))) == {
        "p": {"z": b"z"}
    }


def worker(uid: str, restarts: int = 0, last: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    container = {"name": "main", "restartCount": restarts, "state": {"running": {}}}
    if last:
        container["lastState"] = {"terminated": last}
    labels = {"nvidia.com/dynamo-component-type": "worker"}
    return {
        "metadata": {"name": f"worker-{uid}", "uid": uid, "labels": labels, **meta},
        "status": {"phase": "Running", "containerStatuses": [container]},
    }


class Fake:
    """Observations of Job, its pods and the release's pods, the last one for ever; time costs nothing."""

    def __init__(self, *steps: tuple[Any, list[Any], list[Any]], log: str = "", previous: str = "") -> None:
        self.steps, self.text, self.previous = list(steps), log, previous
        self.time, self.said = 0.0, []  # type: ignore[var-annotated]

    def get(self, _api: str, kind: str, _name: str, _namespace: str) -> Any:
        assert kind == "Job", "the wait needs no other right"
        self.now = self.steps[0] if len(self.steps) == 1 else self.steps.pop(0)
        return self.now[0]

    def list(self, _api: str, kind: str, _namespace: str, label_selector: str = "") -> list[Any]:
        if kind != "Pod":
            return []
        return [*(self.now[2] if label_selector == "nvidia.com/dynamo-graph-deployment-name=dgd" else self.now[1])]

    def log(self, _ns: str, pod: str, container: str | None = None, tail: int = 0, previous: bool = False) -> str:
        return self.previous if previous else self.text if pod.startswith("download") else ""

    def wait(self) -> dict[str, Any]:
        def sleep(seconds: float) -> None:
            self.time += seconds

        cluster: Any = self
        wait = _benchwait.Wait(
            cluster, "llm", "x", label="benchmark", clock=Clock(lambda: self.time, sleep), say=self.said.append
        )
        wait.release = "dgd"
        return wait.run(600, 3)

    def fails(self) -> DynamoError:
        with pytest.raises(DynamoError) as caught:
            self.wait()
        return caught.value


ALIVE = worker("w1")
RESULT = json.dumps({"message": "", "trace_sha256": "a" * 64, "rows": 3})


def test_a_whole_run_brings_its_files() -> None:
    fake = Fake((job(), [RUNNING], [ALIVE]), (job("Complete"), [ended(0, RESULT)], [ALIVE]), log="\n".join(ONE))
    result = fake.wait()
    assert result["files"] == {"concurrency-1": {"a": b"one"}}
    assert result["trace"] == {"trace_sha256": "a" * 64, "rows": 3}


@pytest.mark.parametrize(
    ("pod", "code", "words"),
    [
        (worker("w1", 1, {"exitCode": 1}), "WORKER_LOST", "ended with exit code 1 during the measurement: CUDA broke"),
        (worker("w1", 1, {"exitCode": 137, "reason": "OOMKilled"}), "OOM_KILLED", "killed for lack of memory"),
        (worker("w1", deletionTimestamp="2026-01-01T00:00:00Z"), "WORKER_LOST", "was deleted or evicted"),
        (worker("w2"), "WORKER_LOST", "Pod/worker-w1 was deleted or evicted"),
    ],
)
def test_a_worker_that_ends_ends_the_run(pod: dict[str, Any], code: str, words: str) -> None:
    log = "\n".join([*ONE, 'progress {"point": 2}'])
    fake = Fake((job(), [RUNNING], [ALIVE]), (job(), [RUNNING], [pod]), log=log, previous="CUDA broke")
    error = fake.fails()
    assert (error.code, fake.time) == (code, 3)
    assert words in error.message and "artifact" not in error.message
    assert error.result["files"] == {"concurrency-1": {"a": b"one"}}


def test_the_requests_of_a_dead_worker_fail_before_its_end_is_known() -> None:
    said = json.dumps({"message": "point concurrency-2: 40 of 40 requests failed"})
    over = (job("Failed", "BackoffLimitExceeded"), [ended(3, said)])
    crashed = worker("w1", 1, {"exitCode": 137})
    fake = Fake((job(), [RUNNING], [ALIVE]), (*over, [ALIVE]), log="\n".join(ONE))
    error = fake.fails()
    assert error.code == "REQUESTS_FAILED" and "40 of 40" in error.message
    late = Fake((job(), [RUNNING], [ALIVE]), (*over, [crashed]), log="\n".join(ONE))
    error = late.fails()
    assert error.code == "WORKER_LOST" and list(error.result["files"]) == ["concurrency-1"]


def test_what_fails_without_a_worker_is_the_jobs_own() -> None:
    said = json.dumps({"message": "point concurrency-1: AIPerf ended with exit code 1: no such option"})
    error = Fake((job("Failed", "BackoffLimitExceeded"), [ended(4, said)], [])).fails()
    assert error.code == "AIPERF_FAILED" and "no such option" in error.message


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        ({"stage": "starting", "done": 0}, "point 2/3 concurrency-8: starting"),
        (
            {"stage": "measuring", "done": 3, "total": 64, "tokens_per_s": 812.4, "errors": 1},
            "point 2/3 concurrency-8: 3/64 requests, 812 tokens/s, 1 failed",
        ),
        ({"stage": "measuring", "done": 3, "total": None}, "point 2/3 concurrency-8: 3 requests"),
    ],
)
def test_progress(progress: dict[str, Any], line: str) -> None:
    told = {"point": 2, "points": 3, "name": "concurrency-8", **progress}
    log = f"progress {json.dumps(told)}"
    fake = Fake((job(), [RUNNING], []), (job("Complete"), [ended(0, RESULT)], []), log=log)
    fake.wait()
    assert fake.said[0] == f"benchmark {line}"
