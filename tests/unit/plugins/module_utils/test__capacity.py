# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where pods fit: requests, selectors, affinity, taints, and what others use."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _capacity

GPU = "nvidia.com/gpu"
OWN = {_capacity.DGD_LABEL: "dgd"}


def node(name: str, gpus: int = 4, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    allocatable = {"cpu": "32", "memory": "256Gi", "pods": "110", GPU: str(gpus)}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": {"allocatable": allocatable}}


def pod(place: str, gpus: int, phase: str = "Running", labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "llm", "labels": labels or {}},
        "spec": {"nodeName": place, "containers": [{"resources": {"limits": {GPU: str(gpus)}}}]},
        "status": {"phase": phase},
    }


def dgd(replicas: int = 1, gpus: int = 4, cpu: str = "16", **spec: Any) -> dict[str, Any]:
    resources = {"limits": {GPU: str(gpus)}, "requests": {"cpu": cpu, "memory": "128Gi"}}
    worker = {
        "name": "Worker",
        "type": "worker",
        "replicas": replicas,
        "podTemplate": {"spec": {"containers": [{"name": "main", "resources": resources}], **spec}},
    }
    frontend = {"name": "Frontend", "type": "frontend", "podTemplate": {"spec": {"containers": [{"name": "main"}]}}}
    return {"spec": {"components": [frontend, worker]}}


TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}


def affinity(key: str, operator: str, *values: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{"resources": {"requests": {"cpu": "500m"}}}] * 2}, {"pods": 1, "cpu": 1}),
        ({"containers": [{"resources": {"limits": {GPU: 4}}}]}, {"pods": 1, GPU: 4}),
        (
            {
                "containers": [{"resources": {"requests": {"memory": "1Gi"}}}],
                "initContainers": [{"resources": {"requests": {"memory": "3Gi"}}}],
            },
            {"pods": 1, "memory": 3 * 2**30},
        ),
        (
            {
                "containers": [{"resources": {"requests": {"cpu": 1}}}],
                "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": 1}}}],
                "overhead": {"cpu": "250m"},
            },
            {"pods": 1, "cpu": Decimal("2.25")},
        ),
    ],
)
def test_pod_requests(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    assert _capacity.pod_requests(spec) == expected


@pytest.mark.parametrize(
    ("given", "spec", "expected"),
    [
        (node("n"), {}, ""),
        (node("n", unschedulable=True), {}, "is cordoned"),
        (node("n"), {"nodeSelector": {"pool": "a"}}, "has not the label pool=a"),
        (node("n", labels={"pool": "a"}), {"nodeSelector": {"pool": "a"}}, ""),
        (node("n", taints=[TAINT]), {}, "has the taint nvidia.com/gpu=present:NoSchedule"),
        (node("n", taints=[TAINT]), {"tolerations": [{"key": GPU, "operator": "Exists"}]}, ""),
        (node("n", taints=[TAINT]), {"tolerations": [{"operator": "Exists"}]}, ""),
        (node("n", taints=[TAINT]), {"tolerations": [{"key": GPU, "value": "present"}]}, ""),
        (
            node("n", taints=[TAINT]),
            {"tolerations": [{"key": GPU, "value": "other"}]},
            "has the taint nvidia.com/gpu=present:NoSchedule",
        ),
        (
            node("n", taints=[TAINT]),
            {"tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoExecute"}]},
            "has the taint nvidia.com/gpu=present:NoSchedule",
        ),
        (node("n", taints=[{**TAINT, "effect": "PreferNoSchedule"}]), {}, ""),
        (node("n", labels={"a": "x"}), {"affinity": affinity("a", "In", "x", "y")}, ""),
        (node("n", labels={"a": "z"}), {"affinity": affinity("a", "In", "x")}, "doesn't match the node affinity"),
        (node("n"), {"affinity": affinity("a", "NotIn", "x")}, ""),
        (node("n"), {"affinity": affinity("a", "DoesNotExist")}, ""),
        (node("n", labels={"a": "x"}), {"affinity": affinity("a", "DoesNotExist")}, "doesn't match the node affinity"),
        (node("n", labels={"a": "5"}), {"affinity": affinity("a", "Gt", "4")}, ""),
        (node("n", labels={"a": "x"}), {"affinity": affinity("a", "Lt", "4")}, "doesn't match the node affinity"),
    ],
)
def test_obstacle(given: dict[str, Any], spec: dict[str, Any], expected: str) -> None:
    assert _capacity.obstacle(given, spec) == expected


@pytest.mark.parametrize(
    ("manifest", "nodes", "pods", "fits"),
    [
        pytest.param(dgd(), [node("a")], [], True, id="one worker, one node"),
        pytest.param(dgd(2), [node("a"), node("b")], [], True, id="one node each"),
        pytest.param(dgd(2), [node("a", 8)], [], True, id="two on a large node"),
        pytest.param(dgd(1), [node("a", 2), node("b", 2)], [], False, id="a worker is not split over nodes"),
        pytest.param(dgd(), [node("a")], [pod("a", 1)], False, id="another pod has a GPU"),
        pytest.param(dgd(), [node("a")], [pod("a", 4, "Succeeded")], True, id="a finished pod has none"),
        pytest.param(dgd(cpu="40"), [node("a")], [], False, id="cpu"),
        pytest.param(dgd(), [node("a", unschedulable=True)], [], False, id="cordoned"),
        pytest.param(dgd(), [], [], False, id="no node"),
    ],
)
def test_place(manifest: dict[str, Any], nodes: list[dict[str, Any]], pods: list[dict[str, Any]], fits: bool) -> None:
    placement = _capacity.place(_capacity.demands(manifest), nodes, pods)
    assert placement.missing.get("Worker") is not fits


def test_best_fit_leaves_the_large_node_free() -> None:
    placement = _capacity.place(_capacity.demands(dgd()), [node("large", 8), node("small", 4)], [])
    assert placement.nodes["Worker"] == ["small"]


def test_the_reason_names_every_node() -> None:
    nodes = [node("a"), node("b", unschedulable=True), node("c")]
    placement = _capacity.place(_capacity.demands(dgd(2)), nodes, [pod("a", 3)], {"c": "belongs to another domain"})
    assert placement.missing["Worker"] == (
        "Worker: room for 0 of 2 pods (each asks 16 cpu, 128Gi memory, 4 nvidia.com/gpu): "
        "a has free only 1 nvidia.com/gpu, b is cordoned, c belongs to another domain"
    )


def test_long_lists_of_nodes_are_cut() -> None:
    nodes = [node(f"n{i}", 0) for i in range(9)]
    assert "and 3 more nodes" in _capacity.place(_capacity.demands(dgd()), nodes, []).missing["Worker"]


@pytest.mark.parametrize(
    ("labels", "namespace", "own"),
    [(OWN, "llm", True), (OWN, "other", False), ({}, "llm", False), (None, "llm", False)],
)
def test_own_pod(labels: dict[str, str] | None, namespace: str, own: bool) -> None:
    assert _capacity.own_pod({"metadata": {"namespace": namespace, "labels": labels}}, "llm", "dgd") is own


def test_products() -> None:
    label = f"{GPU}.product"
    nodes = [
        node("right", labels={label: "NVIDIA-GB300-NVL"}),
        node("wrong", labels={label: "NVIDIA-B200"}),
        node("plain"),
        node("cpu-only", 0, labels={label: "NVIDIA-B200"}),
        node("closed", labels={label: "NVIDIA-B200"}, unschedulable=True),
    ]
    found = _capacity.products(_capacity.demands(dgd()), nodes, ["NVIDIA-GB300"])
    assert found == (["right"], ["wrong (NVIDIA-B200)"], ["plain"])
