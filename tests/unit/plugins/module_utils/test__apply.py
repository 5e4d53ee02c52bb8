# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _run
from ansible_collections.inferops.dynamo.plugins.module_utils._apply import CHANNEL_CLASS, Applier, outcome
from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import Cluster
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Clock
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run
from ansible_collections.inferops.dynamo.tests.unit.plugins.fake_api import (
    RESOURCES,
    FakeApi,
    kubeconfig,
    serve,
    status,
)

LABELS = {"app.kubernetes.io/managed-by": "inferops.dynamo"}


def obj(kind: str, name: str, namespace: str | None = "llm", api: str = "v1", **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "labels": {**LABELS, **fields.pop("labels", {})}, **fields.pop("metadata", {})}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {**meta, **({"namespace": namespace} if namespace else {})},
        **fields,
    }


def config(name: str = "c", text: str = "hello", **fields: Any) -> dict[str, Any]:
    return obj("ConfigMap", name, data={"text": text}, **fields)


def job(content: str, image: str = "a") -> dict[str, Any]:
    annotations = {"annotations": {"inferops.dynamo/content": content}}
    return obj("Job", "download", api="batch/v1", metadata=annotations, spec={"image": image})


def graph() -> dict[str, Any]:
    return obj("DynamoGraphDeployment", "g", api="nvidia.com/v1beta1", spec={"components": []})


class Time:
    """A clock that a wait advances by sleeping; `then` is done after so many sleeps."""

    def __init__(self) -> None:
        self.at = 0.0
        self.then: dict[int, Any] = {}
        self.sleeps = 0

    def clock(self) -> Clock:
        return Clock(lambda: self.at, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.at += seconds
        self.sleeps += 1
        self.then.pop(self.sleeps, lambda: None)()


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    monkeypatch.setattr(_run, "_hidden", set())
    with serve(FakeApi()) as fake:
        fake.add(obj("Namespace", "llm", None))
        yield fake


class Tool:
    """An Applier on the fake API, made anew for every call as a task does."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.time = Time()
        self.lines: list[str] = []

    def applier(self, check_mode: bool = False, **options: Any) -> Applier:
        cluster = Cluster.connect({"kubeconfig": kubeconfig(self.api.url)})
        self.api.requests.clear()
        return Applier(cluster, Run(check_mode, show=self.lines.append), clock=self.time.clock(), **options)

    def present(self, *definitions: dict[str, Any], create_namespace: bool = False, **options: Any) -> dict[str, Any]:
        wanted = copy.deepcopy(list(definitions))
        return outcome(self.applier(**options).present(wanted, create_namespace))

    def absent(self, *definitions: dict[str, Any], wait: float = 0, **options: Any) -> dict[str, Any]:
        return outcome(self.applier(**options).absent(list(definitions), wait=wait))


@pytest.fixture
def tool(api: FakeApi) -> Tool:
    return Tool(api)


def actions(result: dict[str, Any]) -> list[str]:
    return [f"{o['kind']} {o['action']}" for o in result["objects"]]


def fails(code: str, action: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(DynamoError) as caught:
        action(*args, **kwargs)
    assert caught.value.code == code, caught.value
    return str(caught.value)


def test_create_then_nothing_then_change(tool: Tool) -> None:
    assert actions(tool.present(config())) == ["ConfigMap created"]
    second = tool.present(config())
    assert (second["changed"], actions(second), second["diff"]) == (False, ["ConfigMap unchanged"], [])
    assert tool.api.writes == []
    third = tool.present(config(text="bye"))
    assert third["changed"] and actions(third) == ["ConfigMap configured"]
    assert "text: hello" in third["diff"][0]["before"] and "text: bye" in third["diff"][0]["after"]
    assert tool.lines == ["ConfigMap llm/c created", "ConfigMap llm/c configured"]


def test_a_field_that_is_left_out_is_removed(tool: Tool) -> None:
    tool.present(obj("ConfigMap", "c", data={"a": "1", "b": "2"}))
    tool.present(obj("ConfigMap", "c", data={"a": "1"}))
    assert tool.api.objects["ConfigMap", "llm", "c"]["data"] == {"a": "1"}


def test_all_are_tried_before_the_first_is_written(tool: Tool) -> None:
    path = "apis/nvidia.com/v1beta1/namespaces/llm/dynamographdeployments/g"
    tool.api.answers["PATCH", path] = status(422, "spec.components: Required value")
    assert "Required value" in fails("REFUSED", tool.present, config(), graph())
    assert tool.api.writes == []


def test_written_stage_by_stage(tool: Tool) -> None:
    result = tool.present(graph(), job("one"), config(), obj("Secret", "s", data={}))
    assert [o["kind"] for o in result["objects"]] == ["Secret", "ConfigMap", "Job", "DynamoGraphDeployment"]
    assert [w.split("/")[-2] for w in tool.api.writes] == ["secrets", "configmaps", "jobs", "dynamographdeployments"]


def test_namespace_is_created_when_asked(tool: Tool) -> None:
    elsewhere = obj("ConfigMap", "c", "new", data={})
    fails("NAMESPACE_ABSENT", tool.present, elsewhere)
    checked = tool.present(elsewhere, create_namespace=True, check_mode=True)
    assert actions(checked) == ["Namespace created", "ConfigMap created"] and len(checked["diff"]) == 2
    assert tool.api.writes == []
    assert actions(tool.present(elsewhere, create_namespace=True)) == actions(checked)
    assert tool.api.objects["Namespace", "", "new"]["metadata"]["labels"] == {
        **LABELS,
        "app.kubernetes.io/part-of": "dynamo",
    }
    assert actions(tool.present(elsewhere, create_namespace=True)) == ["ConfigMap unchanged"]


def test_what_is_refused_leaves_no_namespace_behind(tool: Tool) -> None:
    elsewhere = obj("ConfigMap", "c", "new", data={})
    path = "api/v1/namespaces/default/configmaps/c-dry-run"
    tool.api.add(obj("Namespace", "default", None))
    tool.api.answers["PATCH", path] = status(422, 'ConfigMap "c-dry-run" is invalid: data: Required value')
    for check_mode in (True, False):
        text = fails("REFUSED", tool.present, elsewhere, create_namespace=True, check_mode=check_mode)
        assert 'ConfigMap new/c: ConfigMap "c" is invalid: data: Required value. Nothing was changed.' in text
        assert ("Namespace", "", "new") not in tool.api.objects
    # rights of another namespace say nothing about the new one
    tool.api.answers["PATCH", path] = status(403, 'User "me" cannot patch resource "configmaps"')
    assert actions(tool.present(elsewhere, create_namespace=True)) == ["Namespace created", "ConfigMap created"]


def test_who_may_not_read_namespaces_can_still_apply(tool: Tool) -> None:
    tool.api.answers["GET", "api/v1/namespaces/llm"] = status(403, 'User "me" cannot get resource "namespaces"')
    assert actions(tool.present(config(), create_namespace=True)) == ["ConfigMap created"]


def test_check_mode_shows_a_change_and_writes_nothing(tool: Tool) -> None:
    tool.present(config())
    result = tool.present(config(text="bye"), graph(), check_mode=True)
    assert actions(result) == ["ConfigMap configured", "DynamoGraphDeployment created"]
    assert "text: bye" in result["diff"][0]["after"] and tool.api.writes == []


def test_kind_that_this_run_brings_along(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    crds = {"customresourcedefinitions": ("CustomResourceDefinition", False)}
    monkeypatch.setitem(RESOURCES, "apis/apiextensions.k8s.io/v1", crds)
    spec = {"group": "g.example", "names": {"kind": "Thing"}, "versions": [{"name": "v1"}]}
    crd = obj("CustomResourceDefinition", "things.g.example", None, "apiextensions.k8s.io/v1", spec=spec)
    thing = obj("Thing", "t", api="g.example/v1")
    assert actions(tool.present(crd, thing, check_mode=True)) == ["CustomResourceDefinition created", "Thing created"]
    tool.time.then[2] = lambda: monkeypatch.setitem(RESOURCES, "apis/g.example/v1", {"things": ("Thing", True)})
    assert tool.present(crd, thing)["changed"] and ("Thing", "llm", "t") in tool.api.objects
    assert "Other g.example/v2" in fails("API_ABSENT", tool.present, obj("Other", "t", api="g.example/v2"))


def test_job_is_replaced_only_when_it_does_something_else(tool: Tool) -> None:
    tool.present(job("one"))
    assert actions(tool.present(job("one", image="ignored"))) == ["Job unchanged"]
    checked = tool.present(job("two", image="b"), check_mode=True)
    assert actions(checked) == ["Job configured"] and "image: b" in checked["diff"][0]["after"]
    tool.present(job("two", image="b"))
    path = "apis/batch/v1/namespaces/llm/jobs/download"
    assert tool.api.writes == [f"DELETE {path}", f"PATCH {path}"]
    assert tool.api.objects["Job", "llm", "download"]["spec"] == {"image": "b"}


def test_job_that_would_be_refused_leaves_the_old_one(tool: Tool) -> None:
    tool.present(job("one"))
    tool.api.answers["PATCH", "apis/batch/v1/namespaces/llm/jobs/download-dry-run"] = status(422, "Invalid value")
    fails("REFUSED", tool.present, job("two"))
    assert ("Job", "llm", "download") in tool.api.objects


@pytest.mark.parametrize("kind", ["Secret", "Job"])
def test_what_is_not_ours_is_refused_or_kept(tool: Tool, kind: str) -> None:
    wanted = obj("Secret", "s", data={"a": "bmV3"}) if kind == "Secret" else job("two")
    foreign = copy.deepcopy(wanted)
    foreign["metadata"]["labels"] = {}
    tool.api.add(foreign)
    assert wanted["metadata"]["name"] in fails("NOT_OURS", tool.present, wanted)
    kept = tool.present(wanted, keep_foreign=True)
    assert (kept["changed"], actions(kept), tool.api.writes) == (False, [f"{kind} kept"], [])


def test_gitops_objects_are_refused(tool: Tool) -> None:
    tool.api.add(config(metadata={"annotations": {"argocd.argoproj.io/tracking-id": "x"}}))
    assert "Argo CD" in fails("FOREIGN", tool.present, config(text="bye"))


def test_adopt_takes_over_what_kubectl_wrote(tool: Tool) -> None:
    live = tool.api.add(obj("ConfigMap", "c", data={"text": "hello", "gone": "x"}), manager="kubectl-client-side-apply")
    assert live["metadata"]["managedFields"][0]["manager"] == "kubectl-client-side-apply"
    fails("CONFLICT", tool.present, config(text="bye"))
    assert tool.present(config(text="bye"), adopt=True, check_mode=True)["changed"]
    assert tool.api.writes == []
    assert tool.present(config(text="bye"), adopt=True)["changed"]
    assert tool.api.objects["ConfigMap", "llm", "c"]["data"] == {"text": "bye"}
    assert not tool.present(config(text="bye"), adopt=True)["changed"]


def test_secret_values_are_not_in_the_diff(tool: Tool) -> None:
    tool.present(obj("Secret", "s", data={"k": "b2xk"}))
    result = tool.present(obj("Secret", "s", data={"k": "bmV3"}))
    assert "(changed)" in result["diff"][0]["after"]
    assert "b2xk" not in str(result) and "bmV3" not in str(result)


def test_absent(tool: Tool) -> None:
    tool.present(config(), graph())
    checked = tool.absent(config(), graph(), check_mode=True)
    assert actions(checked) == ["DynamoGraphDeployment deleted", "ConfigMap deleted"] and tool.api.writes == []
    deleted = tool.absent(config(), graph())
    assert actions(deleted) == actions(checked) and len(deleted["diff"]) == 2
    again = tool.absent(config(), graph(), obj("ComputeDomain", "d", api="resource.nvidia.com/v1beta1"))
    assert not again["changed"] and {o["action"] for o in again["objects"]} == {"absent"}


def test_absent_refuses_what_is_not_ours_before_anything_is_deleted(tool: Tool) -> None:
    tool.present(graph())
    foreign = config()
    foreign["metadata"]["labels"] = {}
    tool.api.add(foreign)
    assert "ConfigMap llm/c" in fails("NOT_OURS", tool.absent, config(), graph())
    assert tool.api.writes == []


def test_absent_waits_for_the_pods_of_a_graph_before_the_rest(tool: Tool) -> None:
    tool.present(config(), graph())
    pod = obj("Pod", "worker", labels={"nvidia.com/dynamo-graph-deployment-name": "g"})
    tool.api.add(pod)
    tool.time.then[20] = lambda: tool.api.objects.pop(("Pod", "llm", "worker"))
    tool.absent(config(), graph(), wait=60)
    assert tool.time.at == 20.0 and [w.split("/")[-2] for w in tool.api.writes] == [
        "dynamographdeployments",
        "configmaps",
    ]
    assert "waiting for Pod llm/worker to be gone (15 s)" in tool.lines


def test_absent_says_what_is_still_there(tool: Tool) -> None:
    tool.present(config(metadata={"finalizers": ["x/keep"]}))
    tool.api.answers["DELETE", "api/v1/namespaces/llm/configmaps/c"] = (200, {})
    text = fails("STILL_WAITING", tool.absent, config(), wait=5)
    assert "ConfigMap llm/c" in text and "x/keep" in text and "5 s" in text


def test_select_finds_ours_by_label(tool: Tool) -> None:
    tool.present(config("a", labels={"r": "g"}), config("b", labels={"r": "g", "record": "1"}), config("c"))
    tool.api.add({**config("d"), "metadata": {"name": "d", "namespace": "llm", "labels": {"r": "g"}}})
    select = {"api_version": "v1", "kind": "ConfigMap", "namespace": "llm", "label_selector": "r=g,!record"}
    unserved = {**select, "api_version": "x.example/v1", "kind": "X"}
    found = tool.applier().select([select, select, unserved], [])
    assert [o["metadata"]["name"] for o in found] == ["a"]
    assert tool.applier().select([select], [config("a")]) == []


DOMAIN_API, DRA_API = "apis/resource.nvidia.com/v1beta1", "apis/resource.k8s.io/v1"


def domain() -> dict[str, Any]:
    spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "t"}}}
    return obj("ComputeDomain", "d", api="resource.nvidia.com/v1beta1", spec=spec)


@pytest.fixture
def dra(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = {"resourceclaimtemplates": ("ResourceClaimTemplate", True), "deviceclasses": ("DeviceClass", False)}
    monkeypatch.setitem(RESOURCES, DOMAIN_API, {"computedomains": ("ComputeDomain", True)})
    monkeypatch.setitem(RESOURCES, DRA_API, classes)


def template(uid: str) -> dict[str, Any]:
    labels = {"resource.nvidia.com/computeDomain": uid}
    return obj("ResourceClaimTemplate", "t", api="resource.k8s.io/v1", labels=labels)


def test_claim_template_is_waited_for(tool: Tool, dra: None) -> None:
    tool.present(domain())
    uid = tool.api.objects["ComputeDomain", "llm", "d"]["metadata"]["uid"]
    tool.time.then[3] = lambda: tool.api.add(template(uid))
    tool.applier().claim_templates([domain(), config()], 30)
    assert tool.time.at == 3.0


def test_claim_template_that_does_not_come_has_a_cause(tool: Tool, dra: None) -> None:
    tool.present(domain())
    text = fails("CLAIM_TEMPLATE_MISSING", tool.applier().claim_templates, [domain()], 5)
    assert "ResourceClaimTemplate llm/t" in text and "DRA driver is not installed" in text
    tool.api.add(obj("DeviceClass", CHANNEL_CLASS, None, api="resource.k8s.io/v1"))
    assert "-controller" in fails("CLAIM_TEMPLATE_MISSING", tool.applier().claim_templates, [domain()], 5)


def test_claim_template_of_somebody_else(tool: Tool, dra: None) -> None:
    tool.present(domain())
    tool.api.add(template("another"))
    assert "llm/t" in fails("CLAIM_TEMPLATE_FOREIGN", tool.applier().claim_templates, [domain()], 5)


def test_claim_templates_need_an_api(tool: Tool) -> None:
    tool.applier().claim_templates([config()], 5)
    tool.applier(check_mode=True).claim_templates([domain()], 5)
    fails("API_ABSENT", tool.applier().claim_templates, [domain()], 5)


def test_changed_compute_domain(tool: Tool, dra: None) -> None:
    tool.present(domain())
    changed = domain()
    changed["spec"]["numNodes"] = 2
    assert "teardown" in fails("COMPUTE_DOMAIN_CHANGED", tool.present, changed)
