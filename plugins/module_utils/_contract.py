# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the contract of a portable base (facts: dynamo §2.4): what must be in it, and which site values must not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._engine import expanded_arguments
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import (
    GPU,
    WORKER_TYPES,
    Manifest,
    graph,
    main_container,
)

SHAPES = (
    [("Frontend", "frontend"), ("Worker", "worker")],
    [("Frontend", "frontend"), ("PrefillWorker", "prefill"), ("DecodeWorker", "decode")],
)
CLAIM = "shared-model-cache"
CAPABILITIES = {"IPC_LOCK", "SYS_PTRACE", "SYS_RESOURCE"}
PHYSICAL = ("GLOO_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "UCX_NET_DEVICES")
IMAGES = {"vllm": "vllm-runtime", "sglang": "sglang-runtime", "trtllm": "tensorrtllm-runtime"}
_PORTABLE = "write it as the vendor's templates do; the starter's patches look for it"
# Field of a pod -> key of the binding that sets it.
_PLACES = {
    "imagePullSecrets": "pull_secrets",
    "nodeSelector": "scheduling.node_selector",
    "nodeName": "scheduling.node_selector",
    "tolerations": "scheduling.tolerations",
    "schedulerName": "scheduling.scheduler_name",
    "runtimeClassName": "scheduling.runtime_class",
    "priorityClassName": "scheduling.priority_class",
    "affinity": "scheduling.affinity",
}


def contract(manifests: list[Manifest]) -> Iterator[tuple[str, str, str]]:
    """(path, problem, fix) of what a portable base must have and this one has not."""
    dgd = graph(manifests)
    components = dgd["spec"]["components"]
    shape = [(c["name"], c.get("type")) for c in components]
    if not any(shape[: len(known)] == known for known in SHAPES):
        names = ", ".join(f"{name} ({kind})" for name, kind in shape)
        yield "spec.components", f"are {names}; the contract knows Frontend with Worker or with two workers", _PORTABLE
    framework = dgd["spec"].get("backendFramework")
    if framework not in IMAGES:
        yield "spec.backendFramework", f"is {framework or 'not set'}", "set it to vllm, sglang or trtllm"
    for component in components:
        if component.get("type") in ("frontend", *WORKER_TYPES):
            where = f"spec.components[{component['name']}].podTemplate.spec"
            for path, problem in _component(component, framework, manifests):
                yield f"{where}.{path}", problem, _PORTABLE


def _component(component: Mapping[str, Any], framework: Any, manifests: list[Manifest]) -> Iterator[tuple[str, str]]:
    spec, main = component["podTemplate"]["spec"], main_container(component)
    env = {entry["name"]: entry.get("value") for entry in main.get("env") or []}
    if spec["containers"][0] is not main:
        yield "containers", "main is not the first"
    if main.get("imagePullPolicy") != "IfNotPresent":
        yield "containers[main].imagePullPolicy", "is not IfNotPresent"
    if main.get("command") != ["python3"] or (main.get("args") or [""])[0] != "-m":
        yield "containers[main].command", "is not python3 with arguments that begin with -m"
    module = expanded_arguments(component, manifests).get("-m")
    expected = "dynamo.frontend" if component.get("type") == "frontend" else f"dynamo.{framework}"
    if framework in IMAGES and module != expected:
        yield "containers[main].args", f"start {module or 'no module'}, not {expected}"
    if framework in IMAGES and IMAGES[framework] not in main["image"]:
        yield "containers[main].image", f"is not an image of {IMAGES[framework]}"
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if env.get(name) != "1":
            yield f"containers[main].env[{name}]", "is not 1"
    volumes = spec.get("volumes") or []
    if component.get("type") == "frontend":
        if any("persistentVolumeClaim" in volume for volume in volumes):
            yield "volumes", "the frontend mounts a claim"
        return
    mounts = main.get("volumeMounts") or [{}]
    claim = ((volumes or [{}])[0].get("persistentVolumeClaim") or {}).get("claimName")
    if claim != CLAIM or mounts[0].get("mountPath") != f"/{CLAIM}":
        yield "volumes", f"the first volume and mount are not the claim {CLAIM} at /{CLAIM}"
    security = main.get("securityContext") or {}
    added = set((security.get("capabilities") or {}).get("add") or [])
    if (security.get("runAsUser"), security.get("runAsGroup")) != (0, 0) or not added >= CAPABILITIES:
        wanted = ", ".join(sorted(CAPABILITIES))
        yield "containers[main].securityContext", f"is not user and group 0 with {wanted}"


def site_values(manifests: list[Manifest]) -> Iterator[tuple[str, str, str, str]]:
    """(severity, path, message, fix) of what is true of one cluster only."""
    dgd = graph(manifests)
    for manifest in manifests:
        if manifest["metadata"].get("namespace"):
            kind, namespace = manifest["kind"], manifest["metadata"]["namespace"]
            message = f"the recipe's {kind} names namespace {namespace}, which dynamo_namespace replaces"
            yield "WARN", "metadata.namespace", message, "take it out of the recipe"
    for component in dgd["spec"]["components"]:
        where = f"spec.components[{component['name']}].podTemplate.spec"
        spec, main = component["podTemplate"]["spec"], main_container(component)
        for field, key in _PLACES.items():
            if field in spec:
                severity = "FAIL" if field == "nodeName" or "kubernetes.io/hostname" in str(spec[field]) else "WARN"
                message = "names nodes of one cluster" if severity == "FAIL" else "is true of one cluster only"
                fix = f"take it out of the recipe; dynamo_binding.{key} says it"
                yield severity, f"{where}.{field}", message, fix
        env = [entry["name"] for entry in main.get("env") or [] if entry["name"] in PHYSICAL]
        resources = main.get("resources") or {}
        amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        devices = [name for name in amounts if "/" in name and name != GPU]
        for name in env + devices:
            yield (
                "WARN",
                f"{where}.containers[main]",
                f"{name} is true of one cluster only",
                ("take it out of the recipe; dynamo_binding.network says it"),
            )
        for probe in ("startupProbe", "readinessProbe"):
            if probe in main:
                yield (
                    "WARN",
                    f"{where}.containers[main].{probe}",
                    "depends on one cluster's storage and network",
                    ("take it out of the recipe; dynamo_binding.startup_failures says how long a start may take"),
                )
