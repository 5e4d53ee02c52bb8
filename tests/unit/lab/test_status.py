# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Status of DCDs and DGDs, in the real operator's words."""

from __future__ import annotations

from typing import Any

import pytest
import status

NOW, BEFORE = "2026-11-30T12:00:00Z", "2026-11-30T11:00:00Z"


def deployment(replicas: int = 1, ready: int = 1, generation: int = 1, observed: int = 1) -> dict[str, Any]:
    counts = {"replicas": replicas, "updatedReplicas": replicas, "readyReplicas": ready, "availableReplicas": ready}
    flag = "True" if ready >= 1 else "False"
    live = {"observedGeneration": observed, "conditions": [{"type": "Available", "status": flag}], **counts}
    return {"metadata": {"generation": generation}, "spec": {"replicas": 1}, "status": live}


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (deployment(), True),
        (deployment(ready=0), False),
        (deployment(replicas=2), False),  # a pod too many is not ready either
        (deployment(generation=2), False),
        ({**deployment(replicas=0, ready=0), "spec": {"replicas": 0}}, True),
    ],
)
def test_deployment_ready(live: dict[str, Any], expected: bool) -> None:
    assert status.deployment_ready(live) is expected


def dcd(name: str, digest: str = "", generation: int = 1, live: dict[str, Any] | None = None) -> dict[str, Any]:
    """A component deployment, with its status when `live` is its Deployment."""
    labels = {status.OF_GRAPH: "a", **({status.WORKER_HASH: digest} if digest else {})}
    result = {
        "metadata": {"name": name, "namespace": "lab", "generation": generation, "labels": labels},
        "spec": {"replicas": 1},
    }
    return {**result, "status": status.dcd_status(result, live, BEFORE)} if live else result


DGD = {"metadata": {"name": "a", "namespace": "lab", "generation": 2}}


def ready(result: dict[str, Any]) -> tuple[str, str, str, str]:
    only = result["conditions"][0]
    return result["state"], only["status"], only["reason"], only["message"]


def test_nothing_is_processed_yet() -> None:
    current = {"Worker": dcd("a-worker-1", "1"), "Frontend": dcd("a-frontend")}
    result = status.dgd_status(DGD, current, {}, None, NOW)
    assert ready(result) == (
        "pending",
        "False",
        "some_resources_are_not_ready",
        "Resources not ready: a-frontend: spec not yet processed: generation=1, observedGeneration=0; "
        "a-worker-1: spec not yet processed: generation=1, observedGeneration=0",
    )
    assert "components" not in result
    assert result["observedGeneration"] == 2


def test_one_is_not_ready() -> None:
    current = {
        "Worker": dcd("a-worker-1", "1", live=deployment(ready=0)),
        "Frontend": dcd("a-frontend", live=deployment()),
    }
    result = status.dgd_status(DGD, current, {}, None, NOW)
    assert ready(result)[3] == (
        "Resources not ready: a-worker-1: Component deployment not ready - Available condition not true"
    )
    assert result["components"]["Worker"] == {
        "componentKind": "Deployment",
        "componentNames": ["a-worker-1"],
        "runtimeNamespace": "lab-a-1",
        "replicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": 0,
        "availableReplicas": 0,
    }


def test_ready() -> None:
    result = status.dgd_status(DGD, {"Frontend": dcd("a-frontend", live=deployment())}, {}, None, NOW)
    assert ready(result) == ("successful", "True", "all_resources_are_ready", "All resources are ready")


def test_rollout_counts_both_generations() -> None:
    current = {"Worker": dcd("a-worker-2", "2", live=deployment(ready=0))}
    old = {"Worker": [dcd("a-worker-1", "1", live=deployment())]}
    result = status.dgd_status(DGD, current, old, {"phase": "InProgress", "startTime": BEFORE}, NOW)
    assert ready(result) == ("pending", "False", "rolling_update_in_progress", "Rolling update in progress")
    worker = result["components"]["Worker"]
    assert (worker["replicas"], worker["updatedReplicas"], worker["readyReplicas"]) == (2, 1, 1)
    assert worker["componentNames"] == ["a-worker-1", "a-worker-2"]
    assert worker["runtimeNamespace"] == "lab-a-1"


def test_failed_leaves_the_rest() -> None:
    before = status.dgd_status(DGD, {"Frontend": dcd("a-frontend", live=deployment())}, {}, None, BEFORE)
    dgd = {"metadata": {**DGD["metadata"], "generation": 3}, "status": before}
    result = status.dgd_failed(dgd, "boom", NOW)
    assert ready(result) == ("failed", "False", "failed_to_reconcile_the_resources", "boom")
    assert result["observedGeneration"] == 2
    assert result["components"] == before["components"]


def test_a_refused_deployment_stays_unprocessed() -> None:
    result = status.dcd_failed(dcd("a-worker-1", "1"), "too long", NOW)
    assert "observedGeneration" not in result
    assert result["conditions"][0]["message"] == "Failed to reconcile DynamoComponentDeployment: too long"


def test_transition_time_moves_only_when_the_status_flips() -> None:
    old = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": BEFORE}]}
    assert status.condition("Ready", "False", "other", "", 2, old, NOW)["lastTransitionTime"] == BEFORE
    assert status.condition("Ready", "True", "other", "", 2, old, NOW)["lastTransitionTime"] == NOW
