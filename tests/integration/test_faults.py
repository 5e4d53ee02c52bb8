# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault ends with its code and one line, and the corrected inventory with the same command repairs it.

The faults are hosts of one run, each in a namespace of its own. What touches the whole cluster (a taint on its one
node, an operator that is away) is not among them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from lab import DGD, Lab, Play, binding, inventory, lab_variables, play

pytestmark = pytest.mark.long  # a dozen waits at once, on two cores
NAME = "minimax-m3-1-sglang-agg-gb300"
PREFIX = "flt-"
# Small requests, so that all hosts fit on the lab's node together.
SMALL: dict[str, dict[str, Any]] = {
    "requests": {"cpu": "5m", "memory": "64Mi", "ephemeral-storage": 0},
    "limits": {"cpu": "2", "memory": "1Gi", "ephemeral-storage": "1Gi"},
}
TINY = {**SMALL, "requests": {**SMALL["requests"], "memory": "8Mi"}, "limits": {**SMALL["limits"], "memory": "16Mi"}}
COMMON: dict[str, Any] = {
    "deploy_budgets": {"config": 10, "scheduling": 15, "slow": 45, "restarts": 2},
    "model_cache_resources": {
        "requests": {"cpu": "5m", "memory": "64Mi"},
        "limits": {"cpu": "2", "memory": "1Gi"},
    },
}
# A frontend needs no more time on a quiet machine; on a busy one the model may be listed late.
SMOKE = {"smoke_test_timeout": 45, "smoke_test_request_timeout": 30}


def bound(resources: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return {"dynamo_binding": binding(resources={"all": SMALL, **(resources or {})}, **changes)}


def lab_mode(**variables: str) -> dict[str, Any]:
    return {**bound(env={"Worker": variables}), **SMOKE}


MISSING = {"configMapKeyRef": {"name": "no-such-config", "key": "word"}}
# Name of the fault: what its host says, the code, and what its one line must show.
FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "image": (
        bound(image={"Worker": "registry.invalid/sglang:1.3.0"}),
        "IMAGE_PULL",
        r"registry\.invalid/sglang:1\.3\.0",
    ),
    "config": (bound(env={"Worker": {"WORD": MISSING}}), "CONFIG_MISSING", r"no-such-config"),
    "nodes": (bound(scheduling={"node_selector": {"no-such": "label"}}), "CAPACITY", r"no node|0 of|no-such"),
    "gpus": (bound(replicas={"Worker": 40}), "CAPACITY", r"nvidia\.com/gpu|GPU"),
    "crash": (bound(env={"Worker": {"LAB_EXIT": "error: unrecognized arguments: --wibble"}}), "CRASH_LOOP", "--wibble"),
    "oom": (bound({"worker": TINY}), "OOM_KILLED", "lack of memory"),
    "hang": (lab_mode(LAB_MODE="hang"), "MODEL_NO_ANSWER", "no complete answer"),
    "raise": (lab_mode(LAB_MODE="raise"), "MODEL_ERROR", "HTTP 500"),
    "empty": (lab_mode(LAB_MODE="empty"), "MODEL_EMPTY_ANSWER", "empty content"),
    "elsewhere": (lab_mode(LAB_NAMESPACE="elsewhere"), "MODEL_NOT_LISTED", "lists no model"),
    "policy": (bound(), "POD_SECURITY", "violates PodSecurity"),
    "quota": (bound(), "QUOTA_EXCEEDED", "exceeded quota"),
}
# Why a host failed shows here first, or in the worker's readiness when only the answer is wrong.
WARNINGS = ("Failed", "BackOff", "FailedCreate", "FailedScheduling", "OOMKilling")
QUIET = 2.0  # load of the machine below which seconds are asserted
LIMIT = 60


def hosts(broken: bool) -> dict[str, dict[str, Any]]:
    return {
        PREFIX + name: {**COMMON, **(fault if broken else bound())} for name, (fault, _code, _words) in FAULTS.items()
    }


def deploy(folder: Path, broken: bool, command: list[str]) -> tuple[Play, dict[str, dict[str, Any]]]:
    """The run and the rows of its report by the fault's name."""
    reports = folder / "reports"
    run = play(
        "deploy.yml",
        inventory(folder, hosts(broken)),
        f"--extra-vars=dynamo_report_dir={reports}",
        *command,
        env={"ANSIBLE_FORKS": "6"},
    )
    rows = json.loads(next(reports.glob("*.json")).read_text("utf-8"))["hosts"]
    return run, {row["host"].removeprefix(PREFIX): row for row in rows}


@pytest.fixture
def namespaces(cluster: Lab) -> Iterator[None]:
    names = [PREFIX + name for name in FAULTS]
    cluster.remove(names)
    for name in ("quota", "policy"):
        cluster.core.create_namespace({"metadata": {"name": PREFIX + name}})
    quota = {"metadata": {"name": "gpus"}, "spec": {"hard": {"requests.nvidia.com/gpu": "2"}}}
    cluster.core.create_namespaced_resource_quota(f"{PREFIX}quota", quota)
    # refuses the pod of the download already
    restrict(cluster, "restricted")
    yield
    cluster.remove(names)


def restrict(cluster: Lab, level: str | None) -> None:
    labels = {"pod-security.kubernetes.io/enforce": level}
    cluster.core.patch_namespace(f"{PREFIX}policy", {"metadata": {"labels": labels}})


def seconds_to_the_end(cluster: Lab, namespace: str) -> float | None:
    """From what went wrong to the record of how the run ended; None where the run ended before it changed anything."""
    try:
        record = cluster.core.read_namespaced_config_map(f"{NAME}-r1", namespace)
    except Exception:  # no namespace, or no record in it
        return None
    end = max(entry.time for entry in record.metadata.managed_fields)
    if str((record.data or {}).get("outcome")).startswith("failed: MODEL_"):
        pods = cluster.pods(namespace, **{"nvidia.com/dynamo-component-type": "worker"})
        starts = [c.last_transition_time for pod in pods for c in pod.status.conditions or [] if c.type == "Ready"]
    else:
        events = cluster.core.list_namespaced_event(namespace).items
        starts = [first_seen(event) for event in events if event.type == "Warning" and event.reason in WARNINGS]
    return (end - min(starts)).total_seconds() if starts else None


def first_seen(event: Any) -> datetime:
    found: datetime = event.first_timestamp or event.event_time or event.metadata.creation_timestamp
    return found


@pytest.mark.usefixtures("namespaces")
def test_faults_are_named_and_repaired(cluster: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab_variables()["dynamo_namespace"] == "{{ inventory_hostname }}"
    # a worker that is ready and answers wrongly is only replaced with this
    command = ["--extra-vars=target=sglang-gb300", "--extra-vars=allow_gap=true"]
    first, rows = deploy(tmp_path / "broken", True, command)
    quiet = os.getloadavg()[0] < QUIET
    assert first.rc != 0 and "Traceback" not in first.output and "BUG" not in first.output
    took = {name: seconds_to_the_end(cluster, PREFIX + name) for name in FAULTS}
    with capsys.disabled():
        print(f"\n{'fault':<12}{'code':<20}seconds from event to end")
        for name, seconds in took.items():
            print(f"{name:<12}{rows[name]['code']:<20}{'before any change' if seconds is None else f'{seconds:.0f}'}")
    assert {name: rows[name]["code"] for name in FAULTS} == {name: code for name, (_f, code, _w) in FAULTS.items()}
    for name, (_fault, _code, words) in FAULTS.items():
        assert re.search(words, rows[name]["detail"]), name
        lines = [line for line in first.output.splitlines() if f"[{PREFIX}{name}]" in line and re.search(words, line)]
        assert lines, f"{name}: no line of the output says it"
        assert first.recap(PREFIX + name)["failed"] == 1
    assert not quiet or all(seconds < LIMIT for seconds in took.values() if seconds is not None)

    restrict(cluster, None)
    cluster.core.delete_namespaced_resource_quota("gpus", f"{PREFIX}quota")
    second, rows = deploy(tmp_path / "repaired", False, command)
    assert second.rc == 0, {name: row["detail"] for name, row in rows.items() if row["result"] == "failed"}
    assert all((DGD[1], NAME) in cluster.objects(PREFIX + name) for name in FAULTS)
    assert all("2 + 2 = 4" in row["detail"] for row in rows.values())
