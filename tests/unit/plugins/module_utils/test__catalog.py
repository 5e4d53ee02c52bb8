# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalog: names, reading, what is derived; and the eight built-in recipes against the portable-base contract."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils import _catalog
from ansible_collections.inferops.dynamo.plugins.module_utils._engine import gpus_of
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import graph, main_container, workers_of

ROOT = Path(__file__).resolve().parents[4]
RECIPES = str(ROOT / "roles/target/files/recipes")
UPSTREAM = Path(os.environ.get("INFEROPS_SHARED", ROOT.parent / "shared")) / "upstream"
CATALOG = _catalog.find([RECIPES])
EIGHT = [
    "minimax-m3.1/sglang/agg-b200",
    "minimax-m3.1/sglang/agg-gb300",
    "minimax-m3.1/trtllm/agg-b200",
    "minimax-m3.1/trtllm/agg-gb300",
    "minimax-m3.1/vllm/agg-b200",
    "minimax-m3.1/vllm/agg-gb300",
    "minimax-m3/vllm/agg-gb200-agentic",
    "minimax-m3/vllm/disagg-gb200-agentic",
]
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "nvidia.com/v1beta1",
    "kind": "DynamoGraphDeployment",
    "metadata": {"name": "own"},
    "spec": {
        "components": [
            {
                "name": "Frontend",
                "type": "frontend",
                "podTemplate": {"spec": {"containers": [{"name": "main", "image": "a:1"}]}},
            },
            {
                "name": "Worker",
                "type": "worker",
                "podTemplate": {
                    "spec": {
                        "containers": [
                            {
                                "name": "main",
                                "image": "a:1",
                                "args": [
                                    "-m",
                                    "dynamo.vllm",
                                    "--model=$(M)",
                                    "--max-model-len",
                                    "4096",
                                    "--enforce-eager",
                                ],
                                "env": [{"name": "M", "value": "acme/tiny"}],
                                "resources": {"limits": {"nvidia.com/gpu": "2"}},
                            }
                        ]
                    }
                },
            },
        ]
    },
}


def write(root: Path, text: str, target: str = "own/vllm/agg-h100") -> dict[str, str]:
    directory = root / target
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "deploy.yaml").write_text(text, "utf-8")
    return _catalog.find([str(root)])


def test_the_eight_targets_are_there() -> None:
    assert sorted(CATALOG) == EIGHT


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((target, target) for target in EIGHT),
        ("/MiniMax-M3.1/sglang/agg-gb300/", "minimax-m3.1/sglang/agg-gb300"),
        ("sglang-gb300", "minimax-m3.1/sglang/agg-gb300"),
        ("sglang-agg-gb300", "minimax-m3.1/sglang/agg-gb300"),
        ("trtllm-b200", "minimax-m3.1/trtllm/agg-b200"),
        ("vllm-b200", "minimax-m3.1/vllm/agg-b200"),
        ("vllm-agg-gb200", "minimax-m3/vllm/agg-gb200-agentic"),
        ("vllm-disagg-gb200", "minimax-m3/vllm/disagg-gb200-agentic"),
        ("vllm-disagg-gb200-agentic", "minimax-m3/vllm/disagg-gb200-agentic"),
        ("minimax-m3-1-vllm-agg-gb300", "minimax-m3.1/vllm/agg-gb300"),
        ("minimax-m3-disagg-gb200-agentic", "minimax-m3/vllm/disagg-gb200-agentic"),
    ],
)
def test_names(name: str, target: str) -> None:
    assert _catalog.resolve(name, CATALOG) == target


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("", "TARGET_UNKNOWN", ["no target is given", *EIGHT]),
        ("sglang-gb200", "TARGET_UNKNOWN", ["sglang-gb200", *EIGHT]),
        ("sglang-gb30", "TARGET_UNKNOWN", ["Did you mean sglang-gb300?"]),
        ("vllm", "TARGET_AMBIGUOUS", ["fits 4 targets: ", *(t for t in EIGHT if "/vllm/" in t)]),
        ("GB300", "TARGET_AMBIGUOUS", ["fits 3 targets: ", *(t for t in EIGHT if "gb300" in t)]),
        ("minimax-m3", "TARGET_AMBIGUOUS", ["fits 2 targets: ", *(t for t in EIGHT if "m3/" in t)]),
        ("agg/trtllm", "TARGET_AMBIGUOUS", ["fits 2 targets: ", *(t for t in EIGHT if "trtllm" in t)]),
        ("sglang/agg-gb300", "TARGET_UNKNOWN", ["Did you mean minimax-m3.1/sglang/agg-gb300?"]),
        ("vllm-gb200", "TARGET_AMBIGUOUS", EIGHT[-2:]),
    ],
)
def test_names_that_do_not_fit(name: str, code: str, words: list[str]) -> None:
    with pytest.raises(DynamoError) as error:
        _catalog.resolve(name, CATALOG)
    assert error.value.code == code
    assert "\n" not in str(error.value)
    assert [word for word in words if word not in str(error.value)] == []


def test_the_same_short_name_in_another_directory_is_ambiguous(tmp_path: Path) -> None:
    write(tmp_path, yaml.safe_dump(DEPLOYMENT), "other/sglang/agg-gb300")
    with pytest.raises(DynamoError, match=r"other/sglang/agg-gb300"):
        _catalog.resolve("sglang-gb300", _catalog.find([str(tmp_path), RECIPES]))


def test_the_first_directory_wins(tmp_path: Path) -> None:
    write(tmp_path, yaml.safe_dump(DEPLOYMENT), EIGHT[0])
    assert _catalog.find([str(tmp_path), RECIPES])[EIGHT[0]].startswith(str(tmp_path))
    with pytest.raises(DynamoError, match="dynamo_recipe_paths"):
        _catalog.find([str(tmp_path / "absent")])


@pytest.mark.parametrize("target", EIGHT)
def test_metadata_is_complete_and_says_where_it_comes_from(target: str) -> None:
    meta = _catalog.read(target, CATALOG).meta
    assert meta["gpu"] == target.rsplit("-", 1)[-1].upper() if "agentic" not in target else meta["gpu"] == "GB200"
    assert meta["framework"] == target.split("/")[1]
    assert meta["topology"] == target.split("/")[2].split("-")[0]
    assert meta["context_length"] == 1048576
    assert meta["worker_liveness"]["failureThreshold"] == 30
    assert meta["job"]["deadline"] == 14400
    assert {str(origin).partition(":")[0] for origin in meta["provenance"].values()} <= {
        "stated",
        "upstream",
        "inferred",
    }
    body = meta["smoke"]["requests"][0]["body"]
    if target.startswith("minimax-m3.1/"):
        assert meta["repositories"][0]["id"] == "MiniMaxAI/MiniMax-M3.1-Flash"
        assert (meta["repositories"][0]["commit"], meta["repositories"][0]["layout"]) == ("", "folder")
        assert body == {
            "messages": [{"role": "user", "content": "What is 2 + 2?"}],
            "max_tokens": 1024,
            "temperature": 1.0,
            "top_p": 0.95,
            "chat_template_kwargs": {"reasoning_effort": "high"},
        }
    else:
        assert [len(repository["commit"]) for repository in meta["repositories"]] == [40, 40]
        assert body.keys() == {"messages", "max_tokens"}
        assert body["max_tokens"] == 64


@pytest.mark.parametrize("target", EIGHT)
def test_portable_base(target: str) -> None:
    """facts/dynamo.md §2.4: what a base must and must not hold."""
    manifests = _catalog.read(target, CATALOG).manifests
    dgd = graph(manifests)
    assert manifests[-1] is dgd
    assert not [m for m in manifests if "namespace" in m["metadata"]]
    framework = dgd["spec"]["backendFramework"]
    components = dgd["spec"]["components"]
    shape = [(c["name"], c["type"]) for c in components]
    assert shape in (
        [("Frontend", "frontend"), ("Worker", "worker")],
        [("Frontend", "frontend"), ("PrefillWorker", "prefill"), ("DecodeWorker", "decode")],
    )
    for component in components:
        spec, main = component["podTemplate"]["spec"], main_container(component)
        env = {entry["name"]: entry.get("value") for entry in main["env"]}
        assert spec["containers"][0] is main
        assert (main["command"], main["args"][0], main["imagePullPolicy"]) == (["python3"], "-m", "IfNotPresent")
        assert main["args"][1] == ("dynamo.frontend" if component["type"] == "frontend" else f"dynamo.{framework}")
        assert ("tensorrtllm" if framework == "trtllm" else framework) + "-runtime:" in main["image"]
        assert (env["HF_HUB_OFFLINE"], env["TRANSFORMERS_OFFLINE"]) == ("1", "1")
        assert not {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA", "UCX_NET_DEVICES"} & env.keys()
        assert not {"nodeSelector", "tolerations", "affinity", "imagePullSecrets", "schedulerName"} & spec.keys()
        assert not {"livenessProbe", "readinessProbe", "startupProbe", "envFrom"} & main.keys()
        assert not [entry for entry in main["env"] if "secretKeyRef" in entry.get("valueFrom", {})]
        assert {name for name in main["resources"]["requests"] if "/" in name} <= {"nvidia.com/gpu"}
    assert "volumes" not in components[0]["podTemplate"]["spec"]
    for worker in workers_of(dgd):
        main = main_container(worker)
        volume, mount = worker["podTemplate"]["spec"]["volumes"][0], main["volumeMounts"][0]
        assert volume == {"name": "shared-model-cache", "persistentVolumeClaim": {"claimName": "shared-model-cache"}}
        assert (mount["name"], mount["mountPath"]) == ("shared-model-cache", "/shared-model-cache")
        assert main["securityContext"] == {
            "runAsUser": 0,
            "runAsGroup": 0,
            "capabilities": {"add": ["IPC_LOCK", "SYS_PTRACE", "SYS_RESOURCE"]},
        }
        assert gpus_of(worker) == 4


@pytest.mark.parametrize("framework", ["vllm", "sglang", "trtllm"])
def test_b200_and_gb300_differ_only_in_names(framework: str) -> None:
    texts = [
        Path(CATALOG[f"minimax-m3.1/{framework}/agg-{gpu}"], "deploy.yaml").read_text("utf-8")
        for gpu in ("b200", "gb300")
    ]
    assert texts[0].replace("agg-b200", "agg-gb300") == texts[1]


@pytest.mark.parametrize("topology", ["agg", "disagg"])
def test_m3_is_equal_to_upstream(topology: str) -> None:
    target = f"minimax-m3/vllm/{topology}-gb200-agentic"
    upstream = UPSTREAM / "karya0__dynamo/recipes" / target / "deploy.yaml"
    if not upstream.exists():
        pytest.skip(f"{upstream.name} of upstream is not there: {target} is not compared with upstream")
    assert _catalog.load_yaml(f"{CATALOG[target]}/deploy.yaml") == _catalog.load_yaml(str(upstream))


@pytest.mark.parametrize("topology", ["agg", "disagg"])
def test_deriving_from_manifests_finds_what_the_metadata_says(topology: str) -> None:
    recipe = _catalog.read(f"minimax-m3/vllm/{topology}-gb200-agentic", CATALOG)
    derived, _notes = _catalog.derive(recipe.manifests, recipe.target)
    for key in ("framework", "topology", "gpu", "gpu_products", "served_model", "context_length"):
        assert derived[key] == recipe.meta[key], key
    assert [(r["id"], r["commit"], r["layout"]) for r in derived["repositories"]] == [
        (r["id"], r["commit"], r["layout"]) for r in recipe.meta["repositories"]
    ]


def test_directories_behind_links_are_found_and_no_link_is_followed_round(tmp_path: Path) -> None:
    write(tmp_path / "real", yaml.safe_dump(DEPLOYMENT), "vllm/agg-h100")
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/own").symlink_to(tmp_path / "real")
    (tmp_path / "real/round").symlink_to(tmp_path / "recipes")
    (tmp_path / "recipes/too").symlink_to(tmp_path / "real")
    assert list(_catalog.find([str(tmp_path / "recipes")])) == ["own/vllm/agg-h100", "too/vllm/agg-h100"]


def test_a_foreign_recipe_is_derived(tmp_path: Path) -> None:
    recipe = _catalog.read("own/vllm/agg-h100", write(tmp_path, yaml.safe_dump(DEPLOYMENT)))
    assert recipe.meta["served_model"] == "acme/tiny"
    assert (recipe.meta["gpu"], recipe.meta["context_length"], recipe.meta["framework"]) == ("H100", 4096, "vllm")
    assert recipe.meta["repositories"] == [{"id": "acme/tiny", "commit": "", "layout": "hub"}]
    assert any("dynamo_model_commit" in note for note in recipe.notes)


def test_what_a_foreign_recipe_does_not_tell_is_named_with_its_variable(tmp_path: Path) -> None:
    catalog = write(tmp_path, yaml.safe_dump(DEPLOYMENT).replace("acme/tiny", "/models/tiny"))
    with pytest.raises(DynamoError, match=r"dynamo_recipe\.served_model"):
        _catalog.read("own/vllm/agg-h100", catalog)
    with pytest.raises(DynamoError, match=r"dynamo_recipe\.repositories"):
        _catalog.read("own/vllm/agg-h100", catalog, {"served_model": "tiny"})


def test_quoted_words_stay_text(tmp_path: Path) -> None:
    assert graph(_catalog.read(EIGHT[-1], CATALOG).manifests)["spec"]["components"][1]["podTemplate"]["spec"][
        "containers"
    ][0]["env"][17] == {"name": "UCX_CUDA_IPC_ENABLE_MNNVL", "value": "y"}
    text = yaml.safe_dump(DEPLOYMENT).replace("name: M\n", "name: ON\n")
    with pytest.raises(DynamoError, match=r"env\[0\].name: must be a text, found true; quote it"):
        _catalog.read("own/vllm/agg-h100", write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1\nb: 2\n", "deploy.yaml:2: not readable as YAML"),
        ("", "holds 0 DynamoGraphDeployments"),
        (yaml.safe_dump_all([DEPLOYMENT, DEPLOYMENT]), "holds 2 DynamoGraphDeployments"),
        (yaml.safe_dump(DEPLOYMENT).replace("v1beta1", "v1alpha1"), "nvidia.com/v1alpha1 is not supported"),
        (
            yaml.safe_dump_all([{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}, DEPLOYMENT]),
            "Secret v1 has no",
        ),
        ("- 1\n", "not a Kubernetes object"),
        (yaml.safe_dump({**DEPLOYMENT, "spec": {}}), "spec.components"),
        (yaml.safe_dump(DEPLOYMENT).replace("name: main", "name: sidecar"), "needs one container main"),
        (
            yaml.safe_dump(DEPLOYMENT).replace("type: worker", "type: planner"),
            "has no component of type worker, prefill",
        ),
        (yaml.safe_dump(DEPLOYMENT).replace("name: Worker", "name: Frontend"), "two components have the same name"),
        (
            yaml.safe_dump(DEPLOYMENT).replace("name: Worker", "name: my worker"),
            "component my worker: name: must be lett",
        ),
        (yaml.safe_dump(DEPLOYMENT).replace("name: own", "name: Own_1"), "metadata.name: must be lower-case letters"),
        (yaml.safe_dump(DEPLOYMENT).replace("'4096'", "4096"), "found 4096; quote it"),
    ],
)
def test_unusable_recipes_end_with_one_line_and_the_file(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DynamoError) as error:
        _catalog.read("own/vllm/agg-h100", write(tmp_path, text))
    assert words in str(error.value)
    assert "deploy.yaml" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"served_modle": "x"}, "dynamo_recipe.served_modle: no such key; there are benchmark, claim, context_length"),
        ({"repositories": "a/b"}, "dynamo_recipe.repositories: must be a list, found 'a/b'."),
        ({"repositories": [{"commit": ""}]}, "dynamo_recipe.repositories[0].id: must be there."),
        ({"repositories": [{"id": "a/b", "layout": "flat"}]}, "layout: must be one of folder, hub, found 'flat'."),
        ({"smoke": {"requests": [{"name": "x", "body": []}]}}, "dynamo_recipe.smoke.requests[x].body: must be a dict"),
        ({"smoke": {"requests": [{"name": "x", "body": {}}]}}, "requests[x].body.messages: must be there."),
        ({"worker_liveness": {"httpget": {}}}, "dynamo_recipe.worker_liveness.httpget: no such key"),
        ({"claim": {"size": "big"}}, "dynamo_recipe.claim.size: must be a size above zero, such as 500Gi"),
        ({"timeouts": 5}, "dynamo_recipe.timeouts: must be a dictionary, found 5."),
    ],
)
def test_metadata_of_the_inventory_is_checked(overrides: dict[str, Any], words: str) -> None:
    with pytest.raises(DynamoError) as error:
        _catalog.read(EIGHT[0], CATALOG, overrides)
    assert words in str(error.value)
    assert error.value.code == "BAD_OPTION"


def test_one_key_of_the_inventory_leaves_the_others(tmp_path: Path) -> None:
    dgd = yaml.safe_load(yaml.safe_dump(DEPLOYMENT).replace("acme/tiny", "/models/tiny"))
    worker = workers_of(dgd)[0]["podTemplate"]["spec"]
    worker["volumes"] = [{"name": "c", "persistentVolumeClaim": {"claimName": "model-cache"}}]
    worker["containers"][0]["volumeMounts"] = [{"name": "c", "mountPath": "/models"}]
    overrides = {"claim": {"size": "9Gi"}, "repositories": [{"id": "acme/tiny"}], "served_model": "t"}
    recipe = _catalog.read("own/vllm/agg-h100", write(tmp_path, yaml.safe_dump(dgd)), overrides)
    assert recipe.meta["claim"] == {"name": "model-cache", "size": "9Gi"}
    # what the workers read is a folder, so that is where the repository goes
    assert recipe.meta["repositories"] == [{"id": "acme/tiny", "layout": "folder", "path": "/models/tiny"}]
    ours = _catalog.read(EIGHT[0], CATALOG, {"job": {"deadline": 5}, "timeouts": {"ready": 9}}).meta
    assert ours["job"] == {"name": "minimax-m3-1-model-download", "deadline": 5}
    exact = [{"id": "acme/tiny", "layout": "hub"}]
    kept = _catalog.read("own/vllm/agg-h100", _catalog.find([str(tmp_path)]), {**overrides, "repositories": exact})
    assert kept.meta["repositories"] == exact


def test_metadata_of_a_file_is_checked(tmp_path: Path) -> None:
    catalog = write(tmp_path, yaml.safe_dump(DEPLOYMENT))
    (tmp_path / "own/vllm/agg-h100/recipe.yml").write_text("served_model: [a]\n")
    with pytest.raises(DynamoError, match=r"recipe\.yml: served_model: must be a text, found a list$"):
        _catalog.read("own/vllm/agg-h100", catalog)


def test_what_a_server_wrote_is_left_out(tmp_path: Path) -> None:
    written: dict[str, Any] = dict.fromkeys(("uid", "resourceVersion", "selfLink", "creationTimestamp"), "x")
    written |= {"generation": 3, "managedFields": [{"manager": "x"}], "finalizers": ["a/b"], "ownerReferences": [{}]}
    notes = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "nvidia.com/current-worker-hash-v2": "a",
        "own": "b",
    }
    exported = {
        **DEPLOYMENT,
        "metadata": {"name": "own", "annotations": notes, **written},
        "status": {"state": "ready"},
    }
    text = yaml.safe_dump(exported).replace("creationTimestamp: x", "creationTimestamp: 2026-01-02T03:04:05Z")
    made = graph(_catalog.read("own/vllm/agg-h100", write(tmp_path, text)).manifests)
    assert made == {**DEPLOYMENT, "metadata": {"name": "own", "annotations": {"own": "b"}}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (yaml.safe_dump(DEPLOYMENT) + "spec: {}\n", "the key 'spec' is there twice"),
        (yaml.safe_dump(DEPLOYMENT).replace("  name: own\n", "  name: own\n  labels: &a {b: *a}\n"), "recursive"),
        (yaml.safe_dump(DEPLOYMENT).replace("  name: own\n", "  name: own\n  x: !!set {a}\n"), "constructor"),
        (yaml.safe_dump(DEPLOYMENT).replace("  name: own\n", "  name: own\n  x: {1: a}\n"), "metadata.x: keys must be"),
    ],
)
def test_yaml_that_no_manifest_can_hold(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DynamoError, match=words) as error:
        _catalog.read("own/vllm/agg-h100", write(tmp_path, text))
    assert error.value.code == "RECIPE"


def test_another_recipe_that_is_broken_spoils_no_name(tmp_path: Path) -> None:
    broken = yaml.safe_dump({"kind": "DynamoGraphDeployment", "metadata": ["x"]})
    assert _catalog.deployment_names(write(tmp_path, broken)["own/vllm/agg-h100"]) == set()
