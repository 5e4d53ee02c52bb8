# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contract of a portable base, mistake by mistake."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _catalog
from ansible_collections.inferops.dynamo.plugins.module_utils._contract import contract, site_values
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import graph, main_container

from .test__catalog import CATALOG, EIGHT, UPSTREAM


@pytest.mark.parametrize("target", EIGHT)
def test_the_catalog_keeps_it(target: str) -> None:
    manifests = _catalog.read(target, CATALOG).manifests
    assert [*contract(manifests), *site_values(manifests)] == []


@pytest.mark.parametrize("framework", ["vllm", "trtllm"])
def test_the_vendors_templates_keep_it(framework: str) -> None:
    path = UPSTREAM / f"yueying-AIHorizon__dynamo/recipes/templates/{framework}/agg/deploy-v1beta1.template.yaml"
    if not path.exists():
        pytest.skip(f"{path.name} of upstream is not there: the contract is not compared with the vendor's template")
    manifests = _catalog.checked(_catalog.load_yaml(str(path)), str(path))
    assert [*contract(manifests), *site_values(manifests)] == []


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("command", ["bash"], "command"),
        ("args", ["-m", "dynamo.sglang"], "start dynamo.sglang, not dynamo.vllm"),
        ("imagePullPolicy", "Always", "imagePullPolicy"),
        ("image", "other:1", "is not an image of vllm-runtime"),
        ("env", [], "env[HF_HUB_OFFLINE]"),
        ("volumeMounts", [], "the first volume and mount"),
        ("securityContext", {"runAsUser": 0, "runAsGroup": 0}, "IPC_LOCK"),
    ],
)
def test_containers(field: str, value: Any, words: str) -> None:
    manifests = copy.deepcopy(_catalog.read(EIGHT[6], CATALOG).manifests)
    main_container(graph(manifests)["spec"]["components"][1])[field] = value
    assert any(words in " ".join(item) for item in contract(manifests))


def test_components_and_frontend() -> None:
    manifests = copy.deepcopy(_catalog.read(EIGHT[6], CATALOG).manifests)
    dgd = graph(manifests)
    dgd["spec"]["components"][1]["name"] = "worker"
    del dgd["spec"]["backendFramework"]
    frontend = dgd["spec"]["components"][0]["podTemplate"]["spec"]
    frontend["volumes"] = [{"name": "c", "persistentVolumeClaim": {"claimName": "c"}}]
    frontend["containers"].insert(0, {"name": "sidecar", "image": "a:1"})
    problems = [problem for _path, problem, _fix in contract(manifests)]
    assert len(problems) == 4
    assert problems[0].startswith("are Frontend (frontend), worker (worker)")
    assert problems[1:] == ["is not set", "main is not the first", "the frontend mounts a claim"]


def test_values_of_a_site() -> None:
    manifests = copy.deepcopy(_catalog.read(EIGHT[6], CATALOG).manifests)
    graph(manifests)["metadata"]["namespace"] = "mine"
    spec = graph(manifests)["spec"]["components"][1]["podTemplate"]["spec"]
    spec["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
    main = spec["containers"][0]
    main["resources"]["limits"]["rdma/ib"] = "1"
    main["startupProbe"] = {}
    found = list(site_values(manifests))
    assert [severity for severity, *_rest in found] == ["WARN", "FAIL", "WARN", "WARN"]
