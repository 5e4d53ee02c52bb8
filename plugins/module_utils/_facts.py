# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: facts of a cluster put into a recipe's components: cache, scheduling, network, placement. Pure functions.

Each gives what the vendor's Kustomize starter gives for the same choice. A fact without a place is listed as unused.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._binding import refuse
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import WORKER_TYPES, main_container
from ansible_collections.inferops.dynamo.plugins.module_utils._patch import merge

COMPILE_MOUNT = "/compile-cache"
# Where the compilers of the engines keep what they built: variable -> folder.
COMPILE_CACHES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "DG_JIT_CACHE_DIR": "deep-gemm",
    "CUDA_CACHE_PATH": "cuda",
}
COMPILE_CACHES_OF = {
    "vllm": {"VLLM_CACHE_ROOT": "vllm"},
    "sglang": {"SGLANG_DG_CACHE_DIR": "deep-gemm"},
    "trtllm": {"TRTLLM_DG_CACHE_DIR": "deep-gemm"},
}


def cache_writers(dgd: Mapping[str, Any], mount: str) -> Iterator[str]:
    """`component: variable=path` of the compilers that keep what they built in the volume of the model cache."""
    names = COMPILE_CACHES.keys() | {name for more in COMPILE_CACHES_OF.values() for name in more}
    for component in dgd["spec"]["components"]:
        main = main_container(component)
        mounts = [m["mountPath"].rstrip("/") for m in main.get("volumeMounts") or []]
        for variable in main.get("env") or []:
            path = str(variable.get("value") or "")
            holds = max((m for m in mounts if f"{path}/".startswith(f"{m}/")), key=len, default="")
            if variable["name"] in names and holds == mount.rstrip("/"):
                yield f"{component['name']}: {variable['name']}={path}"


def selected(
    components: list[dict[str, Any]], chosen: Mapping[str, Any], path: str
) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """(path, component, value), the general keys first: all, workers, a type, a component's name.

    :raises DynamoError: BINDING for a key that fits no component.
    """
    for rank in range(4):
        for key, value in chosen.items():
            ranks = [_rank(component, key) for component in components]
            if max(ranks) < 0:
                there = ", ".join(f"{c['name']} (type {c.get('type', 'none')})" for c in components)
                raise refuse(f"{path}.{key}", f"no such component in this recipe; it has {there}, and all, workers")
            for component, found in zip(components, ranks, strict=True):
                if found == rank:
                    yield f"{path}.{key}", component, value


def _rank(component: Mapping[str, Any], key: str) -> int:
    """How special the key is for the component, -1 when it means others. A name may also be a type."""
    if key == component["name"]:
        return 3
    if key == component.get("type"):
        return 2
    return 1 if key == "workers" and component.get("type") in WORKER_TYPES else 0 if key == "all" else -1


def place_cache(
    components: list[dict[str, Any]], recipe_claim: str, claim: str, volume: Mapping[str, Any] | None
) -> bool:
    """Let the volumes of the recipe's claim be this claim or volume; False when there is none."""
    found = False
    for component in components:
        for entry in component["podTemplate"]["spec"].get("volumes", []):
            source = entry.get("persistentVolumeClaim", {})
            if source.get("claimName") == recipe_claim:
                found = True
                if volume:
                    del entry["persistentVolumeClaim"]
                    entry.update(copy.deepcopy(dict(volume)))
                else:
                    source["claimName"] = claim
    return found


def place(components: list[dict[str, Any]], binding: Mapping[str, Any], unused: list[str]) -> None:
    """Put pull Secrets, scheduling, network and placement of a normalised binding into the components."""
    for component in components:
        spec = component["podTemplate"]["spec"]
        if "pull_secrets" in binding:
            _set(spec, "imagePullSecrets", [{"name": name} for name in binding["pull_secrets"]])
        _schedule(spec, binding.get("scheduling", {}))
    for _path, component, value in selected(
        components, binding.get("scheduling", {}).get("components", {}), "scheduling.components"
    ):
        _schedule(component["podTemplate"]["spec"], value)
    workers = [component for component in components if component.get("type") in WORKER_TYPES]
    network, placement = binding.get("network", {}), binding.get("placement")
    if not workers:
        keys = ("network", "placement", "startup_failures", "compile_cache")
        unused.extend(f"dynamo_binding.{key}: the recipe has no worker" for key in keys if binding.get(key))
        return
    networks = [{key: value for key, value in network.items() if key != "components"} for _worker in workers]
    for _path, worker, value in selected(workers, network.get("components", {}), "network.components"):
        networks[workers.index(worker)].update(value)
    for worker, facts in zip(workers, networks, strict=True):
        if facts:
            merge(worker, _network(facts), "network")
        if placement:
            types = {w["type"] for w in workers}
            _near(worker["podTemplate"]["spec"], placement["topology_key"], [t for t in WORKER_TYPES if t in types])


def _schedule(spec: dict[str, Any], scheduling: Mapping[str, Any]) -> None:
    for key, field in (
        ("node_selector", "nodeSelector"),
        ("tolerations", "tolerations"),
        ("affinity", "affinity"),
        ("scheduler_name", "schedulerName"),
        ("runtime_class", "runtimeClassName"),
        ("priority_class", "priorityClassName"),
    ):
        if key in scheduling:
            _set(spec, field, copy.deepcopy(scheduling[key]))


def _set(spec: dict[str, Any], field: str, value: Any) -> None:
    """An option that is given but empty takes away what the recipe or a more general option says."""
    spec[field] = value
    if not value:
        del spec[field]


def _network(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch of a worker's network, as the starter's network-interface and provider-networking write it."""
    env: dict[str, str] = {}
    devices: dict[str, str] = {}
    annotations: dict[str, str] = {}
    if facts.get("interface"):
        env["NCCL_SOCKET_IFNAME"] = facts["interface"]
        env["GLOO_SOCKET_IFNAME"] = facts.get("gloo_interface") or facts["interface"]
    elif facts.get("gloo_interface"):
        env["GLOO_SOCKET_IFNAME"] = facts["gloo_interface"]
    if facts.get("rdma_resource"):
        devices[facts["rdma_resource"]] = str(facts["rdma_count"])
    infiniband, roce = facts.get("infiniband"), facts.get("gke_roce")
    if infiniband:
        env["UCX_NET_DEVICES"] = infiniband["devices"]
    if roce:
        if roce.get("cross_nic"):
            env["NCCL_CROSS_NIC"] = roce["cross_nic"]
        pairs = [{"interfaceName": roce["default_interface"], "network": "default"}]
        pairs += [{"interfaceName": item["interface"], "network": item["network"]} for item in roce["networks"]]
        annotations = {
            "networking.gke.io/default-interface": roce["default_interface"],
            "networking.gke.io/interfaces": json.dumps(pairs, separators=(",", ":")),
        }
        for item in roce["networks"]:
            for suffix in ("", ".IP"):
                devices[f"networking.gke.io.networks/{item['network']}{suffix}"] = str(roce.get("count", 1))
    main: dict[str, Any] = {"name": "main", "env": [{"name": name, "value": value} for name, value in env.items()]}
    pod: dict[str, Any] = {"spec": {"containers": [main]}}
    if devices:
        main["resources"] = {"requests": dict(devices), "limits": dict(devices)}
    if infiniband:
        main["volumeMounts"] = [{"name": "ib", "mountPath": "/dev/infiniband"}]
        pod["spec"]["volumes"] = [{"name": "ib", "hostPath": {"path": "/dev/infiniband"}}]
    if annotations:
        pod["metadata"] = {"annotations": annotations}
    return {"podTemplate": pod}


def _near(spec: dict[str, Any], topology_key: str, types: list[str]) -> None:
    spec.setdefault("affinity", {})["podAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": topology_key,
                "matchLabelKeys": ["nvidia.com/dynamo-graph-deployment-name"],
                "labelSelector": {
                    "matchExpressions": [{"key": "nvidia.com/dynamo-component-type", "operator": "In", "values": types}]
                },
            }
        ]
    }


def place_compile_cache(workers: list[dict[str, Any]], host_path: str, framework: str) -> None:
    """Keep what the engine's compilers build on the node, in a folder of its own for each image."""
    for worker in workers:
        main = main_container(worker)
        folder = f"{COMPILE_MOUNT}/{hashlib.sha256(main['image'].encode()).hexdigest()[:8]}"
        names = {**COMPILE_CACHES, **COMPILE_CACHES_OF.get(framework, {})}
        entries = [entry for entry in main.get("env", []) if entry["name"] not in names]
        main["env"] = entries + [{"name": name, "value": f"{folder}/{place}"} for name, place in names.items()]
        main.setdefault("volumeMounts", []).append({"name": "compile-cache", "mountPath": COMPILE_MOUNT})
        worker["podTemplate"]["spec"].setdefault("volumes", []).append(
            {"name": "compile-cache", "hostPath": {"path": host_path, "type": "DirectoryOrCreate"}}
        )


def synthetic_acceptance(components: list[dict[str, Any]], config_maps: Mapping[str, Mapping[str, Any]]) -> bool:
    """Let SPECULATIVE_CONFIG, found by its name, read the key for synthetic acceptance; False if there is none.

    :param config_maps: name -> data.
    """
    found = False
    for component in components:
        for entry in main_container(component).get("env", []):
            reference = (entry.get("valueFrom") or {}).get("configMapKeyRef") or {}
            key = f"{reference.get('key')}-synthetic"
            if entry["name"] == "SPECULATIVE_CONFIG" and key in config_maps.get(reference.get("name", ""), {}):
                reference["key"] = key
                found = True
    return found
