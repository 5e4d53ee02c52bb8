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
