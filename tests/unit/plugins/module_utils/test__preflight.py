# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a look at a cluster finds and plans."""

from __future__ import annotations

import base64
import copy
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _bind, _findings, _hub, _preflight
from ansible_collections.inferops.dynamo.plugins.module_utils._bind import pin
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._preflight_objects import (
    BARE,
    CACHED,
    CLAIM,
    COMMIT,
    LABELS,
    OURS,
    RECORD,
    FakeCluster,
    Hub,
    codes,
    live,
    node,
    release,
    strip,
    thing,
    worker_pod,
)

PARAMS: dict[str, Any] = {
    "cluster_uid": None,
    "create_namespace": True,
    "model_update": False,
    "hf_token": None,
    "hub_endpoint": None,
}
PARAMS |= {"model_verify": "recorded", "model_source": "download", "model_prune": False}
PARAMS |= {"allow_gap": False, "adopt": False, "apply": True, "job_resources": {"requests": {"memory": "2Gi"}}}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    fake = Hub()
    monkeypatch.setattr(_hub, "access", fake)
    return fake


@pytest.fixture
def look(hub: Hub) -> Any:
    def call(cluster: Any, of: dict[str, Any], run: Run | None = None, **params: Any) -> dict[str, Any]:
        return _preflight.look(cluster, {**PARAMS, "release": of, **params}, run or Run())

    return call


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


def test_a_checkpoint_in_doubt_keeps_its_commit(look: Any, hub: Hub) -> None:
    bad = {**RECORD, "data": {**RECORD["data"], "problems": "1", "verify": "sha256"}}
    cluster = FakeCluster(*[bad if o is RECORD else o for o in CACHED], live(release()), worker_pod())
    result = look(cluster, release(commit=""))
    assert result["release"]["models"][0]["commit"] == COMMIT
    assert (result["plan"]["doubted"], result["plan"]["proven"]) == ("sha256", False)
    assert result["plan"]["steps"] == ["model_cache"]


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
    assert codes(look(FakeCluster(*BARE), release())) == [status]
    assert codes(look(FakeCluster(*CACHED), release())) == []


@pytest.mark.parametrize(("commit", "level"), [(COMMIT, "UNKNOWN"), ("", "FAIL")])
def test_a_silent_hub(look: Any, hub: Hub, commit: str, level: str) -> None:
    hub.status = "HUB_UNREACHABLE"
    result = look(FakeCluster(*BARE), release(commit=commit))
    assert codes(result, level) == ["HUB_UNREACHABLE"]


def test_an_allowed_gap_and_a_repair_pass(look: Any) -> None:
    update = [*CACHED, live(release("c" * 40)), worker_pod()]
    allowed = look(FakeCluster(*update), release(), allow_gap=True)
    assert allowed["plan"]["gap"] is True
    assert codes(allowed, "WARN") == ["UPDATE_NEEDS_GAP"]
    repair = [*CACHED, live(release("c" * 40), ready=0), worker_pod()]
    assert look(FakeCluster(*repair), release())["plan"]["gap"] is False


def test_pods_that_would_be_refused_are_known_before(look: Any) -> None:
    cluster = FakeCluster(*CACHED)
    assert codes(look(cluster, release())) == []
    assert cluster.calls.count("dry run Pod in llm") == 2
    cluster.pod_refusal = DynamoError('pods "x" is forbidden: violates PodSecurity "restricted"', "REFUSED", status=403)
    assert codes(look(cluster, release())) == ["POD_SECURITY", "POD_SECURITY"]
    # a namespace that isn't there has neither quota nor labels
    bare = FakeCluster(*BARE)
    look(bare, release())
    assert "dry run Pod in default" not in bare.calls


def test_new_images_are_tried_before_a_gap(look: Any) -> None:
    new = release()
    new["manifest"]["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["image"] = "x:1.7.0"
    update = [*CACHED, live(release()), worker_pod()]
    plan = look(FakeCluster(*update), new, allow_gap=True)["plan"]
    assert plan["pulls"] == [{"image": "x:1.7.0", "node": "n1", "secrets": []}]
    assert look(FakeCluster(*update), release("c" * 40), allow_gap=True)["plan"]["pulls"] == []


def test_the_leftover_of_a_synthetic_benchmark_is_replaced_without_a_word(look: Any) -> None:
    """It serves nobody, so taking it away is no gap."""
    leftover = live(release("c" * 40))
    leftover["metadata"].setdefault("annotations", {})[_bind.SYNTHETIC] = "true"
    result = look(FakeCluster(*CACHED, leftover, worker_pod()), release())
    assert result["plan"]["synthetic"] is True and result["plan"]["steps"] == ["deploy"]
    assert codes(result, "FAIL") == []
    assert look(FakeCluster(*CACHED, live(release()), worker_pod()), release())["plan"]["synthetic"] is False


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
    assert codes(look(FakeCluster(*CACHED, going), release())) == ["BEING_DELETED"]


@pytest.mark.parametrize("operator", [True, False])
def test_the_operator_answers(look: Any, operator: bool) -> None:
    cluster = FakeCluster(*CACHED)
    cluster.operator = operator
    assert codes(look(cluster, release()), "WARN") == ([] if operator else ["OPERATOR_SILENT"])


def test_a_refused_manifest(look: Any) -> None:
    cluster = FakeCluster(*CACHED, live(release()))
    cluster.refusal = DynamoError("spec.components[1]: Required value", "REFUSED")
    result = look(cluster, release())
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
    assert "COMPUTE_DOMAIN_API_ABSENT" in codes(look(FakeCluster(*CACHED), of))
    plan = look(FakeCluster(*CACHED, CLASS, absent=()), of)["plan"]
    assert plan["steps"] == ["compute_domain", "deploy"]
    domain = thing("ComputeDomain", "cd", labels=LABELS, spec={"numNodes": 0})
    plan = look(FakeCluster(*CACHED, CLASS, domain, live(of), absent=()), of)["plan"]
    assert (plan["steps"], plan["prune"]) == ([], [])


def test_a_node_of_another_compute_domain_is_no_place(look: Any) -> None:
    taken = node()
    taken["metadata"]["labels"]["resource.nvidia.com/computeDomain"] = "uid-other"
    cluster = FakeCluster(*strip("Node"), taken, CLASS, absent=())
    result = look(cluster, release(compute_domain=DOMAIN))
    assert codes(result) == ["CAPACITY"]


def test_what_may_not_be_read_is_unknown(look: Any) -> None:
    cluster = FakeCluster(*CACHED)
    cluster.forbidden = {"Node", "Secret", "Namespace", "PersistentVolumeClaim"}
    result = look(cluster, release())
    assert codes(result, "UNKNOWN").count("FORBIDDEN") == 5
    assert "CAPACITY" in codes(result, "UNKNOWN")
    assert result["plan"]["steps"] == ["model_cache", "deploy"]


def test_a_user_of_one_namespace_is_not_told_that_the_cluster_lacks_what_he_may_not_see(look: Any) -> None:
    cluster = FakeCluster(*strip("PersistentVolumeClaim"), absent=())
    cluster.forbidden = {"StorageClass", "PersistentVolume", "DeviceClass", "Node"}
    result = look(cluster, release(compute_domain=DOMAIN))
    assert codes(result) == []
    assert codes(result, "UNKNOWN").count("FORBIDDEN") == 4


def test_old_objects_are_pruned_and_records_are_counted(look: Any) -> None:
    old = thing("ConfigMap", "dgd-config-1", labels=LABELS)
    record = thing("ConfigMap", "dgd-r4", labels={**LABELS, "inferops.dynamo/record": "dgd"}, data={"number": "4"})
    plan = look(FakeCluster(*CACHED, live(release()), old, record), release())["plan"]
    assert plan["prune"] == [{"apiVersion": "v1", "kind": "ConfigMap", "name": "dgd-config-1"}]
    assert plan["record"] == {"number": 5, "name": "dgd-r5"}
    assert plan["steps"] == ["deploy"]


def test_where_somebody_else_applies(look: Any) -> None:
    """A GitOps controller owns the deployment: its mark and the gap are its own matter, nothing is made or removed."""
    foreign = live(release("c" * 40))
    foreign["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"] = "x"
    old = thing("ConfigMap", "dgd-config-00000000", labels=LABELS)
    domain = {"name": "dgd-cd", "manifest": {"metadata": {"name": "dgd-cd"}, "spec": {}}}
    of = release(compute_domain=domain)
    result = look(FakeCluster(*CACHED, foreign, old, worker_pod(), absent=()), of, apply=False)
    assert result["plan"]["steps"] == ["deploy"]
    assert result["plan"]["prune"] == []
    assert not {"FOREIGN", "UPDATE_NEEDS_GAP"} & set(codes(result))
    other = look(FakeCluster(*CACHED, foreign, old, worker_pod(), absent=()), of)
    assert {"FOREIGN", "UPDATE_NEEDS_GAP"} <= set(codes(other))
    assert other["plan"]["steps"] == ["compute_domain", "deploy"]
    assert [item["name"] for item in other["plan"]["prune"]] == ["dgd-config-00000000"]


def test_a_volume_of_the_binding_needs_no_claim(look: Any) -> None:
    claim = {"name": "volume-01234567", "create": False, "volume": {"nfs": {"server": "nas", "path": "/m"}}}
    cluster = FakeCluster(*CACHED, live(release()), worker_pod())
    result = look(cluster, release(claim=claim))
    assert "get PersistentVolumeClaim" not in cluster.calls
    assert "not proven in claim volume-01234567" in result["plan"]["reasons"]["model_cache"]


def test_old_checkpoints_are_deleted_when_asked_and_nothing_names_them(look: Any) -> None:
    old = copy.deepcopy(RECORD)
    old["metadata"]["name"] = "checkpoint-old"
    old["data"] |= {"commit": "c" * 40, "path": "/cache/tiny/" + "c" * 12}
    assert look(FakeCluster(*CACHED, old), release())["plan"]["superseded"] == []
    plan = look(FakeCluster(*CACHED, old), release(), model_prune=True)["plan"]
    assert ([m["commit"] for m in plan["superseded"]], plan["proven"]) == (["c" * 40], True)
    assert plan["steps"][0] == "model_cache"
    pod = worker_pod()
    pod["spec"]["containers"][0]["args"] = ["/cache/tiny/" + "c" * 12]
    assert look(FakeCluster(*CACHED, old, pod), release(), model_prune=True)["plan"]["superseded"] == []
    ended = {**pod, "status": {"phase": "Succeeded"}}
    assert look(FakeCluster(*CACHED, old, ended), release(), model_prune=True)["plan"]["superseded"]
    blind = FakeCluster(*CACHED, old)
    blind.forbidden = {"Pod"}
    assert look(blind, release(), model_prune=True, strict=False)["plan"]["superseded"] == []


def test_a_claim_that_can_only_be_read(look: Any, hub: Hub) -> None:
    claim = {**CLAIM, "spec": {"accessModes": ["ReadOnlyMany"]}}
    objects = [*strip("PersistentVolumeClaim"), claim]
    assert codes(look(FakeCluster(*objects), release(), strict=False)) == []
    bare = [o for o in objects if o is not RECORD]
    assert codes(look(FakeCluster(*bare), release(), strict=False)) == ["CACHE_READ_ONLY"]
    assert codes(look(FakeCluster(*bare), release(), strict=False, model_source="populated")) == []


def test_a_namespace_that_goes_is_the_only_cause(look: Any) -> None:
    going = thing("Namespace", "llm", None)
    going["metadata"]["deletionTimestamp"] = "2026-11-30T15:00:00Z"
    cluster = FakeCluster(*BARE, going)
    cluster.refusal = DynamoError("it is being terminated.", "FORBIDDEN")
    result = look(cluster, release(claim={"name": "cache", "create": False}))
    assert codes(result, "FAIL", "UNKNOWN") == ["NAMESPACE_TERMINATING"]
    assert result["plan"]["steps"] == []


def test_the_download_needs_its_own_place(look: Any) -> None:
    """It ends before the workers start: what is free now counts, without them."""
    job = {"name": "download", "env": {}, "tolerations": [], "node_selector": {"disk": "big"}}
    assert codes(look(FakeCluster(*BARE), release(job=job))) == ["CAPACITY"]
    result = look(FakeCluster(*CACHED), release(job=job))
    assert codes(result) == [], "proven already: no Job runs"
    small = node(gpus=4)
    small["status"]["allocatable"]["memory"] = "129Gi"
    assert codes(look(FakeCluster(*BARE[:2], small), release())) == [], "the worker and the Job needn't fit together"
    other = thing("Pod", "x", "else", spec={"nodeName": "n1", "containers": [{"resources": {"requests": {}}}]})
    other["spec"]["containers"][0]["resources"]["requests"] = {"memory": "511Gi"}
    result = look(FakeCluster(*BARE, other, node("n2")), release(job={**job, "node_selector": {}}))
    assert codes(result) == []
    found = look(FakeCluster(*BARE, other), release(job={**job, "node_selector": {}}))["findings"]
    texts = [_findings.text(item) for item in found if item["level"] == "FAIL"]
    assert any("download Job download" in text and "2Gi memory" in text and "binding.job" in text for text in texts)


def test_a_download_that_runs_is_not_counted_beside_itself(look: Any) -> None:
    spec = {"nodeName": "n1", "containers": [{"resources": {"requests": {"memory": "511Gi"}}}]}
    pod = thing("Pod", "download-x", labels={"batch.kubernetes.io/job-name": "download"}, spec=spec)
    of = release(manifest={**release()["manifest"], "spec": {"components": []}})
    assert "CAPACITY" not in codes(look(FakeCluster(*BARE, thing("Namespace", "llm", None), pod), of))
