# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Status of component deployments (DCD) and graph deployments (DGD), as the real operator words it. Pure."""

from __future__ import annotations

from typing import Any

from render import OF_GRAPH, WORKER_HASH

Object = dict[str, Any]
COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")


def condition(kind: str, status: str, reason: str, message: str, generation: int, old: Object, now: str) -> Object:
    """lastTransitionTime moves only when the status flips."""
    before: Object = next((c for c in old.get("conditions", []) if c["type"] == kind), {})
    since = before["lastTransitionTime"] if before.get("status") == status else now
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since,
    }


def deployment_ready(deployment: Object) -> bool:
    desired, status = deployment["spec"].get("replicas", 1), deployment.get("status", {})
    if status.get("observedGeneration", 0) < deployment["metadata"]["generation"]:
        return False
    if desired == 0:
        return True
    available = any(c["type"] == "Available" and c["status"] == "True" for c in status.get("conditions", []))
    return (
        available
        and status.get("replicas", 0) == desired
        and status.get("updatedReplicas", 0) >= desired
        and status.get("availableReplicas", 0) >= desired
    )


def dcd_status(dcd: Object, deployment: Object, now: str) -> Object:
    meta, old = dcd["metadata"], dcd.get("status", {})
    ready = deployment_ready(deployment)
    generation = meta["generation"]
    suffix = meta["labels"].get(WORKER_HASH)
    namespace = f"{meta['namespace']}-{meta['labels'][OF_GRAPH]}" + (f"-{suffix}" if suffix else "")
    live = deployment.get("status", {})
    if ready:
        words = ("True", "DeploymentReady", "Deployment is ready", "ComponentReady", "DynamoComponent is ready")
    else:
        words = (
            "False",
            "DeploymentNotReady",
            "Deployment is not ready",
            "ComponentNotReady",
            "DynamoComponent is not ready",
        )
    flag, reason, message, component_reason, component_message = words
    return {
        "observedGeneration": generation,
        "component": {
            "componentKind": "Deployment",
            "componentNames": [meta["name"]],
            "runtimeNamespace": namespace,
            **{count: live.get(count, 0) for count in COUNTS},
        },
        "conditions": [
            condition("Available", flag, reason, message, generation, old, now),
            condition("DynamoComponentReady", flag, component_reason, component_message, generation, old, now),
        ],
    }


def dcd_failed(dcd: Object, error: str, now: str) -> Object:
    """The Deployment or Service was refused: the observed generation stays behind."""
    old, generation = dcd.get("status", {}), dcd["metadata"]["generation"]
    message = f"Failed to reconcile DynamoComponentDeployment: {error}"
    return {
        **old,
        "conditions": [
            condition("Available", "False", "Reconciling", message, generation, old, now),
            condition("DynamoComponentReady", "False", "Reconciling", message, generation, old, now),
        ],
    }


def processed(dcd: Object) -> bool:
    return bool(dcd.get("status", {}).get("observedGeneration", 0) >= dcd["metadata"]["generation"])


def dcd_ready(dcd: Object) -> bool:
    conditions = dcd.get("status", {}).get("conditions", [])
    return processed(dcd) and any(c["type"] == "Available" and c["status"] == "True" for c in conditions)


def dcd_gone(dcd: Object) -> bool:
    """Scaled to 0, and its Deployment says so."""
    component = dcd.get("status", {}).get("component", {})
    return processed(dcd) and dcd["spec"].get("replicas") == 0 and component.get("replicas", 0) == 0


def complaint(dcd: Object) -> str:
    """Why a DCD isn't ready; empty when it is."""
    name = dcd["metadata"]["name"]
    if not processed(dcd):
        observed = dcd.get("status", {}).get("observedGeneration", 0)
        wanted = dcd["metadata"]["generation"]
        return f"{name}: spec not yet processed: generation={wanted}, observedGeneration={observed}"
    return "" if dcd_ready(dcd) else f"{name}: Component deployment not ready - Available condition not true"


def component_status(current: Object, old: list[Object], steady: bool) -> Object | None:
    """One entry of status.components; None while nothing of it has been processed.

    During a rollout the counts cover all generations, `updatedReplicas` only the new one, and the runtime namespace is
    the old one."""
    new = current.get("status", {}).get("component")
    parts = [c for c in (d.get("status", {}).get("component") for d in [*old, current]) if c]
    if not parts:
        return None
    total = {count: sum(part.get(count, 0) for part in parts) for count in COUNTS}
    total["updatedReplicas"] = new.get("updatedReplicas", 0) if new else 0
    return {
        "componentKind": "Deployment",
        "componentNames": sorted(name for part in parts for name in part["componentNames"]),
        "runtimeNamespace": (new if steady and new else parts[0])["runtimeNamespace"],
        **total,
    }


def dgd_status(
    dgd: Object, current: dict[str, Object], old: dict[str, list[Object]], rolling: Object | None, now: str
) -> Object:
    """current: component name -> its DCD of this generation; old: those of earlier ones that the rollout still counts.
    rolling: the new status.rollingUpdate, None to leave that field as it is."""
    before, generation = dgd.get("status", {}), dgd["metadata"]["generation"]
    status = {key: value for key, value in before.items() if key in ("restart", "rollingUpdate")}
    if rolling is not None:
        status["rollingUpdate"] = rolling
    active = status.get("rollingUpdate", {}).get("phase") in ("Pending", "InProgress")
    ordered = sorted(current.values(), key=lambda d: str(d["metadata"]["name"]))
    complaints = [text for text in map(complaint, ordered) if text]
    if active:
        state, flag, reason, message = "pending", "False", "rolling_update_in_progress", "Rolling update in progress"
    elif complaints:
        state, flag, reason = "pending", "False", "some_resources_are_not_ready"
        message = "Resources not ready: " + "; ".join(complaints)
    else:
        state, flag, reason, message = "successful", "True", "all_resources_are_ready", "All resources are ready"
    components = {name: component_status(d, old.get(name, []), not active) for name, d in current.items()}
    components = {name: entry for name, entry in components.items() if entry}
    if components:
        status["components"] = components
    return {
        **status,
        "conditions": [condition("Ready", flag, reason, message, generation, before, now)],
        "observedGeneration": generation,
        "state": state,
    }


def dgd_failed(dgd: Object, error: str, now: str) -> Object:
    """Only state and condition change; generation and components stay as they were."""
    before = dgd.get("status", {})
    observed = before.get("observedGeneration", 0)
    reason = "failed_to_reconcile_the_resources"
    return {
        **before,
        "state": "failed",
        "conditions": [condition("Ready", "False", reason, error, observed, before, now)],
    }
