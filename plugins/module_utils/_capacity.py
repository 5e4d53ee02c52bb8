# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: do the pods of a release fit on the nodes, beside what runs there already? Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import GPU

try:
    from kubernetes.utils import parse_quantity
except ImportError:  # reported by _cluster.connect, which comes first
    parse_quantity = None

DGD_LABEL = "nvidia.com/dynamo-graph-deployment-name"
_BLOCKING = ("NoSchedule", "NoExecute")

Amounts = dict[str, Decimal]


@dataclass(frozen=True)
class Demand:
    """`count` pods of one component, each asking for `requests` (base units: cores, bytes, devices) on one node."""

    name: str
    spec: Mapping[str, Any]
    requests: Amounts
    count: int


@dataclass
class Placement:
    """Where the pods went (component -> node names) and why the others found no place (component -> text)."""

    nodes: dict[str, list[str]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def _add(total: Amounts, more: Mapping[str, Decimal]) -> None:
    for key, value in more.items():
        total[key] = total.get(key, Decimal(0)) + value


def _container(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    # The API server fills a missing request from the limit.
    merged = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {key: parse_quantity(value) for key, value in merged.items()}


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """What the scheduler counts for a pod: containers and sidecars or the largest init container, plus overhead."""
    total: Amounts = {"pods": Decimal(1)}
    for container in spec.get("containers") or []:
        _add(total, _container(container))
    for container in spec.get("initContainers") or []:
        amounts = _container(container)
        if container.get("restartPolicy") == "Always":
            _add(total, amounts)
        else:
            for key, value in amounts.items():
                total[key] = max(total.get(key, Decimal(0)), value)
    _add(total, {key: parse_quantity(value) for key, value in (spec.get("overhead") or {}).items()})
    return total


def demands(manifest: Mapping[str, Any]) -> list[Demand]:
    """The pods of every component of a DynamoGraphDeployment, the largest first."""
    found = []
    for component in manifest["spec"]["components"]:
        spec = (component.get("podTemplate") or {}).get("spec") or {}
        nodes = (component.get("multinode") or {}).get("nodeCount", 1)
        found.append(Demand(component["name"], spec, pod_requests(spec), component.get("replicas", 1) * nodes))
    return sorted(found, key=lambda d: (d.requests.get(GPU, 0), d.requests.get("memory", 0)), reverse=True)


def job(wanted: Mapping[str, Any], resources: Mapping[str, Any]) -> Demand:
    """The one pod of the download Job of a release."""
    spec = {
        "containers": [{"resources": resources}],
        "nodeSelector": wanted.get("node_selector") or {},
        "tolerations": wanted.get("tolerations") or [],
    }
    return Demand(f"download Job {wanted['name']}", spec, pod_requests(spec), 1)


def job_pod(pod: Mapping[str, Any], namespace: str, name: str) -> bool:
    """Is this a pod of the Job `name` in `namespace`?"""
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    return meta.get("namespace") == namespace and labels.get("batch.kubernetes.io/job-name") == name


def _expression(rule: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    key, operator, wanted = rule["key"], rule["operator"], rule.get("values") or []
    if operator in ("NotIn", "DoesNotExist"):
        return key not in values or (operator == "NotIn" and values[key] not in wanted)
    if key not in values:
        return False
    if operator == "In":
        return values[key] in wanted
    if operator in ("Gt", "Lt"):
        try:
            have, limit = int(values[key]), int(wanted[0])
        except (ValueError, IndexError):
            return False
        return have > limit if operator == "Gt" else have < limit
    return operator == "Exists"


def _term(term: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    on_labels, on_fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    # An empty term matches no node.
    return bool(on_labels or on_fields) and (
        all(_expression(rule, labels) for rule in on_labels) and all(_expression(rule, fields) for rule in on_fields)
    )


def tolerated(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Does one of the pod's tolerations cover the node's taint?"""
    for toleration in tolerations:
        if toleration.get("effect") not in (None, "", taint["effect"]):
            continue
        key = toleration.get("key")
        if toleration.get("operator") == "Exists":
            if key in (None, "", taint["key"]):
                return True
        elif key == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def obstacle(node: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    """Why a pod of this spec can't be placed on this node however empty it is; "" when it can."""
    labels = node["metadata"].get("labels") or {}
    if (node.get("spec") or {}).get("unschedulable"):
        return "is cordoned"
    for key, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return f"has not the label {key}={value}"
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if affinity and not any(_term(term, node) for term in affinity.get("nodeSelectorTerms") or []):
        return "doesn't match the node affinity"
    for taint in (node.get("spec") or {}).get("taints") or []:
        if taint["effect"] in _BLOCKING and not tolerated(taint, spec.get("tolerations") or []):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"has the taint {taint['key']}{value}:{taint['effect']}"
    return ""


def own_pod(pod: Mapping[str, Any], namespace: str, name: str) -> bool:
    """Is this a pod of the release `name` in `namespace`?"""
    meta = pod["metadata"]
    return meta.get("namespace") == namespace and (meta.get("labels") or {}).get(DGD_LABEL) == name


def _free(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> dict[str, Amounts]:
    free = {
        node["metadata"]["name"]: {
            key: parse_quantity(value) for key, value in ((node.get("status") or {}).get("allocatable") or {}).items()
        }
        for node in nodes
    }
    for pod in pods:
        place = pod["spec"].get("nodeName")
        if place in free and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            _add(free[place], {key: -value for key, value in pod_requests(pod["spec"]).items()})
    return free


def _short(key: str, value: Decimal) -> str:
    if key in ("memory", "ephemeral-storage"):
        return f"{max(value, Decimal(0)) / 2**30:.0f}Gi {key}"
    return f"{max(value, Decimal(0)).normalize():f} {key}"


def _why(
    demand: Demand, nodes: Iterable[Mapping[str, Any]], free: Mapping[str, Amounts], blocked: Mapping[str, str]
) -> str:
    texts = []
    for node in nodes:
        name = node["metadata"]["name"]
        reason = blocked.get(name) or obstacle(node, demand.spec)
        if not reason:
            lacks = [k for k, v in demand.requests.items() if v > 0 and free[name].get(k, Decimal(0)) < v]
            reason = "has free only " + ", ".join(_short(k, free[name].get(k, Decimal(0))) for k in sorted(lacks))
        texts.append(f"{name} {reason}")
    more = f", and {len(texts) - 6} more nodes" if len(texts) > 6 else ""
    return ", ".join(texts[:6]) + more if texts else "the cluster has no node"


def place(
    wanted: Iterable[Demand],
    nodes: Sequence[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]],
    blocked: Mapping[str, str] | None = None,
) -> Placement:
    """Put every pod on the node that it fills best. pods: those that hold resources; blocked: nodes and why.

    Not counted: pod affinity, topology spread, volumes bound to a zone, priorities.
    """
    blocked = blocked or {}
    free, result = _free(nodes, pods), Placement()
    for demand in wanted:
        usable = [
            n["metadata"]["name"]
            for n in nodes
            if n["metadata"]["name"] not in blocked and not obstacle(n, demand.spec)
        ]
        chosen = result.nodes.setdefault(demand.name, [])
        for _i in range(demand.count):
            fits = [
                name
                for name in usable
                if all(free[name].get(k, Decimal(0)) >= v for k, v in demand.requests.items() if v > 0)
            ]
            if not fits:
                asks = ", ".join(_short(k, v) for k, v in sorted(demand.requests.items()) if k != "pods" and v > 0)
                result.missing[demand.name] = (
                    f"{demand.name}: room for {len(chosen)} of {demand.count} pods (each asks {asks or 'nothing'}): "
                    + _why(demand, nodes, free, blocked)
                )
                break
            best = min(fits, key=lambda name: (free[name].get(GPU, 0), free[name].get("memory", 0), name))
            _add(free[best], {key: -value for key, value in demand.requests.items()})
            chosen.append(best)
    return result


def products(
    wanted: Iterable[Demand], nodes: Iterable[Mapping[str, Any]], allowed: Iterable[str]
) -> tuple[list[str], list[str], list[str]]:
    """Nodes that a GPU pod may be placed on, by their label nvidia.com/gpu.product: (allowed, other, without label)."""
    fits, other, unknown = [], [], []
    specs = [d.spec for d in wanted if d.requests.get(GPU, 0) > 0]
    for node in nodes:
        has_gpus = parse_quantity(((node.get("status") or {}).get("allocatable") or {}).get(GPU, 0)) > 0
        if not has_gpus or not any(not obstacle(node, spec) for spec in specs):
            continue
        name, product = node["metadata"]["name"], (node["metadata"].get("labels") or {}).get(f"{GPU}.product")
        if not product:
            unknown.append(name)
        elif product.startswith(tuple(allowed)):
            fits.append(name)
        else:
            other.append(f"{name} ({product})")
    return fits, other, unknown
