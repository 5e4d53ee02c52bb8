# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commits and folders in recipes that aren't ours: each reaches the engine that reads it, and only that one."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _catalog, _derive, _lint, _release
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import graph, main_container, workers_of

from .test__catalog import DEPLOYMENT

BIG, DRAFT = "a" * 40, "b" * 40
CLAIM = {"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}
USER_CACHE = "/root" + "/.cache"  # of the user in the pod, not of this machine
HOME = {"name": "HF_HOME", "value": "/cache"}


def worker_of(*args: str, env: list[dict[str, Any]] | None = None, name: str = "Worker") -> dict[str, Any]:
    worker: dict[str, Any] = copy.deepcopy(DEPLOYMENT["spec"]["components"][1])
    worker["name"] = name
    offline = {"name": "HF_HUB_OFFLINE", "value": "1"}
    mount = {"name": "cache", "mountPath": "/cache"}
    main_container(worker).update(
        command=["python3"], args=["-m", "dynamo.vllm", *args], env=[HOME, offline, *(env or [])], volumeMounts=[mount]
    )
    worker["podTemplate"]["spec"]["volumes"] = [copy.deepcopy(CLAIM)]
    return worker


def recipe_of(*workers: dict[str, Any], support: tuple[dict[str, Any], ...] = (), **overrides: Any) -> _catalog.Recipe:
    dgd = copy.deepcopy(DEPLOYMENT)
    dgd["spec"]["components"][1:] = workers
    manifests = _catalog.checked([*copy.deepcopy(list(support)), dgd], "deploy.yaml")
    meta, notes = _derive.derive(manifests, "own/vllm/agg-h100")
    return _catalog.Recipe("own/vllm/agg-h100", "", manifests, {**meta, **overrides}, notes)


def release_of(recipe: _catalog.Recipe, **options: Any) -> dict[str, Any]:
    return _release.build(recipe, {"namespace": "llm", **options})


def findings_of(recipe: _catalog.Recipe, **options: Any) -> list[dict[str, str]]:
    return [
        item
        for item in _lint.lint(recipe.manifests, release_of(recipe, **options), None)
        if item["code"] not in ("CONTRACT", "LIVENESS_DEFAULT", "JOB_NAME_SHARED")
    ]


def codes(recipe: _catalog.Recipe, **options: Any) -> list[str]:
    return [item["code"] for item in findings_of(recipe, **options)]


def args_of(release: dict[str, Any]) -> list[str]:
    found: list[str] = main_container(workers_of(release["manifest"])[0])["args"]
    return found


SPECULATIVE = '{"model":"acme/draft","revision":"main"}'
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own-config"}, "data": {"spec": SPECULATIVE}}
FROM_CONFIG: dict[str, Any] = {
    "name": "SPEC",
    "valueFrom": {"configMapKeyRef": {"name": "own-config", "key": "spec"}},
}


@pytest.mark.parametrize(
    "worker",
    [
        worker_of("--model", "acme/Big", "--revision", "main", "--speculative-config", SPECULATIVE),
        worker_of("--model=acme/Big", "--revision=main", f"--speculative-config={SPECULATIVE}"),
        worker_of(
            "--model",
            "acme/Big",
            "--revision",
            "main",
            "--speculative-config",
            '{"revision": "v1", "model": "acme/draft", "num_speculative_tokens": 3}',
        ),
        worker_of(
            "--model",
            "$(M)",
            "--revision",
            "$(REV)",
            "--speculative-config",
            SPECULATIVE,
            env=[{"name": "M", "value": "acme/Big"}, {"name": "REV", "value": "main"}],
        ),
        worker_of("--model", "acme/Big", "--revision", "main", "--speculative-config", "$(SPEC)", env=[FROM_CONFIG]),
        worker_of(
            "--model",
            "acme/Big",
            "--revision",
            "main",
            "--speculative-draft-model-path",
            "acme/draft",
            "--speculative-draft-model-revision",
            "main",
        ),
    ],
)
def test_every_commit_reaches_its_own_engine_argument(worker: dict[str, Any]) -> None:
    recipe = recipe_of(worker, support=(CONFIG,))
    assert [model["id"] for model in recipe.meta["repositories"]] == ["acme/Big", "acme/draft"]
    release = release_of(recipe, commits={"acme/Big": BIG, "acme/draft": DRAFT})
    given = _derive.expanded_arguments(
        workers_of(release["manifest"])[0], [*release["config_maps"], release["manifest"]]
    )
    assert given["--revision"] == BIG
    draft = given.get("--speculative-draft-model-revision") or json.loads(given["--speculative-config"])["revision"]
    assert draft == DRAFT
    assert codes(recipe, commits={"acme/Big": BIG, "acme/draft": DRAFT}) == []


@pytest.mark.parametrize("revision", ["--revision main", "--revision=main", '--revision "$REV"', "--revision ${REV}"])
def test_in_a_shell(revision: str) -> None:
    worker = worker_of(env=[{"name": "REV", "value": "main"}])
    script = f"exec python3 -m dynamo.vllm --model acme/Big \\\n  {revision} --speculative-config '{SPECULATIVE}'"
    main_container(worker).update(command=["bash", "-c"], args=[script])
    release = release_of(recipe_of(worker), commits={"acme/Big": BIG, "acme/draft": DRAFT})
    given = _derive.expanded_arguments(workers_of(release["manifest"])[0], [release["manifest"]])
    assert given["--revision"] == BIG
    assert json.loads(given["--speculative-config"])["revision"] == DRAFT


def test_a_commit_of_the_metadata_replaces_a_branch_too() -> None:
    recipe = recipe_of(
        worker_of("--model", "acme/Big", "--revision", "main"), repositories=[{"id": "acme/Big", "commit": BIG}]
    )
    assert args_of(release_of(recipe))[-1] == BIG
    assert args_of(release_of(recipe, commits=DRAFT))[-1] == DRAFT


@pytest.mark.parametrize(
    ("worker", "code", "words"),
    [
        (worker_of("--model", "acme/Big", "--revision", "c" * 40), "REVISION_OTHER", "cccccccc"),
        (
            worker_of("--model", "acme/Big", "--revision", BIG, "--speculative-config", '{"model":"acme/draft"}'),
            "REVISION_UNPINNED",
            "acme/draft",
        ),
        (
            worker_of("--model", "acme/Big", "--revision", "$(REV)", env=[{"name": "REV", "valueFrom": {}}]),
            "REVISION_UNPINNED",
            "acme/Big",
        ),
        (worker_of("--model", "acme/Big", "--revision", BIG, "--model", "acme/x"), "MODEL_UNPROVED", "acme/x"),
        (worker_of("--model", "/cache/payload"), "MODEL_UNPROVED", "/cache/payload"),
    ],
)
def test_a_commit_that_does_not_reach_the_engine_is_found(worker: dict[str, Any], code: str, words: str) -> None:
    repositories = [{"id": "acme/Big", "commit": BIG}, {"id": "acme/draft", "commit": DRAFT}]
    found = findings_of(recipe_of(worker, repositories=repositories, served_model="m"))
    assert [item["code"] for item in found] == [code]
    assert words in found[0]["message"]


def test_folders_within_folders() -> None:
    repositories = [
        {"id": "acme/Big", "commit": BIG, "layout": "folder", "path": "/cache/big"},
        {"id": "acme/Draft", "commit": DRAFT, "layout": "folder", "path": "/cache/big/draft"},
    ]
    for order in (repositories, repositories[::-1]):
        worker = worker_of("--model", "/cache/big", "--speculative-draft-model-path", "/cache/big/draft")
        recipe = recipe_of(worker, repositories=order, served_model="m")
        args = args_of(release_of(recipe))
        assert args[3] == f"/cache/Big/{BIG[:12]}"
        assert args[5] == f"/cache/Draft/{DRAFT[:12]}"
        assert codes(recipe) == []
    nested = graph(recipe.manifests)
    assert "/cache/big/draft" in str(nested), "the recipe was changed"


def test_workers_of_several_models() -> None:
    other = worker_of("--model", "acme/other", "--revision", DRAFT, "--served-model-name", "o", name="Other")
    recipe = recipe_of(worker_of("--model", "acme/Big", "--revision", BIG), other)
    assert [(model["id"], model["commit"]) for model in release_of(recipe)["models"]] == [
        ("acme/Big", BIG),
        ("acme/other", DRAFT),
    ]
    assert recipe.meta["served_model"] == "acme/Big"
    assert any("acme/other" in note and "dynamo_recipe.served_model" in note for note in recipe.notes)
    assert codes(recipe) == []


def with_volumes(worker: dict[str, Any], *places: tuple[str, str]) -> dict[str, Any]:
    """A worker that mounts claims (name, path) in this order."""
    main_container(worker)["volumeMounts"] = [{"name": name, "mountPath": path} for name, path in places]
    worker["podTemplate"]["spec"]["volumes"] = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name, _path in places
    ]
    return worker


@pytest.mark.parametrize(
    "arguments", [("--model", "acme/Big", "--revision", BIG), ("--model", "/cache/x"), ("--download-dir", "/cache/hub")]
)
def test_the_claim_is_where_the_engine_looks(arguments: tuple[str, ...]) -> None:
    worker = with_volumes(worker_of(*arguments, "--model", "acme/Big"), ("compile", USER_CACHE), ("cache", "/cache"))
    recipe = recipe_of(worker)
    assert recipe.meta["claim"]["name"] == "cache"
    assert release_of(recipe)["mount"] == "/cache"


def change(key: str, value: Any) -> Any:
    def apply(worker: dict[str, Any]) -> None:
        main = main_container(worker)
        if key in ("HF_HOME", "HF_HUB_CACHE"):
            main["env"] = [entry for entry in main["env"] if entry["name"] != key]
            main["env"] += [{"name": key, "value": value}] if value else []
        elif key == "volume":
            worker["podTemplate"]["spec"]["volumes"] = [{"name": "cache", **value}]
        else:
            main["volumeMounts"][0][key] = value

    return apply


@pytest.mark.parametrize(
    ("alter", "words"),
    [
        (change("HF_HOME", "/cache/hf"), "(cache, hf/hub)"),
        (change("HF_HOME", "/tmp/hf"), "in /tmp/hf/hub (no volume)"),
        (change("HF_HOME", ""), f"in {USER_CACHE}/huggingface/hub (no volume)"),
        (change("HF_HUB_CACHE", "/cache"), "in /cache (cache"),
        (change("subPath", "team"), "(cache, team/hub)"),
        (change("volume", {"nfs": {"server": "s", "path": "/"}}), "(nfs, hub)"),
        (change("volume", {"persistentVolumeClaim": {"claimName": "own"}}), "(own, hub)"),
    ],
)
def test_an_engine_that_looks_elsewhere_than_the_job_writes_is_found(alter: Any, words: str) -> None:
    arguments = ("--model", "acme/Big", "--revision", BIG)
    recipe = recipe_of(worker_of(*arguments), worker_of(*arguments, name="Second"))
    alter(workers_of(graph(recipe.manifests))[1])
    found = findings_of(recipe)
    assert [(item["code"], item["severity"]) for item in found] == [("CACHE_ELSEWHERE", "FAIL")]
    assert words in found[0]["message"]
    assert "Second" in found[0]["path"]


def test_an_engine_that_looks_in_the_right_place_by_other_means() -> None:
    worker = with_volumes(worker_of("--model", "acme/Big", "--revision", BIG), ("cache", f"{USER_CACHE}/huggingface"))
    change("HF_HOME", "")(worker)
    assert codes(recipe_of(worker)) == []
    assert codes(recipe_of(worker), binding={"cache_volume": {"nfs": {"server": "s", "path": "/"}}}) == []
    assert codes(recipe_of(worker), cache_claim="models") == []


def domain(name: str) -> dict[str, Any]:
    spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": f"{name}-channel"}}}
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": name},
        "spec": spec,
    }


MODEL = ("--model", "acme/Big", "--revision", BIG)


def test_two_compute_domains_are_refused() -> None:
    with pytest.raises(DynamoError, match=r"^the recipe own/vllm/agg-h100 has the ComputeDomains one, two; a release"):
        release_of(recipe_of(worker_of(*MODEL), support=(domain("one"), domain("two"))))


def test_a_name_reaches_whatever_would_collide_or_dangle() -> None:
    url = {"name": "URL", "value": "http://own-frontend:8000/v1 own-frontend.llm.svc my-own-frontend own-frontend-x"}
    worker = worker_of(*MODEL, "--url=http://own-frontend:8000", env=[url])
    worker["podTemplate"]["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "imex-channel"}]
    other = {**CONFIG, "metadata": {"name": "settings"}}
    recipe = recipe_of(worker, support=(CONFIG, other, domain("imex")))
    reference = {"configMapKeyRef": {"name": "own-config", "key": "spec"}}
    release = release_of(recipe, release_name="second", binding={"env": {"workers": {"S": reference}}})
    names = [manifest["metadata"]["name"] for manifest in release["config_maps"]]
    assert [name[:-9] for name in names] == ["second-config", "second-settings"]
    assert (release["compute_domain"]["name"], release["compute_domain"]["template"]) == (
        "second-imex",
        "second-imex-channel",
    )
    pod = workers_of(release["manifest"])[0]["podTemplate"]["spec"]
    assert pod["resourceClaims"][0]["resourceClaimTemplateName"] == "second-imex-channel"
    main = main_container(workers_of(release["manifest"])[0])
    assert main["args"][-1] == "--url=http://second-frontend:8000"
    assert {
        "name": "URL",
        "value": "http://second-frontend:8000/v1 second-frontend.llm.svc my-own-frontend own-frontend-x",
    } in main["env"]
    assert names[0] in str([entry for entry in main["env"] if entry["name"] == "S"])


def test_the_claim_of_a_kustomization_stays() -> None:
    recipe = recipe_of(worker_of(*MODEL))
    with pytest.raises(DynamoError, match=r"^dynamo_cache_claim: models, but dynamo_kustomization mounts cache\."):
        release_of(recipe, kustomization="k", cache_claim="models")
    assert release_of(recipe, kustomization="k", cache_claim="cache")["claim"]["name"] == "cache"
    assert not release_of(recipe, kustomization="k", cache_claim="models", gpu="B200")["applicable"]


def test_an_empty_option_takes_away() -> None:
    worker = worker_of(*MODEL)
    pod = worker["podTemplate"]["spec"]
    pod.update(tolerations=[{"operator": "Exists"}], imagePullSecrets=[{"name": "theirs"}], nodeSelector={"a": "b"})
    scheduling = {
        "tolerations": [],
        "node_selector": {"a": "b"},
        "components": {"frontend": {"node_selector": {}}, "workers": {"node_selector": {}, "affinity": {}}},
    }
    release = release_of(recipe_of(worker), binding={"pull_secrets": [], "scheduling": scheduling})
    for component in release["manifest"]["spec"]["components"]:
        assert not {"nodeSelector", "tolerations", "imagePullSecrets"} & component["podTemplate"]["spec"].keys()
    assert release["job"]["pull_secrets"] == []
    assert release_of(recipe_of(worker))["job"]["pull_secrets"] == ["theirs"]


@pytest.mark.parametrize(
    ("alter", "words"),
    [
        (lambda pod: pod["volumes"].append({"name": "compile-cache", "emptyDir": {}}), "two volumes compile-cache"),
        (lambda pod: pod["volumes"].append({"name": "ib", "emptyDir": {}}), "volume ib has the sources"),
        (
            lambda pod: pod["containers"][0]["volumeMounts"].append({"name": "cache", "mountPath": "/compile-cache/"}),
            "mounts two volumes at /compile-cache",
        ),
        (
            lambda pod: pod["containers"][0]["volumeMounts"].append({"name": "nothing", "mountPath": "/x"}),
            "mounts nothing, which is no volume",
        ),
    ],
)
def test_volumes_that_collide_are_found(alter: Any, words: str) -> None:
    worker = worker_of(*MODEL)
    alter(worker["podTemplate"]["spec"])
    binding = {"compile_cache": {"host_path": "/var/cc"}, "network": {"infiniband": {"devices": "mlx5_0:1"}}}
    found = [item for item in findings_of(recipe_of(worker), binding=binding) if item["code"] == "VOLUME_CLASH"]
    assert [item["severity"] for item in found] == ["FAIL"]
    assert words in found[0]["message"]
    assert codes(recipe_of(worker_of(*MODEL)), binding=binding) == []


def test_a_claim_mounted_at_the_path_of_the_model_stays_there() -> None:
    worker = worker_of("--model", "/model")
    main_container(worker)["volumeMounts"] = [{"name": "cache", "mountPath": "/model"}]
    exact = [{"id": "acme/big", "commit": BIG, "layout": "folder", "path": "/model"}]
    recipe = recipe_of(worker, repositories=exact)
    made = workers_of(release_of(recipe)["manifest"])[0]
    path = f"/model/big/{BIG[:12]}"
    assert main_container(made)["volumeMounts"][0]["mountPath"] == "/model"
    assert main_container(made)["args"][-1] == path and "CACHE_ELSEWHERE" not in codes(recipe)
