# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: fields of a release's objects that their schemas don't declare. Server-side apply refuses them.

The pod template is the one of the Kubernetes client that is installed. What is around it is listed here (facts:
dynamo §3.1); a test compares it with the vendor's CRD.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

try:
    from kubernetes.client import models
except ImportError:
    models = None  # said by whatever needs the client; without it pod templates aren't looked into

POD_TEMPLATE = "V1PodTemplateSpec"
# A dictionary lists the fields of an object; a text is a model of the Kubernetes client, [..] a list, None anything.
SCHEMA: dict[str, Any] = {
    "apiVersion": None,
    "kind": None,
    "metadata": "V1ObjectMeta",
    "spec": {
        "annotations": None,
        "labels": None,
        "backendFramework": None,
        "env": ["V1EnvVar"],
        "priorityClassName": None,
        "restart": {"id": None, "strategy": {"type": None, "order": None}},
        "topologyConstraint": {"clusterTopologyName": None, "packDomain": None},
        "providerOverride": None,
        "experimental": {"kvTransferPolicy": None},
        "components": [
            {
                "name": None,
                "type": None,
                "replicas": None,
                "minAvailable": None,
                "podTemplate": POD_TEMPLATE,
                "runtimeVersionOverride": None,
                "sharedMemorySize": None,
                "multinode": {"nodeCount": None, "leader": None, "worker": None},
                "compilationCache": {"pvcName": None, "mountPath": None},
                "modelRef": {"name": None, "revision": None},
                "scalingAdapter": None,
                "globalDynamoNamespace": None,
                "frontendSidecar": None,
                "eppConfig": None,
                "topologyConstraint": {"packDomain": None},
                "providerOverride": None,
                "experimental": None,
            }
        ],
    },
    "status": None,
}
SCHEMAS: dict[str, Any] = {
    "ConfigMap": "V1ConfigMap",
    "ComputeDomain": {
        "apiVersion": None,
        "kind": None,
        "metadata": "V1ObjectMeta",
        "spec": {"numNodes": None, "channel": {"resourceClaimTemplate": {"name": None}, "allocationMode": None}},
        "status": None,
    },
}
_LIST = re.compile(r"[Ll]ist\[(\w+)\]")


def unknown_fields(manifest: Mapping[str, Any]) -> list[str]:
    """Paths of the fields that the schema doesn't have, list entries by name where they have one."""
    return list(_unknown(manifest, SCHEMAS.get(str(manifest.get("kind")), SCHEMA), ""))


def _unknown(value: Any, schema: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        inner = schema[0] if isinstance(schema, list) else schema
        for index, item in enumerate(value):
            name = item.get("name", index) if isinstance(item, Mapping) else index
            yield from _unknown(item, inner, f"{path}[{name}]")
    elif isinstance(value, Mapping):
        fields = _fields(schema) if isinstance(schema, str) else schema
        if not isinstance(fields, dict):
            return
        for key, item in value.items():
            where = f"{path}.{key}" if path else str(key)
            if key not in fields:
                yield where
            else:
                yield from _unknown(item, fields[key], where)


def _fields(name: str) -> dict[str, Any] | None:
    """{field: schema} of a model of the Kubernetes client; None for scalars and for what is no model."""
    model = getattr(models, name, None)
    if model is None or not hasattr(model, "attribute_map"):
        return None
    return {model.attribute_map[key]: _schema(kind) for key, kind in model.openapi_types.items()}


def _schema(kind: str) -> Any:
    inner = _LIST.fullmatch(kind)
    return [inner[1]] if inner else kind
