# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault ends with its code and one line, and the corrected inventory with the same command repairs it.

The faults are hosts of one run, each in a namespace of its own; what touches the whole cluster is in test_cluster.py.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from lab import DGD, GPU, Lab, Meddler, Play, binding, inventory, kill_starting, lab_variables, play

NAME = "minimax-m3-1-sglang-agg-gb300"
PREFIX = "flt-"
REGISTRY = "localhost:5000"
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
GPUS = 2  # of one worker; the node is filled up so that there is room for exactly one in each namespace
LIMIT = 60  # seconds from what went wrong to the end
WELL = ""  # the code of a host that is well in spite of what is done to it


class Fault(NamedTuple):
    """What its host says, the codes that it may end with, what its one line must show, and what is done meanwhile."""

    variables: dict[str, Any]
    codes: tuple[str, ...]
    words: str
    meddle: Callable[[str], Callable[[Lab], bool]] | None = None


def bound(worker: dict[str, dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    gpus = {kind: {**amounts, GPU: str(GPUS)} for kind, amounts in (worker or SMALL).items()}
    return {"dynamo_binding": binding(resources={"all": SMALL, "Worker": gpus}, **changes)}


def lab_mode(*checks: str, **variables: str) -> dict[str, Any]:
    found = {**bound(env={"Worker": variables}), **SMOKE}
    return {**found, "smoke_test_checks": list(checks)} if checks else found


def pulled(how: str) -> dict[str, Any]:
    """A worker whose image the lab's registry answers for. A new name each time: the node keeps what it pulled."""
    return bound(image={"Worker": f"{REGISTRY}/{how}/{uuid.uuid4().hex[:8]}/sglang:1.3.0"})


def manners(**annotations: str) -> dict[str, Any]:
    """Of the stand-in operator."""
    return bound(annotations={f"lab.inferops/{key}-seconds": value for key, value in annotations.items()})


MISSING = {"configMapKeyRef": {"name": "no-such-config", "key": "word"}}
WRONG_KEY = {"secretKeyRef": {"name": "words", "key": "no-such-key"}}
REFUSED_NAME = {"nvidia.com/vllm-distributed-executor-backend": "foo"}
SLOW = pulled("slow-20")
SLOW["dynamo_binding"]["env"] = {"Worker": {"LAB_START_DELAY": "20"}}

# Each group is one run: all at once would be too much for two cores.
GROUPS: dict[str, dict[str, Fault]] = {}
GROUPS["before"] = {
    # what a look at the cluster shows, before anything is changed
    "nodes": Fault(bound(scheduling={"node_selector": {"no-such": "label"}}), ("CAPACITY",), r"no node|0 of|no-such"),
    "gpus": Fault(bound(replicas={"Worker": 40}), ("CAPACITY",), r"nvidia\.com/gpu|GPU"),
    "class": Fault({**bound(), "dynamo_storage_class": "no-such-class"}, ("STORAGE_CLASS_ABSENT",), "no-such-class"),
    "webhook": Fault(bound(annotations=REFUSED_NAME), ("DGD_REFUSED",), r'must be \\?"mp'),  # \\" in the output
    "schema": Fault(
        bound(patches=[{"component": "Worker", "merge": {"wibble": 1}}]), ("DGD_REFUSED",), "field not declared|wibble"
    ),
    "policy": Fault(bound(), ("POD_SECURITY",), "violates PodSecurity"),
    "quota": Fault(bound(), ("QUOTA_EXCEEDED",), "exceeded quota"),
}
GROUPS["images"] = {
    "image": Fault(
        bound(image={"Worker": "registry.invalid/sglang:1.3.0"}), ("IMAGE_PULL",), r"registry\.invalid/sglang:1\.3\.0"
    ),
    "absent": Fault(pulled("absent"), ("IMAGE_NOT_FOUND",), "localhost:5000/absent"),
    "refuses": Fault(pulled("refuses"), ("IMAGE_UNAUTHORIZED",), "localhost:5000/refuses"),
    "foreign": Fault(pulled("foreign"), ("IMAGE_ARCHITECTURE",), "no match for platform"),
    # what a wait has to bear
    "slow": Fault({**SLOW, "deploy_timeout": 240}, (WELL,), "2 \\+ 2 = 4", kill_starting),
}
GROUPS["pods"] = {
    "config": Fault(bound(env={"Worker": {"WORD": MISSING}}), ("CONFIG_MISSING",), "no-such-config"),
    "key": Fault(bound(env={"Worker": {"WORD": WRONG_KEY}}), ("CONFIG_MISSING",), "no-such-key"),
    "crash": Fault(
        bound(env={"Worker": {"LAB_EXIT": "error: unrecognized arguments: --wibble"}}), ("CRASH_LOOP",), "--wibble"
    ),
    "oom": Fault(bound(TINY), ("OOM_KILLED",), "lack of memory"),
    "admission": Fault(bound(), ("ADMISSION_REFUSED",), "no workers here"),
    # what a wait has to bear
    "failed": Fault(manners(failed="2"), (WELL,), "2 \\+ 2 = 4"),
}
GROUPS["answers"] = {
    # ready, and it doesn't serve
    "hang": Fault(lab_mode(LAB_MODE="hang"), ("MODEL_NO_ANSWER",), "no complete answer"),
    "raise": Fault(lab_mode(LAB_MODE="raise"), ("MODEL_ERROR",), "HTTP 500"),
    "empty": Fault(lab_mode(LAB_MODE="empty"), ("MODEL_EMPTY_ANSWER",), "empty content"),
    "partial": Fault(lab_mode("models", "stream", LAB_MODE="partial"), ("STREAM_ERROR",), "error in the stream"),
    "elsewhere": Fault(lab_mode(LAB_NAMESPACE="elsewhere"), ("MODEL_NOT_LISTED",), "lists no model"),
    # ready, and for a while it is the worker before that is
    "stale": Fault(manners(stale="6"), (WELL,), "2 \\+ 2 = 4"),
}
# Why a host failed shows here first.
WARNINGS = ("Failed", "BackOff", "FailedCreate", "FailedScheduling", "OOMKilling")
# The repaired inventory keeps the operator's manners, and changes the answer, to tell the new worker by.
REPAIRED = {"stale": manners(stale="6")}
REPAIRED["stale"]["dynamo_binding"]["env"] = {"Worker": {"LAB_TEXT": "the new worker"}}


def hosts(faults: dict[str, Fault], broken: bool) -> dict[str, dict[str, Any]]:
    return {
        PREFIX + name: {**COMMON, **(fault.variables if broken else REPAIRED.get(name, bound()))}
        for name, fault in faults.items()
    }


def deploy(
    folder: Path, faults: dict[str, Fault], broken: bool, command: list[str]
) -> tuple[Play, dict[str, dict[str, Any]]]:
    """The run and the rows of its report by the fault's name."""
    reports = folder / "reports"
    run = play(
        "deploy.yml",
        inventory(folder, hosts(faults, broken)),
        f"--extra-vars=dynamo_report_dir={reports}",
        *command,
        env={"ANSIBLE_FORKS": str(len(faults))},  # a wait holds a fork
    )
    rows = json.loads(next(reports.glob("*.json")).read_text("utf-8"))["hosts"]
    return run, {row["host"].removeprefix(PREFIX): row for row in rows}


@pytest.fixture(scope="module")
def cluster() -> Lab:
    return Lab()


POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": f"{PREFIX}admission"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ]
        },
        "validations": [
            {
                "expression": "!has(object.metadata.labels)"
                " || !('nvidia.com/dynamo-worker-hash' in object.metadata.labels)",
                "message": "no workers here",
            }
        ],
    },
}
POLICY_BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": f"{PREFIX}admission"},
    "spec": {
        "policyName": f"{PREFIX}admission",
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": f"{PREFIX}admission"}}},
    },
}


def refuse(cluster: Lab, faults: dict[str, Fault]) -> None:
    """The faults that are no variables of a host."""
    for name in faults.keys() & {"quota", "policy", "key"}:
        cluster.core.create_namespace({"metadata": {"name": PREFIX + name}})
    if "quota" in faults:
        quota = {"metadata": {"name": "gpus"}, "spec": {"hard": {"requests.nvidia.com/gpu": "1"}}}
        cluster.core.create_namespaced_resource_quota(f"{PREFIX}quota", quota)
    if "policy" in faults:
        restrict(cluster, "restricted")
    if "key" in faults:
        secret = {"metadata": {"name": "words"}, "stringData": {"key": "x"}}
        cluster.core.create_namespaced_secret(f"{PREFIX}key", secret)
    if "admission" in faults:
        cluster.apply(POLICY)
        cluster.apply(POLICY_BINDING)


def allow(cluster: Lab, faults: dict[str, Fault]) -> None:
    """Take them away again."""
    cluster.delete(POLICY_BINDING)
    cluster.delete(POLICY)
    if "policy" in faults:
        restrict(cluster, None)
    if "quota" in faults:
        cluster.core.delete_namespaced_resource_quota("gpus", f"{PREFIX}quota")


def restrict(cluster: Lab, level: str | None) -> None:
    labels = {"pod-security.kubernetes.io/enforce": level}
    cluster.core.patch_namespace(f"{PREFIX}policy", {"metadata": {"labels": labels}})


@pytest.fixture(params=list(GROUPS.values()), ids=list(GROUPS))
def faults(cluster: Lab, request: pytest.FixtureRequest) -> Iterator[dict[str, Fault]]:
    found: dict[str, Fault] = request.param
    names = [*(PREFIX + name for name in found), f"{PREFIX}filler"]
    cluster.remove(names)
    cluster.fill(f"{PREFIX}filler", GPUS * len(found))
    refuse(cluster, found)
    yield found
    cluster.delete(POLICY_BINDING)
    cluster.delete(POLICY)
    cluster.remove(names)


def seconds_to_the_end(cluster: Lab, namespace: str, run: Play, row: dict[str, Any], words: str) -> float | None:
    """From what went wrong to the line that says so; None where the run ended before it changed anything.

    Where the answer is wrong, what went wrong is the first question.
    """
    if row["code"].startswith(("MODEL_", "STREAM_")):
        return sum(check["seconds"] or 0 for check in row["checks"])
    try:
        cluster.core.read_namespaced_config_map(f"{NAME}-r1", namespace)
        events = cluster.core.list_namespaced_event(namespace).items
    except Exception:  # no namespace, or no record in it
        return None
    # of the deployment: the download's pod waits for its claim, too
    mine = [e for e in events if e.involved_object.name.startswith(NAME) and e.reason in WARNINGS]
    starts = [first_seen(event) for event in mine if event.type == "Warning"]
    said = [at for at, line in run.lines if f"[{namespace}]" in line and re.search(words, line)]
    return (min(said) - min(starts)).total_seconds() if starts and said else None


def first_seen(event: Any) -> datetime:
    found: datetime = event.first_timestamp or event.event_time or event.metadata.creation_timestamp
    return found


def test_faults_are_named_and_repaired(
    cluster: Lab, faults: dict[str, Fault], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab_variables()["dynamo_namespace"] == "{{ inventory_hostname }}"
    # a worker that is ready and answers wrongly is only replaced with this
    command = ["--extra-vars=target=sglang-gb300", "--extra-vars=allow_gap=true"]
    meddlers = [Meddler(fault.meddle(PREFIX + name)) for name, fault in faults.items() if fault.meddle]
    try:
        first, rows = deploy(tmp_path / "broken", faults, True, command)
    finally:
        kills = [meddler.stop() for meddler in meddlers]
    assert first.rc != 0 and "Traceback" not in first.output and "BUG" not in first.output
    ill = {name: fault for name, fault in faults.items() if WELL not in fault.codes}
    took = {
        name: seconds_to_the_end(cluster, PREFIX + name, first, rows[name], fault.words) for name, fault in ill.items()
    }
    with capsys.disabled():
        print(f"\n{'fault':<12}{'code':<22}seconds from event to end")
        for name, seconds in took.items():
            print(f"{name:<12}{rows[name]['code']:<22}{'before any change' if seconds is None else f'{seconds:.0f}'}")
    wrong = {name: rows[name]["code"] for name, fault in faults.items() if rows[name]["code"] not in fault.codes}
    assert wrong == {}, {name: rows[name]["detail"] for name in wrong}
    for name, fault in faults.items():
        assert re.search(fault.words, rows[name]["detail"]), (name, rows[name]["detail"])
    for name, fault in ill.items():
        lines = [ln for ln in first.output.splitlines() if f"[{PREFIX}{name}]" in ln and re.search(fault.words, ln)]
        assert lines, f"{name}: no line of the output says it"
        assert first.recap(PREFIX + name)["failed"] == 1
    assert all(kills), "nothing was killed"
    assert {name: seconds for name, seconds in took.items() if seconds is not None and seconds >= LIMIT} == {}

    allow(cluster, faults)
    second, rows = deploy(tmp_path / "repaired", faults, False, command)
    assert second.rc == 0, {name: row["detail"] for name, row in rows.items() if row["result"] == "failed"}
    assert all((DGD[1], NAME) in cluster.objects(PREFIX + name) for name in faults)
    answers = {name: "the new worker" if name == "stale" else "2 + 2 = 4" for name in faults}
    assert {name: row["detail"] for name, row in rows.items() if answers[name] not in row["detail"]} == {}
