# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every value of a recipe's files or a binding replaced by one of another type: it works, or one line says where."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils import _catalog
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run
from ansible_collections.inferops.dynamo.plugins.modules import target_info

ROOT = Path(__file__).resolve().parents[4]
RECIPES = ROOT / "roles/target/files/recipes"
TARGET = "minimax-m3/vllm/disagg-gb200-agentic"
DEFAULTS = {name: option.get("default") for name, option in target_info.ARGUMENT_SPEC.items()}
WRONG: tuple[Any, ...] = ("x", 7, -1, True, None, [], ["x"], [None], [{}], {}, {"x": "y"})
EACH = 2  # values that are tried at each place, in turn: all of them at all places take minutes
BINDING: dict[str, Any] = {
    "image_registry": "mirror.example.com/nvcr",
    "name": "own",
    "compute_domain": "own",
    "network": {"interface": "eth0", "rdma_resource": "rdma/ib", "rdma_count": 1},
    "placement": {"topology_key": "zone"},
    "env": {"all": {"A": "b"}},
    "compile_cache": {"host_path": "/var/cache"},
    "startup_failures": {"workers": 9},
    "pod_labels": {"all": {"a": "b"}},
    "resources": {"all": {"limits": {"cpu": 64}}},
}


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every value inside; of a long list of texts the first is enough."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(
            value[:1] if all(isinstance(i, str) for i in value) else value[: 2 if path else None]
        ):
            yield from paths(item, (*path, index))


def mistakes(document: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(path, value of another type), all of WRONG in turn."""
    values = itertools.cycle(WRONG)
    return ((path, value) for path in paths(document) for value in itertools.islice(values, EACH))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return changed


def read(name: str) -> list[Any]:
    return list(yaml.safe_load_all((RECIPES / name).read_text("utf-8")))


FILES = {
    "model.yml": "minimax-m3/model.yml",
    "recipe.yml": f"{TARGET}/recipe.yml",
    "deploy.yaml": f"{TARGET}/deploy.yaml",
}


@pytest.mark.parametrize("name", FILES)
def test_wrong_types(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """deploy.yaml with our metadata, and as a recipe of somebody else, whose metadata is derived."""
    files = {str(RECIPES / file): read(file) for file in FILES.values()}
    wrong = str(RECIPES / FILES[name])
    original = files[wrong]
    monkeypatch.setattr(_catalog, "load_yaml", lambda path: copy.deepcopy(files[path]))
    catalog = {TARGET: str(RECIPES / TARGET)}
    monkeypatch.setattr(_catalog, "find", lambda _directories: catalog)
    monkeypatch.setattr(_catalog, "deployment_names", lambda _directory: set())
    exists = _catalog.os.path.exists
    options = {**DEFAULTS, "catalog": str(RECIPES), "namespace": "llm", "need_cluster": False, "name": TARGET}
    options |= {"lint": False, "binding": BINDING}
    bad, refused = [], 0
    for own in (True, False) if name == "deploy.yaml" else (True,):
        monkeypatch.setattr(_catalog.os.path, "exists", exists if own else lambda path: False)
        for path, value in mistakes(original):
            files[wrong] = replaced(original, path, value)
            try:
                target_info.run(dict(options), Run())
            except DynamoError as error:
                refused += 1
                if name not in str(error) and error.code not in ("BINDING", "NAME_TOO_LONG", "RECIPE_INCOMPLETE"):
                    bad.append(f"{path} {value!r}: {error}")
            except Exception as error:
                bad.append(f"{path} {value!r}: {type(error).__name__} {error}")
    assert bad == []
    assert refused > 20


# What recipes of others have, and those of the catalog don't.
OTHERS: dict[str, Any] = {
    "multinode": {"nodeCount": 2},
    "podTemplate": {
        "spec": {
            "volumes": [
                {"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}},
                {"name": "config", "configMap": {"name": "own-config", "items": [{"key": "a.yaml", "path": "a.yaml"}]}},
                {"name": "all", "projected": {"sources": [{"configMap": {"name": "own-config"}}]}},
            ],
            "containers": [
                {
                    "name": "main",
                    "image": "a:1",
                    "command": ["python3", "-m", "dynamo.trtllm"],
                    "args": ["--model-path", "/cache/acme", "--extra-engine-args", "/config/a.yaml", "--tp-size", "8"],
                    "envFrom": [{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "own-config"}}],
                    "volumeMounts": [
                        {"name": "cache", "mountPath": "/cache", "subPath": "models"},
                        {"name": "config", "mountPath": "/config"},
                    ],
                    "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                    "resources": {"limits": {"nvidia.com/gpu": 4}},
                }
            ],
        }
    },
}


RECIPE = {"served_model": "acme", "repositories": [{"id": "acme/big", "commit": "a" * 40}]}


def test_wrong_types_in_recipes_of_others(tmp_path: Path) -> None:
    directory = tmp_path / "own/trtllm/agg-b200"
    directory.mkdir(parents=True)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own-config"}, "data": {"a.yaml": "a: 1"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "load"}}
    job["spec"] = {"template": {"spec": {"containers": [{"name": "load", "image": "a:1", "args": ["x"]}]}}}
    (tmp_path / "own/model-cache").mkdir()
    options = {**DEFAULTS, "catalog": str(tmp_path), "namespace": "llm", "need_cluster": False}
    options |= {"lint": True, "name": "own/trtllm/agg-b200", "recipe": RECIPE}
    bad, passed = [], 0
    for path, value in [((), None), *mistakes({"worker": OTHERS, "job": job})]:
        made = replaced({"worker": OTHERS, "job": job}, path, value) if path else {"worker": OTHERS, "job": job}
        worker = {"name": "w", "type": "worker", **made["worker"]} if isinstance(made["worker"], dict) else None
        dgd = {"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": "own"}}
        dgd["spec"] = {"components": [worker]}
        (directory / "deploy.yaml").write_text(yaml.safe_dump_all([config, dgd]), "utf-8")
        (tmp_path / "own/model-cache/load.yaml").write_text(yaml.safe_dump(made["job"]), "utf-8")
        try:
            target_info.run(dict(options), Run())
            passed += 1
        except DynamoError as error:
            if not path:
                raise
            if "deploy.yaml" not in str(error) and error.code not in ("BINDING", "NAME_TOO_LONG", "RECIPE_INCOMPLETE"):
                bad.append(f"{path} {value!r}: {error}")
        except Exception as error:
            bad.append(f"{path} {value!r}: {type(error).__name__} {error}")
    assert bad == []
    assert passed > 1


EVERYTHING: dict[str, Any] = {
    **{key: value for key, value in BINDING.items() if key != "name"},
    "labels": {"a": "b"},
    "annotations": {"a": "b"},
    "pull_secrets": ["ngc"],
    "scheduling": {
        "node_selector": {"a": "b"},
        "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            }
        },
        "components": {"workers": {"scheduler_name": "kai", "runtime_class": "nvidia", "priority_class": "high"}},
    },
    "network": {
        "gloo_interface": "eth1",
        "gke_roce": {"default_interface": "eth0", "networks": [{"interface": "eth1", "network": "rdma-0"}], "count": 1},
        "components": {"prefill": {"interface": "eth2"}},
    },
    "cache_volume": {"nfs": {"server": "nfs.example.com", "path": "/models"}},
    "job": {"node_selector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]},
    "image": {"prefill": "registry.example.com/a:1"},
    "image_tag": {"decode": "2"},
    "replicas": {"workers": 2},
    "shared_memory": {"workers": "64Gi"},
    "termination_grace": {"workers": 60},
    "pod_annotations": {"all": {"a": "b"}},
    "env": {"all": {"A": "b", "B": {"secretKeyRef": {"name": "a", "key": "b"}}}},
    "patches": [
        {
            "component": "workers",
            "merge": {"podTemplate": {"spec": {"hostIPC": True, "volumes": [{"name": "x", "emptyDir": {}}]}}},
        },
        {"component": "decode", "json6902": [{"op": "add", "path": "/replicas", "value": 3}]},
        {"merge": {"spec": {"labels": {"a": "b"}, "env": [{"name": "A", "value": "b"}]}}},
        {"merge": {"spec": {"components": [{"name": "Frontend", "podTemplate": {"spec": {"hostIPC": True}}}]}}},
    ],
}


def test_wrong_types_in_the_binding() -> None:
    options = {**DEFAULTS, "catalog": str(RECIPES), "namespace": "llm", "need_cluster": False, "name": TARGET}
    options |= {"lint": False}
    assert target_info.run({**options, "binding": EVERYTHING}, Run())["release"]["unused"] == []
    bad = []
    for path, value in mistakes(EVERYTHING):
        binding = replaced(EVERYTHING, path, value)
        try:
            target_info.run({**options, "binding": binding}, Run())
        except DynamoError as error:
            if not str(error).startswith(f"dynamo_binding.{path[0]}") and error.code != "NAME_TOO_LONG":
                bad.append(f"{path} {value!r}: {error}")
        except Exception as error:
            bad.append(f"{path} {value!r}: {type(error).__name__} {error}")
    assert bad == []
