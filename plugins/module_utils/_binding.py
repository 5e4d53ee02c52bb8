# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the binding of the inventory (dynamo_binding): its options, normalised once, and what is refused in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

SCHEDULING: dict[str, Any] = {
    "node_selector": {"type": "dict"},
    "tolerations": {"type": "list", "elements": "dict"},
    "affinity": {"type": "dict"},
    "scheduler_name": {"type": "str"},
    "runtime_class": {"type": "str"},
    "priority_class": {"type": "str"},
}
NETWORK: dict[str, Any] = {
    "interface": {"type": "str"},
    "gloo_interface": {"type": "str"},
    "rdma_resource": {"type": "str"},
    "rdma_count": {"type": "int"},
    "infiniband": {"type": "dict", "options": {"devices": {"type": "str", "required": True}}},
    "gke_roce": {
        "type": "dict",
        "options": {
            "default_interface": {"type": "str", "required": True},
            "networks": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "interface": {"type": "str", "required": True},
                    "network": {"type": "str", "required": True},
                },
            },
            "count": {"type": "int", "default": 1},
            "cross_nic": {"type": "str"},
        },
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
    "name": {"type": "str"},
    "labels": {"type": "dict"},
    "annotations": {"type": "dict"},
    "pull_secrets": {"type": "list", "elements": "str"},
    "image_registry": {"type": "str"},
    "scheduling": {"type": "dict", "options": {**SCHEDULING, "components": {"type": "dict"}}},
    "network": {"type": "dict", "options": {**NETWORK, "components": {"type": "dict"}}},
    "compute_domain": {"type": "str"},
    "cache_volume": {"type": "dict", "options": {key: {"type": "dict"} for key in ("nfs", "csi", "hostPath")}},
    "compile_cache": {"type": "dict", "options": {"host_path": {"type": "str", "required": True}}},
    "patches": {
        "type": "list",
        "elements": "dict",
        "options": {
            "component": {"type": "str"},
            "merge": {"type": "dict"},
            "json6902": {"type": "list", "elements": "dict"},
        },
    },
    "placement": {"type": "dict", "options": {"topology_key": {"type": "str", "required": True}}},
    "job": {
        "type": "dict",
        "options": {"node_selector": SCHEDULING["node_selector"], "tolerations": SCHEDULING["tolerations"]},
    },
    **{key: {"type": "dict"} for key in BY_COMPONENT},
}
# Labels and annotations that say whose an object is, or that the operator reads as its own.
OWN_LABELS = ("app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "inferops.dynamo/release")
OWN_ANNOTATIONS = ("nvidia.com/workload-provider", "nvidia.com/current-worker-hash-v2", "nvidia.com/enable-grove")
DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z")
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|PASSWORD|PASSWD|SECRET|CREDENTIALS?|(?:API|ACCESS|PRIVATE|SECRET)_?KEY)\Z", re.I
)
_SECRET_VALUE = re.compile(r"\b(?:hf_[A-Za-z0-9]{16,}|nvapi-[\w-]{16,})|-----BEGIN [A-Z ]*PRIVATE KEY")
_USER_INFO = re.compile(r"://[^/\s@]+@")
_ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*\Z")
_VALUE_FROM = ("secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef")
_ABOUT = re.compile(r"^(?:argument|Elements value for option) '([^']+)' ?")
_FOUND_IN = re.compile(r" ?found in '([^']+)'\.?")


def refuse(path: str, problem: str) -> DynamoError:
    """The error of a wrong binding; path as the inventory spells it, without `dynamo_binding.`."""
    return DynamoError(f"dynamo_binding{'.' + path if path else ''}: {problem}", "BINDING")


def _check_spec(spec: dict[str, Any], value: Mapping[str, Any], path: str) -> dict[str, Any]:
    result = ArgumentSpecValidator(spec).validate(dict(value))
    if not result.error_messages:
        return {key: item for key, item in result.validated_parameters.items() if item is not None}
    # Of several messages about one value the last names the key; the validator's words are kept, its layout is not.
    message = next((m for m in result.error_messages if _ABOUT.match(m)), result.error_messages[0])
    unknown, separator, allowed = message.partition(". Supported parameters include: ")
    if separator:
        raise refuse(".".join(filter(None, (path, unknown))), f"no such key; there are {allowed.rstrip('.')}")
    about, inside = _ABOUT.match(message), _FOUND_IN.search(message)
    if about:
        inner = inside[1].replace(" -> ", ".") if inside else ""
        problem = " ".join(_FOUND_IN.sub("", message[about.end() :]).split())
        raise refuse(".".join(filter(None, (path, inner, about[1]))), problem)
    raise refuse(path, message)


def secret_problem(name: str, value: str) -> str:
    """Why the variable `name` must not hold `value` in clear text, or nothing. The value is never repeated."""
    if _USER_INFO.search(value):
        return "holds a URL with a user name or password; give the address without it"
    if _SECRET_NAME.search(name) or _SECRET_VALUE.search(value):
        return "looks like a secret in clear text; refer to a Secret instead: {secretKeyRef: {name: ..., key: ...}}"
    return ""


def environment(variables: Any, path: str) -> list[dict[str, Any]]:
    """{NAME: text | {secretKeyRef: ...}} as a Kubernetes env list, in the order given."""
    if not isinstance(variables, Mapping):
        raise refuse(path, "must be a dictionary of variable names and values")
    entries: list[dict[str, Any]] = []
    for name, value in variables.items():
        if not isinstance(name, str) or not _ENV_NAME.match(name):
            raise refuse(path, f"{name!r} is no variable name (quote names such as ON or Y)")
        where = f"{path}.{name}"
        if isinstance(value, Mapping):
            if list(value) not in [[source] for source in _VALUE_FROM]:
                raise refuse(where, f"must be a text or exactly one of {', '.join(_VALUE_FROM)}")
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


def texts(value: Any, path: str) -> dict[str, str]:
    """A dictionary of texts, such as labels."""
    if not isinstance(value, Mapping):
        raise refuse(path, "must be a dictionary")
    return {str(key): text(item, f"{path}.{key}") for key, item in value.items()}


def normalise(binding: Any) -> dict[str, Any]:
    """A checked copy of dynamo_binding without empty options. Values that are meant for one component are checked where
    they are applied, because only there it is known which components exist."""
    if not isinstance(binding, Mapping):
        raise refuse("", f"must be a dictionary, found {type(binding).__name__}")
    odd = next((key for key in binding if not isinstance(key, str)), "")
    if odd != "":
        raise refuse("", f"keys must be texts, found {odd!r}")
    result = _check_spec(SPEC, binding, "")
    if "node_selector" in result.get("job", {}):
        result["job"]["node_selector"] = texts(result["job"]["node_selector"], "job.node_selector")
    for section, spec in (("scheduling", SCHEDULING), ("network", NETWORK)):
        if section in result:
            result[section] = _by_component(section, spec, result[section])
    _check_network("network", result.get("network", {}))
    for key, facts in result.get("network", {}).get("components", {}).items():
        _check_network(f"network.components.{key}", {**result["network"], **facts})
    _check_volumes(result)
    if "patches" in result:
        result["patches"] = [_check_patch(index, patch) for index, patch in enumerate(result["patches"])]
    for key in ("labels", "annotations"):
        result[key] = texts(result.get(key, {}), key)
    taken = sorted(({*OWN_LABELS} & result["labels"].keys()) | ({*OWN_ANNOTATIONS} & result["annotations"].keys()))
    if taken:
        raise refuse(
            "labels" if taken[0] in result["labels"] else "annotations", f"{taken[0]} is set by this collection"
        )
    for name in result.get("pull_secrets", []):
        if not DNS_NAME.match(name):
            raise refuse("pull_secrets", f"{name!r} is no name of a Secret; give a list of names")
    for key in ("name", "compute_domain"):
        if key in result and not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", result[key]):
            raise refuse(key, f"{result[key]!r} must be lower-case letters, digits and hyphens, starting with a letter")
    if "image_registry" in result and ("://" in result["image_registry"] or "@" in result["image_registry"]):
        raise refuse(
            "image_registry", "must be a registry and path such as mirror.example.com/nvcr, without a scheme or user"
        )
    return result


def _by_component(section: str, spec: dict[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """A section whose options can also be given under `components.<which>`, without its empty options."""
    result = _filled(value)
    if "components" in result:
        for key, item in result["components"].items():
            if not isinstance(item, Mapping):
                raise refuse(f"{section}.components.{key}", "must be a dictionary")
        result["components"] = {
            str(key): _filled(_check_spec(spec, item, f"{section}.components.{key}"))
            for key, item in result["components"].items()
        }
    return result


def _filled(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _filled(item) if isinstance(item, Mapping) else item for key, item in value.items() if item is not None
    }


def _check_network(path: str, network: Mapping[str, Any]) -> None:
    if ("rdma_resource" in network) != ("rdma_count" in network):
        raise refuse(path, "rdma_resource and rdma_count belong together")
    if "infiniband" in network and "gke_roce" in network:
        raise refuse(path, "infiniband and gke_roce exclude each other")
    if "rdma_resource" in network and not re.fullmatch(r"[a-z0-9.-]+/[\w.-]+", network["rdma_resource"]):
        raise refuse(f"{path}.rdma_resource", "must be the name of an extended resource, such as rdma/ib")
    for name, number in (
        ("rdma_count", network.get("rdma_count")),
        ("count", network.get("gke_roce", {}).get("count")),
    ):
        if number is not None and number < 1:
            raise refuse(f"{path}.{name}", f"must be at least 1, found {number}")


def _check_volumes(binding: dict[str, Any]) -> None:
    """Volumes that pods mount as they are: the model cache, and the node's folder for compiled kernels."""
    if "cache_volume" in binding:
        sources = {kind: source for kind, source in binding["cache_volume"].items() if source is not None}
        if len(sources) != 1:
            raise refuse("cache_volume", "must be exactly one of nfs, csi, hostPath, as in a pod's volumes")
        binding["cache_volume"] = sources
        needed = {"nfs": ("server", "path"), "csi": ("driver",), "hostPath": ("path",)}
        for kind, source in sources.items():
            missing = [key for key in needed[kind] if not source.get(key)]
            if missing:
                raise refuse(f"cache_volume.{kind}", f"{' and '.join(missing)} must be set")
    folder = binding.get("compile_cache", {}).get("host_path", "/")
    if not folder.startswith("/") or ".." in folder.split("/"):
        raise refuse("compile_cache.host_path", "must be an absolute path on the nodes")


def _check_patch(index: int, patch: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in patch.items() if value is not None}
    if ("merge" in given) == ("json6902" in given):
        raise refuse(f"patches[{index}]", "must have exactly one of merge, json6902")
    return given
