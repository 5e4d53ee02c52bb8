# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _job
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Clock
from ansible_collections.inferops.dynamo.plugins.modules import job_wait

SCHEDULED = {"type": "PodScheduled", "status": "True"}


def job(condition: str = "", reason: str = "", message: str = "", **status: Any) -> dict[str, Any]:
    conditions = [{"type": condition, "status": "True", "reason": reason, "message": message}] if condition else []
    volumes = [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}, {"name": "scratch", "emptyDir": {}}]
    return {
        "metadata": {"name": "download", "uid": "job-1"},
        "spec": {"template": {"spec": {"volumes": volumes, "containers": [{"name": "model-download"}]}}},
        "status": {"conditions": conditions, **status},
    }


def pod(state: dict[str, Any], phase: str = "Pending", condition: Any = None, number: int = 1) -> dict[str, Any]:
    container = {"name": "model-download", "image": "python:3.12-slim", "state": state}
    return {
        "metadata": {
            "name": f"download-{number}",
            "uid": f"pod-{number}",
            "creationTimestamp": f"2026-01-01T00:00:0{number}Z",
        },
        "spec": {"volumes": job()["spec"]["template"]["spec"]["volumes"]},
        "status": {"phase": phase, "conditions": [condition or SCHEDULED], "containerStatuses": [container]},
    }


def ended(code: int, message: str = "", reason: str = "Error", number: int = 1) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return pod(state, "Succeeded" if code == 0 else "Failed", number=number)


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return pod({"waiting": {"reason": reason, "message": message}})


def node_took(live: dict[str, Any], reason: str = "Evicted") -> dict[str, Any]:
    """The pod as the node has ended or refused it."""
    return {**live, "status": {**live["status"], "reason": reason, "message": "The node was low on ephemeral-storage."}}


RUNNING = pod({"running": {}}, "Running")
UNSCHEDULABLE = pod({}, condition={
    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
    "message": "0/2 nodes are available: 2 node(s) had untolerated taint {nvidia.com/gpu: true}."})  # fmt: skip
CLAIM_PENDING = pod({}, condition={
    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
    "message": "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."})  # fmt: skip
REFUSED = {"involvedObject": {"uid": "job-1"}, "reason": "FailedCreate", "metadata": {},
           "message": 'pods "download-x" is forbidden: exceeded quota: small'}  # fmt: skip


class Fake:
    """A cluster that goes through a list of observations, the last one for ever, and a clock that costs nothing."""

    def __init__(self, *steps: tuple[Any, list[Any]], log: str = "", events: Any = ()) -> None:
        self.steps, self.log_text, self.events = list(steps), log, list(events)
        self.time, self.lines = 0.0, []  # type: ignore[var-annotated]

    def get(self, _api: str, kind: str, name: str, _namespace: str) -> Any:
        if kind == "PersistentVolumeClaim":
            return {"metadata": {"name": name, "uid": "claim-1"}}
        self.now = self.steps[0] if len(self.steps) == 1 else self.steps.pop(0)
        if isinstance(self.now[0], DynamoError):
            raise self.now[0]
        return self.now[0]

    def list(self, _api: str, kind: str, _namespace: str, label_selector: str | None = None) -> list[Any]:
        return list(self.now[1]) if kind == "Pod" else self.events

    def log(self, _namespace: str, _pod: str, container: str, tail: int) -> str:
        return self.log_text if container == "model-download" else ""

    def wait(self, timeout: float = 600, **options: Any) -> dict[str, Any]:
        def sleep(seconds: float) -> None:
            self.time += seconds

        clock = Clock(lambda: self.time, sleep)
        cluster: Any = self
        options |= {"budgets": job_wait.BUDGETS, "clock": clock, "say": self.lines.append}
        return _job.Wait(cluster, "llm", "download", label="model cache", **options).run(timeout, 3)

    def fails(self, timeout: float = 600) -> DynamoError:
        with pytest.raises(DynamoError) as caught:
            self.wait(timeout)
        return caught.value


RESULT = json.dumps({"code": "", "message": "", "records": [{"repository": "a/b"}]})


def test_success_returns_what_the_pod_left() -> None:
    fake = Fake((job(), []), (job(), [RUNNING]), (job("Complete"), [ended(0, RESULT)]))
    result = fake.wait()
    assert result["records"] == [{"repository": "a/b"}]
    assert result["claims"] == {"cache": "claim-1"}
    assert result["verdict"]["state"] == "READY"
    assert fake.lines == ["model cache waiting for a pod", "model cache running", "model cache done after 6 s"]


def said(code: str, message: str) -> str:
    return json.dumps({"code": code, "message": message, "records": []})


FAILED: list[tuple[str, dict[str, Any], list[dict[str, Any]], str, str]] = [
    ("access", job("Failed", "PodFailurePolicy"), [ended(5, said("HUB_ACCESS", "HTTP 403"))], "HUB_ACCESS", "HTTP 403"),
    ("space", job("Failed", "PodFailurePolicy"), [ended(6)], "NO_SPACE", "the volume is too small"),
    ("incomplete", job("Failed", "BackoffLimitExceeded"), [ended(3)], "CHECKPOINT_INCOMPLETE", "not complete"),
    ("corrupt", job("Failed", "BackoffLimitExceeded"), [ended(3), ended(4, number=2)], "CHECKPOINT_CORRUPT", "corrupt"),
    ("other", job("Failed", "BackoffLimitExceeded"), [ended(1, "Traceback")], "JOB_FAILED", "exit code 1"),
    ("memory", job("Failed", "BackoffLimitExceeded"), [ended(137, reason="OOMKilled")], "OOM_KILLED", "memory"),
    ("deadline", job("Failed", "DeadlineExceeded"), [], "DEADLINE_EXCEEDED", "deadline"),
    ("evicted", job("Failed", "BackoffLimitExceeded"), [node_took(ended(137))], "EVICTED", "low on ephemeral-storage"),
    (
        "refused",
        job("Failed", "BackoffLimitExceeded"),
        [node_took(pod({}, "Failed"), "UnexpectedAdmissionError")],
        "POD_REFUSED",
        "UnexpectedAdmissionError",
    ),
    (
        "no pod left",
        job("Failed", "BackoffLimitExceeded", "reached"),
        [],
        "JOB_FAILED",
        "BackoffLimitExceeded: reached",
    ),
]


@pytest.mark.parametrize(("live", "pods", "code", "text"), [c[1:] for c in FAILED], ids=[c[0] for c in FAILED])
def test_a_failed_job_is_explained_at_once(live: Any, pods: list[Any], code: str, text: str) -> None:
    fake = Fake((live, pods), log="one\ntwo hf_abcdefghijk\nrecord {}\n")
    error = fake.fails()
    assert (error.code, fake.time) == (code, 0)
    assert text in error.message
    assert error.hint
    assert error.result["verdict"]["state"] == "TERMINAL"
    assert not pods or error.result["log"] == ["one", "two ********"]


STUCK: list[tuple[str, dict[str, Any], Any, str, float]] = [
    ("image", waiting("ImagePullBackOff", "manifest unknown: not found"), (), "IMAGE_NOT_FOUND", 21),
    ("name", waiting("InvalidImageName", "couldn't parse"), (), "IMAGE_NOT_FOUND", 21),
    ("registry", waiting("ErrImagePull", "i/o timeout"), (), "IMAGE_PULL", 300),
    ("secret", waiting("CreateContainerConfigError", 'secret "hf-token-secret" not found'), (), "CONFIG_MISSING", 21),
    ("taint", UNSCHEDULABLE, (), "UNSCHEDULABLE", 120),
    ("claim", CLAIM_PENDING, (), "CLAIM_PENDING", 300),
]


@pytest.mark.parametrize(("stuck", "events", "code", "after"), [c[1:] for c in STUCK], ids=[c[0] for c in STUCK])
def test_what_cannot_succeed_ends_the_wait_after_its_grace(stuck: Any, events: Any, code: str, after: float) -> None:
    fake = Fake((job(), [stuck]), events=events)
    error = fake.fails()
    assert (error.code, fake.time) == (code, after)
    assert len(fake.lines) <= after / 15 + 2


def leaving(pod: dict[str, Any]) -> dict[str, Any]:
    metadata = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:09:00Z", "deletionGracePeriodSeconds": 30}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": "gpu-7"}}


def test_a_pod_whose_node_is_lost_is_named() -> None:
    """podReplacementPolicy Failed: the Job makes no other pod before this one has ended."""
    lost = {"involvedObject": {"uid": "pod-1"}, "reason": "TaintManagerEviction", "metadata": {}, "message": "x"}
    error = Fake((job(), [leaving(RUNNING)]), events=[lost]).fails()
    assert error.code == "OLD_POD_STUCK" and "gpu-7, which is not ready" in error.message
    again = Fake((job(), [leaving(RUNNING)]), (job("Complete"), [leaving(RUNNING), ended(0, RESULT, number=2)]))
    assert again.wait()["records"]


def test_a_suspended_job_says_who_holds_it() -> None:
    """It may be let go at any time, so it ends no wait."""
    held = job()
    held["spec"]["suspend"] = True
    error = Fake((held, [])).fails()
    assert error.code == "TIMED_OUT" and "still suspended" in error.message and "Kueue" in error.hint
    assert Fake((held, []), (job("Complete"), [ended(0, RESULT)])).wait()["records"]


def meshed(pod: dict[str, Any], proxy: dict[str, Any]) -> dict[str, Any]:
    """With the container of a mesh, which comes first by its name."""
    added = {"name": "istio-proxy", "image": "proxy", "state": proxy}
    return {**pod, "status": {**pod["status"], "containerStatuses": [added, *pod["status"]["containerStatuses"]]}}


def test_the_container_of_a_mesh_is_not_the_jobs_own() -> None:
    proxy = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    done = meshed(ended(0, RESULT), proxy)
    assert Fake((job(), [meshed(RUNNING, {"running": {}})]), (job("Complete"), [done])).wait()["records"]
    bad = meshed(ended(3, said("CHECKPOINT_INCOMPLETE", "two shards are missing")), proxy)
    assert "two shards are missing" in Fake((job("Failed"), [bad]), log="x").fails().message


def test_a_pod_that_a_mesh_holds_is_named() -> None:
    held = meshed({**ended(0, RESULT), "status": {**ended(0, RESULT)["status"], "phase": "Running"}}, {"running": {}})
    error = Fake((job(), [held])).fails()
    assert error.code == "SIDECAR_RUNNING" and "istio-proxy" in error.message
    assert Fake((job(), [held]), (job("Complete"), [held])).wait()["records"]


def test_a_cause_that_passes_ends_nothing() -> None:
    stuck = (job(), [waiting("ErrImagePull", "not found")])
    fake = Fake(stuck, stuck, (job(), [RUNNING]), (job("Complete"), [ended(0, RESULT)]))
    assert fake.wait()["records"]


def test_no_pod_at_all() -> None:
    assert Fake((job(), []), events=[REFUSED]).fails().code == "QUOTA_EXCEEDED"


def test_job_deleted_or_replaced_meanwhile() -> None:
    assert Fake((None, [])).fails().message == "Job llm/download does not exist."
    assert Fake((job(), []), (None, [])).fails().message == "Job llm/download is gone."
    other = {**job(), "metadata": {"name": "download", "uid": "job-2"}}
    assert "replaced" in Fake((job(), []), (other, [])).fails().message


def test_an_api_server_that_restarts_ends_nothing() -> None:
    gone: tuple[Any, list[Any]] = (DynamoError("refused", "NO_CLUSTER"), [])
    fake = Fake((job(), []), gone, gone, (job("Complete"), [ended(0, RESULT)]))
    assert fake.wait()["records"]
    leader: tuple[Any, list[Any]] = (DynamoError("etcdserver: leader changed", "REFUSED", status=500), [])
    assert Fake((job(), []), leader, (job("Complete"), [ended(0, RESULT)])).wait()["records"]
    stale: tuple[Any, list[Any]] = (DynamoError("401", "UNAUTHORIZED"), [])
    renewed = Fake((job(), []), stale, (job("Complete"), [ended(0, RESULT)]))
    assert renewed.wait(reconnect=lambda: renewed)["records"]
    assert Fake((job(), []), stale).fails().code == "UNAUTHORIZED"
    assert Fake((DynamoError("no", "FORBIDDEN"), [])).fails().code == "FORBIDDEN"


def test_a_last_look_that_nobody_answers_is_taken_again() -> None:
    """The Job is complete, and the API server doesn't answer the question about its claim."""

    class Absent(Fake):
        asked = 0

        def get(self, api: str, kind: str, name: str, namespace: str) -> Any:
            self.asked += kind == "PersistentVolumeClaim"
            if kind == "PersistentVolumeClaim" and self.asked == 1:
                raise DynamoError("refused", "NO_CLUSTER")
            return super().get(api, kind, name, namespace)

    fake = Absent((job("Complete"), [ended(0, RESULT)]))
    assert fake.wait()["records"] and fake.asked > 1


def test_running_out_leaves_the_job_and_says_so() -> None:
    error = Fake((job(), [UNSCHEDULABLE])).fails(timeout=60)
    assert (error.code, error.result["verdict"]["state"]) == ("TIMED_OUT", "TIMED_OUT")
    assert "waiting for a node" in error.message
    assert "goes on by itself" in error.hint


def progress(files: int, count: float, total: float = 252e9, **more: Any) -> str:
    return "progress " + json.dumps({"files": files, "files_total": 72, "bytes": count, "bytes_total": total, **more})


def test_progress_lines() -> None:
    fake = Fake((job(), [RUNNING]), log=f"stage x\n{progress(1, 0)}\n")
    real, steps = fake.log, iter(range(1, 1000))

    def log(*args: Any, **kwargs: Any) -> str:
        fake.log_text = progress(2, 1236e6 * next(steps))
        return real(*args, **kwargs)

    fake.log = log  # type: ignore[method-assign]
    fake.fails(timeout=60)
    assert fake.lines[0] == "model cache 2/72 files, 1/252 GB"
    assert fake.lines[1] == "model cache 2/72 files, 7/252 GB, 412 MB/s, about 10 min left"
    assert len(fake.lines) == 5, "every 15 s while only numbers change"


def test_a_stalled_download_ends_the_wait_and_goes_on() -> None:
    error = Fake((job(), [RUNNING]), log=progress(1, 5e9, stage="download")).fails(timeout=3600)
    assert error.code == "STALLED"
    assert "no byte for 15 min" in error.message
    hashing = Fake((job(), [RUNNING]), log=progress(72, 252e9, stage="verify"))
    assert hashing.fails(timeout=3600).code == "TIMED_OUT"


def test_a_claim_that_waits_for_its_first_consumer_is_no_cause() -> None:
    event = {"involvedObject": {"kind": "PersistentVolumeClaim", "name": "cache"}, "reason": "WaitForFirstConsumer",
             "metadata": {}, "message": "waiting for first consumer to be created before binding"}  # fmt: skip
    fresh = pod({}, condition={"type": "PodScheduled", "status": "False"})
    assert Fake((job(), [fresh]), events=[event]).fails(timeout=900).code == "TIMED_OUT"


def test_retries_are_said() -> None:
    failed = ended(3, said("CHECKPOINT_INCOMPLETE", "the hub went away"))
    fake = Fake((job(failed=1), [failed]), (job("Complete"), [ended(0, RESULT)]))
    fake.wait()
    assert fake.lines[0] == "model cache waiting for a pod (attempt 2 after: the hub went away)"


@pytest.mark.parametrize("message", ["", "no json", "[]", "record", '"text"'])
def test_odd_termination_messages(message: str) -> None:
    assert _job.result_of([ended(1, message)]) == {}


CHECKED: Callable[..., Any] = job_wait.run


def test_check_mode_waits_for_nothing() -> None:
    class Check:
        check_mode = True

    assert CHECKED({}, Check())["verdict"]["state"] == "STARTING"


def test_a_second_pod_that_is_refused_is_seen() -> None:
    late = {**REFUSED, "lastTimestamp": "2026-01-01T00:01:00Z"}
    live = job()
    live["metadata"]["uid"] = "job-1"
    error = Fake((live, [ended(3)]), events=[late]).fails()
    assert error.code == "QUOTA_EXCEEDED"


def test_hashing_what_is_all_there_is_no_stall() -> None:
    log = 'progress {"stage": "download", "files": 72, "files_total": 72, "bytes": 252, "bytes_total": 252}'
    assert Fake((job(), [RUNNING]), log=log).fails(timeout=2000).code == "TIMED_OUT"
    assert (
        Fake((job(), [RUNNING]), log=log.replace('"bytes": 252', '"bytes": 251')).fails(timeout=2000).code == "STALLED"
    )
