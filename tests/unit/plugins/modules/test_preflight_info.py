# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""preflight_info against a cluster made of dictionaries and a scripted hub."""

from __future__ import annotations

import base64
import copy
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _hub
from ansible_collections.inferops.dynamo.plugins.module_utils._bind import pin
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import placeholder
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run
from ansible_collections.inferops.dynamo.plugins.modules import preflight_info

COMMIT = "a" * 40
GPU = "nvidia.com/gpu"
OURS = {"app.kubernetes.io/part-of": "dynamo", "app.kubernetes.io/managed-by": "inferops.dynamo"}
LABELS = {**OURS, "inferops.dynamo/release": "dgd"}
NO_SURGE = {
    "nvidia.com/deployment-rolling-update-max-surge": "0",
    "nvidia.com/deployment-rolling-update-max-unavailable": "1",
}
DEFAULTS = {name: option.get("default") for name, option in preflight_info.ARGUMENT_SPEC.items()}
DGD = ("nvidia.com/v1beta1", "DynamoGraphDeployment")


def worker(path: str, annotations: dict[str, str]) -> dict[str, Any]:
    resources = {"requests": {"cpu": "16", "memory": "128Gi"}, "limits": {GPU: "4"}}
    container = {"name": "main", "image": "x:1.6.0", "args": ["--model", path], "resources": resources}
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
    return {"name": "Worker", "type": "worker", "replicas": 1, "podTemplate": template}


def release(commit: str = COMMIT, annotations: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    path = f"/cache/tiny/{commit[:12] or placeholder('acme/tiny')}"
    frontend = {"name": "Frontend", "type": "frontend", "podTemplate": {"spec": {"containers": [{"name": "main"}]}}}
    manifest = {
        "apiVersion": DGD[0],
        "kind": DGD[1],
        "metadata": {"name": "dgd", "namespace": "llm", "labels": LABELS},
        "spec": {"components": [frontend, worker(path, NO_SURGE if annotations is None else annotations)]},
    }
    model = {
        "id": "acme/tiny",
        "commit": commit,
        "layout": "folder",
        "path": path,
        "files": 2,
        "bytes": None,
        "gated": None,
    }
    base = {
        "target": "m/sglang/agg-gb300",
        "replaces_target": "",
        "name": "dgd",
        "namespace": "llm",
        "applicable": True,
        "reason": "",
        "gpu_products": ["NVIDIA-GB300"],
        "models": [model],
        "claim": {"name": "cache", "create": True, "storage_class": "nfs", "size": "1Gi", "volume_name": None},
        "secret": {"name": "hf", "key": "HF_TOKEN"},
        "job": {"name": "download", "env": {}},
        "compute_domain": None,
        "config_maps": [],
        "manifest": manifest,
        "timeouts": {"ready": 3600},
        "digest": "",
    }
    return copy.deepcopy({**base, **changes})


class FakeCluster:
    """The reading half of Cluster, and a server-side dry run that marks what it is given as the operator does."""

    context, server = "c1", "https://c1:6443"

    def __init__(self, *objects: dict[str, Any], absent: tuple[str, ...] = ("ComputeDomain",)) -> None:
        self.objects = list(objects)
        self.absent = absent
        self.forbidden: set[str] = set()
        self.calls: list[str] = []
        self.refusal: DynamoError | None = None
        self.operator = True

    def served(self, api_version: str, kind: str) -> bool:
        return kind not in self.absent

    def _guard(self, verb: str, kind: str) -> None:
        self.calls.append(f"{verb} {kind}")
        if kind in self.forbidden:
            raise DynamoError(f"not allowed to {verb} {kind}.", "FORBIDDEN")

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        self._guard("get", kind)
        return next((o for o in self.list_raw(kind, namespace) if o["metadata"]["name"] == name), None)

    def list_raw(self, kind: str, namespace: str | None) -> list[dict[str, Any]]:
        found = [o for o in self.objects if o["kind"] == kind]
        return [copy.deepcopy(o) for o in found if not namespace or o["metadata"].get("namespace") == namespace]

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[dict[str, Any]]:
        self._guard("list", kind)
        key, _sep, value = (label_selector or "").partition("=")
        found = self.list_raw(kind, namespace)
        return [o for o in found if not key or (o["metadata"].get("labels") or {}).get(key) == value]

    def apply(self, obj: dict[str, Any], dry_run: bool = False, force: bool = False) -> dict[str, Any]:
        assert dry_run
        self.calls.append(f"dry run {obj['kind']} in {obj['metadata']['namespace']}")
        if self.refusal:
            raise self.refusal
        stored = copy.deepcopy(obj)
        if self.operator:
            stored["metadata"]["annotations"] = {
                "nvidia.com/workload-provider": "component",
                "nvidia.com/dynamo-operator-origin-version": "1.6.0",
            }
        return stored


def thing(kind: str, name: str, namespace: str | None = "llm", **more: Any) -> dict[str, Any]:
    labels = more.pop("labels", {})
    meta = {"name": name, "uid": f"uid-{name}", "labels": labels}
    if namespace:
        meta["namespace"] = namespace
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, **more}


def node(name: str = "n1", gpus: int = 4, product: str = "NVIDIA-GB300") -> dict[str, Any]:
    status = {"allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}}
    return thing("Node", name, None, labels={f"{GPU}.product": product}, status=status, spec={})


BARE = [
    thing("Namespace", "kube-system", None),
    thing("StorageClass", "nfs", None),
    node(),
]
CLAIM = thing("PersistentVolumeClaim", "cache", spec={"accessModes": ["ReadWriteMany"]}, status={"phase": "Bound"})
RECORD = thing(
    "ConfigMap",
    "checkpoint-acme-tiny-aaaaaaaaaaaa",
    labels={**OURS, "inferops.dynamo/checkpoint": "true"},
    data={
        "repository": "acme/tiny",
        "commit": COMMIT,
        "claim": "cache",
        "claim_uid": "uid-cache",
        "layout": "folder",
        "path": "/cache/tiny/aaaaaaaaaaaa",
        "verified_at": "2026-11-30T15:00:00Z",
        "problems": "0",
    },
)
CACHED = [*BARE, thing("Namespace", "llm", None), CLAIM, RECORD]


def live(of: dict[str, Any], ready: int = 1) -> dict[str, Any]:
    stored = FakeCluster().apply(of["manifest"], dry_run=True)
    stored["metadata"].update(uid="uid-dgd", generation=1, resourceVersion="5")
    condition = {"type": "Ready", "status": "True" if ready else "False", "message": "Resources not ready"}
    counts = {"Worker": {"readyReplicas": ready}, "Frontend": {"readyReplicas": 1}}
    stored["status"] = {"observedGeneration": 1, "conditions": [condition], "components": counts}
    return stored


def worker_pod(place: str = "n1") -> dict[str, Any]:
    labels = {"nvidia.com/dynamo-graph-deployment-name": "dgd"}
    spec = {"nodeName": place, "containers": [{"resources": {"limits": {GPU: "4"}}}]}
    return thing("Pod", "dgd-worker", labels=labels, spec=spec, status={"phase": "Running"})


class Hub:
    """Instead of _hub.access: the same answer for everything."""

    def __init__(self, status: str = "ok") -> None:
        self.status = status
        self.asked: list[tuple[str, str, str, str | None]] = []

    def __call__(
        self, send: Any, endpoint: str, repository: str, revision: str = "", token: str | None = None
    ) -> _hub.Access:
        self.asked.append((endpoint, repository, revision, token))
        commit = "b" * 40 if self.status == "ok" else ""
        return _hub.Access(
            id=repository,
            revision=revision or "main",
            status=self.status,
            commit=revision or commit,
            gated=False,
            files=2,
            bytes=1000,
            detail="",
        )


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    fake = Hub()
    monkeypatch.setattr(_hub, "access", fake)
    return fake


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, hub: Hub) -> Any:
    def call(cluster: FakeCluster, of: dict[str, Any], run: Run | None = None, **params: Any) -> dict[str, Any]:
        monkeypatch.setattr(preflight_info.Cluster, "connect", lambda _params: cluster)
        result: dict[str, Any] = preflight_info.run({**DEFAULTS, "release": of, **params}, run or Run())
        return result

    return call


def codes(result: dict[str, Any], *levels: str) -> list[str]:
    return [f["code"] for f in result["findings"] if f["level"] in (levels or ("FAIL",))]


def test_nothing_exists_yet(look: Any) -> None:
    cluster = FakeCluster(*BARE)
    plan = look(cluster, release(), Run(check_mode=True))["plan"]
    assert plan["steps"] == ["model_cache", "deploy"]
    assert plan["reasons"]["deploy"] == "DynamoGraphDeployment dgd would be created"
    assert plan["record"] == {"number": 1, "name": "dgd-r1"}
    assert (plan["namespace_exists"], plan["workers_ready"], plan["gap"]) == (False, 0, False)
    assert plan["operator_version"] == "1.6.0"
    assert "dry run DynamoGraphDeployment in default" in cluster.calls


def test_a_no_op_reads_little_and_asks_no_hub(look: Any, hub: Hub) -> None:
    cluster = FakeCluster(*CACHED, live(release()), worker_pod())
    result = look(cluster, release(commit=""))
    assert result["plan"]["steps"] == []
    assert result["release"] == pin(release(commit=""), {"acme/tiny": COMMIT})
    assert result["plan"]["workers_ready"] == 1
    assert codes(result, "WARN", "FAIL", "UNKNOWN") == []
    assert hub.asked == []
    assert len(cluster.calls) <= 7, cluster.calls


def test_not_applicable_is_not_looked_at(look: Any) -> None:
    cluster = FakeCluster()
    result = look(cluster, release(applicable=False, reason="dynamo_gpu is B200"))
    assert (result["plan"]["steps"], cluster.calls) == ([], [])
    assert codes(result, "PASS") == ["NOT_APPLICABLE"]


def test_another_cluster_ends_the_look_at_once(look: Any) -> None:
    cluster = FakeCluster(*BARE)
    with pytest.raises(DynamoError, match="dynamo_cluster_uid"):
        look(cluster, release(), cluster_uid="other")
    assert cluster.calls == ["get Namespace"]


@pytest.mark.parametrize("token", [None, "hf_token"])
def test_an_unpinned_repository_is_resolved_at_the_hub(look: Any, hub: Hub, token: str | None) -> None:
    result = look(FakeCluster(*BARE), release(commit=""), hf_token=token, hub_endpoint="http://mirror")
    assert hub.asked == [("http://mirror", "acme/tiny", "", token)]
    model = result["release"]["models"][0]
    assert (model["commit"], model["path"], model["bytes"]) == ("b" * 40, "/cache/tiny/" + "b" * 12, 1000)
    assert result["plan"]["steps"][0] == ("hf_secret" if token else "model_cache")


def test_model_update_asks_although_one_is_proven(look: Any, hub: Hub) -> None:
    of = release(commit="", annotations={})
    result = look(FakeCluster(*CACHED), of, model_update=True)
    assert result["release"]["models"][0]["commit"] == "b" * 40
    assert "model_cache" in result["plan"]["steps"]


def test_all_hosts_of_a_run_ask_once(look: Any, hub: Hub, tmp_path: Path) -> None:
    for _host in range(3):
        look(FakeCluster(*BARE), release(commit=""), Run(cache_dir=str(tmp_path)))
    assert len(hub.asked) == 1


def test_the_endpoint_of_the_job_is_asked(look: Any, hub: Hub) -> None:
    look(FakeCluster(*BARE), release(job={"name": "d", "env": {"HF_ENDPOINT": "http://job"}}))
    assert hub.asked[0][0] == "http://job"


@pytest.mark.parametrize(
    ("secret_labels", "given", "used", "step"),
    [({}, "given", "held", False), (OURS, "given", "given", True), (OURS, None, "held", False)],
)
def test_which_token(look: Any, hub: Hub, secret_labels: Any, given: str | None, used: str, step: bool) -> None:
    data = {"HF_TOKEN": base64.b64encode(b"held").decode()}
    objects = [*BARE, thing("Namespace", "llm", None), thing("Secret", "hf", labels=secret_labels, data=data)]
    result = look(FakeCluster(*objects), release(), hf_token=given)
    assert hub.asked[0][3] == used
    assert ("hf_secret" in result["plan"]["steps"]) is step


@pytest.mark.parametrize("status", ["TOKEN_MISSING", "TOKEN_REFUSED", "REPOSITORY_ABSENT"])
def test_bytes_that_can_not_be_had(look: Any, hub: Hub, status: str) -> None:
    hub.status = status
    assert codes(look(FakeCluster(*BARE), release(), strict=False)) == [status]
    assert codes(look(FakeCluster(*CACHED), release(), strict=False)) == []


@pytest.mark.parametrize(("commit", "level"), [(COMMIT, "UNKNOWN"), ("", "FAIL")])
def test_a_silent_hub(look: Any, hub: Hub, commit: str, level: str) -> None:
    hub.status = "HUB_UNREACHABLE"
    result = look(FakeCluster(*BARE), release(commit=commit), strict=False)
    assert codes(result, level) == ["HUB_UNREACHABLE"]


def strip(*kinds: str) -> list[dict[str, Any]]:
    return [o for o in CACHED if o["kind"] not in kinds]


NO_CLASS = {"name": "cache", "create": True, "storage_class": None, "volume_name": None}
FULL = thing("Pod", "other", "else", spec=worker_pod()["spec"], status={"phase": "Running"})


@pytest.mark.parametrize(
    ("objects", "of", "code", "text"),
    [
        (strip("PersistentVolumeClaim"), release(claim=NO_CLASS), "STORAGE_CLASS_ABSENT", "dynamo_storage_class"),
        ([*CACHED, FULL], release(), "CAPACITY", "n1 has free only 0 nvidia.com/gpu"),
        ([*strip("Node"), node(product="NVIDIA-B200")], release(), "GPU_PRODUCT", "NVIDIA-B200"),
        ([*CACHED, thing(DGD[1], "dgd-two")], release(), "NAME_CLASH", "dgd-two"),
        ([*CACHED, thing(DGD[1], "x", labels=OURS)], release(replaces_target="m/y"), "OTHER_TARGET", "m/y"),
        ([*CACHED, live(release("c" * 40)), worker_pod()], release(), "UPDATE_NEEDS_GAP", "allow_gap"),
        ([*CACHED, live(release("c" * 40, {})), worker_pod()], release(annotations={}), "NO_SURGE_ROOM", "n1 has free"),
    ],
)
def test_one_thing_is_wrong(look: Any, objects: list[Any], of: dict[str, Any], code: str, text: str) -> None:
    with pytest.raises(DynamoError) as raised:
        look(FakeCluster(*objects), of)
    assert raised.value.code == code
    assert text in str(raised.value)
    assert [f["code"] for f in raised.value.result["findings"] if f["level"] == "FAIL"] == [code]


def test_without_the_platform(look: Any) -> None:
    cluster = FakeCluster(*BARE, absent=("DynamoGraphDeployment", "ComputeDomain"))
    with pytest.raises(DynamoError, match=r"DynamoGraphDeployment.*install the Dynamo platform") as raised:
        look(cluster, release())
    assert raised.value.code == "DGD_API_ABSENT"


def test_two_things_are_wrong_and_one_line_says_both(look: Any) -> None:
    cluster = FakeCluster(*strip("PersistentVolumeClaim"), FULL)
    with pytest.raises(DynamoError) as raised:
        look(cluster, release(claim=NO_CLASS))
    assert raised.value.code == "STORAGE_CLASS_ABSENT"
    assert "; Worker: room for 0 of 1 pods" in str(raised.value)


def test_an_allowed_gap_and_a_repair_pass(look: Any) -> None:
    update = [*CACHED, live(release("c" * 40)), worker_pod()]
    allowed = look(FakeCluster(*update), release(), allow_gap=True)
    assert allowed["plan"]["gap"] is True
    assert codes(allowed, "WARN") == ["UPDATE_NEEDS_GAP"]
    repair = [*CACHED, live(release("c" * 40), ready=0), worker_pod()]
    assert look(FakeCluster(*repair), release())["plan"]["gap"] is False


def test_a_deployment_that_is_not_ready_is_waited_for(look: Any) -> None:
    plan = look(FakeCluster(*CACHED, live(release(), ready=0), worker_pod()), release())["plan"]
    assert plan["reasons"] == {"deploy": "DynamoGraphDeployment dgd isn't ready: Resources not ready"}


@pytest.mark.parametrize(("digest", "number"), [("", 4), ("older", 5)])
def test_waiting_again_is_no_new_change(look: Any, digest: str, number: int) -> None:
    of = release()
    of["digest"] = pin(of, {})["digest"]
    labels = {**LABELS, "inferops.dynamo/record": "dgd"}
    record = thing("ConfigMap", "dgd-r4", labels=labels, data={"number": "4", "digest": digest or of["digest"]})
    plan = look(FakeCluster(*CACHED, live(of, ready=0), record), of)["plan"]
    assert plan["record"] == {"number": number, "name": f"dgd-r{number}"}


def test_one_that_is_being_deleted(look: Any) -> None:
    going = live(release())
    going["metadata"]["deletionTimestamp"] = "now"
    assert codes(look(FakeCluster(*CACHED, going), release(), strict=False)) == ["BEING_DELETED"]


@pytest.mark.parametrize("operator", [True, False])
def test_the_operator_answers(look: Any, operator: bool) -> None:
    cluster = FakeCluster(*CACHED)
    cluster.operator = operator
    assert codes(look(cluster, release()), "WARN") == ([] if operator else ["OPERATOR_SILENT"])


def test_a_refused_manifest(look: Any) -> None:
    cluster = FakeCluster(*CACHED, live(release()))
    cluster.refusal = DynamoError("spec.components[1]: Required value", "REFUSED")
    result = look(cluster, release(), strict=False)
    assert codes(result) == ["DGD_REFUSED"]
    assert "deploy" in result["plan"]["steps"]


DOMAIN = {
    "name": "cd",
    "template": "t",
    "manifest": {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": "cd", "namespace": "llm", "labels": LABELS},
        "spec": {"numNodes": 0},
    },
}
CLASS = thing("DeviceClass", "compute-domain-default-channel.nvidia.com", None)


def test_compute_domain(look: Any) -> None:
    of = release(compute_domain=DOMAIN)
    assert "COMPUTE_DOMAIN_API_ABSENT" in codes(look(FakeCluster(*CACHED), of, strict=False))
    plan = look(FakeCluster(*CACHED, CLASS, absent=()), of)["plan"]
    assert plan["steps"] == ["compute_domain", "deploy"]
    domain = thing("ComputeDomain", "cd", labels=LABELS, spec={"numNodes": 0})
    plan = look(FakeCluster(*CACHED, CLASS, domain, live(of), absent=()), of)["plan"]
    assert (plan["steps"], plan["prune"]) == ([], [])


def test_a_node_of_another_compute_domain_is_no_place(look: Any) -> None:
    taken = node()
    taken["metadata"]["labels"]["resource.nvidia.com/computeDomain"] = "uid-other"
    cluster = FakeCluster(*strip("Node"), taken, CLASS, absent=())
    result = look(cluster, release(compute_domain=DOMAIN), strict=False)
    assert codes(result) == ["CAPACITY"]


def test_what_may_not_be_read_is_unknown(look: Any) -> None:
    cluster = FakeCluster(*CACHED)
    cluster.forbidden = {"Node", "Secret", "Namespace", "PersistentVolumeClaim"}
    result = look(cluster, release())
    assert codes(result, "UNKNOWN").count("FORBIDDEN") == 5
    assert "CAPACITY" in codes(result, "UNKNOWN")
    assert result["plan"]["steps"] == ["model_cache", "deploy"]


def test_old_objects_are_pruned_and_records_are_counted(look: Any) -> None:
    old = thing("ConfigMap", "dgd-config-1", labels=LABELS)
    record = thing("ConfigMap", "dgd-r4", labels={**LABELS, "inferops.dynamo/record": "dgd"}, data={"number": "4"})
    plan = look(FakeCluster(*CACHED, live(release()), old, record), release())["plan"]
    assert plan["prune"] == [{"apiVersion": "v1", "kind": "ConfigMap", "name": "dgd-config-1"}]
    assert plan["record"] == {"number": 5, "name": "dgd-r5"}
    assert plan["steps"] == ["deploy"]


def test_what_is_shown(look: Any) -> None:
    quiet, loud = Run(), Run()
    look(FakeCluster(*CACHED), release(), quiet)
    look(FakeCluster(*CACHED), release(), loud, strict=False)
    assert quiet.lines == []
    assert any(line.startswith("PASS capacity: room for") for line in loud.lines)
