# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live state against a release: rollouts, gaps, differences, checkpoints, what is pruned."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _plan

OURS = {"app.kubernetes.io/managed-by": "inferops.dynamo"}
NO_SURGE = {_plan.SURGE: "0", _plan.UNAVAILABLE: "1"}
RECREATE = {_plan.STRATEGY: "Recreate"}


def component(name: str, kind: str, replicas: int, arg: str, annotations: dict[str, str] | None) -> dict[str, Any]:
    template = {
        "metadata": {"annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "args": [arg], "resources": {"limits": {"nvidia.com/gpu": "4"}}}]},
    }
    return {"name": name, "type": kind, "replicas": replicas, "podTemplate": template}


def dgd(
    replicas: int = 1, arg: str = "a", annotations: dict[str, str] | None = None, ready: int = 1, front: str = "f"
) -> dict[str, Any]:
    components = [
        component("Frontend", "frontend", 1, front, None),
        component("Worker", "worker", replicas, arg, annotations),
    ]
    status = {
        "observedGeneration": 1,
        "components": {"Frontend": {"readyReplicas": 1}, "Worker": {"readyReplicas": ready}},
        "conditions": [{"type": "Ready", "status": "True" if ready else "False", "message": "Resources not ready"}],
    }
    meta = {"name": "dgd", "generation": 1, "resourceVersion": "7", "labels": dict(OURS)}
    return {"metadata": meta, "spec": {"components": components}, "status": status}


@pytest.mark.parametrize(
    ("live", "wanted", "rolls", "gap", "surge"),
    [
        pytest.param(dgd(), dgd(), False, [], 0, id="no change"),
        pytest.param(dgd(), dgd(front="g"), False, [], 0, id="frontend only"),
        pytest.param(dgd(), dgd(3), False, [], 0, id="scaled up"),
        pytest.param(dgd(2, ready=2), dgd(0), False, ["Worker"], 0, id="scaled to nothing"),
        pytest.param(dgd(), dgd(arg="b"), True, [], 1, id="operator's default needs room"),
        pytest.param(dgd(5, ready=5), dgd(5, arg="b"), True, [], 2, id="a quarter, rounded up"),
        pytest.param(dgd(), dgd(arg="b", annotations=NO_SURGE), True, ["Worker"], 0, id="no surge, one worker"),
        pytest.param(dgd(2, ready=2), dgd(2, "b", NO_SURGE), True, [], 0, id="no surge, two workers"),
        pytest.param(dgd(ready=0), dgd(arg="b", annotations=NO_SURGE), True, [], 0, id="never was ready"),
        pytest.param(dgd(2, ready=2), dgd(2, "b", RECREATE), True, ["Worker"], 0, id="recreate"),
        pytest.param(
            dgd(), dgd(arg="b", annotations={_plan.SURGE: "0", _plan.UNAVAILABLE: "0"}), True, [], 1, id="both 0"
        ),
        pytest.param(dgd(), dgd(arg="b", annotations={_plan.SURGE: "odd"}), True, [], 1, id="not a number"),
    ],
)
def test_rollout(live: dict[str, Any], wanted: dict[str, Any], rolls: bool, gap: list[str], surge: int) -> None:
    change = _plan.rollout(live, wanted)
    assert (change.rolls, change.gap, sum(d.count for d in change.surge)) == (rolls, gap, surge)


@pytest.mark.parametrize(("key", "value"), [("annotations", NO_SURGE), ("env", [{"name": "A", "value": "b"}])])
def test_fields_of_the_whole_deployment_roll_workers_too(key: str, value: Any) -> None:
    wanted = dgd()
    wanted["spec"][key] = value
    assert _plan.rollout(dgd(), wanted).rolls


def test_the_strategy_is_read_from_the_spec_too() -> None:
    wanted = dgd(arg="b")
    wanted["spec"]["annotations"] = NO_SURGE
    assert _plan.rollout(dgd(), wanted).gap == ["Worker"]


@pytest.mark.parametrize(
    ("live", "count"), [(dgd(2, ready=2), 2), (dgd(ready=0), 0), (None, 0), ({**dgd(), "status": None}, 0)]
)
def test_ready_workers(live: dict[str, Any] | None, count: int) -> None:
    assert _plan.ready_workers(live) == count


def stale() -> dict[str, Any]:
    live = dgd()
    live["metadata"]["generation"] = 2
    return live


@pytest.mark.parametrize(
    ("live", "text"),
    [
        (dgd(), ""),
        (dgd(ready=0), "Resources not ready"),
        (stale(), "the operator hasn't processed it yet"),
        ({**dgd(), "status": {"observedGeneration": 1}}, "it has no condition Ready"),
    ],
)
def test_settled(live: dict[str, Any], text: str) -> None:
    assert _plan.settled(live) == text


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": 1}}, {"a": {"b": 2, "c": 3}}, ["a.b", "a.c"]),
        ([{"name": "x", "v": 1}], [{"name": "x", "v": 2}, {"name": "y"}], ["[x].v", "[y]"]),
        ({"a": ["1"]}, {"a": ["2"]}, ["a"]),
    ],
)
def test_differences(before: Any, after: Any, paths: list[str]) -> None:
    assert _plan.differences(before, after) == paths


RELEASE: dict[str, Any] = {
    "name": "dgd",
    "config_maps": [{"metadata": {"name": "dgd-config-2"}}],
    "compute_domain": None,
}


@pytest.mark.parametrize(
    ("live", "stored", "known", "old", "reasons"),
    [
        (dgd(), dgd(), {"dgd-config-2"}, [], []),
        (
            None,
            dgd(),
            set(),
            [],
            ["DynamoGraphDeployment dgd would be created", "ConfigMap dgd-config-2 would be created"],
        ),
        (
            dgd(),
            dgd(arg="b"),
            {"dgd-config-2"},
            [],
            ["DynamoGraphDeployment dgd would change: spec.components[Worker].podTemplate.spec.containers[main].args"],
        ),
        (dgd(), None, {"dgd-config-2"}, [], ["DynamoGraphDeployment dgd could not be compared"]),
        (dgd(ready=0), dgd(), {"dgd-config-2"}, [], ["DynamoGraphDeployment dgd isn't ready: Resources not ready"]),
        (
            dgd(),
            dgd(),
            {"dgd-config-2"},
            [{"kind": "ConfigMap", "name": "dgd-config-1"}],
            ["would be removed: ConfigMap dgd-config-1"],
        ),
    ],
)
def test_deploy_reasons(live: Any, stored: Any, known: set[str], old: Any, reasons: list[str]) -> None:
    assert _plan.deploy_reasons(live, stored, RELEASE, known, old) == reasons


def test_what_the_server_writes_is_no_change() -> None:
    stored = copy.deepcopy(dgd())
    stored["metadata"].update(resourceVersion="8", managedFields=[{}], generation=1)
    stored["status"] = {}
    assert _plan.deploy_reasons(dgd(), stored, {**RELEASE, "config_maps": []}, set(), []) == []


def test_steps_keep_their_order() -> None:
    reasons = {"deploy": ["b", "c"], "hf_secret": ["a"], "model_cache": []}
    assert _plan.steps(reasons) == (["hf_secret", "deploy"], {"hf_secret": "a", "deploy": "b; c"})


def config_map(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {k.replace("__", "/"): v for k, v in labels.items()} | OURS}}


def test_prune() -> None:
    release = {"inferops.dynamo/release": "dgd"}
    present = [
        config_map("dgd-config-1", **release),
        config_map("dgd-config-2", **release),
        config_map("dgd-r1", **release, **{"inferops.dynamo/record": "dgd"}),
        config_map("checkpoint-x"),
        config_map("other-config-1", **{"inferops.dynamo/release": "other"}),
        {"metadata": {"name": "foreign", "labels": release}},
    ]
    domains = [{"metadata": {"name": "cd", "labels": {**release, **OURS}}}]
    assert _plan.prune(present, domains, RELEASE) == [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "dgd-config-1"},
        {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "name": "cd"},
    ]
    kept = {**RELEASE, "compute_domain": {"name": "cd"}}
    assert [o["name"] for o in _plan.prune(present, domains, kept)] == ["dgd-config-1"]


CLAIM = {"name": "cache"}


def checkpoint(**data: str) -> dict[str, Any]:
    base = {
        "repository": "acme/tiny",
        "commit": "a" * 40,
        "claim": "cache",
        "claim_uid": "u1",
        "layout": "folder",
        "path": "/cache/tiny/" + "a" * 12,
        "verified_at": "2026-11-30T15:00:00Z",
        "problems": "0",
    }
    return {"metadata": {"name": "c", "labels": {_plan.CHECKPOINT_LABEL: "true"}}, "data": {**base, **data}}


MODEL = {"id": "acme/tiny", "commit": "", "layout": "folder", "path": "/elsewhere/tiny/@commit:acme/tiny@"}
UNPINNED = {**MODEL, "path": "/mnt/tiny/aaaaaaaaaaaa"}


@pytest.mark.parametrize(
    ("record", "model", "uid", "found"),
    [
        (checkpoint(), UNPINNED, "u1", True),
        (checkpoint(), {**UNPINNED, "commit": "a" * 40}, "u1", True),
        (checkpoint(), {**UNPINNED, "commit": "b" * 40}, "u1", False),
        (checkpoint(), UNPINNED, "u2", False),
        (checkpoint(), UNPINNED, None, False),
        (checkpoint(claim="other"), UNPINNED, "u1", False),
        (checkpoint(problems="1"), UNPINNED, "u1", False),
        (checkpoint(repository="acme/other"), UNPINNED, "u1", False),
        (checkpoint(layout="hub"), UNPINNED, "u1", False),
        (checkpoint(path="/cache/renamed/aaaaaaaaaaaa"), UNPINNED, "u1", False),
        (checkpoint(path="/cache/b/original"), UNPINNED, "u1", False),
        (checkpoint(layout="hub", path="/cache"), {**UNPINNED, "layout": "hub", "path": "/cache"}, "u1", True),
    ],
)
def test_checkpoint_records(record: dict[str, Any], model: dict[str, Any], uid: str | None, found: bool) -> None:
    records = _plan.checkpoints([record, {"metadata": {"name": "x"}}], CLAIM, uid)
    held = _plan.record_of(model, records)
    assert (held is not None and not _plan.bad(held)) is found


def test_an_unpinned_repository_is_held_at_the_newest_proven_commit() -> None:
    older = checkpoint(commit="b" * 40, verified_at="2026-11-29T15:00:00Z")
    record = _plan.record_of(UNPINNED, _plan.checkpoints([older, checkpoint()], CLAIM, "u1"))
    assert record is not None and record["commit"] == "a" * 40


def test_a_folder_is_recognised_before_its_commit_is_known() -> None:
    assert _plan.record_of(MODEL, _plan.checkpoints([checkpoint()], CLAIM, "u1"))


def secret(token: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": "s", "labels": labels},
        "data": {"HF_TOKEN": base64.b64encode(token.encode()).decode()},
    }


@pytest.mark.parametrize(
    ("live", "token", "reason"),
    [
        (None, "new", "Secret s would be created"),
        (None, None, ""),
        (secret("new", OURS), "new", ""),
        (secret("old", OURS), "new", "key HF_TOKEN of Secret s would change"),
        (secret("old", {}), "new", ""),
        (secret("old", OURS), None, ""),
    ],
)
def test_secret_reason(live: dict[str, Any] | None, token: str | None, reason: str) -> None:
    assert _plan.secret_reason(live, {"name": "s", "key": "HF_TOKEN"}, token) == reason


@pytest.mark.parametrize(
    ("manifest", "needed"),
    [
        ({"env": [{"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, True),
        ({"env": [{"valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}}]}, False),
        ({"envFrom": [{"secretRef": {"name": "other"}}]}, False),
        ({"envFrom": [{"secretRef": {"name": "s"}}]}, True),
        ({"secretRef": None}, False),
    ],
)
def test_refers_to_secret(manifest: dict[str, Any], needed: bool) -> None:
    assert _plan.refers_to_secret({"spec": [manifest]}, "s") is needed


def test_nodes_of_other_compute_domains() -> None:
    key = "resource.nvidia.com/computeDomain"
    nodes = [
        {"metadata": {"name": n, "labels": {key: uid} if uid else {}}} for n, uid in (("a", "x"), ("b", "y"), ("c", ""))
    ]
    assert list(_plan.foreign_domains(nodes, "x")) == ["b"]
    assert list(_plan.foreign_domains(nodes, None)) == ["a", "b"]


OLD, NEW = "0" * 40, "1" * 40


def proof(commit: str, layout: str = "folder", **data: str) -> dict[str, Any]:
    path = f"/cache/b/{commit[:12]}" if layout == "folder" else "/cache"
    held = {"claim": "cache", "claim_uid": "u", "repository": "a/b", "commit": commit, "layout": layout, "path": path}
    return {"metadata": {"name": commit, "labels": {_plan.CHECKPOINT_LABEL: "true"}}, "data": {**held, **data}}


@pytest.mark.parametrize(
    ("record", "users", "pruned"),
    [
        (proof(OLD), [], True),
        (proof(OLD, "hub"), [], True),
        (proof(NEW), [], False),
        (proof(OLD, repository="x/y"), [], False),
        (proof(OLD, path="/cache/by-hand"), [], False),
        (proof(OLD, adopted="true"), [], False),
        (proof(OLD, claim_uid="other"), [], False),
        (proof(OLD), [{"spec": {"args": [f"--model=/cache/b/{OLD[:12]}"]}}], False),
        (proof(OLD), [{"data": {"models": f'[{{"commit": "{OLD}"}}]'}}], False),
        (proof(OLD), [{"spec": {"args": [f"--revision={NEW}"]}}], True),
    ],
)
def test_checkpoints_that_nothing_needs(record: Any, users: list[Any], pruned: bool) -> None:
    release = {"claim": {"name": "cache"}, "models": [{"id": "a/b", "commit": NEW}]}
    found = _plan.superseded(_plan.checkpoints([record], CLAIM, "u"), release, users)
    assert [f["commit"] for f in found] == ([OLD] if pruned else [])
