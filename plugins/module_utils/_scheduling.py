# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: why no node takes one pod of a release: the scheduler's words, taints, claims. Pure; see `_diagnose`."""

from __future__ import annotations

import re
from collections.abc import Callable

from ansible_collections.inferops.dynamo.plugins.module_utils import _dgd
from ansible_collections.inferops.dynamo.plugins.module_utils._capacity import obstacle, tolerated
from ansible_collections.inferops.dynamo.plugins.module_utils._causes import (
    Finding,
    Snapshot,
    event_time,
    events_of,
    mask,
    pod_events,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._dgd import Object, label
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

REQUIREMENTS = (
    (r"Insufficient (\S+)", r"lack \1", "Free it, add nodes, or deploy fewer replicas."),
    (
        r"untolerated taint\(?s?\)? \{(.+?)\}",
        r"have the taint \1",
        "Add a toleration to dynamo_binding, or take the taint away.",
    ),
    (
        r"untolerated taint|taints that the pod didn't tolerate",
        "have a taint that the pod doesn't tolerate",
        "Add a toleration to dynamo_binding, or take the taint away.",
    ),
    (
        r"didn't match (Pod's node affinity/selector|the requested node name|scheduler-enforced node affinity)",
        "don't match the node selector or affinity",
        "Compare the placement in dynamo_binding with the labels of the nodes.",
    ),
    (r"were unschedulable", "are cordoned", "Uncordon them when they are meant to be used."),
    (
        r"volume node affinity conflict|match PersistentVolume's node affinity|no available volume zone",
        "can't reach the volume",
        "The claim's volume lives on other nodes.",
    ),
    (r"exceed max volume count", "have the most volumes they may mount", "Free volumes, or add nodes."),
    (r"didn't have free ports", "have a port in use that the pod wants", "Another pod of this kind is there already."),
    (
        r"cannot allocate all claims",
        "can't give what the resource claim asks for",
        "Look at the DRA driver and its ResourceSlices.",
    ),
    (
        r"(didn't match|didn't satisfy existing) pods? (anti-)?affinity",
        "don't match the pod affinity",
        "Another pod of this kind is there already.",
    ),
    (r"didn't match pod topology spread", "don't match the topology spread", "Spread constraints leave no node."),
    (r"Too many pods", "have the most pods they may run", "Raise maxPods, or free pods."),
)


def read_scheduler(message: str) -> tuple[str, str]:
    """The scheduler's message in words, `3 nodes: 2 lack nvidia.com/gpu, 1 have the taint x`, and a hint."""
    head = re.match(r"0/(\d+) nodes are available: (.*)", message.strip(), re.DOTALL)
    if not head:
        return mask(message), ""
    text = re.split(r"\.? +(?:preemption:|no new claims to deallocate|not found$)", head.group(2))[0].rstrip(". ")
    parts = []
    for part in re.split(r", (?=\d+ )", text):
        number = re.match(r"(\d+) (.*)", part, re.DOTALL)
        count, words = (int(number.group(1)), number.group(2)) if number else (0, part)
        hint = ""
        for pattern, meaning, advice in REQUIREMENTS:
            match = re.search(pattern, words)
            if match:
                words, hint = match.expand(meaning), advice
                break
        parts.append((count, words, hint))
    parts.sort(key=lambda p: -p[0])
    listed = ", ".join(f"{count} {words}" if count else words for count, words, _hint in parts)
    return mask(f"{head.group(1)} nodes: {listed}"), next((h for _c, _w, h in parts if h), "")


def unscheduled(pod: Object, snapshot: Snapshot, title: str, where: str) -> list[Finding]:
    scheduled = _dgd.condition(pod, "PodScheduled")
    message = str(scheduled.get("message") or "")
    key = f"schedule {where}"
    # A pod without its claim never gets the condition: the event is all there is (facts: kind-lab §7).
    claim = pod_events(pod, snapshot, "FailedResourceClaimCreation")
    if claim and (not message or "resourceclaim" in message.lower()):
        hint = (
            "The ComputeDomain makes this template: is it in this namespace, and does the DRA driver's controller run?"
        )
        return [Finding("CLAIM_TEMPLATE_MISSING", title, mask(claim[-1]), hint, "scheduling", key)]
    if not message:
        # With WaitForFirstConsumer the scheduler waits for the volume, and says nothing meanwhile.
        return _claim_events(pod, snapshot, key)
    if scheduled.get("reason") == "SchedulingGated":
        hint = "A queue or another controller holds the pod back until it opens the gate."
        return [Finding("SCHEDULING_GATED", title, mask(message), hint, "", key)]
    absent = re.search(r'persistentvolumeclaim "([^"]+)" (not found|is being deleted)', message)
    if absent:
        hint = "Create the claim (dynamo_cache_claim_create, prepare.yml), or check dynamo_cache_claim."
        return [Finding("CLAIM_MISSING", title, f"claim {absent.group(1)} {absent.group(2)}", hint, "config", key)]
    if re.search(r"ReadWriteOncePod access mode", message):
        hint = "The claim is for one pod only: the model cache needs ReadWriteMany (or ReadOnlyMany)."
        return [Finding("CLAIM_ACCESS_MODE", title, read_scheduler(message)[0], hint, "slow", key)]
    if re.search(UNBOUND, message):
        return _claim_pending(pod, snapshot, title, key, message)
    evidence, hint = read_scheduler(message)
    scaling = events_of(pod, snapshot, "TriggeredScaleUp", "Nominated", "NotTriggerScaleUp", "FailedScaleUp")
    if scaling and scaling[-1]["reason"] in ("TriggeredScaleUp", "Nominated"):
        return [Finding("UNSCHEDULABLE", title, f"{evidence}; new nodes are on their way", "", "", key)]
    if "terminating pod on the nominated node" in message:
        return [Finding("UNSCHEDULABLE", title, f"{evidence}; others are making room", hint, "slow", key)]
    if any(_dgd.leaving(p) for p in snapshot.view.pods):
        return [Finding("UNSCHEDULABLE", title, f"{evidence}; old pods are still ending", hint, "", key)]
    taints = untolerated(pod, snapshot.nodes)
    if taints:
        evidence += "; " + ", ".join(f"{taint} on {', '.join(nodes)}" for taint, nodes in taints.items())
    if PASSING_TAINTS.search(message) or any(map(PASSING_TAINTS.match, taints)):
        if not snapshot.nodes or any(_comes_back_for(pod, node) for node in snapshot.nodes):
            return [Finding("NODE_NOT_READY", title, mask(evidence), "Look at the nodes that are not ready.", "", key)]
        return [Finding("UNSCHEDULABLE", title, mask(evidence), hint, "slow", key)]
    if "Insufficient" in message and _replacing(pod, snapshot):
        hint = (
            "The new worker waits for what the old one holds, and would wait for ever. Free GPUs, or deploy with"
            " dynamo_surge_room: false, which ends the old worker first."
        )
        return [Finding("ROLLOUT_STUCK", title, evidence, hint, "scheduling", f"rollout {where}")]
    preempted = _preempted(pod, snapshot)
    if preempted:
        hint = "Something with a higher priority took the place: give the pod a priority_class, or add nodes."
        return [Finding("EVICTED", title, mask(f"{preempted}; {evidence}"), hint, "scheduling", key)]
    # Which taint it is decides whether it passes; without the nodes, or when the scheduler itself failed, nobody knows.
    unsure = scheduled.get("reason") == "SchedulerError" or ("taint" in message and "{" not in message and not taints)
    budget = "slow" if unsure or re.search(PASSING_CLAIMS, message) else "scheduling"
    return [Finding("UNSCHEDULABLE", title, mask(evidence), hint, budget, key)]


# What the control plane puts on nodes that don't work, and takes away again.
PASSING_TAINTS = re.compile(
    r"(.*\{)?node\.(kubernetes\.io/(not-ready|unreachable|network-unavailable|[a-z]+-pressure)|cloudprovider)"
)
PASSING_CLAIMS = r"not created yet|in the process of being allocated|is being deleted|deallocation of"
# A scheduler that missed the binding looks again after five minutes, and it checks every 30 s (Kubernetes 1.34).
LOOKS_AGAIN = 90
UNBOUND = (
    r"unbound immediate PersistentVolumeClaims|persistent volumes to bind|no class for claim"
    r"|failed to find storage class|non-existent (pv|persistentvolume)"
)


def tainted(pod: Object) -> bool:
    """Does the scheduler speak of taints? Since Kubernetes 1.34 it doesn't say which: only the nodes do."""
    return "taint" in str(_dgd.condition(pod, "PodScheduled").get("message") or "")


def claims_in_doubt(pods: list[Object], read: Callable[[str], Object | None]) -> list[Object]:
    """The claims of pods of which the scheduler says that they have no volume. read: one by its name."""
    waiting = [p for p in pods if re.search(UNBOUND, str(_dgd.condition(p, "PodScheduled").get("message") or ""))]
    found = []
    for name in sorted({name for pod in waiting for name in mounted_claims(pod.get("spec"))}):
        try:
            found.append(read(name))
        except DynamoError as error:
            if error.code != "FORBIDDEN":
                raise
    return [claim for claim in found if claim]


def untolerated(pod: Object, nodes: list[Object]) -> dict[str, list[str]]:
    """Taints (key=value:effect) that keep this pod away, with the names of their nodes."""
    found: dict[str, list[str]] = {}
    tolerations = (pod.get("spec") or {}).get("tolerations") or []
    for node in nodes:
        for taint in (node.get("spec") or {}).get("taints") or []:
            if taint["effect"] != "PreferNoSchedule" and not tolerated(taint, tolerations):
                value = f"={taint['value']}" if taint.get("value") else ""
                found.setdefault(f"{taint['key']}{value}:{taint['effect']}", []).append(node["metadata"]["name"])
    return found


def _comes_back_for(pod: Object, node: Object) -> bool:
    """Does only a taint that passes keep this pod from the node?"""
    taints = (node.get("spec") or {}).get("taints") or []
    passing = [taint for taint in taints if PASSING_TAINTS.match(taint["key"])]
    rest = {**node, "spec": {**(node.get("spec") or {}), "taints": [t for t in taints if t not in passing]}}
    return bool(passing) and not obstacle(rest, pod.get("spec") or {})


def _replacing(pod: Object, snapshot: Snapshot) -> bool:
    """Does this pod wait for one of its own component that is to go only when it is ready?"""
    view = snapshot.view
    if _dgd.rolling(view.dgd) and _dgd.alive(_dgd.old_workers(view)):
        return True
    restart = ((view.dgd.get("status") or {}).get("restart") or {}).get("phase")
    mine, template = label(pod, _dgd.COMPONENT), label(pod, "pod-template-hash")
    older = [p for p in _dgd.alive(view.pods) if label(p, _dgd.COMPONENT) == mine]
    return restart in _dgd.RESTARTING and any(label(p, "pod-template-hash") != template for p in older)


def _preempted(pod: Object, snapshot: Snapshot) -> str:
    """The last event by which a pod of the same ReplicaSet lost its place; empty when there is none."""
    name, family = pod["metadata"]["name"], pod["metadata"]["name"].rpartition("-")[0]
    for event in sorted(snapshot.events, key=event_time, reverse=True):
        victim = str((event.get("involvedObject") or {}).get("name") or "")
        mine = bool(family) and victim != name and victim.rpartition("-")[0] == family
        if event.get("reason") in ("Preempted", "Preempting") and mine:
            return f"{victim}: {event.get('message')}"
    return ""


NO_VOLUME = "The claim has no volume: check dynamo_storage_class, its provisioner, or the volume that should be bound."


def mounted_claims(spec: Object | None) -> list[str]:
    """The claims that a pod of this spec mounts, by name."""
    claims = [volume.get("persistentVolumeClaim") or {} for volume in (spec or {}).get("volumes") or []]
    return [str(claim["claimName"]) for claim in claims if claim.get("claimName")]


def _claim_events(pod: Object, snapshot: Snapshot, key: str) -> list[Finding]:
    """What the last event about one of the pod's claims says against it; nothing without one."""
    names = mounted_claims(pod.get("spec"))
    events = [
        e
        for e in sorted(snapshot.events, key=event_time)
        if (e.get("involvedObject") or {}).get("kind") == "PersistentVolumeClaim"
        and (e.get("involvedObject") or {}).get("name") in names
        and e.get("reason") in ("ProvisioningFailed", "FailedBinding")
    ]
    if not events:
        return []
    claim, text = f"PersistentVolumeClaim/{events[-1]['involvedObject']['name']}", str(events[-1].get("message"))
    if re.search(r"access ?mode|Read(Write|Only)(Many|Once)", text, re.IGNORECASE):
        hint = "The storage class can't give this access mode: set dynamo_storage_class to one with ReadWriteMany."
        return [Finding("CLAIM_ACCESS_MODE", claim, mask(text), hint, "scheduling", key)]
    return [Finding("CLAIM_PENDING", claim, mask(text), NO_VOLUME, "scheduling", key)]


def _claim_pending(pod: Object, snapshot: Snapshot, title: str, key: str, message: str) -> list[Finding]:
    names = mounted_claims(pod.get("spec"))
    mine = [claim for claim in snapshot.claims if claim["metadata"]["name"] in names]
    if mine and all((claim.get("status") or {}).get("phase") == "Bound" for claim in mine):
        evidence = f"the scheduler looks again after 5 min at most: claim {mine[0]['metadata']['name']} is bound by now"
        hint = "Nothing is wrong with the claim. If it stays so, look at the scheduler's log and at the pod's events."
        return [Finding("UNSCHEDULABLE", title, evidence, hint, "slow", key, extra=LOOKS_AGAIN)]
    told = _claim_events(pod, snapshot, key)
    return told or [Finding("CLAIM_PENDING", title, read_scheduler(message)[0], NO_VOLUME, "slow", key)]
