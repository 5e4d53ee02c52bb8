# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _dgd
from ansible_collections.inferops.dynamo.plugins.module_utils._dgd import View, judge
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._dgd_objects import (
    BORN,
    NEW,
    OLD,
    counts,
    crashed,
    dcd,
    dgd,
    not_ready,
    pod,
    rolling,
)

LATER = "2026-11-30T10:05:00Z"
FRONT = pod("front-1", component="Frontend", ready=True)
READY_OLD = pod("old", ready=True)
READY_NEW = pod("new", worker_hash=NEW, ready=True, created=LATER)

# Sequences of statuses as recorded from the real operator; each step with the state that a wait must see in it.
CREATE = [
    (View(dgd(observed=None, worker_hash=None)), "STARTING"),
    (View(dgd(observed=None)), "STARTING"),
    (View(not_ready(workers={}, frontends={}), [dcd(OLD)]), "STARTING"),
    (View(not_ready(workers=counts(0, 0, 0), frontends=counts(0, 0, 0)), [dcd(OLD)]), "STARTING"),
    (View(not_ready(workers=counts(1, 1, 0), frontends=counts(1, 1, 0)), [dcd(OLD)], [pod()]), "STARTING"),
    (View(not_ready(workers=counts(1, 1, 1), frontends=counts(1, 1, 0)), [dcd(OLD)], [READY_OLD]), "STARTING"),
    (View(dgd(), [dcd(OLD)], [READY_OLD, FRONT]), "READY"),
]
ROLLOUT = [
    # generation 2 is stored, and Ready is still True for generation 1
    (View(dgd(generation=2), [dcd(OLD)], [READY_OLD]), "STARTING"),
    # the new DCD is there before the operator's first status
    (View(dgd(generation=2), [dcd(OLD), dcd(NEW, created=LATER)], [READY_OLD]), "STARTING"),
    (View(rolling("Pending", generation=2, observed=2, workers=counts(1, 0, 1)), [dcd(OLD)], [READY_OLD]), "STARTING"),
    (
        View(
            rolling(generation=2, observed=2, workers=counts(2, 1, 1)),
            [dcd(OLD), dcd(NEW, created=LATER)],
            [READY_OLD, pod("new", worker_hash=NEW, created=LATER)],
        ),
        "STARTING",
    ),
    (
        View(
            rolling(generation=2, observed=2, workers=counts(2, 1, 2)),
            [dcd(OLD), dcd(NEW, created=LATER)],
            [READY_OLD, READY_NEW],
        ),
        "STARTING",
    ),
    # Ready True, Completed, and the old pod is still ending
    (
        View(
            dgd(generation=2, observed=2, rollout="Completed", worker_hash=NEW),
            [dcd(NEW, created=LATER)],
            [pod("old", ready=True, leaving=True), READY_NEW],
        ),
        "STARTING",
    ),
    (
        View(
            dgd(generation=2, observed=2, rollout="Completed", worker_hash=NEW),
            [dcd(NEW, created=LATER)],
            [READY_NEW],
        ),
        "READY",
    ),
]
SCALE = [
    (View(dgd(generation=2, worker=2, workers=counts(1, 1, 1)), [dcd(OLD)], [READY_OLD]), "STARTING"),
    (
        View(
            not_ready(generation=2, observed=2, worker=2, workers=counts(2, 2, 1)),
            [dcd(OLD)],
            [READY_OLD, pod("b")],
        ),
        "DEGRADED",
    ),
    (View(dgd(generation=2, observed=2, worker=2), [dcd(OLD)], [READY_OLD, pod("b", ready=True)]), "READY"),
    # 2 -> 1: the pod that goes is of the present generation
    (View(dgd(generation=3, observed=3), [dcd(OLD)], [READY_OLD, pod("b", leaving=True)]), "READY"),
]
RESTART = [
    (View(not_ready(restart="Restarting", workers=counts(2, 1, 1)), [dcd(OLD)], [READY_OLD, pod("b")]), "STARTING"),
    # for a moment everything else looks ready
    (View(dgd(restart="Restarting"), [dcd(OLD)], [READY_OLD]), "STARTING"),
    (View(dgd(restart="Completed"), [dcd(OLD)], [READY_OLD]), "READY"),
]
FAILED = [
    (View(not_ready("failed_to_reconcile_the_resources", state="failed"), [dcd(OLD)], [READY_OLD]), "STARTING"),
    (View(dgd(), [dcd(OLD)], [READY_OLD]), "READY"),
]
DEADLOCK = [
    (
        View(
            rolling(generation=2, observed=2, worker=2, workers=counts(3, 1, 2)),
            [dcd(OLD), dcd(NEW, created=LATER)],
            [READY_OLD, pod("b", ready=True), pod("new", worker_hash=NEW, scheduled="0/1 nodes", phase="Pending")],
        ),
        "STARTING",
    ),
    # reverted: the operator is done in 0.3 s, the pod that never ran may still be listed
    (
        View(
            dgd(generation=3, observed=3, worker=2, rollout="Completed"),
            [dcd(OLD)],
            [READY_OLD, pod("b", ready=True), pod("new", worker_hash=NEW, scheduled="x", leaving=True)],
        ),
        "STARTING",
    ),
    (
        View(
            dgd(generation=3, observed=3, worker=2, rollout="Completed"),
            [dcd(OLD)],
            [READY_OLD, pod("b", ready=True)],
        ),
        "READY",
    ),
]
REPAIR = [
    # the way out: no workers, then one again
    (View(dgd(generation=3, observed=3, worker=0, rollout="Completed"), []), "READY"),
    (View(not_ready(generation=4, observed=4, workers=counts(1, 1, 0)), [dcd(OLD)], [pod()]), "STARTING"),
    (View(dgd(generation=4, observed=4), [dcd(OLD)], [READY_OLD]), "READY"),
]


@pytest.mark.parametrize(
    "sequence", [CREATE, ROLLOUT, SCALE, RESTART, FAILED, DEADLOCK, REPAIR],
    ids=["create", "rollout", "scale", "restart", "failed", "deadlock", "repair"],
)  # fmt: skip
def test_recorded_sequences(sequence: list[tuple[View, str]]) -> None:
    assert [judge(view).state for view, _state in sequence] == [state for _view, state in sequence]


@pytest.mark.parametrize(
    ("view", "missing"),
    [
        (View(dgd(generation=2)), "the operator has not processed this generation yet"),
        (View(rolling()), "a rolling update is InProgress"),
        (View(not_ready()), "some_resources_are_not_ready: Resources not ready"),
        (View(dgd(workers=counts(2, 1, 1))), "Worker wants 1, has 2 (1 updated, 1 ready, 1 available)"),
        (View(dgd(workers=counts(1, 1, 1, 0))), "1 ready, 0 available"),
        (View(dgd(), [dcd(OLD)], [READY_OLD, READY_NEW]), "old worker pods are not gone: new"),
        (View(dgd(), [dcd(OLD), dcd(NEW)], [READY_OLD]), f"forgotten generation run: lab-agg-worker-{NEW}"),
        (View(dgd(worker_hash=None), [], [READY_OLD]), "current-worker-hash-v2"),
    ],
)
def test_says_what_is_missing(view: View, missing: str) -> None:
    verdict = judge(view)
    assert verdict.state == "STARTING" and missing in verdict.evidence


def test_ready_of_a_stale_generation_in_the_condition_only() -> None:
    stale = dgd(generation=2, observed=2)
    stale["status"]["conditions"][0]["observedGeneration"] = 1
    assert judge(View(stale, [], [READY_OLD])).evidence == "Ready still describes the generation before"


def test_pods_of_a_deployment_that_was_deleted_and_made_again_have_the_same_hash() -> None:
    old = pod("old", leaving=True, created="2026-11-30T09:00:00Z")
    assert judge(View(dgd(), [dcd(OLD)], [old, READY_OLD])).state == "STARTING"


def test_evicted_pods_stay_and_do_not_count() -> None:
    evicted = pod("evicted", worker_hash=NEW, phase="Failed", created=BORN)
    assert judge(View(dgd(), [dcd(OLD)], [evicted, READY_OLD])).state == "READY"


def test_grove_has_neither_hash_nor_available_replicas() -> None:
    grove = dgd(worker_hash=None, workers={"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1})
    grove["metadata"]["annotations"] = {"nvidia.com/workload-provider": "grove"}
    assert judge(View(grove)).state == "READY"


@pytest.mark.parametrize(
    ("observed", "pulling", "phase"),
    [
        (pod(scheduled=False), False, "scheduling"),
        (pod(container={"state": {"waiting": {"reason": "ContainerCreating"}}}), False, "container creating"),
        (pod(container={"state": {"waiting": {"reason": "ContainerCreating"}}}), True, "pulling"),
        (pod(container={"started": False}), False, "loading"),
        (pod(container=crashed(now="CrashLoopBackOff")), False, "loading"),
        (pod(container={"started": True}), False, "registering"),
        (pod(ready=True), False, ""),
    ],
)
def test_phases(observed: _dgd.Object, pulling: bool, phase: str) -> None:
    assert _dgd.pod_phase(observed, pulling) == phase


def test_phase_is_that_of_the_pod_furthest_behind() -> None:
    view = View(not_ready(), [dcd(OLD)], [pod("a", container={"started": True}), pod("b", scheduled=False)])
    assert _dgd.phase(view) == "scheduling"
    assert _dgd.counts_text(not_ready(worker=3, workers=counts(3, 3, 1))) == "Frontend 1/1, Worker 1/3 ready"


@pytest.mark.parametrize(
    ("provider", "kind", "absent"),
    [
        ("component", "LeaderWorkerSet", "availableReplicas"),
        ("grove", "PodClique", "availableReplicas"),
        ("grove", "PodCliqueScalingGroup", "readyReplicas"),
    ],
)
def test_a_count_that_a_kind_does_not_have_is_not_waited_for(provider: str, kind: str, absent: str) -> None:
    """The CRD says which of ready and available the operator can't tell of workers over several nodes."""
    live = dgd(workers={**counts(1, 1, 1), "componentKind": kind})  # type: ignore[dict-item]
    live["metadata"]["annotations"]["nvidia.com/workload-provider"] = provider
    del live["status"]["components"]["Worker"][absent]
    assert judge(View(live, [dcd(OLD)], [READY_OLD, FRONT])).state == "READY"
    other = "readyReplicas" if absent == "availableReplicas" else "availableReplicas"
    live["status"]["components"]["Worker"][other] = 0
    assert judge(View(live, [dcd(OLD)], [READY_OLD, FRONT])).state == "STARTING"
