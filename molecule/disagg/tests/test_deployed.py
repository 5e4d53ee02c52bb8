# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prefill and decode workers run in one ComputeDomain, and the model answers through both."""

from __future__ import annotations

import pytest
from lab import DGD, Lab, Objects

NAMESPACE = "mol-disagg"
NAME = "minimax-m3-disagg-gb200-agentic"


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab()


@pytest.fixture(scope="module")
def objects(lab: Lab) -> Objects:
    return lab.objects(NAMESPACE)


def test_three_workers_of_each_role_run(lab: Lab, objects: Objects) -> None:
    components = {item["name"]: item for item in objects[DGD[1], NAME]["spec"]["components"]}
    assert components["PrefillWorker"]["replicas"] == components["DecodeWorker"]["replicas"] == 3
    running = [pod for pod in lab.pods(NAMESPACE) if pod.status.phase == "Running" and pod.spec.resource_claims]
    assert len(running) == 6, "worker pods with a claim on the ComputeDomain's channel"


def test_compute_domain_serves_the_workers(objects: Objects) -> None:
    domains = [item for (kind, _name), item in objects.items() if kind == "ComputeDomain"]
    assert len(domains) == 1
    assert domains[0]["metadata"]["labels"]["inferops.dynamo/release"] == NAME


def test_configuration_is_immutable_and_referred_to(objects: Objects) -> None:
    rendered = [
        item
        for (kind, name), item in objects.items()
        if kind == "ConfigMap" and name.startswith(f"{NAME}-config-") and item.get("immutable")
    ]
    assert len(rendered) == 1
    assert rendered[0]["metadata"]["name"] in str(objects[DGD[1], NAME]["spec"])


def test_both_repositories_are_recorded(objects: Objects) -> None:
    records = [
        item["data"] for (kind, name), item in objects.items() if kind == "ConfigMap" and name.startswith("checkpoint-")
    ]
    assert sorted(record["repository"] for record in records) == [
        "Inferact/MiniMax-M3-EAGLE3-GQA",
        "nvidia/MiniMax-M3-NVFP4",
    ]
    assert {record["layout"] for record in records} == {"hub"}


def test_model_answers(lab: Lab) -> None:
    answer = lab.ask(
        NAMESPACE, f"{NAME}-frontend", "nvidia/MiniMax-M3-NVFP4", "Name the capital of France in one word."
    )
    assert answer.strip()
