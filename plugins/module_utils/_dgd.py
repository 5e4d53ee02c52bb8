# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: a DynamoGraphDeployment with its pods -> verdict. Pure.

Facts are observed with the operator of chart 1.5.0: the condition Ready alone may describe the generation before, may
come before the old pods are gone, and never says why it is False. `state: failed` can last 0.2 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Object = dict[str, Any]

PROVIDER = "nvidia.com/workload-provider"
CURRENT_HASH = "nvidia.com/current-worker-hash-v2"
HASH = "nvidia.com/dynamo-worker-hash"
COMPONENT = "nvidia.com/dynamo-component"
GRAPH = "nvidia.com/dynamo-graph-deployment-name"
WORKERS = ("worker", "prefill", "decode")
ROLLING = ("Pending", "InProgress")
RESTARTING = ("Pending", "Restarting")


class Verdict(NamedTuple):
    """state: READY, STARTING, DEGRADED, TERMINAL or TIMED_OUT. evidence: what is still missing, or what went wrong."""

    state: str
    cause: str = ""
    object: str = ""
    evidence: str = ""
    hint: str = ""
    phase: str = ""


class View(NamedTuple):
    """One observation of a release. Lists hold the objects that carry the DGD's label."""

    dgd: Object
    dcds: list[Object] = []
    pods: list[Object] = []


class Component(NamedTuple):
    """A component of the DGD as it is now: wanted replicas and the counts that the operator reports."""

    name: str
    type: str
    desired: int
    replicas: int
    updated: int
    ready: int
    available: int


def pathway(dgd: Object) -> str:
    """component or grove: what the operator chose at create."""
    provider = (dgd["metadata"].get("annotations") or {}).get(PROVIDER, "component")
    return provider if provider in PREDICATES else "component"


def components(dgd: Object) -> list[Component]:
    """The components in the order of the manifest; counts are 0 where the operator has not reported yet."""
    reported = (dgd.get("status") or {}).get("components") or {}
    found = []
    for item in dgd["spec"].get("components") or []:
        status = reported.get(item["name"]) or {}
        instead = _UNTOLD.get(str(status.get("componentKind")), {})
        counts = [int(status.get(instead.get(key, key)) or 0) for key in _COUNTS]
        desired = item.get("replicas")
        found.append(Component(item["name"], item.get("type") or "", 1 if desired is None else int(desired), *counts))
    return found


_COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
# What the operator can't tell of workers over several nodes (the CRD's text), and the count that stands for it.
_UNTOLD = {
    "LeaderWorkerSet": {"availableReplicas": "readyReplicas"},
    "PodClique": {"availableReplicas": "readyReplicas"},
    "PodCliqueScalingGroup": {"readyReplicas": "availableReplicas"},
}


def label(obj: Object, name: str) -> str:
    """The value of a label, or an empty string."""
    return str((obj["metadata"].get("labels") or {}).get(name) or "")


def leaving(obj: Object) -> bool:
    """Is the object being deleted?"""
    return bool(obj["metadata"].get("deletionTimestamp"))


def alive(pods: Iterable[Object]) -> list[Object]:
    """Pods that run or will run: neither being deleted nor ended (an evicted pod stays as Failed)."""
    return [p for p in pods if not leaving(p) and (p.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]


def ready(pod: Object) -> bool:
    """The pod's condition Ready."""
    return condition(pod, "Ready").get("status") == "True"


def condition(obj: Object, kind: str) -> Object:
    """The condition of that type, or an empty dictionary."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c.get("type") == kind), {})


def settled(dgd: Object) -> bool:
    """Has the operator seen this generation? Until then its status, and all pods, may belong to the one before."""
    observed = (dgd.get("status") or {}).get("observedGeneration") or 0
    return bool(observed >= (dgd["metadata"].get("generation") or 1))


def rolling(dgd: Object) -> bool:
    """Is a managed rolling update of the workers going on?"""
    return ((dgd.get("status") or {}).get("rollingUpdate") or {}).get("phase") in ROLLING


def current_hash(dgd: Object) -> str:
    """The worker generation that the DGD has completed."""
    return str((dgd["metadata"].get("annotations") or {}).get(CURRENT_HASH) or "")


def wanted_hash(view: View) -> str:
    """The worker generation that should end up running: in a rollout that of the newest DCD, else the current one."""
    current = current_hash(view.dgd)
    if not rolling(view.dgd):
        return current
    newer = [d for d in view.dcds if label(d, HASH) not in ("", current) and not leaving(d)]
    newer.sort(key=lambda d: str(d["metadata"].get("creationTimestamp") or ""))
    return label(newer[-1], HASH) if newer else current


def old_workers(view: View) -> list[Object]:
    """Worker pods, ending ones included, of another generation, or older than the DGD itself.

    The same spec gives the same hash again, so after delete and create only the age tells the pods apart.
    """
    wanted = wanted_hash(view)
    born = str(view.dgd["metadata"].get("creationTimestamp") or "")
    return [
        p
        for p in view.pods
        if label(p, HASH)
        and (leaving(p) or p in alive([p]))
        and (label(p, HASH) != wanted or (leaving(p) and str(p["metadata"].get("creationTimestamp") or born) < born))
    ]


def current_pods(view: View) -> list[Object]:
    """The pods that should end up running, as far as they exist: alive, and no old workers."""
    old = {p["metadata"].get("uid") for p in old_workers(view)}
    return [p for p in alive(view.pods) if p["metadata"].get("uid") not in old]


def unmade(view: View) -> list[Component]:
    """The components of which pods are still to be made. Pods that an update replaces don't count."""
    made = Counter(label(pod, COMPONENT) for pod in current_pods(view))
    return [c for c in components(view.dgd) if made[c.name] < c.desired or c.updated < c.desired]


def orphans(view: View) -> list[Object]:
    """Worker DCDs of a generation that the DGD has forgotten: they keep their GPUs, and no status field shows them.

    Happens when an update drops the annotation with the hash (facts: dynamo-operator-observed §6.3).
    """
    if rolling(view.dgd) or not current_hash(view.dgd):
        return []
    return [d for d in view.dcds if label(d, HASH) not in ("", current_hash(view.dgd)) and not leaving(d)]


def _observed(view: View) -> str:
    return "" if settled(view.dgd) else "the operator has not processed this generation yet"


def _ready_condition(view: View) -> str:
    found = condition(view.dgd, "Ready")
    if not found:
        return "the operator has not reported Ready yet"
    observed = found.get("observedGeneration", (view.dgd["status"]).get("observedGeneration"))
    if (observed or 0) < (view.dgd["metadata"].get("generation") or 1):
        return "Ready still describes the generation before"
    if found.get("status") == "True":
        return ""
    return f"{found.get('reason') or 'not Ready'}: {found.get('message') or ''}"


def _rollout(view: View) -> str:
    status = view.dgd.get("status") or {}
    if rolling(view.dgd):
        return f"a rolling update is {status['rollingUpdate']['phase']}"
    restart = status.get("restart") or {}
    return f"a restart is {restart['phase']}" if restart.get("phase") in RESTARTING else ""


def _counts(view: View) -> str:
    short = []
    for c in components(view.dgd):
        if not c.replicas == c.updated == c.ready == c.available == c.desired:
            short.append(
                f"{c.name} wants {c.desired}, has {c.replicas}"
                f" ({c.updated} updated, {c.ready} ready, {c.available} available)"
            )
    return "; ".join(short)


def _grove_counts(view: View) -> str:
    short = [c for c in components(view.dgd) if not c.updated == c.ready == c.desired]
    return "; ".join(f"{c.name} wants {c.desired}, has {c.ready} ready, {c.updated} updated" for c in short)


def _generations(view: View) -> str:
    if not any(c.type in WORKERS and c.desired for c in components(view.dgd)) and not old_workers(view):
        return ""
    if not current_hash(view.dgd):
        return f"the annotation {CURRENT_HASH} is not there"
    old = old_workers(view)
    return f"old worker pods are not gone: {', '.join(p['metadata']['name'] for p in old)}" if old else ""


def _orphans(view: View) -> str:
    left = orphans(view)
    return f"workers of a forgotten generation run: {', '.join(d['metadata']['name'] for d in left)}" if left else ""


def _nothing_terminating(view: View) -> str:
    born = str(view.dgd["metadata"].get("creationTimestamp") or "")
    old = [p for p in view.pods if leaving(p) and str(p["metadata"].get("creationTimestamp") or born) < born]
    return f"old pods are not gone: {', '.join(p['metadata']['name'] for p in old)}" if old else ""


Predicate = Callable[[View], str]
# What must hold, in the order in which it is reported; each says what is missing, or nothing. The component pathway is
# observed, Grove's table is from the CRD's fields only and not verified: no worker hash, no rollingUpdate there.
PREDICATES: dict[str, tuple[Predicate, ...]] = {
    "component": (_observed, _rollout, _ready_condition, _counts, _generations, _orphans),
    "grove": (_observed, _rollout, _ready_condition, _grove_counts, _nothing_terminating),
}

PHASES = ("scheduling", "pulling", "container creating", "loading", "registering")


def pod_phase(pod: Object, pulling: bool = False) -> str:
    """How far a pod is: one of PHASES, or an empty string when it is ready."""
    if ready(pod):
        return ""
    if condition(pod, "PodScheduled").get("status") != "True":
        return "scheduling"
    status = pod.get("status") or {}
    containers = status.get("containerStatuses") or []
    running = [c for c in containers if "running" in (c.get("state") or {})]
    ended = [c for c in containers if c.get("restartCount") or "terminated" in (c.get("state") or {})]
    if len(running) == len(containers) and containers:
        return "registering" if all(c.get("started") for c in containers) else "loading"
    return "loading" if ended else "pulling" if pulling else "container creating"


def phase(view: View, pulling: frozenset[str] = frozenset()) -> str:
    """The phase of the pod that is furthest behind. pulling: uids of the pods whose image is being pulled."""
    current = current_pods(view)
    phases = {pod_phase(p, p["metadata"].get("uid") in pulling) for p in current} - {""}
    wanted = sum(c.desired for c in components(view.dgd))
    if len(current) < wanted:
        return "scheduling" if not current or not phases else min(phases, key=PHASES.index)
    return min(phases, key=PHASES.index) if phases else "registering"


def counts_text(dgd: Object) -> str:
    """`Frontend 1/1, Worker 1/3 ready`; the counts may still be those of the generation before."""
    return ", ".join(f"{c.name} {min(c.ready, c.desired)}/{c.desired}" for c in components(dgd)) + " ready"


def judge(view: View, pulling: frozenset[str] = frozenset()) -> Verdict:
    """READY, STARTING or DEGRADED (every component serves, replicas are missing). `_diagnose` says TERMINAL."""
    missing = [text for text in (predicate(view) for predicate in PREDICATES[pathway(view.dgd)]) if text]
    name = f"DynamoGraphDeployment/{view.dgd['metadata']['name']}"
    if not missing:
        return Verdict("READY", "", name, counts_text(view.dgd))
    some = [c for c in components(view.dgd) if c.desired]
    serving = settled(view.dgd) and not rolling(view.dgd) and all(c.ready for c in some)
    short = any(c.ready < c.desired for c in some)
    return Verdict("DEGRADED" if serving and short else "STARTING", "", name, missing[0], "", phase(view, pulling))
