# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: why one pod of a release is not ready. Pure; see `_diagnose`."""

from __future__ import annotations

import re

from ansible_collections.inferops.dynamo.plugins.module_utils import _dgd
from ansible_collections.inferops.dynamo.plugins.module_utils._causes import (
    Finding,
    Snapshot,
    classify_log,
    event_time,
    events_of,
    mask,
    pod_events,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._dgd import Object, label
from ansible_collections.inferops.dynamo.plugins.module_utils._scheduling import unscheduled

# An engine that ends twice with an error that no restart can change needs no third try.
HOPELESS_RESTARTS = 2
# What runtimes give as the start of a program that could not be started.
NEVER = "1970"
# Seconds after which the kubelet has tried again what failed before the wait began: its longest back-off is 5 min.
TRIED_AGAIN = 330


def pod_causes(pod: Object, snapshot: Snapshot) -> list[Finding]:
    title = f"Pod/{pod['metadata']['name']}"
    where = label(pod, _dgd.COMPONENT)
    if _dgd.condition(pod, "PodScheduled").get("status") != "True":
        return unscheduled(pod, snapshot, title, where)
    found = []
    status = pod.get("status") or {}
    statuses = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    for container in statuses:
        waiting = (container.get("state") or {}).get("waiting") or {}
        finding = _waiting(pod, snapshot, container, waiting, title, where)
        finding = finding or _restarted(pod, snapshot, container, title)
        if finding:
            found.append(finding)
    found = [_old(finding, pod, snapshot) for finding in found]
    if not any((c.get("state") or {}).get("running") for c in statuses) and not found:
        found += _creating(pod, snapshot, title, where)
    if pod_events(pod, snapshot, "NodeNotReady") and _dgd.condition(pod, "Ready").get("status") != "True":
        node = (pod.get("spec") or {}).get("nodeName")
        hint = "The node does not report; its pods are replaced when it stays away."
        found.append(Finding("NODE_NOT_READY", title, f"node {node} is not ready", hint, "", f"node {node}"))
    return found


def runs(pods: list[Object]) -> dict[str, tuple[str, int]]:
    """When the newest run of every container began and how many were before it, by "<pod uid> <container>"; and the
    pods by uid alone."""
    found = {}
    for pod in pods:
        found[str(pod["metadata"].get("uid"))] = ("", 0)
        status = pod.get("status") or {}
        for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
            states = [*(container.get("state") or {}).values(), *(container.get("lastState") or {}).values()]
            starts = [str((state or {}).get("startedAt") or "") for state in states]
            count = int(container.get("restartCount") or 0)
            found[f"{pod['metadata'].get('uid')} {container['name']}"] = (max(starts, default=""), count)
    return found


def _old(finding: Finding, pod: Object, snapshot: Snapshot) -> Finding:
    """A cause in a pod that was there when the wait began: it may be mended, and nobody has tried again yet."""
    if finding.budget == "config" and str(pod["metadata"].get("uid")) in snapshot.known:
        return finding._replace(extra=TRIED_AGAIN)
    return finding


# Text of a pull error -> code, budget, hint; the first match. What a registry or a network may get over is "slow".
PULL_ERRORS = (
    (
        r"content digest|extract layer|content store",
        "IMAGE_PULL",
        "slow",
        "The image store of this node is damaged or full: look at the node.",
    ),
    (
        r"no match for platform|no matching manifest for|no image found in .* for architecture|exec format",
        "IMAGE_ARCHITECTURE",
        "config",
        "The image has no variant for the CPU of this node.",
    ),
    (
        r"no such host",
        "IMAGE_PULL",
        "config",
        "The nodes cannot resolve the registry's name: check the image and dynamo_binding's registry.",
    ),
    (
        r"\b429\b|toomanyrequests|too many requests",
        "IMAGE_PULL",
        "slow",
        "The registry limits pulls: use a mirror.",
    ),
    (
        r"unauthorized|authentication required|authorization failed|no basic auth|denied|forbidden|\b40[13]\b",
        "IMAGE_UNAUTHORIZED",
        "config",
        "The registry refuses: is the pull secret there and does it have access to this repository?",
    ),
    (
        r"manifest unknown|name unknown|not found|code = NotFound|invalid reference|InvalidImageName|\b404\b",
        "IMAGE_NOT_FOUND",
        "config",
        "The registry has no such image: check its name and tag.",
    ),
)


PULL_REASONS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)


def _pull(pod: Object, snapshot: Snapshot, image: str, waiting: Object, title: str, where: str) -> Finding:
    message = str(waiting.get("message") or "")
    if waiting.get("reason") == "ImagePullBackOff" and ": " not in message:
        # Before Kubernetes 1.31 the back-off does not repeat the error.
        pulls = [text for text in pod_events(pod, snapshot, "Failed") if text.startswith("Failed to pull image")]
        message = (pulls or [message])[-1]
    # The image's own name may hold words such as "notfound".
    text = f"{waiting.get('reason')} {message}".replace(image, "")
    key = f"image {where}"
    for pattern, code, budget, hint in PULL_ERRORS:
        if re.search(pattern, text, re.IGNORECASE):
            return Finding(code, title, mask(f"{image}: {message}"), hint, budget, key)
    hint = "The nodes cannot get the image: the message says what the registry or the network answered."
    return Finding("IMAGE_PULL", title, mask(f"{image}: {message}"), hint, "slow", key)


def _waiting(
    pod: Object, snapshot: Snapshot, container: Object, waiting: Object, title: str, where: str
) -> Finding | None:
    reason, message = waiting.get("reason"), str(waiting.get("message") or "")
    if reason in PULL_REASONS:
        return _pull(pod, snapshot, str(container.get("image") or ""), waiting, title, where)
    if reason == "CreateContainerConfigError" and "runAsNonRoot" in message:
        hint = "The pod must not run as root and the image would: set a user in the component, or take another image."
        return Finding("CONTAINER_START", title, mask(message), hint, "config", f"start {where}")
    if reason == "CreateContainerConfigError":
        hint = "Create what is missing, or check name and key in the inventory (dynamo_secret_name, dynamo_secret_key)."
        return Finding("CONFIG_MISSING", title, mask(message), hint, "config", f"config {where}")
    if reason in ("CreateContainerError", "RunContainerError", "StartError"):
        return _start_error(f"{reason}: {message}", title, where)
    return None


def _start_error(message: str, title: str, where: str) -> Finding:
    """The runtime can't start the container's program. A node that is overloaded says so, too, and passes."""
    if "exec format error" in message:
        hint = "The image is built for another CPU architecture than the node: GB200 and GB300 nodes are arm64."
        return Finding("IMAGE_ARCHITECTURE", title, mask(message), hint, "config", f"start {where}")
    budget = "slow" if re.search(r"deadline exceeded|is reserved for|timed? ?out", message) else "config"
    hint = "The container cannot be started: check command and image of this component."
    return Finding("CONTAINER_START", title, mask(message), hint, budget, f"start {where}")


def _restarted(pod: Object, snapshot: Snapshot, container: Object, title: str) -> Finding | None:
    state, last = container.get("state") or {}, container.get("lastState") or {}
    ended = state.get("terminated") or last.get("terminated") or {}
    if not ended or not container.get("restartCount") or container.get("ready"):
        return None
    found = _crash(pod, snapshot, container, ended, title)
    began = str(ended.get("startedAt") or "")
    newest, count = snapshot.known.get(f"{pod['metadata'].get('uid')} {container['name']}", ("", 0))
    if began and not began.startswith(NEVER) and began <= newest:
        # What was missing then may be there now: the checkpoint that this very command brought, a Secret.
        evidence = f"{found.evidence} (started before this wait: the next start decides)"
        return found._replace(budget="", evidence=evidence)
    if count and found.budget == "restarts":  # the restarts since then count, and one more confirms a hopeless error
        return found._replace(seen=found.seen - count + bool(found.limit))
    return found


def _crash(pod: Object, snapshot: Snapshot, container: Object, ended: Object, title: str) -> Finding:
    count = int(container.get("restartCount") or 0)
    name, reason = str(container.get("name")), str(ended.get("reason") or "")
    if reason in ("StartError", "ContainerCannotRun"):
        return _start_error(f"{reason}: {ended.get('message') or ''}", title, label(pod, _dgd.COMPONENT))
    exit_code, key = ended.get("exitCode"), f"restarts {pod['metadata'].get('uid')} {name}"
    log_class, lines = classify_log(
        snapshot.logs.get(f"{pod['metadata']['name']}/{name}") or str(ended.get("message") or "")
    )
    times = f"{count} restart{'s' if count > 1 else ''}"
    facts = f"container {name} ended with exit code {exit_code}, {times}"
    if reason == "OOMKilled":
        hint = "Give the component more memory; /dev/shm (sharedMemorySize) counts towards its limit."
        return Finding(
            "OOM_KILLED",
            title,
            f"container {name} was killed for lack of memory, {times}",
            hint,
            "restarts",
            key,
            count,
        )
    killed = _killed(pod, snapshot, name, ended)
    if killed:
        start = "startup probe" in killed
        hint = (
            "The engine needed longer to start than its startup probe allows."
            if start
            else "The engine did not answer its liveness probe in time, as while it compiles: give the probe more room."
        )
        code = "STARTUP_BUDGET" if start else "PROBE_KILLED"
        return Finding(code, title, mask(f"{killed} {facts}"), hint, "restarts", key, count)
    if log_class and log_class.name == "wrong architecture":
        return Finding(
            "IMAGE_ARCHITECTURE", title, f"{facts}: {lines}", log_class.hint, "restarts", key, count, HOPELESS_RESTARTS
        )
    hint = log_class.hint if log_class else f"Read the log of {title}, container {name}."
    text = f"{facts}; {log_class.name}: {lines}" if log_class else f"{facts}: {lines}" if lines else facts
    limit = HOPELESS_RESTARTS if log_class and log_class.hopeless else 0
    return Finding("CRASH_LOOP", title, text, hint, "restarts", key, count, limit)


def _killed(pod: Object, snapshot: Snapshot, name: str, ended: Object) -> str:
    """The event by which a probe ended this very run of the container, whatever its exit code; empty without one."""
    began, over = str(ended.get("startedAt") or "")[:19], str(ended.get("finishedAt") or "")[:19]
    for event in events_of(pod, snapshot, "Killing"):
        text = str(event.get("message") or "")
        during = began <= event_time(event)[:19] <= over if began and over else ended.get("exitCode") in (0, 137, 143)
        if during and "probe" in text and name in text:
            return text
    return ""


def _creating(pod: Object, snapshot: Snapshot, title: str, where: str) -> list[Finding]:
    """Scheduled, and no container runs yet: volumes, devices, network. Only events tell."""
    if pod_events(pod, snapshot, "Pulling", "Pulled", "Created", "Started"):
        return []
    prepare = pod_events(pod, snapshot, "FailedPrepareDynamicResources")
    if prepare:
        absent = "not registered" in prepare[-1]
        hint = (
            "The DRA driver's kubelet plugin does not run on this node: look at its DaemonSet."
            if absent
            else "The ComputeDomain is not ready on this node: look at its daemon pods."
        )
        code, budget = ("DRA_DRIVER_ABSENT", "scheduling") if absent else ("COMPUTE_DOMAIN_NOT_READY", "slow")
        return [Finding(code, title, mask(prepare[-1]), hint, budget, f"dra {where}")]
    mount = pod_events(pod, snapshot, "FailedMount", "FailedAttachVolume")
    if mount and re.search(
        r'(configmap|secret) "[^"]+" not found|references non-existent (config|secret) key', mount[-1]
    ):
        hint = "Create what is missing, or check its name in the inventory."
        return [Finding("CONFIG_MISSING", title, mask(mount[-1]), hint, "config", f"config {where}")]
    if mount and "Multi-Attach" in mount[-1]:
        hint = "The claim can be used on one node only: the model cache needs ReadWriteMany (or ReadOnlyMany)."
        return [Finding("CLAIM_ACCESS_MODE", title, mask(mount[-1]), hint, "slow", f"mount {where}")]
    if mount:
        hint = "The node cannot mount the volume: look at the storage driver."
        return [Finding("VOLUME_MOUNT", title, mask(mount[-1]), hint, "slow", f"mount {where}")]
    sandbox = pod_events(pod, snapshot, "FailedCreatePodSandBox")
    if sandbox:
        hint = "The node cannot set the pod up: look at its container runtime and network plugin."
        return [Finding("POD_SANDBOX", title, mask(sandbox[-1]), hint, "slow", f"sandbox {where}")]
    return []
