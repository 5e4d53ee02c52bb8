# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mistyped image name is repaired by the same command, on a node with room for exactly one worker.

Also after somebody repaired it by hand, without what lets the old worker go first, so that it hangs in mid-rollout.
And an image that can't be pulled doesn't take a worker away that serves.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import DGD, WORKER, Lab, binding, inventory, play

HOST, FILLER = "mol-image", "mol-image-filler"
NAME = "minimax-m3-1-sglang-agg-gb300"
WORKER_GPUS = 4


@pytest.fixture
def room_for_one_worker(cluster: Lab) -> Iterator[None]:
    cluster.remove([HOST, FILLER])
    cluster.fill(FILLER, WORKER_GPUS)
    yield
    cluster.remove([HOST, FILLER])


@pytest.mark.usefixtures("room_for_one_worker")
def test_mistyped_image_is_repaired_by_the_same_command(cluster: Lab, tmp_path: Path) -> None:
    mistyped = binding(image={"Worker": "registry.invalid/sglang-runtime:1.3.0"})
    # how long a registry that doesn't answer is waited for
    host = {"dynamo_binding": mistyped, "deploy_budgets": {"slow": 45}}
    bad = inventory(tmp_path / "bad", {HOST: host})
    first = play("deploy.yml", bad, "--extra-vars=target=sglang-gb300")
    assert first.rc != 0
    assert [line for line in first.output.splitlines() if "registry.invalid/sglang-runtime:1.3.0" in line]
    assert (DGD[1], NAME) in cluster.objects(HOST)

    good = inventory(tmp_path / "good", {HOST: {}})
    second = play("deploy.yml", good, "--extra-vars=target=sglang-gb300")
    assert second.rc == 0
    assert "4" in cluster.ask(HOST, f"{NAME}-frontend", "minimax-m3.1", "What is 2 + 2?")


def repair_by_hand(cluster: Lab, image: str) -> None:
    """What a person may apply who has the vendor's manifest and no annotations: PUT, as `kubectl replace` does."""
    resource = cluster.dynamic.resources.get(api_version=DGD[0], kind=DGD[1])
    dgd = resource.get(name=NAME, namespace=HOST).to_dict()
    template = next(c for c in dgd["spec"]["components"] if c["name"] == "Worker")["podTemplate"]
    template["metadata"].pop("annotations")
    template["spec"]["containers"][0]["image"] = image
    dgd["metadata"].pop("managedFields")
    resource.replace(dgd)


def hangs(cluster: Lab) -> bool:
    """A new worker that finds no room, in a rollout that goes on."""
    status = cluster.objects(HOST)[DGD[1], NAME].get("status") or {}
    pods = [p for p in cluster.pods(HOST, **WORKER) if p.status.phase == "Pending"]
    unschedulable = [c for p in pods for c in p.status.conditions or [] if c.reason == "Unschedulable"]
    return (status.get("rollingUpdate") or {}).get("phase") == "InProgress" and bool(unschedulable)


@pytest.mark.long
@pytest.mark.usefixtures("room_for_one_worker")
def test_a_repair_by_hand_that_hangs_is_brought_to_its_end(cluster: Lab, tmp_path: Path) -> None:
    bad = {"dynamo_binding": binding(image={"Worker": "localhost:5000/absent/sglang-runtime:1.3.0"})}
    command = "--extra-vars=target=sglang-gb300"
    first = play("deploy.yml", inventory(tmp_path / "bad", {HOST: {**bad, "deploy_budgets": {"config": 10}}}), command)
    assert first.rc != 0 and "absent/sglang-runtime:1.3.0" in first.output

    components = cluster.objects(HOST)[DGD[1], NAME]["spec"]["components"]
    frontend = next(c for c in components if c["name"] == "Frontend")
    repair_by_hand(cluster, frontend["podTemplate"]["spec"]["containers"][0]["image"])
    cluster.wait_for(lambda: hangs(cluster))

    second = play("deploy.yml", inventory(tmp_path / "good", {HOST: {}}), command)
    assert second.rc == 0
    assert "4" in cluster.ask(HOST, f"{NAME}-frontend", "minimax-m3.1", "What is 2 + 2?")


@pytest.mark.long
@pytest.mark.usefixtures("room_for_one_worker")
def test_a_worker_that_serves_is_not_given_up_for_an_image_that_can_not_be_pulled(cluster: Lab, tmp_path: Path) -> None:
    command = ["--extra-vars=target=sglang-gb300", "--extra-vars=allow_gap=true"]
    assert play("deploy.yml", inventory(tmp_path / "first", {HOST: {}}), *command).rc == 0
    before = cluster.objects(HOST)[DGD[1], NAME]["metadata"]["generation"]

    bad = {"dynamo_binding": binding(image={"Worker": "localhost:5000/absent/sglang-runtime:1.3.0"})}
    second = play("deploy.yml", inventory(tmp_path / "bad", {HOST: bad}), *command)
    assert second.rc != 0 and "IMAGE_NOT_FOUND" in second.output
    assert cluster.objects(HOST)[DGD[1], NAME]["metadata"]["generation"] == before
    assert "4" in cluster.ask(HOST, f"{NAME}-frontend", "minimax-m3.1", "What is 2 + 2?")
    assert not [name for kind, name in cluster.objects(HOST) if kind == "Job" and "-pull-" in name]

    image = f"localhost:5000/good/{uuid.uuid4().hex[:8]}/sglang-runtime:1.3.0"
    good = {"dynamo_binding": binding(image={"Worker": image})}
    third = play("deploy.yml", inventory(tmp_path / "good", {HOST: good}), *command)
    assert third.rc == 0 and "Wait until the image is there" in third.output
    assert "4" in cluster.ask(HOST, f"{NAME}-frontend", "minimax-m3.1", "What is 2 + 2?")
