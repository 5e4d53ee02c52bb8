# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._diagnose import (
    Patience,
    Snapshot,
    at_first,
    diagnose,
    pulling,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._podcauses import runs
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._dgd_objects import (
    CREATING,
    LATER,
    NEW,
    NO_GPU,
    OLD,
    Object,
    counts,
    crashed,
    dcd,
    dgd,
    event,
    look,
    not_ready,
    pod,
    pull,
    rolling,
)

CASES = [
    (look(pod("dead", leaving=True, worker_hash=NEW), pod()), "OLD_POD_STUCK", "slow"),
    (
        look(pod("dead", leaving=True), pod(), events=(event("TaintManagerEviction", "deleting", about="dead"),)),
        "OLD_POD_STUCK",
        "slow",
    ),
    (look(pod("e", phase="Failed", reason="Evicted", message="low on memory"), pod()), "EVICTED", "restarts"),
    (look(pod("e", phase="Failed", reason="UnexpectedAdmissionError"), pod()), "POD_REFUSED", "restarts"),
    # the operator
    (look(dgd=dgd(observed=None)), "OPERATOR_SILENT", "operator"),
    (look(dgd=dgd(generation=2)), "OPERATOR_SILENT", "operator"),
    (look(pod(), dgd=not_ready(state="failed")), "RECONCILE_FAILED", "operator"),
    (look(pod(), dgd=not_ready(state="failed", generation=2)), "RECONCILE_FAILED", "operator"),
    (look(pod(ready=True), dgd=dgd(), dcds=[dcd(OLD), dcd(NEW)]), "ORPHANED_WORKERS", "scheduling"),
    (look(), "NO_PODS", "operator"),
    # the operator went away in the middle
    (look(pod(container={"started": False}), dcds=[dcd(OLD, observed=0)]), "OPERATOR_SILENT", "operator"),
    (look(pod(ready=True)), "OPERATOR_SILENT", "slow"),
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
    ("message", "code", "budget"),
    [
        (
            'pods "w" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=4',
            "QUOTA_EXCEEDED",
            "config",
        ),
        ('pods "w" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot', "POD_SECURITY", "config"),
        ('admission webhook "policy.example" denied the request: no', "ADMISSION_REFUSED", "config"),
        ("pods \"w\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no", "ADMISSION_REFUSED", "config"),
        # the policy's own pods may be about to come back
        ('Internal error occurred: failed calling webhook "p": connection refused', "NO_PODS", "slow"),
        ('pods "w" is forbidden: status unknown for quota: gpus', "ADMISSION_REFUSED", "slow"),
        ("something else", "NO_PODS", "slow"),
    ],
)
@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment"])
def test_why_there_are_no_pods(kind: str, message: str, code: str, budget: str) -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    owners = [owner(kind, failure)]
    found = diagnose(look(replicasets=owners) if kind == "ReplicaSet" else look(deployments=owners))
    assert (found[0].code, found[0].object, found[0].budget) == (code, f"{kind}/w", budget)


@pytest.mark.parametrize("name", ["Worker", "Frontend"])
def test_an_update_whose_new_pods_are_refused(name: str) -> None:
    """The old pods serve, and are as many as wanted: none of them is the one that is missing."""
    failure = {"type": "ReplicaFailure", "status": "True", "message": 'pods "w" is forbidden: exceeded quota: gpus'}
    refused = owner("Deployment", failure)
    refused["metadata"]["labels"]["nvidia.com/dynamo-component"] = name
    worker = rolling(generation=2, observed=2, workers=counts(1, 0, 1))
    frontend = not_ready(generation=2, observed=2, frontends=counts(1, 0, 1))
    dcds = [dcd(OLD), dcd(NEW, created=LATER)] if name == "Worker" else [dcd(OLD)]
    old = pod("old-1", ready=True)
    snapshot = look(old, dgd=worker if name == "Worker" else frontend, dcds=dcds, deployments=[refused])
    assert [(f.code, f.object) for f in diagnose(snapshot)] == [("QUOTA_EXCEEDED", "Deployment/w")]


def test_what_the_generation_before_was_refused_ends_no_update() -> None:
    """Its ReplicaSet still says so while the new generation's pod waits for the image."""
    failure = {"type": "ReplicaFailure", "status": "True", "message": 'pods "w" is forbidden: exceeded quota: gpus'}
    before, now = (owner("ReplicaSet", {**failure, "status": text}) for text in ("True", "False"))
    before["metadata"]["labels"]["nvidia.com/dynamo-worker-hash"] = OLD
    now["metadata"]["labels"]["nvidia.com/dynamo-worker-hash"] = NEW
    live = rolling(generation=2, observed=2, workers=counts(1, 0, 0))
    snapshot = look(
        pod("old-1", ready=True), dgd=live, dcds=[dcd(OLD), dcd(NEW, created=LATER)], replicasets=[before, now]
    )
    assert "QUOTA_EXCEEDED" not in [f.code for f in diagnose(snapshot)]
    before["metadata"]["labels"]["nvidia.com/dynamo-worker-hash"] = NEW
    assert "QUOTA_EXCEEDED" in [f.code for f in diagnose(snapshot)]


def test_an_old_pod_that_is_made_anew_hides_nothing() -> None:
    """A node was drained in the middle of an update of the frontend: its old ReplicaSet's pod is the youngest."""
    anew = pod("front-1", component="Frontend", created=LATER, template="t0", container={"started": False})
    broken = pod("front-2", component="Frontend", template="t2", container=crashed(restarts=37))
    sets = [owner("ReplicaSet", {"type": "x"}) for _number in range(2)]
    for made, (template, revision) in zip(sets, (("t0", "1"), ("t2", "2")), strict=True):
        made["metadata"]["labels"] = {"nvidia.com/dynamo-component": "Frontend", "pod-template-hash": template}
        made["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": revision}
    assert "CRASH_LOOP" in [f.code for f in diagnose(look(anew, broken, replicasets=sets))]
    assert "CRASH_LOOP" not in [f.code for f in diagnose(look(anew, broken))]


def test_an_update_that_has_not_made_its_pods_yet() -> None:
    """Without surge the old pod ends first, and may take long: the new one is not missing."""
    live = rolling(generation=2, observed=2, workers=counts(1, 0, 0))
    ending = look(pod("old-1", leaving=True), dgd=live, dcds=[dcd(OLD), dcd(NEW, created=LATER)])
    assert "NO_PODS" not in [f.code for f in diagnose(ending)]


def test_a_quota_that_ending_pods_still_hold_is_waited_for() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": 'pods "w" is forbidden: exceeded quota: gpus'}
    ending = pod("old", leaving=True, worker_hash=NEW)
    found = diagnose(look(ending, replicasets=[owner("ReplicaSet", failure)]))
    assert [f.budget for f in found if f.code == "QUOTA_EXCEEDED"] == [""]


def test_a_refusal_from_before_the_wait_counts_when_it_is_told_again() -> None:
    """A quota that was raised brings no pod before the ReplicaSet tries again, up to 1000 s later."""
    failure = {"type": "ReplicaFailure", "status": "True", "message": 'pods "w" is forbidden: exceeded quota: gpus'}
    old, again = (event("FailedCreate", "x", about="w", kind="ReplicaSet", at=at) for at in (1, 9))
    before = look(replicasets=[{**owner("ReplicaSet", failure)}], events=(old,))
    before.replicasets[0]["metadata"]["uid"] = "uid-w"
    known = at_first(before)
    assert [f.extra for f in diagnose(before)] == [0]
    assert [f.extra for f in diagnose(before._replace(known=known))] == [1030]
    assert [f.extra for f in diagnose(before._replace(known=known, events=[old, again]))] == [0]


def test_write_conflicts_of_the_operator_are_no_cause() -> None:
    message = "Failed to reconcile DynamoComponentDeployment: the object has been modified; please apply your changes"
    condition = {"type": "Available", "status": "False", "reason": "Reconciling", "message": message}
    assert [f.code for f in diagnose(look(dcds=[dcd(OLD, conditions=[condition])]))] == ["NO_PODS"]


# of an operator that doesn't count what it has seen
UNNUMBERED = {**dcd(OLD), "status": {"conditions": [{"type": "Available", "status": "False"}]}}


@pytest.mark.parametrize(
    "snapshot",
    [
        look(pod(container={"started": False})),
        look(pod(container={"started": False}), dcds=[UNNUMBERED]),
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


def test_time_that_passes_by_itself_is_not_charged_to_the_cause_after_it() -> None:
    """Scheduling gates or an ending pod, and at last the scheduler's word about GPUs that are just coming back."""
    gated = look(pod(scheduled=NO_GPU), pod("ending", leaving=True, worker_hash=NEW))
    bad = look(pod(scheduled=NO_GPU))
    assert steps((0, gated), (100, bad), (159, bad), (160, bad)) == ["", "", "", "UNSCHEDULABLE"]


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


def test_pods_that_failed_before_say_nothing_about_this_start() -> None:
    failed = [pod(f"e{n}", phase="Failed", reason="Evicted", message="low on memory") for n in range(5)]
    assert [f.seen for f in diagnose(look(*failed, pod()))] == [5]
    assert diagnose(look(*failed, pod(), known=runs(failed))) == []


def test_time_in_which_nobody_could_look_is_not_counted() -> None:
    patience, waits = Patience(), diagnose(look(pod(scheduled=NO_GPU)))
    assert patience.judge(0, waits) is None
    patience.away(62)
    assert patience.judge(63, waits) is None
    final = patience.judge(122, waits)
    assert final and final.code == "UNSCHEDULABLE"


def test_a_transient_failed_is_not_final_and_a_lasting_one_is() -> None:
    failed = look(pod(), dgd=not_ready(state="failed", message="the object has been modified"))
    fine = look(pod(ready=True), dgd=dgd())
    assert steps((0, failed), (0.3, fine), (119, failed), (240, failed)) == ["", "", "", "RECONCILE_FAILED"]


def test_an_ending_pod_has_its_own_grace_period_on_top() -> None:
    ending = look(pod("dead", leaving=True), pod())
    assert steps((0, ending), (301, ending), (361, ending)) == ["", "", "OLD_POD_STUCK"]


def test_pulling_is_the_last_word_about_an_image() -> None:
    events = [event("Pulled", "x", at=5), event("Pulling", "x", at=1), event("Pulling", "y", about="b", at=2)]
    assert pulling(look(events=tuple(events))) == {"uid-b"}
