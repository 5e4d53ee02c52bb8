# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.filter import model_cache_objects
from ansible_collections.inferops.dynamo.plugins.module_utils import _model_cache, _plan
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._objects import CONTENT

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PATH = f"/shared-model-cache/MiniMax-M3.1-Flash/{COMMIT[:12]}"
RELEASE: dict[str, Any] = {
    "target": "minimax-m3.1/sglang/agg-gb300",
    "name": "minimax-m3-1-sglang-agg-gb300",
    "namespace": "llm",
    "models": [{"id": "MiniMaxAI/MiniMax-M3.1-Flash", "commit": COMMIT, "layout": "folder", "path": PATH}],
    "mount": "/shared-model-cache",
    "claim": {
        "name": "shared-model-cache",
        "create": True,
        "storage_class": None,
        "size": "500Gi",
        "volume_name": None,
    },
    "secret": {"name": "hf-token-secret", "key": "HF_TOKEN"},
    "job": {
        "name": "minimax-m3-1-model-download",
        "image": "python:3.12-slim",
        "deadline": 14400,
        "env": {"HTTPS_PROXY": "http://proxy:3128"},
        "tolerations": [],
        "node_selector": {},
        "pull_secrets": [],
    },
}
OPTIONS = {"verify": "sizes", "hub_endpoint": "", "resources": {}, "backoff_limit": 5}
SCRIPTS = {"download.py": "1", "_safetensors.py": "2"}


def changed(**values: Any) -> dict[str, Any]:
    """The release with values set by a path such as claim__size."""
    release = copy.deepcopy(RELEASE)
    for path, value in values.items():
        *parents, last = path.split("__")
        node = release
        for parent in parents:
            node = node[int(parent) if isinstance(node, list) else parent]
        node[last] = value
    return release


def objects(release: dict[str, Any] | None = None, live: Any = (), **options: Any) -> dict[str, Any]:
    return {m["kind"]: m for m in _model_cache.objects(release or RELEASE, SCRIPTS, {**OPTIONS, **options}, live)}


def container(found: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = found["Job"]["spec"]["template"]["spec"]["containers"][0]
    return made


def env(found: dict[str, Any]) -> dict[str, Any]:
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in container(found)["env"]}


def test_job() -> None:
    found = objects()
    job = found["Job"]["spec"]
    assert (job["backoffLimit"], job["activeDeadlineSeconds"], job["podReplacementPolicy"]) == (5, 14400, "Failed")
    assert job["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [2, 5, 6, 7, 8]
    spec = job["template"]["spec"]
    assert spec["restartPolicy"] == "Never"
    assert {m["mountPath"] for m in container(found)["volumeMounts"]} == {
        "/shared-model-cache",
        "/tmp",
        _model_cache.SCRIPTS,
    }
    assert spec["volumes"][1]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
    assert container(found)["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert json.loads(container(found)["args"][0]) == {
        "mount": "/shared-model-cache",
        "claim": "shared-model-cache",
        "verify": "sizes",
        "source": "download",
        "models": [{"id": "MiniMaxAI/MiniMax-M3.1-Flash", "commit": COMMIT, "layout": "folder", "path": PATH}],
    }
    for manifest in found.values():
        assert manifest["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "inferops.dynamo"
        assert manifest["metadata"]["namespace"] == "llm"


def test_environment() -> None:
    found = env(objects())
    assert (found["HF_HOME"], found["HTTPS_PROXY"], found["HF_XET_HIGH_PERFORMANCE"]) == (
        "/tmp/hf-home", "http://proxy:3128", "1")  # fmt: skip
    assert found["HF_TOKEN"]["secretKeyRef"] == {"name": "hf-token-secret", "key": "HF_TOKEN", "optional": True}
    assert "HF_ENDPOINT" not in found
    assert "HF_HUB_OFFLINE" not in found
    assert env(objects(hub_endpoint="http://hub"))["HF_ENDPOINT"] == "http://hub"
    assert env(objects(changed(models__0__layout="hub")))["HF_HOME"] == "/shared-model-cache"
    assert env(objects(changed(models__0__gated=True)))["HF_TOKEN"]["secretKeyRef"]["optional"] is False


def test_placement() -> None:
    release = changed(job__tolerations=[{"key": "gpu"}], job__node_selector={"a": "b"}, job__pull_secrets=["mirror"])
    spec = objects(release)["Job"]["spec"]["template"]["spec"]
    assert (spec["tolerations"], spec["nodeSelector"]) == ([{"key": "gpu"}], {"a": "b"})
    assert spec["imagePullSecrets"] == [{"name": "mirror"}]


def test_the_job_does_not_depend_on_the_target() -> None:
    other = changed(target="minimax-m3.1/vllm/agg-b200", name="other", gpu="B200", digest="x")
    assert objects(other) == objects()
    for path, value in (("claim__name", "c"), ("models__0__commit", "f" * 40), ("job__image", "i")):
        assert objects(changed(**{path: value}))["Job"]["metadata"] != objects()["Job"]["metadata"], path


def live_job(content: str, condition: str = "", ready: int = 0) -> dict[str, Any]:
    conditions = [{"type": condition, "status": "True"}] if condition else []
    made = objects()["Job"]
    metadata = {**made["metadata"], "annotations": {CONTENT: content}, "uid": "11223344-5566"}
    return {**made, "metadata": metadata, "status": {"conditions": conditions, "ready": ready}}


def test_a_running_job_is_joined_or_left_alone() -> None:
    running = live_job("made with another image", ready=1)
    assert objects(live=[running])["Job"]["metadata"]["annotations"][CONTENT] == "made with another image"
    with pytest.raises(DynamoError) as caught:
        objects(live=[running], verify="sha256")
    assert caught.value.code == "JOB_RUNNING"
    assert "kubectl delete job -n llm minimax-m3-1-model-download" in caught.value.hint
    # its image cannot be pulled: nothing runs yet, and what is corrected takes its place
    stuck = live_job("made with another image")
    assert (
        objects(live=[stuck], verify="sha256")["Job"]["metadata"]["annotations"][CONTENT] != "made with another image"
    )


def test_looking_again_mounts_read_only() -> None:
    found = objects(proved=True, verify="sha256")
    assert found["Job"]["metadata"]["name"] == "minimax-m3-1-model-download-verify"
    assert found["Job"]["spec"]["backoffLimit"] == 0
    assert container(found)["volumeMounts"][0]["readOnly"] is True
    assert json.loads(container(found)["args"][0])["source"] == "proved"
    assert json.loads(container(objects(verify="recorded"))["args"][0])["verify"] == "sizes"


def test_ttl() -> None:
    assert "ttlSecondsAfterFinished" not in objects()["Job"]["spec"]
    assert objects(ttl=60)["Job"]["spec"]["ttlSecondsAfterFinished"] == 60


def test_content_joins_a_running_job_and_replaces_any_other() -> None:
    def content(*live: dict[str, Any]) -> str:
        return str(objects(live=live)["Job"]["metadata"]["annotations"][CONTENT])

    first = content()
    assert content(live_job(first)) == first
    again = content(live_job(first, "Failed"))
    assert again == f"{first}-after-11223344" == content(live_job(first, "Complete"))
    assert content(live_job(again)) == again
    assert content(live_job("something else")) == first


def test_claim() -> None:
    assert objects()["PersistentVolumeClaim"]["spec"] == {
        "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "500Gi"}}}  # fmt: skip
    spec = objects(changed(claim__storage_class="", claim__volume_name="v"))["PersistentVolumeClaim"]["spec"]
    assert (spec["storageClassName"], spec["volumeName"]) == ("", "v")
    assert "PersistentVolumeClaim" not in objects(changed(claim__create=False))
    foreign: dict[str, Any] = {"kind": "PersistentVolumeClaim", "metadata": {"labels": {}}}
    assert "PersistentVolumeClaim" not in objects(live=[foreign])
    foreign["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "inferops.dynamo"
    assert "PersistentVolumeClaim" in objects(live=[foreign])


def test_scripts_are_named_after_their_content() -> None:
    found = model_cache_objects.model_cache_objects(RELEASE, OPTIONS)
    config_map = next(m for m in found if m["kind"] == "ConfigMap")
    assert config_map["immutable"] is True
    assert sorted(config_map["data"]) == ["_safetensors.py", "download.py"]
    assert config_map["metadata"]["name"] != objects()["ConfigMap"]["metadata"]["name"]
    for text in config_map["data"].values():
        compile(text, "script", "exec")


def test_unpinned_is_refused() -> None:
    with pytest.raises(DynamoError) as caught:
        objects(changed(models__0__commit=""))
    assert caught.value.code == "NOT_PINNED"


PROOF = {
    "repository": "MiniMaxAI/MiniMax-M3.1-Flash",
    "commit": COMMIT,
    "claim": "shared-model-cache",
    "verify": "sizes",
    "files": 72,
    "bytes": 252,
    "path": PATH,
    "layout": "folder",
    "verified_at": "2026-11-30T00:00:00Z",
    "problems": 0,
}


def test_records_are_what_the_plan_accepts() -> None:
    [record] = _model_cache.records(RELEASE, [PROOF], {"shared-model-cache": "uid-1"})
    assert record["metadata"]["name"] == "checkpoint-minimaxai-minimax-m3-1-flash-0123456789ab"
    assert record["data"]["problems"] == "0"
    assert all(isinstance(value, str) for value in record["data"].values())
    assert _plan.record_of(RELEASE["models"][0], _plan.checkpoints([record], RELEASE["claim"], "uid-1"))
    assert not _plan.checkpoints([record], RELEASE["claim"], "uid-2")


@pytest.mark.parametrize(("proofs", "claims"), [([], {"shared-model-cache": "u"}), ([PROOF], {})])
def test_no_record_without_proof(proofs: list[Any], claims: dict[str, str]) -> None:
    with pytest.raises(DynamoError) as caught:
        _model_cache.records(RELEASE, proofs, claims)
    assert caught.value.code == "PROOF_MISSING"


def test_a_volume_of_the_binding_is_mounted_and_recorded_under_its_own_name() -> None:
    volume = {"nfs": {"server": "nas", "path": "/models"}}
    release = changed(claim__volume=volume, claim__create=False, claim__name="volume-01234567")
    found = objects(release)
    assert "PersistentVolumeClaim" not in found
    assert found["Job"]["spec"]["template"]["spec"]["volumes"][0] == {"name": "cache", **volume}
    proof = {"repository": release["models"][0]["id"], "commit": COMMIT, "problems": "0", "path": PATH}
    record = _model_cache.records(release, [proof], {})[0]
    assert _plan.checkpoints([record], release["claim"], release["claim"]["name"])


@pytest.mark.parametrize(("user", "root"), [(1000, False), (0, True)])
def test_restricted_unless_the_volume_needs_root(user: int, root: bool) -> None:
    security = objects(run_as=user)["Job"]["spec"]["template"]["spec"]["securityContext"]
    assert (security["runAsUser"], security["fsGroup"], security["runAsNonRoot"]) == (user, user, not root)
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(objects())["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_job_that_deletes() -> None:
    old = {"id": "a/b", "commit": "f" * 40, "layout": "folder", "path": "/shared-model-cache/b/ffffffffffff"}
    found = objects(prune=[old], proved=True)
    assert found["Job"]["metadata"]["name"].endswith("-prune")
    work = json.loads(container(found)["args"][0])
    assert (work["source"], work["models"]) == ("prune", [old])
    assert "readOnly" not in container(found)["volumeMounts"][0]


def test_everything_of_a_cache_is_found_by_its_label() -> None:
    """The commit in the Job's name is not known to a teardown of an unpinned model."""
    made = [*objects().values(), *objects(proved=True).values(), *objects(prune=RELEASE["models"]).values()]
    labels = {
        m["metadata"]["name"]: m["metadata"]["labels"].get(_model_cache.CLAIM) for m in made if m["kind"] == "Job"
    }
    assert set(labels.values()) == {"shared-model-cache"} and len(labels) == 3


@pytest.mark.parametrize(
    ("verify", "doubted", "done"),
    [
        ("recorded", "", "sizes"),
        ("recorded", "sha256", "sha256"),
        ("sha256", "sizes", "sha256"),
        ("headers", "", "headers"),
    ],
)
def test_what_was_found_bad_is_proved_as_deeply(verify: str, doubted: str, done: str) -> None:
    assert json.loads(container(objects(verify=verify, doubted=doubted))["args"][0])["verify"] == done


def test_a_record_in_doubt_is_no_proof() -> None:
    models, claim = RELEASE["models"], RELEASE["claim"]

    def doubt(level: str, **changes: str) -> list[Any]:
        (record,) = _model_cache.doubts(RELEASE, level, {claim["name"]: "u"}, "2026-11-30T10:00:00Z")
        return _plan.checkpoints([{**record, "data": {**record["data"], **changes}}], claim, "u")

    (held,) = doubt("sha256")
    assert _plan.bad(held)
    assert _plan.doubted(models, [held]) == "sha256"
    assert _plan.doubted(models, doubt("headers")) == "sizes"
    assert _plan.doubted(models, doubt("sha256", commit="f" * 40)) == ""
    assert _plan.doubted(models, doubt("sha256", claim_uid="of a claim that was deleted")) == ""
    # a repository without a pin stays at the commit in doubt: only model_update takes another one
    assert _plan.record_of({**models[0], "commit": ""}, [held])["commit"] == models[0]["commit"]  # type: ignore[index]
