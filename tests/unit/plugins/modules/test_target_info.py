# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""target_info as a whole: what it returns with and without a cluster, a Kustomization, findings and YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run
from ansible_collections.inferops.dynamo.plugins.modules import target_info
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils.starter import (
    KUSTOMIZE,
    fill,
    needs_kustomize,
)

ROOT = Path(__file__).resolve().parents[4]
RECIPES = str(ROOT / "roles/target/files/recipes")
DEFAULTS = {name: option.get("default") for name, option in target_info.ARGUMENT_SPEC.items()}
AGG = "minimax-m3/vllm/agg-gb200-agentic"


def info(name: str = AGG, **params: Any) -> dict[str, Any]:
    given = {"catalog": RECIPES, "namespace": "llm", "need_cluster": False, "name": name, **params}
    result: dict[str, Any] = target_info.run({**DEFAULTS, **given}, Run())
    return result


def test_files_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    result = info(render=True, sync_waves=True)
    assert result["cluster"] == {"context": "", "server": "", "namespace": "llm", "source": target_info.NO_CLUSTER}
    assert result["findings"] == []
    assert [m["kind"] for m in yaml.safe_load_all(result["rendered"])][-1] == "DynamoGraphDeployment"
    assert "sync-wave" in result["rendered"]
    assert info()["rendered"] == ""
    with pytest.raises(DynamoError, match="there is no kubeconfig"):
        info(namespace="")
    with pytest.raises(DynamoError, match="dynamo_namespace: 'A'"):
        info(namespace="A")


def test_findings() -> None:
    assert [item["code"] for item in info("sglang-gb300")["findings"]] == ["REVISION_UNPINNED"]
    assert info("sglang-gb300", lint=False)["findings"] == []
    assert info("sglang-gb300", gpu="B200")["findings"] == []
    found = info(release_name="minimax-m3-disagg", host_target="vllm-disagg-gb200")["findings"]
    assert [item["code"] for item in found] == ["NAME_CLASH"]


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        ("GB30", "dynamo_gpu is 'GB30': the catalog has no target for it, only for B200, GB200, GB300, "),
        ("gb20", "Did you mean GB200?"),
        ("NVIDIA-GB30O", "Did you mean NVIDIA-GB300?"),
        ("MI355X", "no target for it"),
    ],
)
def test_a_gpu_of_no_target_is_refused(gpu: str, words: str) -> None:
    with pytest.raises(DynamoError) as error:
        info("sglang-gb300", gpu=gpu)
    assert error.value.code == "BAD_OPTION"
    assert words in str(error.value)


def test_a_gpu_of_another_target_is_none_of_this_ones_hosts(tmp_path: Path) -> None:
    for gpu in ("B200", "gb200", "NVIDIA-GB200"):
        assert not info("sglang-gb300", gpu=gpu)["release"]["applicable"]
    (tmp_path / "m/vllm/agg-mi355x").mkdir(parents=True)
    (tmp_path / "m/vllm/agg-mi355x/deploy.yaml").write_text("a broken recipe: [")
    assert not info("sglang-gb300", gpu="MI355X", recipe_paths=[str(tmp_path)])["release"]["applicable"]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"name": "sglang-gb30"}, "TARGET_UNKNOWN"),
        ({"gpu": "GB30"}, "BAD_OPTION"),
        ({"binding": {"replicas": 5}}, "BINDING"),
        ({"commits": "main"}, "BINDING"),
        ({}, "NO_CLUSTER"),
    ],
)
def test_values_are_checked_before_a_cluster_is_looked_for(wrong: dict[str, Any], code: str) -> None:
    for namespace in ("llm", ""):
        given = {"name": "sglang-gb300", "kubeconfig": "/nowhere", "need_cluster": True, "namespace": namespace}
        with pytest.raises(DynamoError) as error:
            info(**{**given, **wrong})
        assert error.value.code == code


def test_a_kustomization(tmp_path: Path) -> None:
    needs_kustomize()
    base = Path(RECIPES) / AGG / "deploy.yaml"
    components: dict[str, Any] = dict.fromkeys(("cache-binding", "registry-credentials"))
    directory = str(fill(tmp_path / "site", base, "agg", components))
    given = {"kustomization": directory, "kustomize": str(KUSTOMIZE)}
    result = info(**given, binding={"job": {"node_selector": {"a": "b"}}})
    assert result["release"]["claim"]["name"] == "models"
    assert result["release"]["job"]["pull_secrets"] == ["ngc"]
    assert result["release"]["job"]["node_selector"] == {"a": "b"}
    assert result["findings"] == [], "values of the site are no finding here"
    assert info(**given, binding=None)["release"]["claim"]["name"] == "models"
    with pytest.raises(DynamoError, match="dynamo_binding: must be a dictionary"):
        info(**given, binding="env")
    with pytest.raises(DynamoError, match=r"dynamo_binding\.env: dynamo_kustomization says everything"):
        info(**given, binding={"env": {}})
    assert info(**given, gpu="B200")["release"]["applicable"] is False
    with pytest.raises(DynamoError, match="the target minimax-m3/vllm/disagg"):
        info("vllm-disagg-gb200", **given)


def test_the_validator_of_the_checkout_runs(tmp_path: Path) -> None:
    needs_kustomize()
    script = tmp_path / "vendor/scripts/validate-recipe-kustomization.py"
    script.parent.mkdir(parents=True)
    script.write_text("import sys; print('ERROR [patch-guard] x', file=sys.stderr); sys.exit(1)", "utf-8")
    (tmp_path / "vendor/recipes").mkdir()
    base = Path(RECIPES) / AGG / "deploy.yaml"
    directory = str(fill(tmp_path / "site", base, "agg", {}))
    with pytest.raises(DynamoError, match="patch-guard"):
        info(kustomization=directory, kustomize=str(KUSTOMIZE), recipe_paths=[str(tmp_path / "vendor/recipes")])


def test_no_validator_sees_what_lies_outside(tmp_path: Path) -> None:
    script = tmp_path / "vendor/scripts/validate-recipe-kustomization.py"
    script.parent.mkdir(parents=True)
    script.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')", "utf-8")
    (tmp_path / "vendor/recipes").mkdir()
    (tmp_path / "kustomization.yaml").write_text("resources: ['https://example.com/x.yaml']", "utf-8")
    with pytest.raises(DynamoError, match="would be fetched"):
        info(kustomization=str(tmp_path), kustomize=str(KUSTOMIZE), recipe_paths=[str(tmp_path / "vendor/recipes")])
    assert not (tmp_path / "ran").exists()
