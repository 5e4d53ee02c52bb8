# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operator makes of one DynamoGraphDeployment (DGD): component deployments (DCD), Deployments, Services and
the discovery account. Pure functions on plain dictionaries; names, labels and environment are those of the real
operator on its component pathway (chart 1.5.0, observed)."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from typing import Any

Object = dict[str, Any]

GROUP = "nvidia.com/v1beta1"
OF_GRAPH = "nvidia.com/dynamo-graph-deployment-name"
COMPONENT = "nvidia.com/dynamo-component"
WORKER_HASH = "nvidia.com/dynamo-worker-hash"
CURRENT_HASH = "nvidia.com/current-worker-hash-v2"
APPLIED_HASH = "nvidia.com/last-applied-hash"
APPLIED_GENERATION = "nvidia.com/last-applied-generation"
STRATEGY = "nvidia.com/deployment-strategy"
MAX_SURGE = "nvidia.com/deployment-rolling-update-max-surge"
MAX_UNAVAILABLE = "nvidia.com/deployment-rolling-update-max-unavailable"
WORKERS = ("worker", "prefill", "decode")
NOT_HASHED = ("replicas", "minAvailable", "scalingAdapter")


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def owner(of: Object) -> list[Object]:
    meta = of["metadata"]
    reference = {"apiVersion": of["apiVersion"], "kind": of["kind"], "name": meta["name"], "uid": meta["uid"]}
    return [{**reference, "controller": True, "blockOwnerDeletion": True}]


def by_name(*lists: list[Object] | None) -> list[Object]:
    """Named entries merged, later lists win, sorted by name."""
    merged = {entry["name"]: entry for entries in lists for entry in entries or []}
    return [merged[name] for name in sorted(merged)]


def main_container(pod: Object) -> Object:
    found: Object = next(c for c in pod["containers"] if c["name"] == "main")
    return found


# ---- DGD -> DCDs -----------------------------------------------------------------------------------------------------
def component_spec(dgd: Object, component: Object) -> Object:
    """The spec of a component's DCD: the component with what the DGD gives to all."""
    spec = copy.deepcopy(component)
    graph = dgd["spec"]
    if "backendFramework" in graph:
        spec["backendFramework"] = graph["backendFramework"]
    template = spec.setdefault("podTemplate", {})
    for field in ("annotations", "labels"):
        if graph.get(field):
            metadata = template.setdefault("metadata", {})
            metadata[field] = {**graph[field], **metadata.get(field, {})}
    if graph.get("env"):
        main = main_container(template["spec"])
        main["env"] = by_name(graph["env"], main.get("env"))
    return spec


def worker_hash(dgd: Object) -> str:
    """8 hex over everything that makes a new generation of workers. All workers share it."""
    specs = [component_spec(dgd, c) for c in dgd["spec"]["components"] if c.get("type") in WORKERS]
    hashed = [{key: value for key, value in spec.items() if key not in NOT_HASHED} for spec in specs]
    return digest([hashed, dgd["spec"].get("labels"), dgd["spec"].get("annotations")])[:8]


def dcd_name(dgd: Object, component: Object, generation: str) -> str:
    name = f"{dgd['metadata']['name']}-{component['name']}".lower()
    return f"{name}-{generation}" if component.get("type") in WORKERS else name


def dcd(dgd: Object, component: Object, generation: str) -> Object:
    meta = dgd["metadata"]
    labels = {
        COMPONENT: component["name"],
        OF_GRAPH: meta["name"],
        "nvidia.com/dynamo-namespace": f"{meta['namespace']}-{meta['name']}",
    }
    if component.get("type") in WORKERS:
        labels[WORKER_HASH] = generation
    return {
        "apiVersion": GROUP,
        "kind": "DynamoComponentDeployment",
        "metadata": {
            "name": dcd_name(dgd, component, generation),
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": owner(dgd),
        },
        "spec": component_spec(dgd, component),
    }


def discovery(dgd: Object) -> list[tuple[str, Object]]:
    """(plural path, object): the account that the pods find each other with."""
    meta = dgd["metadata"]
    base = f"{meta['name']}-k8s-service-discovery"
    rbac = "rbac.authorization.k8s.io"
    read = ["get", "list", "watch"]
    rules = [
        {"apiGroups": [""], "resources": ["endpoints", "pods"], "verbs": read},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": read},
        {
            "apiGroups": ["nvidia.com"],
            "resources": ["dynamoworkermetadatas"],
            "verbs": [*read, "create", "update", "patch", "delete"],
        },
    ]

    def metadata(name: str) -> Object:
        place = {"name": name, "namespace": meta["namespace"]}
        return {**place, "labels": {OF_GRAPH: meta["name"]}, "ownerReferences": owner(dgd)}

    return [
        ("api/v1/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(base)}),
        (
            f"apis/{rbac}/v1/roles",
            {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata(f"{base}-role"), "rules": rules},
        ),
        (
            f"apis/{rbac}/v1/rolebindings",
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "RoleBinding",
                "metadata": metadata(f"{base}-binding"),
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": f"{base}-role"},
                "subjects": [{"kind": "ServiceAccount", "name": base, "namespace": meta["namespace"]}],
            },
        ),
    ]


# ---- DCD -> Deployment and Service -----------------------------------------------------------------------------------
def field_env(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def environment(kind: str, labels: dict[str, str], namespace: str) -> list[Object]:
    """What the operator adds for a component of this type."""
    dynamo_namespace = labels["nvidia.com/dynamo-namespace"]
    values = {
        "DYN_COMPONENT": kind,
        "DYN_DISCOVERY_BACKEND": "kubernetes",
        "DYN_NAMESPACE": dynamo_namespace,
        "DYN_PARENT_DGD_K8S_NAME": labels[OF_GRAPH],
        "DYN_PARENT_DGD_K8S_NAMESPACE": namespace,
    }
    if kind == "frontend":
        values |= {"DYNAMO_PORT": "8000", "DYN_HTTP_PORT": "8000", "DYN_NAMESPACE_PREFIX": dynamo_namespace}
    elif kind in WORKERS:
        values |= {
            "DYN_FORWARDPASS_METRIC_PORT": "20380",
            "DYN_HEALTH_CHECK_ENABLED": "false",
            "DYN_NAMESPACE_WORKER_SUFFIX": labels[WORKER_HASH],
            "DYN_SYSTEM_ENABLED": "true",
            "DYN_SYSTEM_PORT": "9090",
            "DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS": '["generate"]',
            "NIXL_TELEMETRY_ENABLE": "n",
            "NIXL_TELEMETRY_EXPORTER": "prometheus",
            "NIXL_TELEMETRY_PROMETHEUS_PORT": "19090",
        }
    fields = [
        field_env("POD_NAME", "metadata.name"),
        field_env("POD_NAMESPACE", "metadata.namespace"),
        field_env("POD_UID", "metadata.uid"),
    ]
    return [{"name": name, "value": value} for name, value in values.items()] + fields


def probe(path: str, port: str, delay: int, period: int, timeout: int, failures: int) -> Object:
    timing = {"initialDelaySeconds": delay, "periodSeconds": period, "timeoutSeconds": timeout}
    return {"httpGet": {"path": path, "port": port}, **timing, "failureThreshold": failures}


PROBES = {
    "frontend": {
        "livenessProbe": probe("/live", "http", 15, 10, 1, 3),
        "readinessProbe": probe("/health", "http", 10, 10, 3, 3),
    },
    "worker": {
        "livenessProbe": probe("/live", "system", 0, 5, 4, 1),
        "readinessProbe": probe("/health", "system", 0, 10, 4, 3),
        "startupProbe": probe("/live", "system", 0, 10, 5, 720),
    },
}
PORTS = {
    "frontend": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
    "worker": [
        {"name": "system", "containerPort": 9090, "protocol": "TCP"},
        {"name": "nixl", "containerPort": 19090, "protocol": "TCP"},
    ],
}


def shared_memory(pod: Object, main: Object, size: str) -> None:
    """An operator-owned /dev/shm in place of a manual one; size "0" leaves the pod as it is."""
    if size == "0":
        return
    mounts = [m for m in main.get("volumeMounts", []) if m["mountPath"] != "/dev/shm"]
    main["volumeMounts"] = [*mounts, {"name": "shared-memory", "mountPath": "/dev/shm"}]
    volumes = [v for v in pod.get("volumes", []) if v["name"] != "shared-memory"]
    pod["volumes"] = [*volumes, {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": size}}]


def swap_image(main: Object, image: str, known: list[str]) -> None:
    """The one thing that the lab changes: the image of a known runtime becomes the lab's. Any other name is left alone
    and fails to be pulled, as a mistyped one does in real life."""
    if any(re.fullmatch(pattern, main["image"]) for pattern in known):
        main |= {"image": image, "imagePullPolicy": "IfNotPresent"}


def labels_of(of: Object) -> tuple[str, dict[str, str], dict[str, str]]:
    """Type of a DCD, the labels of its Service, and those of its pods."""
    kind = of["spec"].get("type", "worker")
    labels = of["metadata"]["labels"]
    shared = {
        **labels,
        "nvidia.com/dynamo-discovery-backend": "kubernetes",
        "nvidia.com/dynamo-discovery-enabled": "true",
    }
    pod = {
        **shared,
        "nvidia.com/dynamo-component-type": kind,
        "nvidia.com/metrics-enabled": "true",
        "nvidia.com/selector": of["metadata"]["name"],
    }
    if kind in ("prefill", "decode"):
        pod["nvidia.com/dynamo-sub-component-type"] = kind
    return kind, shared, pod


def deployment(of: Object, image: str, known: list[str]) -> Object:
    """The Deployment of a DCD; its strategy follows the annotations of the pod template."""
    kind, _shared, labels = labels_of(of)
    meta, spec = of["metadata"], of["spec"]
    template = copy.deepcopy(spec["podTemplate"])
    pod, main = template["spec"], main_container(template["spec"])
    family = "frontend" if kind == "frontend" else "worker"
    swap_image(main, image, known)
    main["env"] = by_name(environment(kind, meta["labels"], meta["namespace"]), main.get("env"))
    main["ports"] = by_name(PORTS[family], main.get("ports"))
    for name, default in PROBES[family].items():
        main.setdefault(name, default)
    if kind in WORKERS:
        shared_memory(pod, main, str(spec.get("sharedMemorySize", "8Gi")))
    pod["serviceAccountName"] = f"{meta['labels'][OF_GRAPH]}-k8s-service-discovery"
    pod.setdefault("securityContext", {"fsGroup": 1000})
    pod.setdefault("terminationGracePeriodSeconds", 60)
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**metadata.get("labels", {}), **labels}
    notes = metadata.get("annotations", {})
    strategy: Object = {"type": "Recreate"}
    if notes.get(STRATEGY) != "Recreate":
        surge, unavailable = (integer(notes.get(key, "25%")) for key in (MAX_SURGE, MAX_UNAVAILABLE))
        if surge in (0, "0%") and unavailable in (0, "0%"):
            surge = 1
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": dict(meta["labels"]),
            "ownerReferences": owner(of),
        },
        "spec": {
            "replicas": spec.get("replicas", 1),
            "selector": {"matchLabels": {"nvidia.com/selector": meta["name"]}},
            "strategy": strategy,
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            "template": template,
        },
    }


def integer(value: str) -> int | str:
    """The API wants a number as a number and a percentage as text."""
    return int(value) if value.isdigit() else value


def service(of: Object) -> Object:
    kind, labels, pod = labels_of(of)
    name, port = ("http", 8000) if kind == "frontend" else ("system", 9090)
    selected = (COMPONENT, "nvidia.com/dynamo-component-type", "nvidia.com/dynamo-namespace")
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": of["metadata"]["name"],
            "namespace": of["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": owner(of),
        },
        "spec": {
            "selector": {key: pod[key] for key in selected},
            "ports": [{"name": name, "port": port, "targetPort": name, "protocol": "TCP"}],
        },
    }


# ---- drift -----------------------------------------------------------------------------------------------------------
def stamped(rendered: Object, live: Object | None) -> Object | None:
    """`rendered` with the annotations that tell a later pass what was written; None when live still is that."""
    fingerprint = digest(rendered)
    if live:
        notes = live["metadata"].get("annotations", {})
        generation = live["metadata"].get("generation", 1)
        if notes.get(APPLIED_HASH) == fingerprint and notes.get(APPLIED_GENERATION) == str(generation):
            return None
    expected = live["metadata"].get("generation", 0) + 1 if live else 1
    return with_generation(rendered, fingerprint, expected)


def with_generation(rendered: Object, fingerprint: str, generation: int) -> Object:
    result = copy.deepcopy(rendered)
    notes = result["metadata"].setdefault("annotations", {})
    notes |= {APPLIED_HASH: fingerprint, APPLIED_GENERATION: str(generation)}
    return result
