# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The release: its shape for all eight targets, and the inventory's choices."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils import _catalog, _release
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import graph, main_container

from .test__catalog import CATALOG, DEPLOYMENT, EIGHT, write

SGLANG, TRTLLM, AGG, DISAGG = EIGHT[1], EIGHT[3], EIGHT[6], EIGHT[7]
HEX = "0123456789abcdef0123456789abcdef01234567"
KEYS = {
    "applicable",
    "benchmark",
    "claim",
    "compute_domain",
    "config_maps",
    "context_length",
    "digest",
    "framework",
    "frontend",
    "gpu",
    "gpu_products",
    "inferred",
    "job",
    "manifest",
    "models",
    "mount",
    "name",
    "namespace",
    "notes",
    "reason",
    "secret",
    "served_model",
    "smoke",
    "surge_room",
    "synthetic_acceptance",
    "target",
    "timeouts",
    "topology",
    "unused",
    "workers",
}


def build(target: str, **options: Any) -> dict[str, Any]:
    return _release.build(_catalog.read(target, CATALOG), {"namespace": "llm", **options})


@pytest.mark.parametrize("target", EIGHT)
def test_shape(target: str) -> None:
    release = build(target)
    assert release.keys() == KEYS
    assert release == json.loads(json.dumps(release))
    assert release["applicable"] and not release["reason"]
    assert release["frontend"] == {"service": f"{release['name']}-frontend", "port": 8000}
    assert release["mount"] == "/shared-model-cache"
    assert release["smoke"]["model"] == release["served_model"]
    assert len(release["digest"]) == 64
    assert build(target) == release
    assert "worker liveness" in [item.partition(":")[0] for item in release["inferred"]]


def test_a_recipe_without_a_request_of_its_own_is_asked_one() -> None:
    recipe = _catalog.read(EIGHT[0], CATALOG)
    smokes: list[dict[str, Any]] = [{}, {"requests": []}]
    for smoke in smokes:
        bare = dataclasses.replace(recipe, meta={**recipe.meta, "smoke": smoke})
        (request,) = _release.build(bare, {"namespace": "llm"})["smoke"]["requests"]
        assert request["name"] == "chat" and request["body"]["max_tokens"] > 500


def test_the_release_of_m31() -> None:
    release = build(SGLANG)
    assert release["name"] == "minimax-m3-1-sglang-agg-gb300"
    assert release["models"] == [
        {
            "id": "MiniMaxAI/MiniMax-M3.1-Flash",
            "commit": "",
            "layout": "folder",
            "path": "/shared-model-cache/MiniMax-M3.1-Flash/@commit:MiniMaxAI/MiniMax-M3.1-Flash@",
            "files": 72,
            "bytes": 252000000000,
            "gated": None,
        }
    ]
    assert release["workers"] == [
        {"component": "Worker", "type": "worker", "replicas": 1, "nodes": 1, "gpus": 4, "cpu": "16", "memory": "128Gi"}
    ]
    assert release["job"]["name"] == "minimax-m3-1-model-download"
    assert (release["compute_domain"], release["config_maps"], release["timeouts"]) == (None, [], {"ready": 3600})


def test_the_release_of_m3() -> None:
    release = build(DISAGG)
    assert release["compute_domain"]["name"] == "minimax-m3-disagg-gb200-agentic-cd"
    assert release["compute_domain"]["template"] == "minimax-m3-disagg-gb200-agentic-cd-channel"
    assert release["compute_domain"]["manifest"]["metadata"]["namespace"] == "llm"
    assert [model["path"] for model in release["models"]] == ["/shared-model-cache"] * 2
    assert [(w["component"], w["replicas"], w["gpus"]) for w in release["workers"]] == [
        ("PrefillWorker", 3, 4),
        ("DecodeWorker", 3, 4),
    ]
    assert release["config_maps"][0]["immutable"] is True


@pytest.mark.parametrize("target", EIGHT)
def test_the_binding_reaches_the_manifest(target: str) -> None:
    binding = {"env": {"all": {"A": "{{ 1 + 1 }}"}}, "scheduling": {"scheduler_name": "s"}, "replicas": {"workers": 2}}
    release = build(target, binding=binding, cache_claim="models", commits={})
    for component in release["manifest"]["spec"]["components"]:
        assert {"name": "A", "value": "{{ 1 + 1 }}"} in main_container(component)["env"]
        assert component["podTemplate"]["spec"]["schedulerName"] == "s"
        for volume in component["podTemplate"]["spec"].get("volumes", [])[:1]:
            assert volume["persistentVolumeClaim"]["claimName"] == "models"
    assert {worker["replicas"] for worker in release["workers"]} == {2}
    assert release["claim"]["name"] == "models"


def test_commits() -> None:
    release = build(SGLANG, commits=HEX)
    assert release["models"][0]["path"].endswith("/0123456789ab")
    assert release["digest"] != build(SGLANG)["digest"]
    assert "commit" not in [item.partition(":")[0] for item in release["inferred"]]
    both = build(SGLANG, commits={"MiniMaxAI/MiniMax-M3.1-Flash": HEX, "nvidia/MiniMax-M3-NVFP4": HEX})
    assert both["models"][0]["commit"] == HEX
    assert "nvidia/MiniMax-M3-NVFP4" in both["unused"][0]
    with pytest.raises(DynamoError, match="Give a dictionary"):
        build(AGG, commits=HEX)


@pytest.mark.parametrize(
    ("gpu", "applicable"),
    [("", True), ("GB300", True), ("gb300", True), ("NVIDIA-GB300", True), ("B200", False), ("GB200", False)],
)
def test_gpu(gpu: str, applicable: bool) -> None:
    release = build(SGLANG, gpu=gpu, binding={} if applicable else {"env": {"decode": {}}})
    assert release["applicable"] is applicable
    assert bool(release["reason"]) is not applicable


def test_liveness_and_health_check() -> None:
    def worker(**options: Any) -> dict[str, Any]:
        return main_container(build(TRTLLM, **options)["manifest"]["spec"]["components"][1])

    assert worker()["livenessProbe"]["failureThreshold"] == 30
    assert "livenessProbe" not in worker(worker_liveness="vendor")
    assert {"name": "DYN_HEALTH_CHECK_ENABLED", "value": "false"} in worker()["env"]
    assert "DYN_HEALTH_CHECK_ENABLED" not in str(worker(trtllm_health_check=True)["env"])
    assert any("hang detection is off" in item for item in build(TRTLLM)["inferred"])
    assert not any("hang detection" in item for item in build(SGLANG)["inferred"])


def test_claim_secret_job() -> None:
    release = build(
        SGLANG,
        binding={"image_registry": "mirror.test", "pull_secrets": ["p"], "job": {"node_selector": {"a": "b"}}},
        cache_claim="models",
        cache_claim_create=False,
        storage_class="fast",
        cache_size="2Ti",
        secret_name="s",
        secret_key="k",
        download_env={"HTTPS_PROXY": "http://proxy:1", "N": 1},
        ready_timeout=10,
        gpu_products=["NVIDIA-LAB"],
    )
    assert release["claim"] == {
        "name": "models",
        "create": False,
        "storage_class": "fast",
        "size": "2Ti",
        "volume_name": None,
        "volume": None,
    }
    assert release["secret"] == {"name": "s", "key": "k"}
    assert release["job"]["image"] == "mirror.test/nvidia/ai-dynamo/sglang-runtime:1.6.0-minimax-m3.1-flash-dev.1"
    assert release["job"]["env"] == {"HTTPS_PROXY": "http://proxy:1", "N": "1"}
    assert (release["job"]["node_selector"], release["job"]["pull_secrets"]) == ({"a": "b"}, ["p"])
    assert (release["timeouts"], release["gpu_products"]) == ({"ready": 10}, ["NVIDIA-LAB"])
    assert build(SGLANG, download_image="own:1", binding={"image_registry": "m"})["job"]["image"] == "own:1"


@pytest.mark.parametrize("variables", [{"HF_TOKEN": "x"}, {"HTTPS_PROXY": "http://u:p@h"}, {"A": True}])
def test_download_environment_refuses(variables: dict[str, Any]) -> None:
    with pytest.raises(DynamoError, match=r"dynamo_download_env\."):
        build(SGLANG, download_env=variables)


def test_a_foreign_recipe_becomes_a_release(tmp_path: Path) -> None:
    catalog = write(tmp_path, yaml.safe_dump(DEPLOYMENT))
    release = _release.build(_catalog.read("own/vllm/agg-h100", catalog), {"namespace": "llm"})
    assert release.keys() == KEYS
    assert release["job"]["name"] == "own-model-download"
    assert release["workers"][0]["gpus"] == 2
    assert release["unused"] == ["dynamo_cache_claim: no component mounts a claim shared-model-cache"]
    assert "livenessProbe" not in str(graph([release["manifest"]]))


def test_a_volume_instead_of_a_claim() -> None:
    volume = {"nfs": {"server": "nas", "path": "/models"}}
    release = build(SGLANG, binding={"cache_volume": volume})
    assert (release["claim"]["volume"], release["claim"]["create"]) == (volume, False)
    assert release["claim"]["name"].startswith("volume-")
    assert (
        release["claim"]["name"]
        != build(SGLANG, binding={"cache_volume": {"nfs": {**volume["nfs"], "path": "/b"}}})["claim"]["name"]
    )
    assert release["unused"] == []


def test_release_name_and_synthetic_acceptance() -> None:
    assert build(AGG, release_name="other", binding={"name": "first"})["name"] == "other"
    release = build(AGG, synthetic_acceptance=True)
    assert "speculative-config-synthetic" in str(release["manifest"])
    assert "synthetic acceptance" in str(release["inferred"])
    assert release["synthetic_acceptance"] is True and build(AGG)["synthetic_acceptance"] is False
    assert release["manifest"]["metadata"]["annotations"]["inferops.dynamo/synthetic-acceptance"] == "true"
    with pytest.raises(DynamoError, match="Leave it out for this target"):
        build(SGLANG, synthetic_acceptance=True)
    assert not build(SGLANG, synthetic_acceptance=True, gpu="B200")["applicable"]
    with pytest.raises(DynamoError, match=r"^dynamo_release_name: must be lower-case"):
        build(SGLANG, release_name="Foo_Bar")
    with pytest.raises(DynamoError, match=r"^dynamo_download_image: must be an image"):
        build(SGLANG, download_image="a b")
    with pytest.raises(DynamoError, match=r"^dynamo_download_env.A B: is no variable name"):
        build(SGLANG, download_env={"A B": "c"})
    with pytest.raises(DynamoError, match=r"Set dynamo_release_name"):
        build(SGLANG, release_name="a" * 60)


def test_a_folder_that_somebody_filled() -> None:
    release = build(SGLANG, model_path="models/flash", commits="a" * 40)
    model = release["models"][0]
    assert (model["path"], model["commit"], model["adopted"]) == ("/shared-model-cache/models/flash", "a" * 40, True)
    assert "/shared-model-cache/models/flash" in json.dumps(release["manifest"])
    for path in ("/elsewhere/flash", "../flash", "."):
        with pytest.raises(DynamoError, match="dynamo_model_path"):
            build(SGLANG, model_path=path)


def test_size_of_a_new_claim() -> None:
    assert build(SGLANG)["claim"]["size"] == "517Gi"  # 252 GB, twice and a tenth


def test_the_job_is_named_after_model_and_commit() -> None:
    assert build(SGLANG, commits="a" * 40)["job"]["name"] == "minimax-m3-1-model-download-aaaaaaaa"
