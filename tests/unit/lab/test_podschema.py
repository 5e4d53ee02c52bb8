# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pod's schema in our CRDs, and what becomes of a real CRD."""

from __future__ import annotations

from typing import Any

import podschema

REF = "#/components/schemas/"
DEFINITIONS: dict[str, Any] = {
    "io.k8s.api.core.v1.Thing": {
        "type": "object",
        "description": "dropped",
        "required": ["ports"],
        "x-kubernetes-group-version-kind": [],
        "properties": {
            "metadata": {"default": {}, "allOf": [{"$ref": REF + podschema.OBJECT_META}]},
            "policy": {"type": "string", "default": "A", "enum": ["A", "B"]},
            "limits": {"type": "object", "additionalProperties": {"$ref": REF + podschema.QUANTITY}},
            "ports": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "x-kubernetes-patch-strategy": "merge",
                "items": {"default": {}, "allOf": [{"$ref": REF + "io.k8s.api.core.v1.Port"}]},
            },
        },
    },
    "io.k8s.api.core.v1.Port": {
        "type": "object",
        "required": ["port"],
        "properties": {
            "port": {"type": "integer", "format": "int32"},
            "protocol": {"type": "string", "default": "TCP"},
        },
    },
    podschema.OBJECT_META: {
        "type": "object",
        "properties": {key: {"type": "string"} for key in (*podschema.META_FIELDS, "managedFields")},
    },
}


def test_fill() -> None:
    thing = podschema.fill({"spec": [{"$ref": "Thing"}]}, DEFINITIONS)["spec"][0]
    assert set(thing) == {"type", "required", "properties"}
    assert set(thing["properties"]["metadata"]["properties"]) == set(podschema.META_FIELDS)
    assert thing["properties"]["policy"] == {"type": "string"}  # neither default nor enum: the real one has none
    assert thing["properties"]["limits"]["additionalProperties"]["x-kubernetes-int-or-string"] is True
    ports = thing["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["port", "protocol"]
    assert "x-kubernetes-patch-strategy" not in ports
    assert ports["items"]["properties"] == {
        "port": {"type": "integer", "format": "int32"},
        "protocol": {"type": "string", "default": "TCP"},  # a key of a list map needs one
    }


def test_only_beta() -> None:
    versions = [
        {"name": "v1alpha1", "served": True, "storage": False, "schema": {}},
        {"name": "v1beta1", "served": True, "storage": True, "schema": {}},
    ]
    crd = podschema.only_beta({"kind": "CRD", "spec": {"conversion": {"strategy": "Webhook"}, "versions": versions}})
    assert crd == {"kind": "CRD", "spec": {"versions": [versions[1]]}}


def test_a_definition_without_beta_keeps_what_it_has() -> None:
    crd = podschema.only_beta({"spec": {"versions": [{"name": "v1alpha1", "served": True, "storage": True}]}})
    assert crd["spec"]["versions"] == [{"name": "v1alpha1", "served": True, "storage": True}]
