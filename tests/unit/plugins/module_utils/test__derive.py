# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes that aren't ours: what their manifests tell, and what is named because they don't."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _catalog, _derive, _lint, _release
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import main_container

from .test__catalog import DEPLOYMENT, UPSTREAM

RECIPES = sorted(path for path in UPSTREAM.glob("*/recipes") if any(path.rglob("deploy.yaml")))
HEX = "0123456789abcdef0123456789abcdef01234567"


def every_recipe() -> list[tuple[Any, str]]:
    return [(_catalog.find([str(root)]), target) for root in RECIPES for target in _catalog.find([str(root)])]


@pytest.mark.parametrize(
    ("catalog", "target"), every_recipe(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_upstream(catalog: dict[str, str], target: str) -> None:
    """Each is refused with the reason, or named what is missing, or becomes a release that can be looked at."""
    path = f"{catalog[target]}/deploy.yaml"
    documents = _catalog.load_yaml(path)
    if any(document["apiVersion"] == "nvidia.com/v1alpha1" for document in documents):
        with pytest.raises(DynamoError, match="v1alpha1 is not supported: only nvidia"):
            _catalog.read(target, catalog)
        return
    overrides: dict[str, Any] = {}
    if "model-cache/ibhosale" in str(documents):
        with pytest.raises(DynamoError) as error:
            _catalog.read(target, catalog)
        assert "the workers read /model-cache/ibhosale" in str(error.value)
        assert error.value.hint == "Set dynamo_recipe.repositories."
        folder = "/model-cache/ibhosale-custom-model/payload"
        overrides = {"repositories": [{"id": "a/b", "commit": HEX, "layout": "folder", "path": folder}]}
    recipe = _catalog.read(target, catalog, overrides)
    release = _release.build(recipe, {"namespace": "llm"})
    assert release["unused"] == []
    assert release["framework"] == target.split("/")[1]
    assert release["served_model"] in ("nvidia/MiniMax-M3-NVFP4", "minimax-m3-preview")
    assert [worker["gpus"] for worker in release["workers"]] == [4] * len(release["workers"])
    assert release["timeouts"]["ready"] >= 3600
    assert release["frontend"]["service"] == f"{release['name']}-frontend"
    if overrides:
        assert f"/model-cache/b/{HEX[:12]}" in str(release["manifest"])
        assert folder not in str(release["manifest"])
        assert {"CONTRACT", "SITE_VALUE", "LIVENESS_DEFAULT"} <= {
            item["code"] for item in _lint.lint(recipe.manifests, release, None)
        }
    else:
        assert release["job"]["base"] == "minimax-m3-model-download"
        assert release["claim"]["size"] == "1000Gi"
        assert release["compute_domain"]["name"] == f"{release['name']}-cd"


def test_upstream_is_there() -> None:
    if not RECIPES:
        pytest.skip("the vendor's recipes are not there: none is derived")
    assert len(every_recipe()) >= 9


def job(script: str, **env: str) -> dict[str, Any]:
    container = {
        "name": "model-download",
        "command": ["sh", "-c"],
        "args": [script],
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }
    return {
        "kind": "Job",
        "metadata": {"name": "tiny-download"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


def deployment(model: str, *arguments: str) -> list[dict[str, Any]]:
    dgd = copy.deepcopy(DEPLOYMENT)
    worker = dgd["spec"]["components"][1]
    main_container(worker)["args"] = ["-m", "dynamo.vllm", "--model", model, *arguments]
    worker["podTemplate"]["spec"]["volumes"] = [{"name": "c", "persistentVolumeClaim": {"claimName": "cache"}}]
    return [dgd]


@pytest.mark.parametrize(
    ("model", "arguments", "script", "env", "expected"),
    [
        ("acme/tiny", [], "hf download acme/tiny", {}, {"id": "acme/tiny", "commit": "", "layout": "hub"}),
        (
            "acme/tiny",
            ["--revision", HEX],
            "hf download acme/tiny",
            {},
            {"id": "acme/tiny", "commit": HEX, "layout": "hub"},
        ),
        (
            "acme/tiny",
            [],
            "set -eux\nhf download $NAME --revision ${REV}",
            {"NAME": "acme/tiny", "REV": HEX},
            {"id": "acme/tiny", "commit": HEX, "layout": "hub"},
        ),
        (
            "/cache/acme/tiny",
            [],
            'hf download "acme/tiny" \\\n  --local-dir /cache/acme/tiny/',
            {},
            {"id": "acme/tiny", "commit": "", "layout": "folder", "path": "/cache/acme/tiny"},
        ),
    ],
)
def test_the_job_beside_the_recipe(
    model: str, arguments: list[str], script: str, env: dict[str, str], expected: dict[str, Any]
) -> None:
    spec = {"resources": {"requests": {"storage": "9Gi"}}}
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "cache"}, "spec": spec}
    other = job("hf download other/model")
    meta, _notes = _derive.derive(deployment(model, *arguments), "tiny/vllm/agg", [claim, other, job(script, **env)])
    assert meta["repositories"] == [expected]
    assert meta["job"] == {"name": "tiny-download"}
    assert meta["claim"] == {"name": "cache", "size": "9Gi"}


def test_lines_that_are_no_download() -> None:
    meta, notes = _derive.derive(
        deployment("/m"), "tiny/vllm/agg", [job("# hf download a/b\nhf download 'a\nhf download $X"), "text"]
    )
    assert (meta["repositories"], meta["job"]) == ([], {})
    named = [
        variable for variable in ("dynamo_recipe.gpu", "context_length", "dynamo_cache_size") if variable in str(notes)
    ]
    assert len(named) == 3


def test_timeout_is_the_startup_probes() -> None:
    manifests = deployment("acme/tiny")
    main = main_container(manifests[0]["spec"]["components"][1])
    assert _derive.derive(manifests, "t")[0]["timeouts"] == {"ready": 7200}
    main["startupProbe"] = {"initialDelaySeconds": 100, "periodSeconds": 20, "failureThreshold": 50}
    assert _derive.derive(manifests, "t")[0]["timeouts"] == {"ready": 1100}


def test_a_recipe_without_claim_or_gpus() -> None:
    manifests = deployment("acme/tiny")
    worker = manifests[0]["spec"]["components"][1]
    del worker["podTemplate"]["spec"]["volumes"]
    del main_container(worker)["resources"]
    notes = str(_derive.derive(manifests, "t")[1])
    assert "dynamo_recipe.claim.name" in notes
    assert "dynamo_binding.resources" in notes
    assert _derive.derive([{**manifests[0], "spec": {"components": []}}], "t") == (
        {},
        ["the recipe has no worker component"],
    )


@pytest.mark.parametrize(
    ("target", "gpu"),
    [
        ("m/vllm/agg-h100", "H100"),
        ("m/vllm/agg/BF16", ""),
        ("m/gb300/vllm", "GB300"),
        ("m/vllm/tp16-agg", ""),
        ("glm-5.2/l40s", "L40S"),
    ],
)
def test_gpu_in_the_path(target: str, gpu: str) -> None:
    assert _derive.derive(deployment("a/b"), target)[0]["gpu"] == gpu


def test_drafts() -> None:
    draft = json.dumps({"model": "acme/draft", "revision": HEX})
    meta, _notes = _derive.derive(deployment("acme/tiny", "--speculative-config", draft), "t")
    assert meta["repositories"][1] == {"id": "acme/draft", "commit": HEX, "layout": "hub"}
    meta, _notes = _derive.derive(deployment("acme/tiny", "--speculative-draft-model-path", "acme/other"), "t")
    assert meta["repositories"][1]["id"] == "acme/other"
