# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: pods, events and owners of a release that is not ready -> causes with evidence. Pure.

`diagnose` says what is wrong in one observation; `Patience` remembers how long, and decides when it is final. What may
pass by itself has the budget "" and never ends a wait; it only explains one that ran out of time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ansible_collections.inferops.dynamo.plugins.module_utils import _dgd
from ansible_collections.inferops.dynamo.plugins.module_utils._causes import (
    Finding,
    Snapshot,
    event_time,
    mask,
    pod_events,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._dgd import Object, label
from ansible_collections.inferops.dynamo.plugins.module_utils._podcauses import pod_causes, runs

# Defaults of the budgets, in seconds; `restarts` is a number of restarts of one container.
BUDGETS: dict[str, float] = {"config": 30, "scheduling": 60, "operator": 120, "slow": 300, "restarts": 5}
# Seconds after which something that may pass is worth a line of progress.
LASTING = 5
# Seconds after which a ReplicaSet has tried again to make a refused pod: its queue's longest back-off is 1000 s.
MADE_AGAIN = 1030


def _newest(pods: list[Object], replicasets: list[Object]) -> list[Object]:
    """Without the pods of older ReplicaSets: an update is replacing those, whatever is wrong with them.

    A drained node lets an old one make its pod anew, so the Deployment's revision counts for more than the age.
    """
    revisions = {
        (label(r, _dgd.COMPONENT), label(r, "pod-template-hash")): int(
            (r["metadata"].get("annotations") or {}).get("deployment.kubernetes.io/revision") or 0
        )
        for r in replicasets
    }
    newest: dict[str, tuple[int, str, str]] = {}
    for pod in pods:
        owner, template = label(pod, _dgd.COMPONENT), label(pod, "pod-template-hash")
        age = (revisions.get((owner, template), 0), str(pod["metadata"].get("creationTimestamp") or ""), template)
        newest[owner] = max(newest.get(owner, age), age)
    return [p for p in pods if label(p, "pod-template-hash") == newest[label(p, _dgd.COMPONENT)][2]]


def diagnose(snapshot: Snapshot) -> list[Finding]:
    """The causes in this observation, the ones that explain others first. Empty while everything is only slow."""
    found = _operator(snapshot)
    if not _dgd.settled(snapshot.view.dgd):
        return found
    for pod in _newest(_dgd.current_pods(snapshot.view), snapshot.replicasets):
        if not _dgd.ready(pod):
            found += pod_causes(pod, snapshot)
    missing = _missing(snapshot)
    found += _ended(snapshot) + (missing or _unnoticed(snapshot.view)) + stuck(snapshot)
    # An ending pod explains nothing before its grace period is over.
    return sorted(found, key=lambda f: (f.extra > 0, _ORDER.index(f.budget)))


def _clock(finding: Finding) -> tuple[str, bool]:
    """What its time is counted by: time that passes by itself isn't charged to the cause that shows after it."""
    return finding.key, finding.budget == ""


_ORDER = ("now", "config", "restarts", "scheduling", "operator", "slow", "")


class Patience:
    """Decides over the observations of one wait which cause is final. budgets: as BUDGETS."""

    def __init__(self, budgets: Mapping[str, float] | None = None) -> None:
        self.budgets = {**BUDGETS, **{k: v for k, v in (budgets or {}).items() if v is not None}}
        self._since: dict[tuple[str, bool], float] = {}

    def judge(self, now: float, findings: list[Finding]) -> Finding | None:
        """The first finding whose budget is used up at `now` (seconds). A cause that was away starts anew."""
        self._since = {_clock(f): self._since.get(_clock(f), now) for f in findings}
        return next((f for f in findings if self._final(f, now - self._since[_clock(f)])), None)

    def away(self, seconds: float) -> None:
        """So long nobody could look, nor could anybody act: that time is not counted."""
        self._since = {key: since + seconds for key, since in self._since.items()}

    def lasting(self, now: float, findings: list[Finding]) -> list[Finding]:
        """Those worth a line of progress: what needs someone to act at once, the rest after LASTING seconds."""
        urgent = ("now", "config", "restarts")
        return [f for f in findings if f.budget in urgent or now - self._since[_clock(f)] >= LASTING + 10 * f.extra]

    def due(self, now: float, findings: list[Finding]) -> float:
        """Seconds until the first of these findings, just judged, is final by its time; infinite without one."""
        timed = [f for f in findings if f.budget not in ("", "now", "restarts")]
        return min((self.budgets[f.budget] + f.extra - (now - self._since[_clock(f)]) for f in timed), default=math.inf)

    def _final(self, finding: Finding, seen: float) -> bool:
        if finding.budget in ("", "now"):
            return finding.budget == "now"
        if finding.budget == "restarts":
            # Not at first sight: the pod may be one that an update is about to replace.
            limit = min(self.budgets["restarts"], finding.limit or self.budgets["restarts"])
            return finding.seen >= limit and seen >= min(self.budgets["config"], 5)
        return seen >= self.budgets[finding.budget] + finding.extra


# --- the operator and its objects


def _operator(snapshot: Snapshot) -> list[Finding]:
    view = snapshot.view
    dgd = view.dgd
    name = f"DynamoGraphDeployment/{dgd['metadata']['name']}"
    status = dgd.get("status") or {}
    # A failed reconciliation leaves observedGeneration as it was.
    if status.get("state") == "failed":
        evidence = mask(str(_dgd.condition(dgd, "Ready").get("message") or "state failed"))
        hint = "The operator cannot create what the deployment needs: its log says more."
        return [Finding("RECONCILE_FAILED", name, evidence, hint, "operator", "operator")]
    if not _dgd.settled(dgd):
        observed = status.get("observedGeneration") or "none"
        evidence = f"generation {dgd['metadata'].get('generation')}, observed {observed}"
        hint = "The Dynamo operator does not work on this object: look at its Deployment and log."
        return [Finding("OPERATOR_SILENT", name, evidence, hint, "operator", "operator")]
    found = _halfway(view)
    for dcd in _dgd.orphans(view):
        evidence = f"generation {label(dcd, _dgd.HASH)}, the deployment's is {_dgd.current_hash(dgd)}"
        hint = "An update dropped the annotation with the worker hash. Delete this object: its workers only hold GPUs."
        title = f"DynamoComponentDeployment/{dcd['metadata']['name']}"
        found.append(Finding("ORPHANED_WORKERS", title, evidence, hint, "scheduling", f"orphan {title}"))
    return found


AWAY = "The Dynamo operator stopped in the middle: look at its Deployment and log."


def _halfway(view: _dgd.View) -> list[Finding]:
    """An operator that went away in the middle: it has not processed what it made."""
    for dcd in view.dcds:
        generation = dcd["metadata"].get("generation") or 0
        status = dcd.get("status") or {}
        observed = status.get("observedGeneration", generation if status else 0)  # not every version may have it
        if observed < generation and not _dgd.leaving(dcd) and not _refusal(dcd)[1]:
            title = f"DynamoComponentDeployment/{dcd['metadata']['name']}"
            evidence = f"generation {generation}, observed {observed or 'none'}"
            return [Finding("OPERATOR_SILENT", title, evidence, AWAY, "operator", "operator")]
    return []


def _unnoticed(view: _dgd.View) -> list[Finding]:
    """An operator that went away in the middle: nothing is wrong with any pod, and it doesn't go on."""
    pods, wanted = _dgd.alive(view.pods), sum(c.desired for c in _dgd.components(view.dgd))
    done = len(pods) == len(view.pods) == wanted and all(map(_dgd.ready, pods))
    if done and wanted and not _dgd.orphans(view) and _dgd.pathway(view.dgd) == "component":
        name = f"DynamoGraphDeployment/{view.dgd['metadata']['name']}"
        evidence = f"all {wanted} pods are ready, and its status doesn't say so"
        if _dgd.old_workers(view):
            evidence = f"all {wanted} pods are ready, of the generation before, and no new one is made"
        return [Finding("OPERATOR_SILENT", name, evidence, AWAY, "slow", "operator")]
    return []


TRANSIENT_CONFLICT = "the object has been modified"
# A webhook that is away comes back, a new quota is counted, an account is made: the controllers try again.
PASSING_REFUSAL = (
    "failed calling webhook",
    "failed to call webhook",
    "deadline exceeded",
    "etcdserver:",
    "status unknown for quota",
    "error looking up service account",
)
REFUSALS = (
    (
        "QUOTA_EXCEEDED",
        "exceeded quota",
        "A ResourceQuota of the namespace is used up: raise it, or free what it counts.",
    ),
    (
        "POD_SECURITY",
        "violates PodSecurity",
        "The namespace's Pod Security level forbids this pod: change its label, or the pod.",
    ),
    ("ADMISSION_REFUSED", "denied the request", "A policy of the cluster refuses this pod."),
    ("ADMISSION_REFUSED", "forbidden", "A policy of the cluster refuses this pod."),
)


def _missing(snapshot: Snapshot) -> list[Finding]:
    """Components with fewer pods than wanted: why nobody creates them."""
    view = snapshot.view
    graph, wanted = view.dgd["metadata"]["name"], _dgd.wanted_hash(view)
    found = []
    for component in _dgd.unmade(view):
        # An update without surge makes the new pod when the old one is gone.
        pods = [
            p for p in view.pods if label(p, _dgd.COMPONENT) == component.name and (_dgd.leaving(p) or _dgd.alive([p]))
        ]
        key = f"pods {component.name}"
        longest = f"{graph}-{component.name.lower()}" + ("-" + "0" * 8 if component.type in _dgd.WORKERS else "")
        if not pods and len(longest) > 63 and _dgd.pathway(view.dgd) == "component":
            text = f"{component.name}: the names of its objects have {len(longest)} characters, 63 are allowed"
            hint = f"Shorten the name of the deployment by {len(longest) - 63} characters."
            found.append(Finding("NAME_TOO_LONG", f"DynamoGraphDeployment/{graph}", text, hint, "now", key))
            continue
        owners = [*snapshot.replicasets, *snapshot.deployments, *view.dcds]
        mine = [o for o in owners if label(o, _dgd.COMPONENT) == component.name and not _dgd.leaving(o)]
        # What the generation before was refused says nothing about this one.
        mine = [o for o in mine if not wanted or label(o, _dgd.HASH) in ("", wanted)]
        refused = next((owner for owner in mine if _refusal(owner)[1]), None)
        if refused:
            title, text = _refusal(refused)
            code, hint, budget = read_refusal(text)
            if code == "QUOTA_EXCEEDED" and any(map(_dgd.leaving, view.pods)):
                budget = ""  # ending pods still hold the quota
            # It may be mended, and the ReplicaSet has not tried again: that makes an event.
            told = snapshot.known.get(str(refused["metadata"].get("uid")))
            extra = MADE_AGAIN if told and _newest_refusal(snapshot) <= told[0] else 0
            found.append(Finding(code, title, mask(text), hint, budget, key, extra=extra))
        elif not pods:
            text = f"{component.name}: no pod exists, {component.desired} wanted, and no condition says why"
            hint = "Look at the operator's log and at the Deployments of the namespace."
            found.append(Finding("NO_PODS", f"DynamoGraphDeployment/{graph}", text, hint, "operator", key))
    return found


def _newest_refusal(snapshot: Snapshot) -> str:
    return max((event_time(e) for e in snapshot.events if e.get("reason") == "FailedCreate"), default="")


def at_first(snapshot: Snapshot) -> dict[str, tuple[str, int]]:
    """What the first look of a wait finds: `runs` and `refused_so_far`."""
    return {**runs(snapshot.view.pods), **refused_so_far(snapshot)}


def refused_so_far(snapshot: Snapshot) -> dict[str, tuple[str, int]]:
    """Who should make pods, by uid, with the time of the last refusal."""
    owners = [*snapshot.replicasets, *snapshot.deployments, *snapshot.view.dcds]
    return {str(owner["metadata"].get("uid")): (_newest_refusal(snapshot), 0) for owner in owners}


def read_refusal(text: str) -> tuple[str, str, str]:
    """Code, hint and budget of what the API server said to a controller that wanted to make a pod."""
    code, hint = next(((c, h) for c, words, h in REFUSALS if words in text), ("NO_PODS", "The message says why."))
    passing = code == "NO_PODS" or any(words in text for words in PASSING_REFUSAL)
    return code, hint, "slow" if passing else "config"


def _refusal(owner: Object) -> tuple[str, str]:
    """The owner and the message of the condition that says why it made no pod; an empty message without one."""
    kind = owner.get("kind") or "DynamoComponentDeployment"
    failure = _dgd.condition(owner, "ReplicaFailure")
    text = failure.get("message") or "" if failure.get("status") == "True" else ""
    available = _dgd.condition(owner, "Available")
    if not text and available.get("reason") == "Reconciling" and available.get("status") == "False":
        text = available.get("message") or ""
    return f"{kind}/{owner['metadata']['name']}", "" if TRANSIENT_CONFLICT in text else text


def _ended(snapshot: Snapshot) -> list[Finding]:
    """Pods that the kubelet refused or evicted, many times over: the Deployment makes new ones each time."""
    ended: dict[tuple[str, str], list[Object]] = {}
    # Such pods stay for long: those of before, and of the generation before, say nothing about this one.
    before = {str(p["metadata"].get("uid")) for p in _dgd.old_workers(snapshot.view)} | snapshot.known.keys()
    for pod in snapshot.view.pods:
        if str(pod["metadata"].get("uid")) in before:
            continue
        reason = (pod.get("status") or {}).get("reason")
        if (pod.get("status") or {}).get("phase") == "Failed" and reason and not _dgd.leaving(pod):
            ended.setdefault((label(pod, _dgd.COMPONENT), reason), []).append(pod)
    found = []
    for (component, reason), pods in ended.items():
        if sum(_dgd.ready(p) for p in snapshot.view.pods if label(p, _dgd.COMPONENT) == component):
            continue
        last = max(pods, key=lambda p: str(p["metadata"].get("creationTimestamp") or ""))
        text = mask(f"{reason}: {last['status'].get('message') or ''} ({len(pods)} pods)")
        hint = "The node has no room left for this pod (memory, disk, devices): its conditions say what is short."
        code = "EVICTED" if reason in ("Evicted", "Preempting", "Terminated") else "POD_REFUSED"
        key = f"ended {component} {reason}"
        found.append(Finding(code, f"Pod/{last['metadata']['name']}", text, hint, "restarts", key, len(pods)))
    return found


def stuck(snapshot: Snapshot) -> list[Finding]:
    """Pods that should have ended: usually on a node that doesn't answer any more."""
    found = []
    for pod in snapshot.view.pods:
        if _dgd.leaving(pod):
            node = (pod.get("spec") or {}).get("nodeName") or "no node"
            hint = (
                "Is its node up? A pod on a dead node goes when the node is back or deleted, or by a forced deletion."
            )
            grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 30)
            name = pod["metadata"]["name"]
            dead = pod_events(pod, snapshot, "NodeNotReady", "TaintManagerEviction")
            text = f"is being deleted on {node}" + (", which is not ready" if dead else "")
            key = f"stuck {pod['metadata'].get('uid')}"
            found.append(Finding("OLD_POD_STUCK", f"Pod/{name}", text, hint, "slow", key, extra=grace))
    return found


def pulling(snapshot: Snapshot) -> frozenset[str]:
    """uids of the pods whose last event about an image is that it is being pulled."""
    last: dict[str, str] = {}
    for event in sorted(snapshot.events, key=event_time):
        if event.get("reason") in ("Pulling", "Pulled"):
            last[(event.get("involvedObject") or {}).get("uid", "")] = event["reason"]
    return frozenset(uid for uid, reason in last.items() if reason == "Pulling")
