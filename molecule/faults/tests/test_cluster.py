# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that touch the whole cluster, one after the other on one host; and a worker that is killed in mid-stream."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lab import DGD, WORKER, Lab, Meddler, Play, age, binding, inventory, play

HOST = "flt-cluster"
NAME = "minimax-m3-1-sglang-agg-gb300"
NODE = "inferops-lab-control-plane"
OPERATOR = ("dynamo-platform-dynamo-operator-controller-manager", "dynamo-system")
TAINT = {"key": "lab.inferops/fault", "effect": "NoSchedule"}
LIMIT = 60  # seconds from what went wrong to the end
ANSWER = "The worker is killed before this answer has ended. " * 4
GONE = {"STREAM_ERROR", "STREAM_BROKEN", "MODEL_VANISHED", "MODEL_NO_WORKER", "MODEL_NOT_READY", "MODEL_NOT_LISTED"}


@pytest.fixture
def cluster() -> Iterator[Lab]:
    lab = Lab()
    lab.remove([HOST])
    yield lab
    untaint(lab)
    scale_operator(lab, 1)
    lab.remove([HOST])


def restart_api_server() -> None:
    """As its kubelet does after a crash."""
    script = "crictl stop -t 1 $(crictl ps -q --name kube-apiserver)"
    subprocess.run(["docker", "exec", NODE, "sh", "-c", script], check=True, capture_output=True)


def scale_operator(lab: Lab, replicas: int) -> None:
    lab.apps.patch_namespaced_deployment_scale(*OPERATOR, {"spec": {"replicas": replicas}})
    if replicas:
        lab.wait_for(lambda: lab.apps.read_namespaced_deployment(*OPERATOR).status.available_replicas)


def taint(lab: Lab) -> None:
    lab.core.patch_node(NODE, {"spec": {"taints": [TAINT]}})


def untaint(lab: Lab) -> None:
    lab.core.patch_node(NODE, {"spec": {"taints": None}})


def generation(lab: Lab) -> int:
    found = lab.objects(HOST).get((DGD[1], NAME))
    return int(found["metadata"]["generation"]) if found else 0


def after_update(since: int, then: Callable[[Lab], Any], later: float = 0) -> Callable[[Lab], bool]:
    """As soon as the deployment has a newer generation than `since`, or so many seconds later."""

    def act(lab: Lab) -> bool:
        if generation(lab) <= since:
            return False
        time.sleep(later)
        then(lab)
        return True

    return act


def kill_serving(lab: Lab) -> bool:
    """Kills the worker some seconds after everything is ready, which is when the smoke test streams."""
    pods = lab.pods(HOST, **{"nvidia.com/dynamo-graph-deployment-name": NAME})
    since = [
        c.last_transition_time for p in pods for c in p.status.conditions if c.type == "Ready" and c.status == "True"
    ]
    if len(since) < len(pods) or not pods or min(map(age, since)) < 8:
        return False
    lab.kill(HOST, lab.pods(HOST, **WORKER)[0].metadata.name)
    return True


def deploy(folder: Path, text: str = "", **more: Any) -> tuple[Play, dict[str, Any]]:
    """The run and its row of the report. text: what the worker answers, so that each run is an update."""
    variables = {"deploy_budgets": {"operator": 15, "scheduling": 15}, **more}
    variables.setdefault("dynamo_binding", binding(env={"Worker": {"LAB_TEXT": text}} if text else {}))
    reports = folder / "reports"
    run = play(
        "deploy.yml",
        inventory(folder, {HOST: variables}),
        f"--extra-vars=dynamo_report_dir={reports}",
        "--extra-vars=target=sglang-gb300",
        "--extra-vars=allow_gap=true",
    )
    return run, json.loads(max(reports.glob("*.json"), key=os.path.getmtime).read_text("utf-8"))["hosts"][0]


def test_faults_of_the_cluster(cluster: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    took: list[tuple[str, str, float]] = []

    def fails(name: str, codes: set[str], words: str, meddler: Meddler, result: tuple[Play, dict[str, Any]]) -> None:
        run, row = result
        seconds = (datetime.now(UTC) - meddler.at).total_seconds()
        assert meddler.stop(), f"{name}: nothing was done"
        took.append((name, row["code"], seconds))
        assert run.rc != 0 and row["code"] in codes and words in row["detail"], row
        assert "Traceback" not in run.output

    # a wait that has begun bears it
    meddler = Meddler(after_update(0, lambda _lab: restart_api_server(), later=6))
    run, row = deploy(tmp_path / "1", "one")
    assert meddler.stop() and run.rc == 0, row
    assert "one" in row["detail"]

    # so long the operator looks away, that it is stopped before it has done anything
    late = {"lab.inferops/stale-seconds": "10"}
    two = binding(env={"Worker": {"LAB_TEXT": "two"}}, annotations=late)
    meddler = Meddler(after_update(generation(cluster), lambda lab: scale_operator(lab, 0)))
    fails("operator stopped", {"OPERATOR_SILENT"}, "", meddler, deploy(tmp_path / "2", dynamo_binding=two))
    run, row = deploy(tmp_path / "2", dynamo_binding=two)
    assert run.rc != 0 and row["code"] == "OPERATOR_SILENT", "its webhook is away, too"
    scale_operator(cluster, 1)
    run, row = deploy(tmp_path / "2", dynamo_binding=two)
    assert run.rc == 0 and "two" in row["detail"], row

    meddler = Meddler(after_update(generation(cluster), taint))
    fails("taint", {"UNSCHEDULABLE"}, TAINT["key"], meddler, deploy(tmp_path / "3", "three"))
    untaint(cluster)
    run, row = deploy(tmp_path / "3", "three")
    assert run.rc == 0 and "three" in row["detail"], row

    slowly = binding(env={"Worker": {"LAB_TEXT": ANSWER, "LAB_TOKEN_DELAY": "0.1"}})
    smoke: dict[str, Any] = {
        "smoke_test_checks": ["models", "stream"],
        "smoke_test_timeout": 50,
        "smoke_test_request_timeout": 40,
    }
    meddler = Meddler(kill_serving, again=True)
    result = deploy(tmp_path / "4", dynamo_binding=slowly, **smoke)
    fails("killed in a stream", GONE, "stream", meddler, result)
    run, row = deploy(tmp_path / "5")
    assert run.rc == 0 and "2 + 2 = 4" in row["detail"], row

    with capsys.disabled():
        print(f"\n{'fault':<20}{'code':<22}seconds from event to end")
        for name, code, seconds in took:
            print(f"{name:<20}{code:<22}{seconds:.0f}")
    assert all(seconds < LIMIT for _name, _code, seconds in took)
