# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: Kubernetes objects as dictionaries: whose they are, their order, comparing and showing them. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _yaml
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

Object = dict[str, Any]

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "inferops.dynamo"
LABELS = {"app.kubernetes.io/part-of": "dynamo", MANAGED_BY: MANAGER}
# securityContext of a container of ours that needs nothing: the strictest Pod Security level allows it.
HARMLESS = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65534,
    "seccompProfile": {"type": "RuntimeDefault"},
}
# Says what a Job does; its template is immutable, so another text means another Job.
CONTENT = "inferops.dynamo/content"
DGD = "DynamoGraphDeployment"
DGD_POD_LABEL = "nvidia.com/dynamo-graph-deployment-name"

# What others need comes first; kinds that are not named come with ConfigMaps.
STAGES = {
    "CustomResourceDefinition": 0,
    "Namespace": 1,
    "Secret": 2,
    "ConfigMap": 3,
    "PersistentVolumeClaim": 4,
    "ComputeDomain": 5,
    "Job": 6,
    DGD: 7,
}
# Written by the API server and by controllers, never by an apply.
SERVER_SIDE = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")
ADOPTABLE = ("DynamoGraphDeployment", "ConfigMap")
# Managers whose fields a user means by "what kubectl wrote": kubectl apply (client-side and server-side) and create.
KUBECTL = ("kubectl-client-side-apply", "kubectl-create", "kubectl", "before-first-apply")

# (label or annotation, who): evidence that a GitOps controller or Helm would undo our changes.
OWNERS = (
    ("argocd.argoproj.io/tracking-id", "Argo CD"),
    ("argocd.argoproj.io/instance", "Argo CD"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux"),
    ("helm.toolkit.fluxcd.io/name", "Flux"),
    ("meta.helm.sh/release-name", "Helm"),
)


def name_of(obj: Mapping[str, Any]) -> str:
    """`Kind namespace/name`, for messages."""
    meta = obj["metadata"]
    return f"{obj['kind']} {meta['namespace'] + '/' if meta.get('namespace') else ''}{meta['name']}"


def key_of(obj: Mapping[str, Any]) -> tuple[str, str, str, str | None]:
    """(apiVersion, kind, name, namespace), as the methods of Cluster take them."""
    meta = obj["metadata"]
    return obj["apiVersion"], obj["kind"], meta["name"], meta.get("namespace")


def check(definitions: Iterable[Any]) -> None:
    """DynamoError BAD_MANIFEST when a definition has no apiVersion, kind or name, or comes twice."""
    seen = set()
    for index, obj in enumerate(definitions):
        meta = obj.get("metadata") if isinstance(obj, Mapping) else None
        if not isinstance(meta, Mapping) or not all((obj.get("apiVersion"), obj.get("kind"), meta.get("name"))):
            raise DynamoError(f"definitions[{index}] needs apiVersion, kind and metadata.name.", "BAD_MANIFEST")
        if key_of(obj) in seen:
            raise DynamoError(f"definitions[{index}]: {name_of(obj)} comes twice.", "BAD_MANIFEST")
        seen.add(key_of(obj))


def stages(definitions: Iterable[Object], reverse: bool = False) -> list[list[Object]]:
    """The definitions in groups that may be written together, in the order of writing (reverse: of deleting)."""
    groups: dict[int, list[Object]] = {}
    for obj in definitions:
        groups.setdefault(STAGES.get(obj["kind"], STAGES["ConfigMap"]), []).append(obj)
    return [groups[stage] for stage in sorted(groups, reverse=reverse)]


def namespaces(definitions: Iterable[Object]) -> list[str]:
    """The namespaces that the definitions need and don't bring along."""
    objects = list(definitions)
    brought = {o["metadata"]["name"] for o in objects if o["kind"] == "Namespace"}
    needed = [o["metadata"].get("namespace") for o in objects]
    return [n for n in dict.fromkeys(needed) if n and n not in brought]


def namespace(name: str) -> Object:
    """A Namespace of ours."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(LABELS)}}


def defined_kinds(definitions: Iterable[Object]) -> set[tuple[str, str]]:
    """(apiVersion, kind) that the CustomResourceDefinitions among the definitions bring along."""
    return {
        (f"{o['spec']['group']}/{version['name']}", o["spec"]["names"]["kind"])
        for o in definitions
        if o["kind"] == "CustomResourceDefinition"
        for version in o["spec"]["versions"]
    }


def ours(live: Mapping[str, Any]) -> bool:
    """Whether the object carries our managed-by label."""
    return (live["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER


def foreign_owner(live: Mapping[str, Any]) -> str | None:
    """Argo CD, Flux or Helm, when labels or annotations say that it manages the object."""
    meta = live["metadata"]
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    if labels.get(MANAGED_BY) == "Helm":
        return "Helm"
    return next((who for key, who in OWNERS if key in labels or key in annotations), None)


def refuse(wanted: Mapping[str, Any], live: Mapping[str, Any], adopt: bool = False) -> None:
    """DynamoError FOREIGN or NOT_OURS when the live object is not to be written by us.

    adopt: a deployment and its ConfigMaps that kubectl made may be taken over; a Secret or a Job never is.
    """
    title, owner = name_of(wanted), foreign_owner(live)
    if owner:
        raise DynamoError(
            f"{title} is managed by {owner}, which would undo a change made here.",
            "FOREIGN",
            f"Change it through {owner}, or take it out of {owner} first.",
            owner=owner,
        )
    takeable = wanted["kind"] in ADOPTABLE
    if not ours(live) and (wanted["kind"] in ("Secret", "Job") or (takeable and not adopt)):
        raise DynamoError(
            f"{title} exists and was not made by inferops.dynamo (no label {MANAGED_BY}={MANAGER}).",
            "NOT_OURS",
            "Delete or rename it, or take it over with -e deploy_adopt=true."
            if takeable
            else "Delete or rename it, or use another name; it is never overwritten.",
            object=title,
        )
    if wanted["kind"] == "ComputeDomain" and project(live.get("spec"), wanted.get("spec")) != wanted.get("spec"):
        raise DynamoError(
            f"{title} exists with another spec, and its spec cannot be changed.",
            "COMPUTE_DOMAIN_CHANGED",
            "Take the deployment down first (playbook teardown), then deploy again.",
            object=title,
        )


def comparable(obj: Mapping[str, Any]) -> Object:
    """The object without its status and without what the server writes into its metadata."""
    rest = {k: copy.deepcopy(v) for k, v in obj.items() if k not in ("status", "metadata")}
    rest["metadata"] = {k: copy.deepcopy(v) for k, v in obj["metadata"].items() if k not in SERVER_SIDE}
    return rest


def project(live: Any, wanted: Any) -> Any:
    """`live` reduced to the fields that `wanted` has; lists are compared item by item when they have one length."""
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        return {k: project(live[k], v) for k, v in wanted.items() if k in live}
    if isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
        return [project(a, b) for a, b in zip(live, wanted, strict=True)]
    return live


def replaces(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether a live Job does something else than the wanted one, so that it has to be deleted and made again."""
    return wanted["kind"] == "Job" and content(wanted) != content(live)


def content(job: Mapping[str, Any]) -> str | None:
    """What a Job says that it does."""
    value: str | None = (job["metadata"].get("annotations") or {}).get(CONTENT)
    return value


def diff(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> dict[str, str]:
    """One entry of ansible's diff; the values of Secrets are masked, a changed one is marked as such."""
    old = comparable(before) if before else None
    new = comparable(after) if after else None
    if (old or new or {}).get("kind") == "Secret":
        old, new = _masked(old, {}), _masked(new, old or {})
    title = name_of(after or before or {})
    return {
        "before": _yaml.dump(old) if old else "",
        "after": _yaml.dump(new) if new else "",
        "before_header": title if before else f"{title} (absent)",
        "after_header": title if after else f"{title} (absent)",
    }


def _masked(secret: Object | None, other: Mapping[str, Any]) -> Object | None:
    if secret is None:
        return None
    masked = copy.deepcopy(secret)
    # kubectl apply keeps there what it applied, which may be an older value.
    (masked["metadata"].get("annotations") or {}).pop("kubectl.kubernetes.io/last-applied-configuration", None)
    for field in ("data", "stringData"):
        if field in secret:
            old = other.get(field) or {}
            values = secret[field] or {}
            masked[field] = {
                k: "******" + (" (changed)" if k in old and old[k] != v else "") for k, v in values.items()
            }
    return masked


def adopted_fields(live: Mapping[str, Any]) -> list[Object] | None:
    """managedFields in which what kubectl's managers own belongs to our manager; None when they own nothing.

    The rule is that of client-go's csaupgrade: the union of the field sets goes into one Apply entry, the others go.
    An entry of a subresource (scale, status) stays as it is.
    """
    entries = live["metadata"].get("managedFields") or []
    taken = [e for e in entries if e.get("manager") in KUBECTL and not e.get("subresource")]
    if not taken:
        return None
    own = [e for e in entries if e.get("manager") == MANAGER and e.get("operation") == "Apply"]
    fields: dict[str, Any] = {}
    for entry in [*own, *taken]:
        _unite(fields, entry.get("fieldsV1") or {})
    merged = {**(own or taken)[0], "manager": MANAGER, "operation": "Apply", "fieldsV1": fields}
    return [*(e for e in entries if e not in taken and e not in own), merged]


def _unite(fields: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        _unite(fields.setdefault(key, {}), value)


def adoption(live: Mapping[str, Any]) -> list[Object] | None:
    """The JSON patch that takes kubectl's fields over; it fails when the object has changed since it was read."""
    fields = adopted_fields(live)
    if fields is None:
        return None
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
        {"op": "replace", "path": "/metadata/managedFields", "value": fields},
    ]
