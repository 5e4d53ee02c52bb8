# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Courses of real deployments, played again: the verdict at each step, with the budgets that people have.

Messages and times are those of the real operator, scheduler and kubelet (Kubernetes 1.34).
"""

from __future__ import annotations

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._causes import Snapshot
from ansible_collections.inferops.dynamo.plugins.module_utils._dgdwait import assess
from ansible_collections.inferops.dynamo.plugins.module_utils._diagnose import BUDGETS, Patience, diagnose
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils import test__diagnose, test__podcauses
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._dgd_objects import (
    CREATING,
    FRONT,
    LATER,
    NEW,
    NO_GPU,
    OLD,
    TAINT,
    Object,
    counts,
    crashed,
    dcd,
    dgd,
    event,
    look,
    node,
    not_ready,
    pod,
    pull,
    rolling,
    waiting,
)

Step = tuple[float, Snapshot, str]  # seconds, what was seen, state or TERMINAL's cause

LOADING = look(pod(container={"started": False}))
READY = look(pod(ready=True), dgd=dgd())
NO_STATUS = look(dgd=dgd(observed=None, worker_hash=None), dcds=[])
CREATED = look(pod(scheduled=False), dgd=not_ready(workers=counts(0, 0, 0)))
CONFLICT = "the object has been modified; please apply your changes to the latest version and try again"
FAILED = look(
    pod(container=CREATING), dgd=not_ready("failed_to_reconcile_the_resources", state="failed", message=CONFLICT)
)


def refused(message: str, *pods: Object) -> Snapshot:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    labels = {"nvidia.com/dynamo-component": "Worker"}
    owner = {"kind": "ReplicaSet", "metadata": {"name": "w", "labels": labels}, "status": {"conditions": [failure]}}
    return look(*pods, replicasets=[owner])


def lasting(snapshot: Snapshot, seconds: float, code: str = "STARTING") -> list[Step]:
    """The same picture every three seconds."""
    return [(float(t), snapshot, code) for t in range(1, int(seconds), 3)]


def passes(snapshot: Snapshot, seconds: float) -> list[Step]:
    """Something that is away after `seconds`: never final, and the end is READY."""
    return [(0, NO_STATUS, "STARTING"), *lasting(snapshot, seconds), (seconds + 3, LOADING, "STARTING"), END]


def stays(snapshot: Snapshot, code: str, budget: float) -> list[Step]:
    """Something that only a change repairs: final when its budget is used up, and not sooner."""
    return [*lasting(snapshot, budget), (budget + 1, snapshot, code)]


END = (3000.0, READY, "READY")
NEW_WORKER = pod("new", worker_hash=NEW, scheduled=NO_GPU, created=LATER, template="t2")
STUCK = look(
    pod("old", container=waiting("ImagePullBackOff", "r/engine:1: not found")),
    NEW_WORKER,
    dgd=rolling(generation=2, observed=2, workers=counts(2, 1, 0)),
    dcds=[dcd(OLD), dcd(NEW, created=LATER)],
)
NOT_READY_NODE = [node("node-1", "node.kubernetes.io/not-ready:NoSchedule")]
GPU_NODE = [node("node-1", "nvidia.com/gpu=x:NoSchedule")]
OLD_ENDS = pod("old", leaving=True, worker_hash=NEW)

COURSES: dict[str, list[Step]] = {
    # first start, as observed: 0.24 s without a status, 13.6 s until Ready
    "create": [
        (0.0, NO_STATUS, "STARTING"),
        (0.24, look(dgd=not_ready(workers={}, frontends={})), "STARTING"),
        (0.63, CREATED, "STARTING"),
        (2.5, LOADING, "STARTING"),
        (11.7, look(pod(ready=True), dgd=not_ready(frontends=counts(1, 1, 0))), "STARTING"),
        (13.6, READY, "READY"),
    ],
    # an update with room: Ready still True for the generation before; after Ready the old pod still ends
    "rollout": [
        (0.0, look(pod(ready=True), dgd=dgd(generation=2)), "STARTING"),
        (
            0.38,
            look(
                pod("old", ready=True),
                pod("new", worker_hash=NEW, container=CREATING, created=LATER, template="t2"),
                dgd=rolling(generation=2, observed=2, workers=counts(2, 1, 1)),
                dcds=[dcd(OLD), dcd(NEW, created=LATER)],
            ),
            "STARTING",
        ),
        (
            12.0,
            look(
                pod("old", ready=True, leaving=True),
                pod("new", worker_hash=NEW, ready=True, created=LATER, template="t2"),
                dgd=dgd(generation=2, observed=2, rollout="Completed", worker_hash=NEW),
                dcds=[dcd(NEW, created=LATER)],
            ),
            "STARTING",
        ),
        (
            13.4,
            look(
                pod("new", worker_hash=NEW, ready=True, created=LATER, template="t2"),
                dgd=dgd(generation=2, observed=2, rollout="Completed", worker_hash=NEW),
                dcds=[dcd(NEW, created=LATER)],
            ),
            "READY",
        ),
    ],
    "a worker more": [
        (0.0, look(pod(ready=True), dgd=dgd(generation=2, worker=2, workers=counts(1, 1, 1))), "STARTING"),
        (
            0.1,
            look(
                pod(ready=True),
                pod("b", container=CREATING),
                dgd=not_ready(generation=2, observed=2, worker=2, workers=counts(2, 2, 1)),
            ),
            "DEGRADED",
        ),
        (11.6, look(pod(ready=True), pod("b", ready=True), dgd=dgd(generation=2, observed=2, worker=2)), "READY"),
    ],
    # a slow but healthy start: a pull of minutes, one restart, a long load
    "slow start": [
        *lasting(look(pod(container=CREATING), events=(event("Pulling", "x"),)), 900),
        *((t + 900, s, code) for t, s, code in lasting(LOADING, 600)),
        (1503, look(pod(container=crashed())), "STARTING"),
        *((t + 1503, s, code) for t, s, code in lasting(look(pod(container=crashed())), 900)),
        END,
    ],
    # what passes by itself
    "transient failed": [(0.0, NO_STATUS, "STARTING"), (0.1, FAILED, "STARTING"), (0.4, LOADING, "STARTING"), END],
    "operator restarts": passes(NO_STATUS, 26),
    "operator restarts in the middle": passes(look(pod(container=CREATING), dcds=[dcd(OLD, observed=0)]), 90),
    "Secret comes late": passes(
        look(pod(container=waiting("CreateContainerConfigError", 'secret "hf" not found'))), 20
    ),
    "registry limits": passes(pull("429 Too Many Requests - toomanyrequests"), 240),
    "registry is away": passes(pull("dial tcp 10.0.0.9:443: connection refused"), 240),
    "registry fails": passes(pull("unexpected status from HEAD request: 503 Service Unavailable"), 240),
    "old pods end": passes(look(pod(scheduled=NO_GPU), OLD_ENDS), 120),
    "nodes are added": passes(look(pod(scheduled=NO_GPU), events=(event("TriggeredScaleUp", "x"),)), 1200),
    "node is not ready": passes(look(pod(scheduled=TAINT), nodes=NOT_READY_NODE), 1200),
    "queue": passes(look(pod(scheduled=False)), 1200),
    "claim is being provisioned": passes(
        look(pod(scheduled="0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.")), 200
    ),
    "volume is mounted slowly": passes(look(pod(container=CREATING), events=(event("FailedMount", "timed out"),)), 200),
    "channel is being made": passes(
        look(pod(container=CREATING), events=(event("FailedPrepareDynamicResources", "not ready in ComputeDomain"),)),
        200,
    ),
    "ServiceAccount comes late": passes(refused("pods is forbidden: error looking up service account llm/x"), 5),
    "policy is away": passes(refused('Internal error occurred: failed calling webhook "p": EOF'), 120),
    "ending pods hold the quota": passes(refused('pods "w" is forbidden: exceeded quota', OLD_ENDS), 240),
    "runtime is overloaded": passes(
        look(pod(container=waiting("CreateContainerError", "context deadline exceeded"))), 90
    ),
    "restarts a few times": [
        (float(t * 60), look(pod(container=crashed(restarts=t))), "STARTING") for t in (1, 2, 3, 4)
    ],
    # what only a change repairs
    "image name": stays(pull("r/engine:1: not found"), "IMAGE_NOT_FOUND", BUDGETS["config"]),
    "wrong key": stays(
        look(pod(container=waiting("CreateContainerConfigError", "couldn't find key T in Secret llm/hf"))),
        "CONFIG_MISSING",
        BUDGETS["config"],
    ),
    "no GPUs": stays(look(pod(scheduled=NO_GPU)), "UNSCHEDULABLE", BUDGETS["scheduling"]),
    "taint": stays(look(pod(scheduled=TAINT), nodes=GPU_NODE), "UNSCHEDULABLE", BUDGETS["scheduling"]),
    "update of a broken pod without room": stays(STUCK, "ROLLOUT_STUCK", BUDGETS["scheduling"]),
    "operator is away": stays(look(dgd=dgd(generation=2)), "OPERATOR_SILENT", BUDGETS["operator"]),
    "operator left in the middle": stays(look(pod(ready=True)), "OPERATOR_SILENT", BUDGETS["slow"]),
    "operator fails on": stays(FAILED, "RECONCILE_FAILED", BUDGETS["operator"]),
    "Pod Security": stays(refused('violates PodSecurity "restricted:latest"'), "POD_SECURITY", BUDGETS["config"]),
}


@pytest.mark.parametrize("course", COURSES.values(), ids=COURSES.keys())
def test_courses(course: list[Step]) -> None:
    patience = Patience()
    seen = []
    for now, snapshot, _wanted in course:
        verdict, _findings = assess(snapshot, patience, now)
        seen.append((now, verdict.cause if verdict.state == "TERMINAL" else verdict.state))
    assert seen == [(now, wanted) for now, _snapshot, wanted in course]


CASES = [*test__diagnose.CASES, *test__podcauses.CASES]


@pytest.mark.parametrize(("snapshot", "code", "budget"), CASES, ids=[f"{c}-{i}" for i, (_s, c, _b) in enumerate(CASES)])
def test_the_first_observation_that_shows_a_cause_decides(snapshot: Snapshot, code: str, budget: str) -> None:
    """Without patience the verdict falls at once, and what passes by itself is never final."""
    hasty = Patience(dict.fromkeys(BUDGETS, 0.0) | {"restarts": 1})
    verdict, findings = assess(snapshot, hasty, 0)
    if all(f.extra or not f.budget for f in findings):
        assert verdict.state != "TERMINAL"
    else:
        assert (verdict.state, verdict.cause) == ("TERMINAL", code)
        assert verdict.object and verdict.evidence and "\n" not in verdict.evidence
    assert [f.code for f in diagnose(snapshot)][:1] == [code]


def test_a_frontend_that_works_is_in_every_picture() -> None:
    assert all(FRONT in snapshot.view.pods for course in COURSES.values() for _t, snapshot, _w in course)
