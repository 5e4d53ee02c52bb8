# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, labels, environment and drift of what the stand-in makes for a DGD."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import render

KNOWN = [r"nvcr\.io/nvidia/ai-dynamo/vllm-runtime:1\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?"]
IMAGE = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.0-minimax-m3-dev.1"


def component(name: str, kind: str, **more: Any) -> dict[str, Any]:
    main = {"name": "main", "image": IMAGE, "env": [{"name": "POD_NAME", "value": "mine"}, {"name": "A", "value": "1"}]}
    return {"name": name, "type": kind, "replicas": 1, "podTemplate": {"spec": {"containers": [main]}}, **more}


DGD: dict[str, Any] = {
    "apiVersion": "nvidia.com/v1beta1",
    "kind": "DynamoGraphDeployment",
    "metadata": {"name": "lab-agg", "namespace": "lab", "uid": "u1", "labels": {"mine": "not copied"}},
    "spec": {
        "backendFramework": "vllm",
        "components": [component("Frontend", "frontend"), component("Worker", "worker")],
    },
}


def made(kind: str, dgd: dict[str, Any] | None = None) -> dict[str, Any]:
    """The Deployment of the component of this type."""
    dgd = dgd or DGD
    part = next(c for c in dgd["spec"]["components"] if c["type"] == kind)
    dcd = render.dcd(dgd, part, "b608f8b1")
    dcd["metadata"]["uid"] = "u2"
    return render.deployment(dcd, "lab:1", KNOWN)


def test_names_and_labels() -> None:
    front, worker = (render.dcd(DGD, part, "b608f8b1") for part in DGD["spec"]["components"])
    assert front["metadata"]["name"] == "lab-agg-frontend"
    assert worker["metadata"]["name"] == "lab-agg-worker-b608f8b1"
    assert worker["metadata"]["labels"] == {
        "nvidia.com/dynamo-component": "Worker",
        "nvidia.com/dynamo-graph-deployment-name": "lab-agg",
        "nvidia.com/dynamo-namespace": "lab-lab-agg",
        "nvidia.com/dynamo-worker-hash": "b608f8b1",
    }
    assert render.WORKER_HASH not in front["metadata"]["labels"]
    assert front["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] is True
    names = [obj["metadata"]["name"] for _path, obj in render.discovery(DGD)]
    assert names == [f"lab-agg-k8s-service-discovery{end}" for end in ("", "-role", "-binding")]


def test_service_selects_every_generation() -> None:
    dcd = render.dcd(DGD, DGD["spec"]["components"][1], "b608f8b1")
    dcd["metadata"]["uid"] = "u2"
    service = render.service(dcd)
    assert service["spec"]["selector"] == {
        "nvidia.com/dynamo-component": "Worker",
        "nvidia.com/dynamo-component-type": "worker",
        "nvidia.com/dynamo-namespace": "lab-lab-agg",
    }
    assert service["metadata"]["labels"]["nvidia.com/dynamo-discovery-enabled"] == "true"


def test_worker_pod() -> None:
    deployment = made("worker")
    template = deployment["spec"]["template"]
    main = template["spec"]["containers"][0]
    env = {entry["name"]: entry for entry in main["env"]}
    assert [entry["name"] for entry in main["env"]] == sorted(env)
    assert env["POD_NAME"] == {"name": "POD_NAME", "value": "mine"}  # the user's value wins
    assert env["DYN_NAMESPACE"]["value"] == "lab-lab-agg"
    assert env["DYN_NAMESPACE_WORKER_SUFFIX"]["value"] == "b608f8b1"
    assert (main["image"], main["imagePullPolicy"]) == ("lab:1", "IfNotPresent")
    assert deployment["spec"]["selector"]["matchLabels"] == {"nvidia.com/selector": "lab-agg-worker-b608f8b1"}
    assert template["metadata"]["labels"]["nvidia.com/metrics-enabled"] == "true"
    assert main["livenessProbe"]["failureThreshold"] == 1
    assert main["volumeMounts"] == [{"name": "shared-memory", "mountPath": "/dev/shm"}]
    assert template["spec"]["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}
    assert template["spec"]["securityContext"] == {"fsGroup": 1000}


def test_frontend_pod() -> None:
    main = made("frontend")["spec"]["template"]["spec"]["containers"][0]
    env = {entry["name"]: entry.get("value") for entry in main["env"]}
    assert env["DYN_NAMESPACE_PREFIX"] == "lab-lab-agg"
    assert "startupProbe" not in main
    assert "volumeMounts" not in main


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (IMAGE, "lab:1"),
        (IMAGE.replace("vllm-runtime", "vllm-runtim"), None),
        (IMAGE.partition(":")[0] + ":latest", None),
    ],
)
def test_only_a_known_runtime_is_swapped(image: str, expected: str | None) -> None:
    main = {"name": "main", "image": image}
    render.swap_image(main, "lab:1", KNOWN)
    assert main["image"] == (expected or image)


def changed(path: str, value: Any) -> dict[str, Any]:
    """DGD with one value of its Worker, or of its spec, set."""
    result = copy.deepcopy(DGD)
    where = result["spec"] if path in ("annotations", "labels", "env") else result["spec"]["components"][1]
    where[path] = value
    return result


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (changed("replicas", 3), True),
        (changed("sharedMemorySize", "1Gi"), False),
        (changed("runtimeVersionOverride", "1.6.0"), False),
        (changed("annotations", {"a": "b"}), False),
        (changed("labels", {"a": "b"}), False),
        (changed("env", [{"name": "B", "value": "2"}]), False),
    ],
)
def test_worker_hash(other: dict[str, Any], same: bool) -> None:
    assert (render.worker_hash(other) == render.worker_hash(DGD)) is same


def test_frontend_is_not_hashed() -> None:
    other = copy.deepcopy(DGD)
    other["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]["image"] += ".2"
    assert render.worker_hash(other) == render.worker_hash(DGD)


@pytest.mark.parametrize(
    ("notes", "strategy"),
    [
        ({}, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
        ({render.STRATEGY: "Recreate"}, {"type": "Recreate"}),
        (
            {render.MAX_SURGE: "0", render.MAX_UNAVAILABLE: "1"},
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        ),
        (
            {render.MAX_SURGE: "0", render.MAX_UNAVAILABLE: "0"},
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        ),
    ],
)
def test_strategy(notes: dict[str, str], strategy: dict[str, Any]) -> None:
    worker = component("Worker", "worker")
    worker["podTemplate"]["metadata"] = {"annotations": notes}
    dgd = {**DGD, "spec": {"components": [component("Frontend", "frontend"), worker]}}
    assert made("worker", dgd)["spec"]["strategy"] == strategy
    assert made("frontend", dgd)["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == "25%"


def test_drift() -> None:
    rendered = made("worker")
    first = render.stamped(rendered, None)
    assert first is not None
    live = {**first, "metadata": {**first["metadata"], "generation": 1}}
    assert render.stamped(rendered, live) is None
    edited = {**live, "metadata": {**live["metadata"], "generation": 2}}
    again = render.stamped(rendered, edited)
    assert again is not None
    assert again["metadata"]["annotations"][render.APPLIED_GENERATION] == "3"
