# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _objects
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

OURS = {"app.kubernetes.io/managed-by": "inferops.dynamo"}


def obj(kind: str = "ConfigMap", name: str = "x", namespace: str | None = "llm", **fields: Any) -> dict[str, Any]:
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, **fields}


@pytest.mark.parametrize(
    ("definitions", "word"),
    [
        ([{}], "definitions[0]"),
        ([{"apiVersion": "v1", "kind": "Pod", "metadata": {}}], "metadata.name"),
        (["text"], "definitions[0]"),
        ([obj(), obj()], "comes twice"),
    ],
)
def test_check_refuses(definitions: list[Any], word: str) -> None:
    with pytest.raises(DynamoError) as caught:
        _objects.check(definitions)
    assert caught.value.code == "BAD_MANIFEST" and word in str(caught.value)


def test_check_accepts() -> None:
    _objects.check([obj(), obj(name="y"), obj(namespace=None), obj("Secret")])


def test_stages() -> None:
    kinds = ["DynamoGraphDeployment", "Job", "Secret", "ServiceAccount", "ConfigMap", "ComputeDomain", "Namespace"]
    order = [[o["kind"] for o in stage] for stage in _objects.stages([obj(k) for k in kinds])]
    assert order == [
        ["Namespace"],
        ["Secret"],
        ["ServiceAccount", "ConfigMap"],
        ["ComputeDomain"],
        ["Job"],
        ["DynamoGraphDeployment"],
    ]
    assert _objects.stages([obj(k) for k in kinds], reverse=True)[0][0]["kind"] == "DynamoGraphDeployment"


def test_namespaces() -> None:
    objects = [
        obj(namespace="a"),
        obj(namespace="b"),
        obj(namespace="a"),
        obj("Namespace", "b", None),
        obj("X", "c", None),
    ]
    assert _objects.namespaces(objects) == ["a"]


def test_defined_kinds() -> None:
    spec = {"group": "g.example", "names": {"kind": "Thing"}, "versions": [{"name": "v1"}, {"name": "v2"}]}
    found = _objects.defined_kinds([obj("CustomResourceDefinition", spec=spec), obj()])
    assert found == {("g.example/v1", "Thing"), ("g.example/v2", "Thing")}


@pytest.mark.parametrize(
    ("metadata", "owner"),
    [
        ({}, None),
        ({"labels": OURS}, None),
        ({"labels": {"app.kubernetes.io/managed-by": "Helm"}}, "Helm"),
        ({"annotations": {"meta.helm.sh/release-name": "x"}}, "Helm"),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "x"}}, "Argo CD"),
        ({"labels": {"argocd.argoproj.io/instance": "x"}}, "Argo CD"),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}, "Flux"),
        ({"labels": {"helm.toolkit.fluxcd.io/name": "x"}}, "Flux"),
    ],
)
def test_foreign_owner(metadata: dict[str, Any], owner: str | None) -> None:
    assert _objects.foreign_owner(obj(metadata=metadata)) == owner


@pytest.mark.parametrize(
    ("wanted", "live", "code"),
    [
        (obj(), obj(metadata={"labels": OURS}), None),
        (obj(), obj(), "NOT_OURS"),
        (obj("DynamoGraphDeployment"), obj("DynamoGraphDeployment"), "NOT_OURS"),
        (obj(), obj(metadata={"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}), "FOREIGN"),
        (obj("Secret"), obj("Secret"), "NOT_OURS"),
        (obj("Secret"), obj("Secret", metadata={"labels": OURS}), None),
        (obj("Job"), obj("Job"), "NOT_OURS"),
        (obj("Job"), obj("Job", metadata={"labels": OURS}), None),
        (
            obj("ComputeDomain", spec={"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "a"}}}),
            obj("ComputeDomain", spec={"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "a"}, "d": 1}}),
            None,
        ),
        (
            obj("ComputeDomain", spec={"numNodes": 0}),
            obj("ComputeDomain", spec={"numNodes": 2}),
            "COMPUTE_DOMAIN_CHANGED",
        ),
    ],
)
def test_refuse(wanted: dict[str, Any], live: dict[str, Any], code: str | None) -> None:
    if code is None:
        _objects.refuse(wanted, live)
        return
    with pytest.raises(DynamoError) as caught:
        _objects.refuse(wanted, live)
    assert caught.value.code == code and _objects.name_of(wanted) in str(caught.value) and caught.value.hint


def test_comparable_ignores_what_the_server_writes() -> None:
    live = obj(metadata={"uid": "u", "generation": 2, "resourceVersion": "9", "managedFields": [], "labels": OURS})
    assert _objects.comparable({**live, "status": {"a": 1}}) == obj(metadata={"labels": OURS})


def test_comparable_is_a_copy() -> None:
    live = obj(data={"a": "1"})
    _objects.comparable(live)["data"]["a"] = "2"
    assert live["data"] == {"a": "1"}


@pytest.mark.parametrize(
    ("live", "wanted", "projected"),
    [
        ({"a": 1, "b": 2}, {"a": 5}, {"a": 1}),
        ({"a": 1}, {"a": 1, "c": 2}, {"a": 1}),
        ({"l": [{"a": 1, "b": 2}]}, {"l": [{"a": 3}]}, {"l": [{"a": 1}]}),
        ({"l": [1, 2]}, {"l": [1]}, {"l": [1, 2]}),
        (None, {"a": 1}, None),
    ],
)
def test_project(live: Any, wanted: Any, projected: Any) -> None:
    assert _objects.project(live, wanted) == projected


def job(content: str) -> dict[str, Any]:
    return obj("Job", metadata={"annotations": {"inferops.dynamo/content": content}})


def test_replaces() -> None:
    assert _objects.replaces(job("a"), job("b"))
    assert _objects.replaces(job("a"), obj("Job"))
    assert not _objects.replaces(job("a"), job("a"))
    assert not _objects.replaces(obj(), obj(data={}))


def test_diff_of_a_create_and_a_delete() -> None:
    created = _objects.diff(None, obj(data={"text": "one\ntwo\n"}, status={"x": 1}))
    assert created["before"] == "" and created["before_header"] == "ConfigMap llm/x (absent)"
    assert "  text: |\n    one\n    two\n" in created["after"] and "status" not in created["after"]
    assert created["after_header"] == "ConfigMap llm/x"
    deleted = _objects.diff(obj(), None)
    assert deleted["after"] == "" and deleted["after_header"] == "ConfigMap llm/x (absent)"


def test_diff_masks_secrets_and_shows_that_they_change() -> None:
    last = {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "b2xkZXI="}}
    before = obj("Secret", data={"a": "b2xk", "b": "c2FtZQ=="}, metadata=last)
    after = obj("Secret", data={"a": "bmV3", "b": "c2FtZQ==", "c": "bW9yZQ=="})
    entry = _objects.diff(before, after)
    assert "a: '******'" in entry["before"] and "a: '****** (changed)'" in entry["after"]
    assert "b: '******'\n" in entry["after"] and "c: '******'\n" in entry["after"]
    for value in ("b2xk", "bmV3", "c2FtZQ==", "bW9yZQ=="):
        assert value not in str(entry)
    assert before["data"]["a"] == "b2xk"


def entry(manager: str, operation: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields, **more}


def test_adoption() -> None:
    status = entry("kubectl", "Update", {"f:status": {}}, subresource="status")
    other = entry("manager", "Update", {"f:metadata": {"f:finalizers": {}}})
    live = obj(
        metadata={
            "resourceVersion": "7",
            "managedFields": [
                entry("kubectl-client-side-apply", "Update", {"f:data": {"f:a": {}, "f:b": {}}}),
                status,
                other,
                entry("inferops.dynamo", "Apply", {"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {}}}),
            ],
        }
    )
    before = copy.deepcopy(live)
    patch = _objects.adoption(live)
    assert patch is not None
    assert patch[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    merged = entry("inferops.dynamo", "Apply", {"f:data": {"f:a": {}, "f:b": {}}, "f:metadata": {"f:labels": {}}})
    assert patch[1]["value"] == [status, other, merged]
    assert live == before


@pytest.mark.parametrize("managers", [[], ["manager"], ["inferops.dynamo"], ["kubectl-patch"]])
def test_nothing_to_adopt(managers: list[str]) -> None:
    live = obj(metadata={"resourceVersion": "7", "managedFields": [entry(m, "Update", {}) for m in managers]})
    assert _objects.adoption(live) is None
