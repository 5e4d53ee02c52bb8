# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._causes import classify_log, mask
from ansible_collections.inferops.dynamo.plugins.module_utils._dgd import View
from ansible_collections.inferops.dynamo.plugins.module_utils._diagnose import Patience, Snapshot, diagnose, pulling
from ansible_collections.inferops.dynamo.plugins.module_utils._podcauses import read_scheduler
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._dgd_objects import (
    NEW,
    OLD,
    Object,
    counts,
    crashed,
    dcd,
    dgd,
    event,
    not_ready,
    pod,
    rolling,
    waiting,
)

LATER = "2026-11-30T10:05:00Z"
FRONT = pod("front-1", component="Frontend", ready=True)
CREATING = {"state": {"waiting": {"reason": "ContainerCreating"}}}
NO_GPU = (
    "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/1 nodes are"
    " available: 1 No preemption victims found for incoming pod."
)


def look(*pods: Object, events: tuple[Object, ...] = (), logs: dict[str, str] | None = None, **values: Any) -> Snapshot:
    live = values.pop("dgd", None) or not_ready(workers=counts(1, 1, 0))
    dcds = values.pop("dcds", [dcd(OLD)])
    return Snapshot(View(live, dcds, [FRONT, *pods]), list(events), logs=logs or {}, **values)


def pull(message: str, reason: str = "ErrImagePull") -> Snapshot:
    return look(pod(phase="Pending", container=waiting(reason, message)))


CASES = [
    # image
    (pull('failed to resolve reference "r/engine:1": r/engine:1: not found'), "IMAGE_NOT_FOUND", "config"),
    (pull('Back-off pulling image: ErrImagePull: manifest unknown', "ImagePullBackOff"), "IMAGE_NOT_FOUND", "config"),
    (pull("couldn't parse image name: invalid reference format", "InvalidImageName"), "IMAGE_NOT_FOUND", "config"),
    (pull("unexpected status from HEAD request to r/v2: 401 Unauthorized"), "IMAGE_UNAUTHORIZED", "config"),
    (pull("pull access denied, repository does not exist or may require login"), "IMAGE_UNAUTHORIZED", "config"),
    (pull("no match for platform in manifest: not found"), "IMAGE_ARCHITECTURE", "config"),
    (pull("dial tcp: lookup registry.example on 10.0.0.2:53: no such host"), "IMAGE_PULL", "config"),
    (pull("429 Too Many Requests - toomanyrequests: rate limit"), "IMAGE_PULL", "slow"),
    (pull("dial tcp 10.0.0.9:443: i/o timeout"), "IMAGE_PULL", "slow"),
    (pull('Back-off pulling image "r/engine:1"', "ImagePullBackOff"), "IMAGE_PULL", "slow"),
    (
        look(
            pod(container=waiting("ImagePullBackOff", 'Back-off pulling image "x"')),
            events=(event("Failed", 'Failed to pull image "x": not found'),),
        ),
        "IMAGE_NOT_FOUND",
        "config",
    ),
    # scheduling
    (look(pod(scheduled=NO_GPU)), "UNSCHEDULABLE", "scheduling"),
    (look(pod(scheduled=NO_GPU), events=(event("TriggeredScaleUp", "pod triggered scale-up"),)), "UNSCHEDULABLE", ""),
    (look(pod(scheduled=NO_GPU), pod("old", leaving=True)), "UNSCHEDULABLE", ""),
    (
        look(pod(scheduled="0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready}")),
        "NODE_NOT_READY",
        "",
    ),
    (
        look(
            pod("old", ready=True),
            pod("new", worker_hash=NEW, scheduled=NO_GPU, created=LATER, template="t2"),
            dgd=rolling(workers=counts(2, 1, 1)),
            dcds=[dcd(OLD), dcd(NEW, created=LATER)],
        ),
        "ROLLOUT_STUCK",
        "scheduling",
    ),
    (
        look(pod(scheduled='0/1 nodes are available: persistentvolumeclaim "cache" not found. not found')),
        "CLAIM_MISSING",
        "config",
    ),
    (
        look(pod(scheduled="0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found")),
        "CLAIM_PENDING",
        "slow",
    ),
    (
        look(
            pod(scheduled=False),
            events=(event("FailedResourceClaimCreation", 'resource claim template "cd" not found'),),
        ),
        "CLAIM_TEMPLATE_MISSING",
        "scheduling",
    ),
    # between scheduling and running
    (look(pod(container=waiting("CreateContainerConfigError", 'secret "hf" not found'))), "CONFIG_MISSING", "config"),
    (look(pod(container=waiting("RunContainerError", 'exec: "nope": not found'))), "CONTAINER_START", "config"),
    (
        look(pod(container=CREATING), events=(event("FailedMount", 'SetUp failed: configmap "eagle" not found'),)),
        "CONFIG_MISSING",
        "config",
    ),
    (look(pod(container=CREATING), events=(event("FailedMount", "timed out"),)), "VOLUME_MOUNT", "slow"),
    (
        look(pod(container=CREATING), events=(event("FailedAttachVolume", "Multi-Attach error for volume"),)),
        "CLAIM_ACCESS_MODE",
        "slow",
    ),
    (
        look(
            pod(container=CREATING),
            events=(
                event("FailedPrepareDynamicResources", "DRA driver compute-domain.nvidia.com is not registered"),
            ),
        ),
        "DRA_DRIVER_ABSENT",
        "scheduling",
    ),
    (
        look(
            pod(container=CREATING),
            events=(event("FailedPrepareDynamicResources", "current node not ready in ComputeDomain"),),
        ),
        "COMPUTE_DOMAIN_NOT_READY",
        "slow",
    ),
    # running
    (look(pod(container=crashed())), "CRASH_LOOP", "restarts"),
    (look(pod(container=crashed(now="CrashLoopBackOff"))), "CRASH_LOOP", "restarts"),
    (look(pod(container=crashed(137, reason="OOMKilled"))), "OOM_KILLED", "restarts"),
    (
        look(
            pod(container=crashed(137)),
            events=(event("Killing", "Container main failed liveness probe, will be restarted"),),
        ),
        "PROBE_KILLED",
        "restarts",
    ),
    (
        look(
            pod(container=crashed(143)),
            events=(event("Killing", "Container main failed startup probe, will be restarted"),),
        ),
        "STARTUP_BUDGET",
        "restarts",
    ),
    (
        look(pod(container=crashed(255)), logs={"worker-1/main": "exec /usr/bin/python3: exec format error"}),
        "IMAGE_ARCHITECTURE",
        "restarts",
    ),
    (look(pod(), events=(event("NodeNotReady", "Node is not ready"),)), "NODE_NOT_READY", ""),
    (look(pod("dead", leaving=True, worker_hash=NEW), pod()), "OLD_POD_STUCK", "slow"),
    (look(pod("e", phase="Failed", reason="Evicted", message="low on memory"), pod()), "EVICTED", "restarts"),
    (look(pod("e", phase="Failed", reason="UnexpectedAdmissionError"), pod()), "POD_REFUSED", "restarts"),
    # the operator
    (look(dgd=dgd(observed=None)), "OPERATOR_SILENT", "operator"),
    (look(dgd=dgd(generation=2)), "OPERATOR_SILENT", "operator"),
    (look(pod(), dgd=not_ready(state="failed")), "RECONCILE_FAILED", "operator"),
    (look(pod(), dgd=not_ready(state="failed", generation=2)), "RECONCILE_FAILED", "operator"),
    (look(pod(ready=True), dgd=dgd(), dcds=[dcd(OLD), dcd(NEW)]), "ORPHANED_WORKERS", "scheduling"),
    (look(), "NO_PODS", "operator"),
    (
        look(dgd=not_ready(name="a" * 48, workers=counts(0, 0, 0))),
        "NAME_TOO_LONG",
        "now",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("snapshot", "code", "budget"), CASES, ids=[f"{c}-{i}" for i, (_s, c, _b) in enumerate(CASES)])
def test_causes(snapshot: Snapshot, code: str, budget: str) -> None:
    found = diagnose(snapshot)
    assert [(f.code, f.budget) for f in found][:1] == [(code, budget)]
    assert found[0].object and found[0].evidence


def owner(kind: str, condition: Object) -> Object:
    labels = {"nvidia.com/dynamo-component": "Worker"}
    return {"kind": kind, "metadata": {"name": "w", "labels": labels}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('pods "w" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=4', "QUOTA_EXCEEDED"),
        ('pods "w" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot', "POD_SECURITY"),
        ('admission webhook "policy.example" denied the request: no', "ADMISSION_REFUSED"),
        ("something else", "NO_PODS"),
    ],
)
@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment"])
def test_why_there_are_no_pods(kind: str, message: str, code: str) -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    owners = [owner(kind, failure)]
    found = diagnose(look(replicasets=owners) if kind == "ReplicaSet" else look(deployments=owners))
    assert (found[0].code, found[0].object, found[0].budget) == (code, f"{kind}/w", "config")


def test_write_conflicts_of_the_operator_are_no_cause() -> None:
    message = "Failed to reconcile DynamoComponentDeployment: the object has been modified; please apply your changes"
    condition = {"type": "Available", "status": "False", "reason": "Reconciling", "message": message}
    assert [f.code for f in diagnose(look(dcds=[dcd(OLD, conditions=[condition])]))] == ["NO_PODS"]


@pytest.mark.parametrize(
    "snapshot",
    [
        look(pod(container={"started": False})),
        look(pod(container=CREATING), events=(event("Pulling", "Pulling image"),)),
        look(pod(scheduled=False)),
        # an old mount error: the image is being pulled since
        look(pod(container=CREATING), events=(event("FailedMount", "timed out"), event("Pulling", "x", at=9))),
        # the event belongs to an earlier pod of that name
        look(
            pod(container=CREATING),
            events=({**event("FailedMount", "x"), "involvedObject": {"kind": "Pod", "name": "worker-1", "uid": "0"}},),
        ),
        # the broken pod is of the old generation, the update hasn't been seen yet
        look(pod(container=crashed(restarts=37)), dgd=not_ready(worker_hash=NEW), dcds=[dcd(NEW)]),
        # the broken frontend is being replaced
        look(
            pod("front-0", component="Frontend", container=crashed(restarts=37), template="t0"),
            pod("front-2", component="Frontend", created=LATER, template="t2"),
            pod(container={"started": False}),
        ),
    ],
)
def test_slow_is_no_cause(snapshot: Snapshot) -> None:
    assert diagnose(snapshot) == []


def test_nothing_is_said_about_pods_before_the_operator_has_seen_the_update() -> None:
    found = diagnose(look(pod(container=crashed(restarts=37)), dgd=dgd(generation=2)))
    assert [f.code for f in found] == ["OPERATOR_SILENT"]


def steps(*observations: tuple[float, Snapshot], **budgets: float) -> list[str]:
    patience = Patience(budgets)
    ends = [patience.judge(now, diagnose(snapshot)) for now, snapshot in observations]
    return [end.code if end else "" for end in ends]


def test_an_image_error_is_final_after_its_budget_whatever_form_it_takes() -> None:
    first, second = pull("r/engine:1: not found"), pull("Back-off: not found", "ImagePullBackOff")
    assert steps((0, first), (20, second), (29, first), (30, second)) == ["", "", "", "IMAGE_NOT_FOUND"]


def test_a_cause_that_was_away_starts_anew() -> None:
    bad, good = pull("not found"), look(pod(container={"started": False}))
    assert steps((0, bad), (20, good), (40, bad), (60, bad), (70, bad)) == ["", "", "", "", "IMAGE_NOT_FOUND"]


def test_budgets_of_zero_end_at_the_first_observation() -> None:
    assert steps((0, pull("not found")), config=0) == ["IMAGE_NOT_FOUND"]
    assert steps((0, look(pod(scheduled=NO_GPU))), scheduling=0) == ["UNSCHEDULABLE"]
    assert steps((0, look(pod(container=crashed(restarts=1)))), restarts=1, config=0) == ["CRASH_LOOP"]


def test_what_passes_by_itself_is_never_final() -> None:
    for snapshot in (
        look(pod(), events=(event("NodeNotReady", "Node is not ready"),)),
        look(pod(scheduled=NO_GPU), pod("ending", leaving=True, worker_hash=NEW)),
        look(pod(scheduled=NO_GPU), events=(event("TriggeredScaleUp", "x"),)),
    ):
        codes = steps((0, snapshot), (300, snapshot))
        assert codes == ["", ""]


def test_restarts_count_and_hopeless_errors_end_sooner() -> None:
    def crash(restarts: int, log: str = "") -> Snapshot:
        return look(pod(container=crashed(restarts=restarts)), logs={"worker-1/main": log})

    assert steps(*[(60 * n, crash(n)) for n in range(1, 6)]) == ["", "", "", "", "CRASH_LOOP"]
    argument = "engine.py: error: unrecognized arguments: --wibble"
    assert steps(*[(60 * n, crash(n, argument)) for n in range(1, 3)]) == ["", "CRASH_LOOP"]
    # one restart while it starts, then it runs
    assert steps((0, crash(1)), (60, look(pod(ready=True), dgd=dgd()))) == ["", ""]
    # 37 restarts at first sight: an update may be about to replace this pod
    assert steps((0, crash(37)), (6, crash(37))) == ["", "CRASH_LOOP"]


def test_a_transient_failed_is_not_final_and_a_lasting_one_is() -> None:
    failed = look(pod(), dgd=not_ready(state="failed", message="the object has been modified"))
    fine = look(pod(ready=True), dgd=dgd())
    assert steps((0, failed), (0.3, fine), (119, failed), (240, failed)) == ["", "", "", "RECONCILE_FAILED"]


def test_an_ending_pod_has_its_own_grace_period_on_top() -> None:
    ending = look(pod("dead", leaving=True), pod())
    assert steps((0, ending), (301, ending), (361, ending)) == ["", "", "OLD_POD_STUCK"]


@pytest.mark.parametrize(
    ("message", "text", "hint"),
    [
        (NO_GPU, "1 nodes: 1 lack nvidia.com/gpu", "Free it"),
        (
            "0/3 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}, 2 node(s) didn't match"
            " Pod's node affinity/selector. preemption: 0/3 nodes are available: 3 Preemption is not helpful.",
            "3 nodes: 2 don't match the node selector or affinity, 1 have the taint nvidia.com/gpu: present",
            "Compare the placement",
        ),
        ("0/1 nodes are available: 1 node(s) were unschedulable.", "1 nodes: 1 are cordoned", "Uncordon"),
        ("0/2 nodes are available: 2 something new.", "2 nodes: 2 something new", ""),
        ("no nodes", "no nodes", ""),
    ],
)
def test_scheduler_messages(message: str, text: str, hint: str) -> None:
    found = read_scheduler(message)
    assert found[0] == text and found[1].startswith(hint)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "CUDA out of memory"),
        ("RuntimeError: NCCL error: unhandled system error", "NCCL"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/model/config.json'", "missing checkpoint"),
        ("huggingface_hub.errors.LocalEntryNotFoundError: outgoing traffic has been disabled", "missing checkpoint"),
        ("huggingface_hub.errors.GatedRepoError: 403 Client Error.", "token"),
        ("sglang.launch_server: error: unrecognized arguments: --wibble", "bad argument"),
        ("ModuleNotFoundError: No module named 'dynamo.sglangg'", "bad argument"),
        ("RuntimeError: No CUDA GPUs are available", "GPU driver"),
        ("OSError: [Errno 28] No space left on device", "no space"),
        ("all went well", ""),
    ],
)
def test_engine_errors(line: str, name: str) -> None:
    log_class, lines = classify_log(f"starting\n{line}\nbye")
    assert (log_class.name if log_class else "") == name
    assert line.split(":")[0] in lines


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("token hf_abcdefghijklmnop used", "token ******** used"),
        ("Authorization: Bearer abcdefgh.ijkl", "Authorization: Bearer ********"),
        ("HF_TOKEN=abcdef123456 x", "HF_TOKEN=******** x"),
        ('{"password": "hunter2hunter2"}', '{"password": ********"}'),
        ("completion_tokens: 3", "completion_tokens: 3"),
    ],
)
def test_credentials_are_masked(text: str, clean: str) -> None:
    assert mask(text) == clean


def test_pulling_is_the_last_word_about_an_image() -> None:
    events = [event("Pulled", "x", at=5), event("Pulling", "x", at=1), event("Pulling", "y", about="b", at=2)]
    assert pulling(look(events=tuple(events))) == {"uid-b"}
