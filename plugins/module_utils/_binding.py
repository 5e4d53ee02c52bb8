# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the binding of the inventory (dynamo_binding): its options, normalised once, and what is refused in it."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _rules, _secrets
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import NAME, without_nulls
from ansible_collections.inferops.dynamo.plugins.module_utils._secrets import problem as secret_problem
from ansible_collections.inferops.dynamo.plugins.module_utils._shape import ANYTHING, DEVICES, FLAG, TEXT, problem

_PATH = (re.compile(r"/\S*"), "an absolute path")
SCHEDULING: dict[str, Any] = {
    "node_selector": {"...": ANYTHING},
    "tolerations": [_rules.TOLERATION],
    "affinity": _rules.AFFINITY,
    "scheduler_name": _rules.OBJECT,
    "runtime_class": _rules.OBJECT,
    "priority_class": _rules.OBJECT,
}
NETWORK: dict[str, Any] = {
    "interface": TEXT,
    "gloo_interface": TEXT,
    "rdma_resource": (re.compile(r"[a-z0-9.-]+/[\w.-]+"), "the name of an extended resource, such as rdma/ib"),
    "rdma_count": DEVICES,
    "infiniband": {"devices!": TEXT},
    "gke_roce": {
        "default_interface!": TEXT,
        "networks!": [{"interface!": TEXT, "network!": _rules.OBJECT}],
        "count": DEVICES,
        "cross_nic": TEXT,
    },
}
VOLUMES: dict[str, Any] = {
    "nfs": {"server!": TEXT, "path!": _PATH, "readOnly": FLAG},
    "csi": {
        "driver!": _rules.OBJECT,
        "readOnly": FLAG,
        "fsType": TEXT,
        "volumeAttributes": {"...": TEXT},
        "nodePublishSecretRef": {"name!": _rules.OBJECT},
    },
    "hostPath": {
        "path!": _PATH,
        "type": ("", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice", "BlockDevice"),
    },
}
BY_COMPONENT = (
    "env",
    "image",
    "image_tag",
    "pod_annotations",
    "pod_labels",
    "replicas",
    "resources",
    "shared_memory",
    "startup_failures",
    "termination_grace",
)
SPEC: dict[str, Any] = {
    "name": NAME,
    "labels": {"...": ANYTHING},
    "annotations": {"...": ANYTHING},
    "pull_secrets": [_rules.OBJECT],
    "image_registry": _rules.REGISTRY,
    "scheduling": {**SCHEDULING, "components": {"...": SCHEDULING}},
    "network": {**NETWORK, "components": {"...": NETWORK}},
    "compute_domain": NAME,
    "cache_volume": VOLUMES,
    "compile_cache": {"host_path!": _PATH},
    "patches": [{"component": TEXT, "merge": {"...": ANYTHING}, "json6902": [{"...": ANYTHING}]}],
    "placement": {"topology_key!": _rules.KEY},
    "job": {key: SCHEDULING[key] for key in ("node_selector", "tolerations")},
    **{key: {"...": ANYTHING} for key in BY_COMPONENT},
}
# Labels and annotations that say whose an object is, or that the operator reads as its own.
OWN_LABELS = ("app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "inferops.dynamo/release")
OWN_ANNOTATIONS = ("nvidia.com/workload-provider", "nvidia.com/current-worker-hash-v2", "nvidia.com/enable-grove")
ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*\Z")
_REFERENCE = {"name!": _rules.OBJECT, "key!": (re.compile(r"[-._a-zA-Z0-9]{1,253}"), "a key"), "optional": FLAG}
_VALUE_FROM = {
    "secretKeyRef": _REFERENCE,
    "configMapKeyRef": _REFERENCE,
    "fieldRef": {"fieldPath!": TEXT, "apiVersion": TEXT},
    "resourceFieldRef": {"resource!": TEXT, "containerName": TEXT, "divisor": TEXT},
}


def refuse(path: str, problem: str) -> DynamoError:
    """The error of a wrong binding; path as the inventory spells it, without `dynamo_binding.`."""
    return DynamoError(f"dynamo_binding{'.' + path if path else ''}: {problem}", "BINDING")


def fits(value: Any, shape: Any, path: str) -> None:
    """DynamoError BINDING where a value has not this shape; the path is that of the value."""
    wrong = problem(value, shape, path if path.startswith("dynamo_") else f"dynamo_binding{'.' if path else ''}{path}")
    if wrong:
        raise DynamoError(wrong, "BINDING")


def environment(variables: Any, path: str) -> list[dict[str, Any]]:
    """{NAME: text | {secretKeyRef: ...}} as a Kubernetes env list, in the order given."""
    if not isinstance(variables, Mapping):
        raise refuse(path, "must be a dictionary of variable names and values")
    entries: list[dict[str, Any]] = []
    for name, value in variables.items():
        if not isinstance(name, str) or not ENV_NAME.match(name):
            raise refuse(path, f"{name!r} is no variable name (quote names such as ON or Y)")
        where = f"{path}.{name}"
        if isinstance(value, Mapping):
            if list(value) not in [[source] for source in _VALUE_FROM]:
                raise refuse(where, f"must be a text or exactly one of {', '.join(_VALUE_FROM)}")
            fits(value, _VALUE_FROM, where)
            entries.append({"name": name, "valueFrom": dict(value)})
        else:
            problem = secret_problem(name, text(value, where))
            if problem:
                raise refuse(where, problem)
            entries.append({"name": name, "value": text(value, where)})
    return entries


def text(value: Any, path: str) -> str:
    """A scalar of the inventory as the text that the API wants; booleans and null are refused as ambiguous."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise refuse(path, f"must be a text, found {type(value).__name__}; quote it")
    return str(value)


def texts(value: Any, path: str, shape: Any) -> dict[str, str]:
    """A dictionary of texts, such as labels; numbers become texts."""
    if not isinstance(value, Mapping):
        raise refuse(path, "must be a dictionary")
    found = {key: text(item, f"{path}.{key}") for key, item in value.items()}
    fits(found, shape, path)
    return found


def _check_scheduling(path: str, section: dict[str, Any]) -> None:
    """What a shape doesn't say; the labels of nodes become texts."""
    if "node_selector" in section:
        section["node_selector"] = texts(section["node_selector"], f"{path}.node_selector", _rules.LABELS)
    for index, toleration in enumerate(section.get("tolerations", [])):
        wrong = _rules.toleration(toleration)
        if wrong:
            raise refuse(f"{path}.tolerations[{index}]", wrong)


def normalise(binding: Any) -> dict[str, Any]:
    """A checked copy of dynamo_binding without empty options. Values that are meant for one component are checked where
    they are applied, because only there it is known which components exist."""
    fits(binding, SPEC, "")
    # null removes in these two, and is an empty option everywhere else
    result = {
        key: copy.deepcopy(value) if key in ("resources", "patches") else without_nulls(value)
        for key, value in binding.items()
        if value is not None
    }
    for where, wrong in _secrets.found(result):
        raise refuse(where, wrong)
    _check_scheduling("job", result.get("job", {}))
    _check_scheduling("scheduling", result.get("scheduling", {}))
    for key, facts in result.get("scheduling", {}).get("components", {}).items():
        _check_scheduling(f"scheduling.components.{key}", facts)
    _check_network("network", result.get("network", {}))
    for key, facts in result.get("network", {}).get("components", {}).items():
        _check_network(f"network.components.{key}", {**result["network"], **facts})
    _check_volumes(result)
    if "patches" in result:
        result["patches"] = [_check_patch(index, patch) for index, patch in enumerate(result["patches"])]
    for key, shape in (("labels", _rules.LABELS), ("annotations", _rules.ANNOTATIONS)):
        result[key] = texts(result.get(key, {}), key, shape)
    taken = sorted(({*OWN_LABELS} & result["labels"].keys()) | ({*OWN_ANNOTATIONS} & result["annotations"].keys()))
    if taken:
        raise refuse(
            "labels" if taken[0] in result["labels"] else "annotations", f"{taken[0]} is set by this collection"
        )
    return result


def _check_network(path: str, network: Mapping[str, Any]) -> None:
    if ("rdma_resource" in network) != ("rdma_count" in network):
        raise refuse(path, "rdma_resource and rdma_count belong together")
    if "infiniband" in network and "gke_roce" in network:
        raise refuse(path, "infiniband and gke_roce exclude each other")
    for name, number in (
        ("rdma_count", network.get("rdma_count")),
        ("count", network.get("gke_roce", {}).get("count")),
    ):
        if number is not None and int(number) < 1:
            raise refuse(f"{path}.{name}", f"must be at least 1, found {number}")


def _check_volumes(binding: dict[str, Any]) -> None:
    """Volumes that pods mount as they are: the model cache, and the node's folder for compiled kernels."""
    if len(binding.get("cache_volume", "1")) != 1:
        raise refuse("cache_volume", "must be exactly one of nfs, csi, hostPath, as in a pod's volumes")
    folder = binding.get("compile_cache", {}).get("host_path", "/")
    if ".." in folder.split("/"):
        raise refuse("compile_cache.host_path", "must be an absolute path on the nodes")


def _check_patch(index: int, patch: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in patch.items() if value is not None}
    if ("merge" in given) == ("json6902" in given):
        raise refuse(f"patches[{index}]", "must have exactly one of merge, json6902")
    return given
