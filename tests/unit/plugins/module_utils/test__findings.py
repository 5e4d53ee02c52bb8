# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings: level, code, and that each says what to do."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _findings, _preflight
from ansible_collections.inferops.dynamo.plugins.module_utils._capacity import Placement
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._hub import Access
from ansible_collections.inferops.dynamo.plugins.module_utils._plan import Rollout

OURS = {"app.kubernetes.io/managed-by": "inferops.dynamo"}


def named(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def test_one_line_says_the_root_cause_first_and_what_to_do_about_all() -> None:
    found = [
        _findings.finding("FAIL", "TOKEN_REFUSED", "the hub refuses", "accept the licence"),
        _findings.finding("FAIL", "DGD_API_ABSENT", "c1 doesn't serve it.", "install the platform"),
        _findings.finding("WARN", "GPU_PRODUCT", "other nodes"),
        _findings.finding("FAIL", "STORAGE_CLASS_ABSENT", "no storage class.", "set dynamo_storage_class"),
    ]
    error = _findings.error(_findings.failures(found), cluster={"context": "c1"})
    assert error.as_result() == {
        "cluster": {"context": "c1"},
        "code": "DGD_API_ABSENT",
        "hint": "install the platform; also STORAGE_CLASS_ABSENT: no storage class: set dynamo_storage_class; "
        "also TOKEN_REFUSED: the hub refuses: accept the licence",
        "msg": f"c1 doesn't serve it: {error.hint}",
    }


@pytest.mark.parametrize("module", [_findings, _preflight])
def test_every_failure_has_its_place_among_the_causes(module: ModuleType) -> None:
    codes = set(re.findall(r'"FAIL",\s*"([A-Z_]+)"', Path(str(module.__file__)).read_text("utf-8")))
    assert codes and codes <= set(_findings.CAUSES_FIRST)


@pytest.mark.parametrize(("wanted", "level"), [(None, "PASS"), ("", "PASS"), ("u1", "PASS"), ("u2", "FAIL")])
def test_cluster_uid(wanted: str | None, level: str) -> None:
    assert _findings.cluster_uid("u1", wanted, "c1")["level"] == level


GOING = {"metadata": {"name": "llm", "deletionTimestamp": "now"}}


@pytest.mark.parametrize(
    ("live", "create", "code"),
    [
        (None, True, "namespace"),
        (None, False, "NAMESPACE_ABSENT"),
        (named("llm"), False, "namespace"),
        (GOING, True, "NAMESPACE_TERMINATING"),
    ],
)
def test_namespace(live: dict[str, Any] | None, create: bool, code: str) -> None:
    assert _findings.namespace(live, "llm", create)["code"] == code


MARKED = {"metadata": {"annotations": {_findings.PROVIDER: "component"}}}
WEBHOOK = DynamoError('Internal error occurred: failed calling webhook "m.kb.io": connection refused', "REFUSED")


@pytest.mark.parametrize(
    ("stored", "error", "level", "code"),
    [
        (MARKED, None, "PASS", "operator"),
        ({"metadata": {}}, None, "WARN", "OPERATOR_SILENT"),
        (None, WEBHOOK, "FAIL", "OPERATOR_SILENT"),
        (None, DynamoError("spec.x: Required value", "REFUSED"), "FAIL", "DGD_REFUSED"),
        (None, DynamoError("kubectl set .spec.x", "CONFLICT", "adopt"), "FAIL", "CONFLICT"),
        (None, DynamoError("not allowed", "FORBIDDEN"), "FAIL", "FORBIDDEN"),
    ],
)
def test_operator(stored: Any, error: DynamoError | None, level: str, code: str) -> None:
    found = _findings.operator(stored, error, "dgd")
    assert (found["level"], found["code"]) == (level, code)
    if error:
        assert error.message in found["message"]


RELEASE: dict[str, Any] = {
    "name": "twin",
    "namespace": "llm",
    "target": "m/sglang/agg-gb300",
    "replaces_target": "",
    "timeouts": {"ready": 3600},
}


@pytest.mark.parametrize(
    ("others", "replaces", "codes"),
    [
        ([], "", ["names"]),
        (["twin"], "m/vllm/agg-gb300", ["names"]),
        (["other"], "", ["names"]),
        (["twin-two"], "", ["NAME_CLASH"]),
        (["tw"], "", ["NAME_CLASH"]),
        (["other"], "m/vllm/agg-gb300", ["OTHER_TARGET"]),
        (["twin-two"], "m/vllm/agg-gb300", ["NAME_CLASH", "OTHER_TARGET"]),
    ],
)
def test_names(others: list[str], replaces: str, codes: list[str]) -> None:
    found = _findings.names([named(o, **OURS) for o in others], {**RELEASE, "replaces_target": replaces})
    assert [f["code"] for f in found] == codes


def test_deployments_of_others_are_not_replaced() -> None:
    assert _findings.names([named("other")], {**RELEASE, "replaces_target": "x"})[0]["level"] == "PASS"


def claim(phase: str = "Bound", *modes: str) -> dict[str, Any]:
    return {**named("cache"), "spec": {"accessModes": list(modes or ["ReadWriteMany"])}, "status": {"phase": phase}}


def volume(name: str = "pv", phase: str = "Available", ref: str = "", mode: str = "ReadWriteMany") -> dict[str, Any]:
    spec: dict[str, Any] = {"storageClassName": "static", "accessModes": [mode]}
    if ref:
        spec["claimRef"] = {"namespace": "llm", "name": ref}
    return {**named(name), "spec": spec, "status": {"phase": phase}}


CREATE = {"name": "cache", "create": True, "storage_class": None, "volume_name": None}
STATIC = {**CREATE, "storage_class": "static"}


@pytest.mark.parametrize(
    ("live", "wanted", "volumes", "code"),
    [
        (claim(), CREATE, [], "claim"),
        (claim("Pending"), CREATE, [], "claim"),
        (claim("Lost"), CREATE, [], "CLAIM_LOST"),
        (claim("Bound", "ReadWriteOnce"), CREATE, [], "CLAIM_ACCESS_MODE"),
        (None, {**CREATE, "create": False}, [], "CLAIM_ABSENT"),
        (None, CREATE, [], "STORAGE_CLASS_ABSENT"),
        (None, {**CREATE, "storage_class": "nfs"}, [], "claim"),
        (None, {**CREATE, "storage_class": "odd"}, [], "STORAGE_CLASS_ABSENT"),
        (None, STATIC, [volume()], "claim"),
        (None, STATIC, [volume(ref="cache")], "claim"),
        (None, STATIC, [volume(ref="other")], "STORAGE_CLASS_ABSENT"),
        (None, STATIC, [volume(phase="Bound")], "STORAGE_CLASS_ABSENT"),
        (None, STATIC, [volume(mode="ReadWriteOnce")], "STORAGE_CLASS_ABSENT"),
        (None, {**CREATE, "volume_name": "pv"}, [volume()], "claim"),
        (None, {**CREATE, "volume_name": "pv2"}, [volume()], "VOLUME_ABSENT"),
    ],
)
def test_claim(live: Any, wanted: dict[str, Any], volumes: list[Any], code: str) -> None:
    found = _findings.claim(live, wanted, "llm", [named("nfs")], volumes)
    assert found["code"] == code
    assert found["level"] == ("PASS" if code == "claim" else "FAIL")
    assert found["level"] == "PASS" or "dynamo_" in found["hint"]


def test_no_class_and_no_claim_names_the_variables_and_what_there_is() -> None:
    text = _findings.text(_findings.claim(None, CREATE, "llm", [named("nfs"), named("fast")], []))
    for word in ("no storage class and no claim", "fast, nfs", "dynamo_storage_class", "dynamo_cache_claim"):
        assert word in text


SECRET = {"name": "s", "key": "HF_TOKEN"}


@pytest.mark.parametrize(
    ("live", "given", "required", "level", "code"),
    [
        ({**named("s"), "data": {"HF_TOKEN": "eA=="}}, False, True, "PASS", "secret"),
        (None, True, True, "PASS", "secret"),
        (None, False, False, "PASS", "secret"),
        (None, False, True, "FAIL", "SECRET_KEY_ABSENT"),
        ({**named("s"), "data": {"token": "eA=="}}, False, False, "WARN", "SECRET_KEY_ABSENT"),
        ({**named("s"), "data": {"HF_TOKEN": "eA=="}}, True, False, "WARN", "SECRET_FOREIGN"),
        ({**named("s"), "data": {"token": "eA=="}}, True, True, "FAIL", "SECRET_KEY_ABSENT"),
        ({**named("s", **OURS), "data": {}}, True, True, "PASS", "secret"),
    ],
)
def test_secret(live: Any, given: bool, required: bool, level: str, code: str) -> None:
    found = _findings.secret(live, SECRET, "llm", given, required)
    assert (found["level"], found["code"]) == (level, code)


def access(status: str) -> Access:
    return Access(
        id="acme/tiny", revision="main", status=status, commit="a" * 40, gated=None, files=2, bytes=3, detail="HTTP 403"
    )


@pytest.mark.parametrize(
    ("status", "pinned", "token_wanted", "level", "code"),
    [
        ("ok", True, False, "PASS", "model_access"),
        ("TOKEN_MISSING", True, True, "FAIL", "TOKEN_MISSING"),
        ("TOKEN_REFUSED", True, False, "FAIL", "TOKEN_REFUSED"),
        ("REPOSITORY_ABSENT", True, False, "FAIL", "REPOSITORY_ABSENT"),
        ("REVISION_ABSENT", True, False, "FAIL", "REVISION_ABSENT"),
        ("HUB_UNREACHABLE", True, False, "UNKNOWN", "HUB_UNREACHABLE"),
        ("HUB_RATE_LIMITED", True, False, "UNKNOWN", "HUB_RATE_LIMITED"),
        ("HUB_RATE_LIMITED", False, False, "FAIL", "HUB_RATE_LIMITED"),
        ("HUB_UNREACHABLE", False, False, "FAIL", "HUB_UNREACHABLE"),
        ("HUB_UNREACHABLE", True, True, "FAIL", "TOKEN_MISSING"),
    ],
)
def test_model_access(status: str, pinned: bool, token_wanted: bool, level: str, code: str) -> None:
    found = _findings.model_access(access(status), pinned, "llm/s", token_wanted)
    assert (found["level"], found["code"]) == (level, code)
    assert "acme/tiny" in found["message"]


DOMAIN = {
    "name": "cd",
    "manifest": {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": "cd", "namespace": "llm"},
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "t"}}},
    },
}
SPEC = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "t"}, "allocationMode": "Single"}}


@pytest.mark.parametrize(
    ("live", "served", "classes", "code"),
    [
        (None, False, [], "COMPUTE_DOMAIN_API_ABSENT"),
        (None, True, ["gpu.nvidia.com"], "DEVICE_CLASS_ABSENT"),
        (None, True, [_findings.CHANNEL_CLASS], "compute_domain"),
        ({**named("cd"), "spec": SPEC}, True, [_findings.CHANNEL_CLASS], "compute_domain"),
        ({**named("cd"), "spec": {**SPEC, "numNodes": 3}}, True, [_findings.CHANNEL_CLASS], "COMPUTE_DOMAIN_CHANGED"),
    ],
)
def test_compute_domain(live: Any, served: bool, classes: list[str], code: str) -> None:
    assert _findings.compute_domain(live, DOMAIN, served, classes)["code"] == code


def test_objects_of_other_tools_are_left_alone() -> None:
    wanted = {"kind": "DynamoGraphDeployment", "metadata": {"name": "d", "namespace": "llm"}}
    assert _findings.owner(named("d", **{"argocd.argoproj.io/instance": "x"}), wanted)[0]["code"] == "FOREIGN"
    assert _findings.owner(named("d"), wanted)[0]["code"] == "NOT_OURS"
    assert _findings.owner(named("d"), wanted, adopt=True) == []
    assert _findings.owner(None, wanted) == []


def test_capacity_and_surge_room() -> None:
    room, full = (
        Placement(nodes={"Worker": ["b", "a", "b"], "Frontend": []}),
        Placement(missing={"Worker": "Worker: no"}),
    )
    assert _findings.capacity(room)["message"] == "room for Worker on a, b (2)"
    assert (_findings.capacity(full)["code"], _findings.capacity(full)["message"]) == ("CAPACITY", "Worker: no")
    assert _findings.surge_room(room)["level"] == "PASS"
    assert _findings.surge_room(full)["code"] == "NO_SURGE_ROOM"


@pytest.mark.parametrize(
    ("found", "level"),
    [
        ((["a"], [], []), "PASS"),
        ((["a"], [], ["b"]), "PASS"),
        ((["a"], ["b"], []), "WARN"),
        (([], ["b"], []), "FAIL"),
        (([], ["b"], ["c"]), "UNKNOWN"),
        (([], [], ["c"]), "UNKNOWN"),
        (([], [], []), "UNKNOWN"),
    ],
)
def test_gpu_products(found: Any, level: str) -> None:
    assert _findings.gpu_products(found, ["NVIDIA-GB300"])["level"] == level


def test_gap() -> None:
    change = Rollout(rolls=True, gap=["Worker"])
    assert _findings.gap(Rollout(), RELEASE, False) == []
    assert _findings.gap(change, RELEASE, True)[0]["level"] == "WARN"
    refused = _findings.gap(change, RELEASE, False)[0]
    assert (refused["level"], refused["code"]) == ("FAIL", "UPDATE_NEEDS_GAP")
    assert "60 minutes" in refused["message"] and "allow_gap" in refused["hint"]


RWX, ROX = ({"spec": {"accessModes": [mode]}} for mode in ("ReadWriteMany", "ReadOnlyMany"))
RO_VOLUME = {"name": "v", "volume": {"nfs": {"server": "nas", "path": "/m", "readOnly": True}}}


@pytest.mark.parametrize(
    ("live", "wanted", "downloads", "writers", "said"),
    [
        (RWX, CREATE, True, ["W: A=/b"], ""),
        (ROX, CREATE, False, [], ""),
        (None, CREATE, True, [], ""),
        (ROX, CREATE, True, [], "would be downloaded"),
        (ROX, CREATE, False, ["W: A=/b"], "W: A=/b"),
        (None, RO_VOLUME, False, ["W: A=/b"], "dynamo_binding.cache_volume can only be read"),
    ],
)
def test_a_cache_that_can_only_be_read(live: Any, wanted: Any, downloads: bool, writers: Any, said: str) -> None:
    found = _findings.read_only_cache(live, wanted, downloads, writers)
    assert [f["code"] for f in found] == (["CACHE_READ_ONLY"] if said else [])
    assert not said or said in found[0]["message"]
