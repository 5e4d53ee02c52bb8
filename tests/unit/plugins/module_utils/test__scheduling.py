# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._causes import Snapshot
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._podcauses import pod_causes
from ansible_collections.inferops.dynamo.plugins.module_utils._scheduling import (
    claims_in_doubt,
    read_scheduler,
    untolerated,
)
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._dgd_objects import (
    NO_GPU,
    TAINT,
    Object,
    event,
    look,
    node,
    pod,
)


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
        (TAINT, "1 nodes: 1 have a taint that the pod doesn't tolerate", "Add a toleration"),
        (
            "0/4 nodes are available: 1 Insufficient memory, 1 node(s) didn't match PersistentVolume's node affinity, 2"
            " cannot allocate all claims. no new claims to deallocate, preemption: 0/4 nodes.",
            "4 nodes: 2 can't give what the resource claim asks for, 1 lack memory, 1 can't reach the volume",
            "Look at the DRA driver",
        ),
        (
            "0/2 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules, 1 Too many pods.",
            "2 nodes: 1 don't match the pod affinity, 1 have the most pods they may run",
            "Another pod",
        ),
        ("0/1 nodes are available: 1 node(s) were unschedulable.", "1 nodes: 1 are cordoned", "Uncordon"),
        ("0/2 nodes are available: 2 something new.", "2 nodes: 2 something new", ""),
        ("no nodes", "no nodes", ""),
        (
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
            "1 nodes: pod has unbound immediate PersistentVolumeClaims",
            "",
        ),
    ],
)
def test_scheduler_messages(message: str, text: str, hint: str) -> None:
    found = read_scheduler(message)
    assert found[0] == text and found[1].startswith(hint)


def claim_event(message: str, reason: str = "ProvisioningFailed") -> Snapshot:
    """A pod that waits for its claim, and what the claim's controller says about it."""
    waits = pod(scheduled="0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found")
    waits["spec"]["volumes"] = [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}]
    return look(waits, events=(event(reason, message, about="cache", kind="PersistentVolumeClaim"),))


@pytest.mark.parametrize(
    ("snapshot", "code"),
    [
        (claim_event('storageclass.storage.k8s.io "fast" not found'), "CLAIM_PENDING"),
        (
            claim_event("no persistent volumes available for this claim and no storage class is set", "FailedBinding"),
            "CLAIM_PENDING",
        ),
        (claim_event('volume "v" already bound to a different claim.', "FailedBinding"), "CLAIM_PENDING"),
        (claim_event("NodePath only supports ReadWriteOnce and ReadWriteOncePod access modes"), "CLAIM_ACCESS_MODE"),
    ],
)
def test_the_events_of_a_claim_tell_why_it_waits(snapshot: Snapshot, code: str) -> None:
    found = pod_causes(snapshot.view.pods[1], snapshot)
    assert [(f.code, f.budget) for f in found] == [(code, "scheduling")]
    assert found[0].object == "PersistentVolumeClaim/cache" and found[0].evidence


def test_a_refused_claim_is_seen_before_the_scheduler_speaks() -> None:
    """With WaitForFirstConsumer it says nothing until the volume is there, or ten minutes are over."""
    waits = pod(scheduled=False, phase="Pending")
    waits["spec"]["volumes"] = [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}]
    refusal = "NodePath only supports ReadWriteOnce and ReadWriteOncePod access modes"
    told = event("ProvisioningFailed", refusal, about="cache", kind="PersistentVolumeClaim")
    assert [f.code for f in pod_causes(waits, look(waits, events=(told,)))] == ["CLAIM_ACCESS_MODE"]
    assert pod_causes(waits, look(waits)) == []


def test_who_makes_room_is_waited_for() -> None:
    making = NO_GPU.replace("No preemption victims found", "preemption: not eligible due to a terminating pod on the")
    waits = pod(scheduled=making.replace("for incoming pod", "nominated node"))
    assert [(f.code, f.budget) for f in pod_causes(waits, look(waits))] == [("UNSCHEDULABLE", "slow")]
    waits = pod(scheduled=NO_GPU)
    scaling = [event("TriggeredScaleUp", "1->2", at=1), event("NotTriggerScaleUp", "max size reached", at=50)]
    budgets = [pod_causes(waits, look(waits, events=tuple(scaling[:n])))[0].budget for n in (1, 2)]
    assert budgets == ["", "scheduling"]


def test_a_dead_node_hides_no_mistake() -> None:
    message = (
        "0/50 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }, 49 node(s)"
        " didn't match Pod's node affinity/selector. preemption: 0/50 nodes are available."
    )
    waits = pod(scheduled=message)
    dead = node("a", "node.kubernetes.io/unreachable:NoExecute", "other=x:PreferNoSchedule")
    assert pod_causes(waits, look(waits, nodes=[dead]))[0].code == "NODE_NOT_READY"
    waits["spec"]["nodeSelector"] = {"gpu": "typo"}
    found = pod_causes(waits, look(waits, nodes=[dead]))[0]
    assert (found.code, found.budget) == ("UNSCHEDULABLE", "slow") and "49 don't match" in found.evidence


def test_a_claim_that_is_bound_by_now_is_not_said_to_lack_a_volume() -> None:
    """The scheduler may miss the binding, and looks again only after five minutes and a half."""
    snapshot = claim_event("waiting", "WaitForFirstConsumer")
    waits = snapshot.view.pods[1]
    for phase, code, extra in (("Pending", "CLAIM_PENDING", 0), ("Bound", "UNSCHEDULABLE", 90)):
        claims = [{"metadata": {"name": "cache"}, "status": {"phase": phase}}]
        (found,) = pod_causes(waits, snapshot._replace(claims=claims))
        assert (found.code, found.budget, found.extra) == (code, "slow", extra)
    assert "is bound by now" in found.evidence
    assert claims_in_doubt([waits, pod(scheduled=TAINT)], lambda name: {"metadata": {"name": name}}) == [
        {"metadata": {"name": "cache"}}
    ]

    def forbidden(name: str) -> Object:
        raise DynamoError("no", "FORBIDDEN")

    assert claims_in_doubt([waits], forbidden) == [] == claims_in_doubt([pod(scheduled=TAINT)], forbidden)


@pytest.mark.parametrize(
    ("tolerations", "nodes", "found"),
    [
        ([], [node("a", "gpu=yes:NoSchedule"), node("b", "gpu=yes:NoSchedule")], {"gpu=yes:NoSchedule": ["a", "b"]}),
        (
            [{"key": "gpu", "operator": "Exists"}],
            [node("a", "gpu=yes:NoSchedule", "x:NoExecute")],
            {"x:NoExecute": ["a"]},
        ),
        ([], [node("a", "spot:PreferNoSchedule"), node("b")], {}),
    ],
)
def test_taints_are_named_with_their_nodes(tolerations: list[Object], nodes: list[Object], found: Object) -> None:
    waits = pod(scheduled=TAINT)
    waits["spec"]["tolerations"] = tolerations
    assert untolerated(waits, nodes) == found
    evidence = pod_causes(waits, look(waits, nodes=nodes))[0].evidence
    assert all(f"{taint} on {', '.join(names)}" in evidence for taint, names in found.items())
