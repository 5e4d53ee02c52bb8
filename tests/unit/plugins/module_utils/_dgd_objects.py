# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builders of the objects that the real operator makes for one release, as observed."""

from __future__ import annotations

from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._causes import Snapshot
from ansible_collections.inferops.dynamo.plugins.module_utils._dgd import View

Object = dict[str, Any]
OLD, NEW = "b608f8b1", "0c1d2e3f"
NAME = "lab-agg"
BORN = "2026-11-30T10:00:00Z"


def counts(replicas: int, updated: int, ready: int, available: int | None = None) -> dict[str, int]:
    available = ready if available is None else available
    return {
        "replicas": replicas,
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "availableReplicas": available,
    }


def dgd(
    *,
    generation: int = 1,
    observed: int | None = 1,
    ready: str | None = "True",
    reason: str = "all_resources_are_ready",
    message: str = "All resources are ready",
    state: str = "successful",
    rollout: str | None = None,
    restart: str | None = None,
    worker: int = 1,
    workers: dict[str, int] | None = None,
    frontends: dict[str, int] | None = None,
    worker_hash: str | None = OLD,
    name: str = NAME,
    component: str = "Worker",
) -> Object:
    """A DGD with a Frontend and a Worker. `observed=None`: no status at all."""
    annotations = {"nvidia.com/workload-provider": "component"}
    if worker_hash:
        annotations["nvidia.com/current-worker-hash-v2"] = worker_hash
    status: Object = {}
    if observed is not None:
        condition = {
            "type": "Ready",
            "status": ready,
            "reason": reason,
            "message": message,
            "observedGeneration": observed,
        }
        status = {
            "observedGeneration": observed,
            "state": state,
            "conditions": [condition],
            "components": {
                "Frontend": frontends if frontends is not None else counts(1, 1, 1),
                component: workers if workers is not None else counts(worker, worker, worker),
            },
        }
        if rollout:
            status["rollingUpdate"] = {"phase": rollout}
        if restart:
            status["restart"] = {"phase": restart, "observedID": "r1"}
    return {
        "kind": "DynamoGraphDeployment",
        "metadata": {
            "name": name,
            "generation": generation,
            "resourceVersion": "1",
            "creationTimestamp": BORN,
            "annotations": annotations,
        },
        "spec": {
            "components": [
                {"name": "Frontend", "type": "frontend", "replicas": 1},
                {"name": component, "type": "worker", "replicas": worker},
            ]
        },
        "status": status,
    }


def not_ready(reason: str = "some_resources_are_not_ready", **values: Any) -> Object:
    message = values.pop("message", "Resources not ready: lab-agg-worker-b608f8b1: Component deployment not ready")
    return dgd(ready="False", reason=reason, message=message, state=values.pop("state", "pending"), **values)


def rolling(phase: str = "InProgress", **values: Any) -> Object:
    return not_ready("rolling_update_in_progress", rollout=phase, message="Rolling update in progress", **values)


def dcd(worker_hash: str, *, created: str = BORN, conditions: list[Object] | None = None, observed: int = 1) -> Object:
    return {
        "kind": "DynamoComponentDeployment",
        "metadata": {
            "name": f"{NAME}-worker-{worker_hash}",
            "generation": 1,
            "creationTimestamp": created,
            "labels": {"nvidia.com/dynamo-worker-hash": worker_hash, "nvidia.com/dynamo-component": "Worker"},
        },
        "status": {"observedGeneration": observed, "conditions": conditions or []},
    }


def pod(
    name: str = "worker-1",
    *,
    component: str = "Worker",
    worker_hash: str | None = OLD,
    ready: bool = False,
    scheduled: bool | str = True,
    leaving: bool = False,
    created: str = BORN,
    phase: str = "Running",
    container: Object | None = None,
    template: str = "t1",
    **status: Any,
) -> Object:
    """A pod. scheduled: True, False (no condition at all) or the scheduler's message. container: its status."""
    labels = {"nvidia.com/dynamo-component": component, "pod-template-hash": template}
    if worker_hash and component != "Frontend":
        labels["nvidia.com/dynamo-worker-hash"] = worker_hash
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    if scheduled is True:
        conditions.append({"type": "PodScheduled", "status": "True"})
    elif scheduled:
        conditions.append(
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": str(scheduled)}
        )
    metadata: Object = {"name": name, "uid": f"uid-{name}", "labels": labels, "creationTimestamp": created}
    if leaving:
        metadata.update(deletionTimestamp="2026-11-30T10:10:00Z", deletionGracePeriodSeconds=60)
    base = {"name": "main", "image": "registry/engine:1", "restartCount": 0, "ready": ready, "started": ready}
    running = {"state": {"running": {}} if scheduled is True else {"waiting": {"reason": "ContainerCreating"}}}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": "node-1"},
        "status": {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": [{**base, **running, **(container or {})}] if scheduled is True else [],
            **status,
        },
    }


def waiting(reason: str, message: str = "") -> Object:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def crashed(
    exit_code: int = 1,
    restarts: int = 1,
    reason: str = "Error",
    now: str = "running",
    lived: tuple[int, int] | None = None,
) -> Object:
    """Status of a container that ended before. now: running or CrashLoopBackOff. lived: seconds of start and end."""
    times = zip(("startedAt", "finishedAt"), lived or (), strict=False)
    ended = {"exitCode": exit_code, "reason": reason, **{key: f"2026-11-30T10:00:{at:02d}Z" for key, at in times}}
    state: Object = {"running": {}} if now == "running" else {"waiting": {"reason": now}}
    return {
        "restartCount": restarts,
        "state": state,
        "lastState": {"terminated": ended},
    }


def event(reason: str, message: str, *, about: str = "worker-1", at: int = 0, kind: str = "Pod") -> Object:
    return {
        "metadata": {"creationTimestamp": BORN},
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-11-30T10:00:{at:02d}Z",
        "involvedObject": {"kind": kind, "name": about, "uid": f"uid-{about}"},
    }


def node(name: str = "node-1", *taints: str) -> Object:
    """A node with taints as `key=value:effect` or `key:effect`."""
    found = []
    for taint in taints:
        key, _colon, effect = taint.rpartition(":")
        key, _equals, value = key.partition("=")
        found.append({"key": key, "effect": effect, **({"value": value} if value else {})})
    return {"metadata": {"name": name}, "spec": {"taints": found}}


# The scheduler of Kubernetes 1.34 doesn't say which taint it is.
TAINT = (
    "0/1 nodes are available: 1 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/1 nodes"
    " are available: 1 Preemption is not helpful for scheduling."
)
LATER = "2026-11-30T10:05:00Z"
FRONT = pod("front-1", component="Frontend", ready=True)
CREATING = {"state": {"waiting": {"reason": "ContainerCreating"}}}
NO_GPU = (
    "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/1 nodes are"
    " available: 1 No preemption victims found for incoming pod."
)


def look(*pods: Object, events: tuple[Object, ...] = (), logs: dict[str, str] | None = None, **values: Any) -> Snapshot:
    """An observation of a release whose frontend is ready."""
    live = values.pop("dgd", None) or not_ready(workers=counts(1, 1, 0))
    dcds = values.pop("dcds", [dcd(OLD)])
    return Snapshot(View(live, dcds, [FRONT, *pods]), list(events), logs=logs or {}, **values)


def pull(message: str, reason: str = "ErrImagePull") -> Snapshot:
    """A worker whose image does not come."""
    return look(pod(phase="Pending", container=waiting(reason, message)))
