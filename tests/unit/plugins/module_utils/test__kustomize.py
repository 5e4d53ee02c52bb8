# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A private Kustomization: what it may read, which kustomize builds it, what the validator says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils import _catalog, _kustomize, _release
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

from .starter import KUSTOMIZE, fill, needs_kustomize
from .test__catalog import CATALOG, EIGHT, RECIPES

TARGET = EIGHT[6]
PLUGINS = ("generators", "transformers", "validators")
BASE = Path(CATALOG[TARGET]) / "deploy.yaml"


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(0o755)
    return str(path)


def kustomization(directory: Path, **content: Any) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(content), "utf-8")
    return directory


def test_it_becomes_a_release(tmp_path: Path) -> None:
    needs_kustomize()
    components: dict[str, Any] = dict.fromkeys(("cache-binding", "registry-credentials", "scheduling", "placement"))
    directory = str(fill(tmp_path / "site", BASE, "agg", components))
    recipe = _catalog.read(TARGET, CATALOG)
    built = _kustomize.build(directory, [RECIPES], str(KUSTOMIZE))
    release = _release.build(_catalog.kustomized(recipe, built, directory), {"namespace": "llm"})
    assert release["claim"]["name"] == "models"
    assert release["unused"] == []
    worker = release["manifest"]["spec"]["components"][1]
    assert worker["podTemplate"]["spec"]["imagePullSecrets"] == [{"name": "ngc"}]
    assert release["mount"] == "/shared-model-cache"
    assert release["config_maps"][0]["immutable"] is True
    other = _catalog.read(EIGHT[7], CATALOG)
    with pytest.raises(DynamoError, match="builds minimax-m3-agg-gb200-agentic, the target"):
        _catalog.kustomized(other, built, directory)


def test_kustomizes_own_words(tmp_path: Path) -> None:
    needs_kustomize()
    patch = [{"op": "test", "path": "/spec/components/1/name", "value": "Other"}]
    directory = fill(tmp_path / "site", BASE, "agg", {"probes": patch})
    with pytest.raises(DynamoError, match=r"kustomize build .*testing value /spec/components/1/name failed") as error:
        _kustomize.build(str(directory), [RECIPES], str(KUSTOMIZE))
    assert error.value.code == "KUSTOMIZE_BUILD"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"resources": ["https://example.com/x.yaml"]}, "https://example.com/x.yaml would be fetched"),
        ({"resources": ["github.com/a/b?ref=v1"]}, "would be fetched"),
        ({"components": ["../outside"]}, "../outside lies outside"),
        ({"resources": ["link.yaml"]}, "link.yaml lies outside"),
        ({"resources": ["none.yaml"]}, "none.yaml doesn't exist"),
        ({"patches": [{"path": "/etc/passwd"}]}, "/etc/passwd lies outside"),
        ({"openapi": {"path": "../outside/kustomization.yaml"}}, "lies outside"),
        ({"configMapGenerator": [{"name": "a", "files": ["k=../outside/kustomization.yaml"]}]}, "lies outside"),
        ({"secretGenerator": [{"name": "a", "envs": ["../.env"]}]}, "lies outside"),
        ({"helmCharts": [{"name": "a"}]}, "helmCharts would be fetched"),
        ({"helmGlobals": {"chartHome": "/etc"}}, "helmGlobals would be fetched"),
        *(({key: ["kind: X\nfiles: [../secret]"]}, f"{key} may read any file") for key in PLUGINS),
        *(({key: ["inner"]}, f"{key} may read any file") for key in PLUGINS),
        ({"ConfigMapGenerator": [{"name": "a", "files": ["../outside/x"]}]}, "ConfigMapGenerator: no such key"),
        (
            {"configMapGenerator": [{"name": "a", "Files": ["../outside/x"]}]},
            "configMapGenerator[a].Files: no such key",
        ),
        ({"patches": ["p.yaml"]}, "patches[0]: must be a dictionary, found 'p.yaml'"),
        ({"patches": {}}, "patches: must be a list"),
        ({"openapi": "x"}, "openapi: must be a dictionary"),
        ({"configMapGenerator": ["x"]}, "configMapGenerator[0]: must be a dictionary"),
        ({"resources": "x.yaml"}, "resources: must be a list"),
        ({"components": ["inner"]}, "inner/kustomization.yaml: ../../outside lies outside"),
        ({"resources": ["empty"]}, "empty holds no kustomization.yaml"),
    ],
)
def test_paths_outside(tmp_path: Path, content: dict[str, Any], words: str) -> None:
    directory = kustomization(tmp_path / "site", **content)
    kustomization(tmp_path / "outside")
    kustomization(directory / "inner", components=["../../outside"])
    (directory / "empty").mkdir()
    os.symlink(tmp_path / "outside/kustomization.yaml", directory / "link.yaml")
    with pytest.raises(DynamoError) as error:
        _kustomize.check_paths(str(directory), [])
    assert error.value.code == "KUSTOMIZATION_PATH"
    assert words in str(error.value)


def test_paths_that_are_allowed(tmp_path: Path) -> None:
    kustomization(tmp_path / "outside", components=["../site"])
    inline = "kind: A\nname: b\n"
    directory = kustomization(
        tmp_path / "site", resources=[str(BASE)], components=["../outside"], patchesStrategicMerge=[inline]
    )
    _kustomize.check_paths(str(directory), [RECIPES, str(tmp_path / "outside")])


@pytest.mark.parametrize(
    "patch",
    [
        "- op: add\n  path: /data/x\n  value: {a: hf_sesamesesamesesamesesame}\n- x",
        'kind: X\nenv: [{name: HF_TOKEN, value: "sesame"}]\n- x',
        "kind: X\nenv: [{name: A, value: sesame}]\n- x",
    ],
)
def test_a_patch_that_is_wrong_is_not_repeated(tmp_path: Path, patch: str) -> None:
    needs_kustomize()
    (tmp_path / "r.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "utf-8")
    directory = kustomization(tmp_path, resources=["r.yaml"], patches=[{"patch": patch}])
    with pytest.raises(DynamoError, match="unable to parse SM or JSON patch") as error:
        _kustomize.build(str(directory), [], str(KUSTOMIZE))
    assert "sesame" not in str(error.value)


def test_a_secret_in_a_kustomization_is_refused(tmp_path: Path) -> None:
    needs_kustomize()
    value = {"name": "HF_TOKEN", "value": "sesame"}
    patch = [{"op": "add", "path": "/spec/components/1/podTemplate/spec/containers/0/env/-", "value": value}]
    target = {"kind": "DynamoGraphDeployment"}
    directory = kustomization(
        tmp_path / "site", resources=[str(BASE)], patches=[{"patch": yaml.safe_dump(patch), "target": target}]
    )
    built = _kustomize.build(str(directory), [RECIPES], str(KUSTOMIZE))
    with pytest.raises(DynamoError, match=r"env\[HF_TOKEN\]\.value: variable HF_TOKEN looks like a secret") as error:
        _catalog.kustomized(_catalog.read(TARGET, CATALOG), built, str(directory))
    assert "sesame" not in str(error.value)


@pytest.mark.parametrize("text", ["- 1", "a: [", ""])
def test_what_is_no_kustomization(tmp_path: Path, text: str) -> None:
    (tmp_path / "kustomization.yml").write_text(text, "utf-8")
    with pytest.raises(DynamoError, match=r"kustomization\.yml"):
        _kustomize.check_paths(str(tmp_path), [])


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo v5.5.0", "is v5.5.0."),
        ("echo Kustomize Version: v5.7.1", "v5.7.1"),
        ("exit 1", "is no kustomize"),
        (None, "no program"),
    ],
)
def test_another_kustomize(tmp_path: Path, script: str | None, words: str) -> None:
    binary = program(tmp_path / "kustomize", script) if script else str(tmp_path / "absent")
    with pytest.raises(DynamoError) as error:
        _kustomize.find(binary)
    assert (error.value.code, words in str(error.value)) == ("KUSTOMIZE_VERSION", True)


def test_the_right_one(tmp_path: Path) -> None:
    assert _kustomize.find(program(tmp_path / "kustomize", "echo v5.8.1")) == str(tmp_path / "kustomize")


def test_the_validator_of_a_checkout(tmp_path: Path) -> None:
    (tmp_path / "vendor/recipes").mkdir(parents=True)
    assert _kustomize.validator_of([str(tmp_path / "vendor/recipes")]) == ""
    script = tmp_path / "vendor" / _kustomize.VALIDATOR
    script.parent.mkdir()
    script.write_text("import sys; sys.exit(0 if sys.argv[3] == '--kustomize-bin' else 9)", "utf-8")
    validator = _kustomize.validator_of([RECIPES, str(tmp_path / "vendor/recipes")])
    assert validator == str(script)
    directory, binary = kustomization(tmp_path / "site"), program(tmp_path / "kustomize", "echo v5.8.1")
    _kustomize.validate(validator, str(BASE), str(directory), binary)
    script.write_text(
        "import sys; print('ERROR [patch-guard] layer=x: no test', file=sys.stderr); sys.exit(1)", "utf-8"
    )
    with pytest.raises(DynamoError, match=r"\(exit 1\): ERROR \[patch-guard\] layer=x: no test") as error:
        _kustomize.validate(validator, str(BASE), str(directory), binary)
    assert error.value.code == "KUSTOMIZATION_REFUSED"
    assert error.value.result["validator_codes"] == ["patch-guard"]


def test_output_that_is_no_yaml(tmp_path: Path) -> None:
    binary = program(tmp_path / "kustomize", '[ "$1" = version ] && echo v5.8.1 || echo "a: ["')
    with pytest.raises(DynamoError, match="its output is no YAML"):
        _kustomize.build(str(kustomization(tmp_path / "site")), [], binary)
