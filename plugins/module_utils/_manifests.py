# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: small pure helpers over Kubernetes manifests given as dictionaries."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._rules import (
    AFFINITY,
    ANNOTATIONS,
    KEY,
    LABELS,
    TOLERATION,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._shape import (
    AMOUNT,
    ANYTHING,
    COUNT,
    DEVICES,
    FLAG,
    POSITIVE,
    TEXT,
    problem,
)

Manifest = dict[str, Any]
WORKER_TYPES = ("worker", "prefill", "decode")
GPU = "nvidia.com/gpu"
HEX40 = re.compile(r"[0-9a-f]{40}\Z")

# What the code takes for granted of a manifest; the API knows the rest.
_TEXTS: dict[str, Any] = {"...": TEXT}
_OPEN: dict[str, Any] = {"...": ANYTHING}
_NAMED: dict[str, Any] = {"name!": TEXT, **_OPEN}
NAME = (re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?"), "lower-case letters, digits and hyphens, starting with a letter")
METADATA: dict[str, Any] = {"name!": TEXT, "labels": LABELS, "annotations": ANNOTATIONS, **_OPEN}
_PROBE: dict[str, Any] = dict.fromkeys(("failureThreshold", "periodSeconds", "initialDelaySeconds"), COUNT) | _OPEN
_AMOUNTS: dict[str, Any] = {"...keys": KEY, GPU: DEVICES, "...": AMOUNT}
_SOURCES = ("configMapKeyRef", "secretKeyRef", "fieldRef", "resourceFieldRef")
_ENV = [{"name!": TEXT, "value": TEXT, "valueFrom": {key: _TEXTS | {"optional": FLAG} for key in _SOURCES} | _OPEN}]
RESOURCES: dict[str, Any] = {"requests": _AMOUNTS, "limits": _AMOUNTS, "claims": [_OPEN], **_OPEN}
CONTAINER: dict[str, Any] = {
    "name!": TEXT,
    "image!": TEXT,
    "command": [TEXT],
    "args": [TEXT],
    "env": _ENV,
    "envFrom": [{"configMapRef": _NAMED, "secretRef": _NAMED, **_OPEN}],
    "volumeMounts": [{"name!": TEXT, "mountPath!": TEXT, "subPath": TEXT, **_OPEN}],
    "resources": RESOURCES,
    "startupProbe": _PROBE,
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "securityContext": {"capabilities": {"add": [TEXT], "drop": [TEXT], **_OPEN}, **_OPEN},
    **_OPEN,
}
_FILES: dict[str, Any] = {"name": TEXT, "items": [{"key!": TEXT, "path!": TEXT, **_OPEN}], **_OPEN}
_VOLUME: dict[str, Any] = {
    "name!": TEXT,
    "persistentVolumeClaim": {"claimName!": TEXT, **_OPEN},
    "configMap": _FILES,
    "projected": {"sources": [{"configMap": _FILES, **_OPEN}], **_OPEN},
    **_OPEN,
}
POD: dict[str, Any] = {
    "containers!": [CONTAINER],
    "initContainers": [CONTAINER],
    "volumes": [_VOLUME],
    "imagePullSecrets": [{"name!": TEXT}],
    "resourceClaims": [{"name!": TEXT, "resourceClaimTemplateName": TEXT, **_OPEN}],
    "nodeSelector": LABELS,
    "tolerations": [TOLERATION],
    "affinity": AFFINITY,
    "overhead": _AMOUNTS,
    **_OPEN,
}
COMPONENT: dict[str, Any] = {
    "name!": (
        re.compile(r"[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?"),
        "letters, digits and hyphens, starting with a letter",
    ),
    "type": TEXT,
    "replicas": COUNT,
    "multinode": {"nodeCount": POSITIVE, **_OPEN},
    "podTemplate!": {"metadata": {"labels": LABELS, "annotations": ANNOTATIONS, **_OPEN}, "spec!": POD, **_OPEN},
    **_OPEN,
}
GRAPH: dict[str, Any] = {
    "metadata!": {**METADATA, "name!": NAME},
    "spec!": {"annotations": ANNOTATIONS, "labels": LABELS, "backendFramework": TEXT, "env": _ENV, **_OPEN},
    **_OPEN,
}
SUPPORT: dict[str, Any] = {
    "ConfigMap": {"metadata!": METADATA, "data": _TEXTS, "binaryData": _TEXTS, **_OPEN},
    "ComputeDomain": {
        "metadata!": METADATA,
        "spec!": {"channel!": {"resourceClaimTemplate!": {"name!": TEXT, **_OPEN}, **_OPEN}, **_OPEN},
        **_OPEN,
    },
}


def placeholder(repository: str) -> str:
    """The text that stands for a commit until it is known."""
    return f"@commit:{repository}@"


def main_container(component: Mapping[str, Any]) -> dict[str, Any]:
    """The container `main`; the catalog has checked that there is one."""
    return next(c for c in component["podTemplate"]["spec"]["containers"] if c["name"] == "main")


def workers_of(dgd: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The components that hold a model."""
    return [c for c in dgd["spec"]["components"] if c.get("type") in WORKER_TYPES]


def graph(manifests: list[Manifest]) -> Manifest:
    """The DynamoGraphDeployment among the manifests."""
    return next(m for m in manifests if m["kind"] == "DynamoGraphDeployment")


def cache_user(user: int) -> dict[str, Any]:
    """The securityContext of a pod that writes the model cache: what Pod Security "restricted" asks for, unless the
    volume needs root. As the operator's workers (facts/dynamo.md 4), the pod gets its own group on volumes whose driver
    can do that."""
    group = {"runAsGroup": user, "fsGroup": user, "fsGroupChangePolicy": "OnRootMismatch"}
    return {"runAsNonRoot": user != 0, "runAsUser": user, **group, "seccompProfile": {"type": "RuntimeDefault"}}


def cache_source(claim: Mapping[str, Any]) -> dict[str, Any]:
    """What a pod mounts as the model cache: the release's claim, or the volume of the binding in its place."""
    return dict(claim.get("volume") or {"persistentVolumeClaim": {"claimName": claim["name"]}})


def references(secrets: Iterable[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """imagePullSecrets, of which an inventory may give the names alone."""
    return [{"name": secret} if isinstance(secret, str) else dict(secret) for secret in secrets]


def name_limit(component: Mapping[str, Any]) -> int:
    """Characters that the name of a deployment may have beside this component.

    <dgd>-<component>-<8 hex> is a label value and an object's name, which admission does not check
    (facts: dynamo-operator-observed §3.4).
    """
    return 63 - 1 - len(component["name"]) - (9 if component.get("type") in WORKER_TYPES else 0)


def check_component(component: Any, wrong: Callable[[str], Exception]) -> None:
    """Raise `wrong(problem)` where a component lacks what the rest of the code takes for granted."""
    name = component.get("name") if isinstance(component, dict) else None
    if not isinstance(name, str):
        raise wrong("a component has no name")
    found = problem(component, COMPONENT, null=False)
    if found:
        raise wrong(f"component {name}: {found}")
    containers = component["podTemplate"]["spec"]["containers"]
    main = [container for container in containers if container["name"] == "main"]
    if len(main) != 1:
        raise wrong(f"component {name} needs one container main with an image")


def without_nulls(value: Any) -> Any:
    """A copy in which what is null is absent, as the API takes it."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def map_text(
    value: Any, change: Callable[[str], str], keep: Callable[[str, Any], bool] = lambda key, item: False
) -> Any:
    """A copy of `value` with every text (no keys) passed through `change`, but the items that `keep` names."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: item if keep(key, item) else map_text(item, change, keep) for key, item in value.items()}
    if isinstance(value, list):
        return [map_text(item, change, keep) for item in value]
    return value


def replace_paths(value: Any, paths: Mapping[str, str]) -> Any:
    """Replace paths wherever they stand whole or as the beginning of one; of two that fit, the longer.

    A volume that is mounted at the path of a model stays there; what is mounted inside the model follows it.
    """
    if not paths:
        return value
    words = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w./-])(?:{words})(?![\w.-])")

    def volume(key: str, item: Any) -> bool:
        return key == "mountPath" and str(item).rstrip("/") in paths

    return map_text(value, lambda item: pattern.sub(lambda match: paths[match[0]], item), keep=volume)


def replace_text(value: Any, old: str, new: str) -> Any:
    """Replace the text `old` in every text of `value`."""
    return map_text(value, lambda item: item.replace(old, new))


def mirrored(image: str, registry: str) -> str:
    """The image in a mirror: registry host replaced by `registry` (host and path), tag and digest kept."""
    host, slash, rest = image.partition("/")
    named = bool(slash) and ("." in host or ":" in host or host == "localhost")
    return f"{registry.rstrip('/')}/{rest if named else image}"


def refer(value: Any, names: Mapping[str, str]) -> None:
    """Rewrite references to ConfigMaps in place: configMapKeyRef, configMapRef, configMap (volume, projected)."""
    if isinstance(value, list):
        for item in value:
            refer(item, names)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key.startswith("configMap") and isinstance(item, dict) and item.get("name") in names:
                item["name"] = names[item["name"]]
            else:
                refer(item, names)


def content_hash(config_map: Mapping[str, Any]) -> str:
    """8 hex over the content of a ConfigMap."""
    content = [config_map.get("data", {}), config_map.get("binaryData", {})]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def immutable(manifests: list[Manifest], again: bool = False) -> list[Manifest]:
    """ConfigMaps named after their content and immutable, with references rewritten: a changed one changes the workers.

    Changes `manifests` and returns them. again: the names already end in the hash of an earlier content.
    """
    names: dict[str, str] = {}
    for manifest in manifests:
        if manifest["kind"] == "ConfigMap":
            name = manifest["metadata"]["name"]
            base = name.rsplit("-", 1)[0] if again else name
            names[name] = manifest["metadata"]["name"] = f"{base}-{content_hash(manifest)}"
            manifest["immutable"] = True
    refer(graph(manifests)["spec"], names)
    return manifests


def digest(manifests: list[Manifest]) -> str:
    """sha256 over the manifests."""
    return hashlib.sha256(json.dumps(manifests, sort_keys=True).encode()).hexdigest()
