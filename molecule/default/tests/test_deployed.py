# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment leaves in its namespace. Runs again after a second deployment and a check: nothing moved."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from lab import DGD, Lab, Objects, versions

NAMESPACE = "mol-default"
NAME = "minimax-m3-1-sglang-agg-gb300"


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab()


@pytest.fixture(scope="module")
def objects(lab: Lab) -> Objects:
    return lab.objects(NAMESPACE)


def test_release_is_ready_and_ours(objects: Objects) -> None:
    dgd = objects[DGD[1], NAME]
    labels = dgd["metadata"]["labels"]
    assert labels["app.kubernetes.io/managed-by"] == "inferops.dynamo"
    assert labels["inferops.dynamo/release"] == NAME
    assert dgd["status"]["state"] == "successful"
    assert dgd["status"]["observedGeneration"] == dgd["metadata"]["generation"]


def test_model_answers(lab: Lab) -> None:
    answer = lab.ask(NAMESPACE, f"{NAME}-frontend", "minimax-m3.1", "What is 2 + 2?")
    assert "4" in answer


def test_checkpoint_is_recorded(objects: Objects) -> None:
    records = [item for (kind, name), item in objects.items() if kind == "ConfigMap" and name.startswith("checkpoint-")]
    assert len(records) == 1
    record = records[0]["data"]
    claim = objects["PersistentVolumeClaim", record["claim"]]
    assert record["claim_uid"] == claim["metadata"]["uid"]
    assert record["problems"] == "0"
    assert len(record["commit"]) == 40
    dgd = json.dumps(objects[DGD[1], NAME])
    assert record["path"] in dgd, "the workers read another folder than the one that was verified"


def test_one_deployment_is_one_record(objects: Objects) -> None:
    records = sorted(name for kind, name in objects if kind == "ConfigMap" and name.startswith(f"{NAME}-r"))
    assert records == [f"{NAME}-r1"]


def test_nothing_moved_since_the_first_deployment(objects: Objects) -> None:
    kept = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "versions.json"
    now = {" ".join(key): value for key, value in versions(objects).items()}
    uid = objects[DGD[1], NAME]["metadata"]["uid"]
    before = json.loads(kept.read_text()) if kept.exists() else {}
    if before.get("uid") != uid:  # the first time for this deployment: remembered for the next
        kept.write_text(json.dumps({"uid": uid, "versions": now}))
    else:
        assert now == before["versions"]
