# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts the cluster's own schemas into our CRDs. Pure functions.

A CRD file says `{$ref: PodTemplateSpec}`; the definition that the API server publishes under /openapi/v3/apis/apps/v1
is made structural and put in its place: so an unknown field of a pod is refused here as by the real definition."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

CORE = "io.k8s.api.core.v1."
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
EITHER: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
KNOWN: dict[str, Schema] = {
    QUANTITY: {
        **EITHER,
        "pattern": rf"^(\+|-)?{NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{NUMBER}))?$",
    },
    INT_OR_STRING: EITHER,
}
META_FIELDS = ("annotations", "finalizers", "labels", "name", "namespace")
KEPT = ("type", "format", "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")


def structural(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """References inlined, and only the keywords of a structural schema. Defaults go (the stored object shall equal the
    applied one), except those of list keys, which the API demands."""
    reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", []) if "$ref" in part), None)
    if reference:
        name = reference.rsplit("/", 1)[-1]
        return KNOWN.get(name) or resolve(name, definitions)
    result = {key: schema[key] for key in KEPT if key in schema}
    if "properties" in schema:
        result["properties"] = {name: structural(part, definitions) for name, part in schema["properties"].items()}
    if "items" in schema:
        items = structural(schema["items"], definitions)
        result["items"] = items
        for key in schema.get("x-kubernetes-list-map-keys", []):
            if key not in items.get("required", []):
                default = default_of(schema["items"], key, definitions)
                items["properties"] = {**items["properties"], key: {**items["properties"][key], "default": default}}
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = structural(schema["additionalProperties"], definitions)
    return result


def resolve(name: str, definitions: dict[str, Schema]) -> Schema:
    schema = definitions[name]
    if name == OBJECT_META:
        schema = {"type": "object", "properties": {key: schema["properties"][key] for key in META_FIELDS}}
    return structural(schema, definitions)


def default_of(items: Schema, key: str, definitions: dict[str, Schema]) -> Any:
    reference = items.get("$ref") or items["allOf"][0]["$ref"]
    return definitions[reference.rsplit("/", 1)[-1]]["properties"][key].get("default", "")


def fill(node: Any, definitions: dict[str, Schema]) -> Any:
    """A CRD with every {$ref: Name of core/v1} replaced."""
    if isinstance(node, list):
        return [fill(part, definitions) for part in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("$ref"), str):
        return resolve(CORE + node["$ref"], definitions)
    return {key: fill(part, definitions) for key, part in node.items()}


def only_beta(crd: Schema) -> Schema:
    """A definition given by the user, fit for a lab: without the conversion webhook that isn't there, and with the one
    version that the lab serves, v1beta1, where there is one."""
    spec = {key: part for key, part in crd["spec"].items() if key != "conversion"}
    beta = [version for version in spec["versions"] if version["name"] == "v1beta1"]
    versions = beta or spec["versions"]
    newest = versions[-1]["name"]
    spec["versions"] = [{**v, "served": True, "storage": v["name"] == newest} for v in versions]
    return {**crd, "spec": spec}
