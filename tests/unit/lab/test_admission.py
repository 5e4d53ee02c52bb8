# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-in's webhooks answer, against the observed answers of the real ones."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import admission
import pytest

PROVIDER = admission.PROVIDER
IMAGE = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.0-minimax-m3.1-flash-dev.1"


def dgd(**changes: Any) -> dict[str, Any]:
    """A DGD as it is stored; changes are of worker, main, spec and annotations."""
    main = {"name": "main", "image": IMAGE, **changes.get("main", {})}
    worker = {"name": "Worker", "type": "worker", "podTemplate": {"spec": {"containers": [main]}}}
    front = {"name": "Frontend", "type": "frontend", "podTemplate": {"spec": {"containers": [main]}}}
    spec = {"backendFramework": "vllm", "components": [front, {**worker, **changes.get("worker", {})}]}
    notes = {PROVIDER: "component", **changes.get("annotations", {})}
    return {"metadata": {"name": "x", "annotations": notes}, "spec": {**spec, **changes.get("spec", {})}}


def texts(new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [f"{p.field}: {p.text}" for p in admission.problems(new, old)]


WORKER = "spec.components[1]"
NO_TAG = (
    f"{WORKER}.runtimeVersionOverride: Required value: is required when the specified main container image has no "
    "parseable semantic-version tag"
)


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (dgd(), []),
        (dgd(worker={"podTemplate": None}), [f"{WORKER}.podTemplate.spec.containers: Required value: is required"]),
        (
            dgd(worker={"podTemplate": {"spec": {"containers": [{"name": "other", "image": IMAGE}]}}}),
            [f"{WORKER}.podTemplate.spec.containers: Required value: is required"],
        ),
        (
            dgd(worker={"podTemplate": {"spec": {"containers": [{"name": "main"}]}}}),
            [f"{WORKER}.podTemplate.spec.containers[0].image: Required value: is required"],
        ),
        (dgd(worker={"podTemplate": {"spec": {"containers": [{"name": "main", "image": "a/b:latest"}]}}}), [NO_TAG]),
        (dgd(worker={"podTemplate": {"spec": {"containers": [{"name": "main", "image": "r:5000/b"}]}}}), [NO_TAG]),
        (
            dgd(worker={"podTemplate": {"spec": {"containers": [{"name": "main", "image": "a/b:1.6.0@sha256:0"}]}}}),
            [NO_TAG],
        ),
        (
            dgd(
                worker={
                    "runtimeVersionOverride": "1.6.0",
                    "podTemplate": {"spec": {"containers": [{"name": "main", "image": "a/b:latest"}]}},
                }
            ),
            [],
        ),
        (dgd(spec={"components": []}), ["spec.components: Required value: must have at least one component"]),
        (
            dgd(spec={"priorityClassName": "high"}),
            [
                'spec.priorityClassName: Forbidden: requires the Grove pathway, but workload provider "component" is '
                "selected"
            ],
        ),
        (
            dgd(annotations={admission.EXECUTOR: "foo"}),
            [f'metadata.annotations[{admission.EXECUTOR}]: Invalid value: "foo": must be "mp" or "ray"'],
        ),
    ],
)
def test_create(new: dict[str, Any], expected: list[str]) -> None:
    assert texts(new) == expected


def renamed(old: str, new: str) -> dict[str, Any]:
    result = copy.deepcopy(dgd())
    for component in result["spec"]["components"]:
        component["name"] = new if component["name"] == old else component["name"]
    return result


TOPOLOGY = "spec.components: Forbidden: component topology is immutable and cannot be modified after creation: "
ROLLING = {**dgd(spec={"restart": {"id": "r1"}}), "status": {"rollingUpdate": {"phase": "InProgress"}}}


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (dgd(), dgd(), []),
        (
            dgd(annotations={PROVIDER: None}),
            dgd(),
            [f"metadata.annotations[{PROVIDER}]: Invalid value: null: field is immutable"],
        ),
        (
            dgd(annotations={PROVIDER: "grove"}),
            dgd(),
            [f'metadata.annotations[{PROVIDER}]: Invalid value: "grove": field is immutable'],
        ),
        (
            renamed("Worker", "PrefillWorker"),
            dgd(),
            [f"{TOPOLOGY}components added: [PrefillWorker], components removed: [Worker]"],
        ),
        (dgd(worker={"type": "decode"}), dgd(), []),
        (
            dgd(spec={"backendFramework": "sglang"}),
            dgd(),
            ['spec.backendFramework: Invalid value: "sglang": is immutable and cannot be changed after creation'],
        ),
        (
            dgd(worker={"multinode": {"nodeCount": 2}}),
            dgd(),
            [
                f'{WORKER}.multinode: Invalid value: {{"nodeCount":2}}: cannot change node topology between '
                "single-node and multi-node after creation"
            ],
        ),
        (
            dgd(spec={"restart": {"id": "r2"}}),
            ROLLING,
            ['spec.restart.id: Invalid value: "r2": cannot be changed while a rolling update is InProgress'],
        ),
        (
            dgd(spec={"restart": {"id": "r", "strategy": {"order": ["Worker"]}}}),
            dgd(),
            [
                'spec.restart.strategy.order: Invalid value: ["Worker"]: must have the same number of unique '
                "components as the deployment"
            ],
        ),
        (
            dgd(spec={"restart": {"id": "r", "strategy": {"type": "Parallel", "order": ["Worker"]}}}),
            dgd(),
            ["spec.restart.strategy.order: Forbidden: cannot be specified when strategy is parallel"],
        ),
    ],
)
def test_update(new: dict[str, Any], old: dict[str, Any], expected: list[str]) -> None:
    assert texts(new, old) == expected


def test_what_is_being_deleted_is_not_validated() -> None:
    gone = dgd(spec={"components": []})
    gone["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    assert texts(gone, dgd()) == []


def mutate(operation: str, obj: dict[str, Any]) -> dict[str, Any]:
    request = {"uid": "u", "operation": operation, "object": obj}
    return admission.review("/mutate/nvidia.com/v1beta1/dynamographdeployments", request, "1.6.0")


def test_create_is_stamped_and_replicas_are_filled() -> None:
    new = dgd(annotations={PROVIDER: "grove", "mine": "kept"}, worker={"replicas": 3})
    patch = json.loads(base64.b64decode(mutate("CREATE", new)["patch"]))
    assert patch == [
        {
            "op": "add",
            "path": "/metadata/annotations",
            "value": {PROVIDER: "component", "mine": "kept", admission.ORIGIN: "1.6.0"},
        },
        {"op": "add", "path": "/spec/components/0/replicas", "value": 1},
    ]
    assert mutate("UPDATE", dgd()) == {"uid": "u", "allowed": True}


@pytest.mark.parametrize(
    "new",
    [dgd(worker={"sharedMemorySize": "lots"}), dgd(main={"resources": {"limits": {"memory": "lots"}}})],
)
def test_an_unreadable_quantity_hides_everything_else(new: dict[str, Any]) -> None:
    answer = mutate("CREATE", new)
    assert not answer["allowed"]
    assert answer["status"]["code"] == 400
    assert answer["status"]["message"].startswith("quantities must match the regular expression")


def test_refusal_carries_causes() -> None:
    request = {"uid": "u", "operation": "UPDATE", "name": "x", "object": dgd(spec={"backendFramework": "sglang"})}
    answer = admission.review("/validate", {**request, "oldObject": dgd()}, "1.6.0")
    assert answer["warnings"] == ["Changing spec.backendFramework may cause unexpected behavior"]
    assert answer["status"]["code"] == 422
    assert answer["status"]["message"].startswith('DynamoGraphDeployment.nvidia.com "x" is invalid: spec.backend')
    assert answer["status"]["details"]["causes"][0]["field"] == "spec.backendFramework"
