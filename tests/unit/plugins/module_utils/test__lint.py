# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings: the built-in recipes have none that are ours to mend, and every kind of mistake is found."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _catalog, _lint, _release
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import graph, main_container, workers_of

from .test__catalog import CATALOG, EIGHT

DISAGG = EIGHT[7]
Change = Callable[[dict[str, Any], dict[str, Any]], None]


def findings(target: str = DISAGG, change: Change | None = None, **options: Any) -> list[dict[str, str]]:
    recipe = _catalog.read(target, CATALOG)
    recipe.manifests = copy.deepcopy(recipe.manifests)
    if change:
        worker = workers_of(graph(recipe.manifests))[0]
        change(worker, main_container(worker))
        shared = worker.pop("shared", None)
        if shared:
            graph(recipe.manifests)["spec"]["env"] = shared
    release = _release.build(recipe, {"namespace": "llm", **options})
    found = _lint.lint(recipe.manifests, release, recipe.meta["context_length"], options.get("others", ()))
    assert all(item.keys() == {"code", "severity", "path", "message", "fix"} and all(item.values()) for item in found)
    return found


@pytest.mark.parametrize("target", EIGHT)
def test_the_catalog_is_clean(target: str) -> None:
    commits = {"MiniMaxAI/MiniMax-M3.1-Flash": "0" * 40}
    assert findings(target, commits=commits) == []


def test_a_commit_that_is_missing_is_said() -> None:
    assert [item["code"] for item in findings(EIGHT[0])] == ["REVISION_UNPINNED"]


def env(name: str, value: str) -> Change:
    return lambda _worker, main: main["env"].insert(0, {"name": name, "value": value})


def args(*words: str) -> Change:
    return lambda _worker, main: main["args"].extend(words)


def setting(flag: str, value: str) -> Change:
    def change(_worker: dict[str, Any], main: dict[str, Any]) -> None:
        main["args"][main["args"].index(flag) + 1] = value

    return change


def without(key: str, flag: str) -> Change:
    def change(_worker: dict[str, Any], main: dict[str, Any]) -> None:
        index = main["args"].index(flag)
        del main[key][index : index + 2]

    return change


@pytest.mark.parametrize(
    ("change", "code", "severity", "words"),
    [
        (env("A", "$(B)"), "VARIABLE_UNDEFINED", "FAIL", "$(B) is not defined"),
        (args("--x", "$(NOTHING)"), "VARIABLE_UNDEFINED", "FAIL", "$(NOTHING) is not defined"),
        (env("A", "$(MODEL_NAME)"), "VARIABLE_LATE", "FAIL", "MODEL_NAME comes later"),
        (setting("--tensor-parallel-size", "8"), "GPU_MISMATCH", "FAIL", "8 GPUs, the pod asks for 4"),
        (setting("--tensor-parallel-size", "2"), "GPU_MISMATCH", "WARN", "2 GPUs, the pod asks for 4"),
        (args("--pipeline-parallel-size", "2"), "GPU_MISMATCH", "FAIL", "8 GPUs"),
        (setting("--max-model-len", "2097152"), "CONTEXT_TOO_LONG", "FAIL", "2097152"),
        (without("args", "--revision"), "REVISION_UNPINNED", "WARN", "without --revision"),
        (lambda _w, main: main.update(wibble=1), "FIELD_UNKNOWN", "FAIL", "no such field"),
        (lambda w, _m: w.update(wobble=1), "FIELD_UNKNOWN", "FAIL", "no such field"),
        (lambda _w, main: main.update(image="a/vllm-runtime:latest"), "IMAGE_LATEST", "WARN", "another image"),
        (lambda _w, main: main.update(image="vllm-runtime"), "IMAGE_LATEST", "WARN", "another image"),
        (env("A", "your-kv-transfer-config"), "PLACEHOLDER", "FAIL", "your-kv-transfer-config"),
        (lambda _w, main: main["env"].clear(), "CONTRACT", "WARN", "is not 1"),
        (lambda _w, main: main["env"].clear(), "HUB_FROM_WORKERS", "WARN", "HF_HUB_OFFLINE is not 1"),
        (
            lambda _w, main: main["env"].append(
                {"name": "T", "valueFrom": {"secretKeyRef": {"name": "hf-token-secret", "key": "HF_TOKEN"}}}
            ),
            "HUB_FROM_WORKERS",
            "WARN",
            "holds the hub's token (T)",
        ),
        (
            lambda _w, main: main.update(envFrom=[{"secretRef": {"name": "hf-token-secret"}}]),
            "HUB_FROM_WORKERS",
            "WARN",
            "hf-token-secret",
        ),
        (
            lambda w, _m: w["podTemplate"]["spec"].update(imagePullSecrets=[{"name": "a"}]),
            "SITE_VALUE",
            "WARN",
            "one cluster only",
        ),
        (lambda w, _m: w["podTemplate"]["spec"].update(nodeName="n"), "SITE_VALUE", "FAIL", "nodes of one cluster"),
        (env("UCX_NET_DEVICES", "mlx5_0:1"), "SITE_VALUE", "WARN", "UCX_NET_DEVICES"),
    ],
)
def test_mistakes_in_a_recipe(change: Change, code: str, severity: str, words: str) -> None:
    found = [item for item in findings(change=change) if item["code"] == code and item["severity"] == severity]
    assert found, code
    assert any(words in item["message"] for item in found)
    assert any("PrefillWorker" in item["path"] for item in found)


def graph_env(**variables: str) -> Change:
    """Variables of all components; a change sees only the worker, so they are put beside it later."""
    return lambda worker, _main: worker.update(shared=[{"name": n, "value": v} for n, v in variables.items()])


def sidecar(**container: Any) -> Change:
    return lambda worker, _main: worker["podTemplate"]["spec"]["containers"].append(
        {"name": "side", "image": "a:1", **container}
    )


def before(**container: Any) -> Change:
    return lambda worker, _main: worker["podTemplate"]["spec"].update(
        initContainers=[{"name": "load", "image": "a:1", **container}]
    )


TOKEN_OF_OTHERS = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "mine", "key": "k"}}}


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda _w, main: main["env"].append(TOKEN_OF_OTHERS), "HUB_FROM_WORKERS", "holds the hub's token (HF_TOKEN)"),
        (sidecar(env=[TOKEN_OF_OTHERS]), "HUB_FROM_WORKERS", "holds the hub's token (HF_TOKEN)"),
        (graph_env(HF_TOKEN="x"), "HUB_FROM_WORKERS", "holds the hub's token (HF_TOKEN)"),
        (before(command=["sh", "-c", "hf download a/b"]), "HUB_FROM_WORKERS", "container load downloads"),
        (before(command=["huggingface-cli", "download"]), "HUB_FROM_WORKERS", "container load downloads"),
        (sidecar(args=["$(NOTHING)"]), "VARIABLE_UNDEFINED", "$(NOTHING) is not defined"),
        (sidecar(env=[{"name": "A", "value": "$(NOTHING)"}]), "VARIABLE_UNDEFINED", "$(NOTHING) is not defined"),
        (env("A", "<YOUR_TOKEN>"), "PLACEHOLDER", "YOUR_TOKEN"),
        (env("A", "<your-token>"), "PLACEHOLDER", "your-token"),
        (env("A", "<CHANGE-ME>"), "PLACEHOLDER", "CHANGE-ME"),
        (args("-dp", "8", "--tensor-parallel-size", "1"), "GPU_MISMATCH", "8 GPUs, the pod asks for 4"),
        (setting("--max-model-len", "2M"), "CONTEXT_TOO_LONG", "2097152"),
        (args("--max-model-len", "4M"), "CONTEXT_TOO_LONG", "4194304"),
    ],
)
def test_more_mistakes(change: Change, code: str, words: str) -> None:
    found = [item for item in findings(change=change) if item["code"] == code]
    assert [item for item in found if words in item["message"]], found


def test_fields_beside_the_deployment() -> None:
    recipe = _catalog.read(DISAGG, CATALOG)
    for manifest, key in zip(recipe.manifests, ("datas", "wibble"), strict=False):
        manifest[key] = {}
    release = _release.build(recipe, {"namespace": "llm"})
    found = [item for item in _lint.lint(recipe.manifests, release, None) if item["code"] == "FIELD_UNKNOWN"]
    assert [(item["path"], item["message"].split()[3]) for item in found] == [
        ("datas", "ConfigMap"),
        ("wibble", "ComputeDomain"),
    ]


@pytest.mark.parametrize("value", ["1", "true", "TRUE", "Yes", "on"])
def test_offline_in_other_words(value: str) -> None:
    def change(worker: dict[str, Any], main: dict[str, Any]) -> None:
        main["env"] = [entry for entry in main["env"] if entry["name"] != "HF_HUB_OFFLINE"]
        graph_env(HF_HUB_OFFLINE=value)(worker, main)

    assert "HUB_FROM_WORKERS" not in [item["code"] for item in findings(change=change)]


def test_what_is_no_mistake() -> None:
    def change(_worker: dict[str, Any], main: dict[str, Any]) -> None:
        main["env"] += [{"name": "Z", "value": "$(MODEL_NAME) $(POD_NAME) $$(NOT)"}]
        main["args"] += ["$(DYN_NAMESPACE)", "$$(NOT)"]
        main["args"] += ["$(DYN_NAMESPACE_WORKER_SUFFIX)", "$(KUBERNETES_SERVICE_HOST)", "$(HUB_SERVICE_PORT)"]

    assert findings(change=change) == []


def test_shell_substitution_is_no_variable() -> None:
    def change(_worker: dict[str, Any], main: dict[str, Any]) -> None:
        main.update(command=["/bin/sh", "-c"], args=["ulimit -l $(nproc)\nexec python3 -m dynamo.vllm"])

    assert "VARIABLE_UNDEFINED" not in [item["code"] for item in findings(change=change)]


def test_what_envfrom_brings_cannot_be_told() -> None:
    def change(_worker: dict[str, Any], main: dict[str, Any]) -> None:
        main.update(envFrom=[{"configMapRef": {"name": "site"}}])
        main["args"] += ["$(SITE)"]

    assert findings(change=change) == []


def test_liveness_of_the_operator() -> None:
    found = findings(worker_liveness="vendor")
    assert [item["code"] for item in found] == ["LIVENESS_DEFAULT"] * 2


def test_names() -> None:
    name = "minimax-m3-disagg-gb200-agentic"
    found = findings(others=["minimax-m3-disagg", f"{name}-canary", name, "other"])
    assert [item["code"] for item in found] == ["NAME_CLASH"] * 2
    assert "dynamo_release_name" in found[0]["fix"]
    recipe = _catalog.read(DISAGG, CATALOG)
    release = _release.build(recipe, {"namespace": "llm"})
    release["name"] = "a" * 41
    assert [f["message"] for f in _lint.lint(recipe.manifests, release, None)] == [
        f"{'a' * 41} has 41 characters; with component PrefillWorker at most 40 fit"
    ]


def test_the_job_of_several_recipes() -> None:
    recipe = _catalog.read(DISAGG, CATALOG, {"job": {"name": "model-download"}})
    release = _release.build(recipe, {"namespace": "llm"})
    assert [item["code"] for item in _lint.lint(recipe.manifests, release, None)] == ["JOB_NAME_SHARED"]
