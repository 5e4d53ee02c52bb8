# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unknown fields; the list of known ones against the vendor's CRD."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _catalog, _fields

from .test__catalog import CATALOG, EIGHT, UPSTREAM

PATHS = [
    "metadata.owner",
    "spec.replica",
    "spec.components[Worker].gpus",
    "spec.components[Worker].podTemplate.labels",
    "spec.components[Worker].podTemplate.spec.containers[main].env[A].vlaue",
    "spec.components[Worker].podTemplate.spec.containers[main].livenessProbe.httpGet.prot",
    "spec.components[Worker].podTemplate.spec.volumes[v].pvc",
]


def test_unknown_fields() -> None:
    main = {
        "name": "main",
        "env": [{"name": "A", "vlaue": "b"}],
        "livenessProbe": {"httpGet": {"prot": 1}},
        "resources": {"limits": {"any/thing": "1"}},
    }
    pod = {
        "labels": {},
        "metadata": {"annotations": {"x/y": "z"}},
        "spec": {"containers": [main], "volumes": [{"name": "v", "pvc": 1}]},
    }
    worker = {"name": "Worker", "gpus": 1, "podTemplate": pod, "eppConfig": {"free": 1}, "modelRef": {"name": "m"}}
    dgd = {"apiVersion": "a", "kind": "k", "metadata": {"owner": 1}, "spec": {"replica": 1, "components": [worker]}}
    assert sorted(_fields.unknown_fields(dgd)) == sorted(PATHS)


@pytest.mark.parametrize("target", EIGHT)
def test_recipes_have_none(target: str) -> None:
    for manifest in _catalog.read(target, CATALOG).manifests:
        assert _fields.unknown_fields(manifest) == []


def test_what_is_beside_the_deployment() -> None:
    template = {"name": "t", "nmae": "t"}
    domain = {"kind": "ComputeDomain", "spec": {"numNode": 1, "channel": {"resourceClaimTemplate": template}}}
    assert _fields.unknown_fields(domain) == ["spec.numNode", "spec.channel.resourceClaimTemplate.nmae"]
    config = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"any": "thing"}, "datas": {}}
    assert _fields.unknown_fields(config) == ["datas"]


def test_the_list_of_a_compute_domain_is_the_vendors() -> None:
    helm = "kubernetes-sigs__dra-driver-nvidia-gpu/deployments/helm/dra-driver-nvidia-gpu"
    path = UPSTREAM / helm / "crds/resource.nvidia.com_computedomains.yaml"
    if not path.exists():
        pytest.skip("the vendor's CRD is not there: the list of fields is not compared with it")
    schema = _catalog.load_yaml(str(path))[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    ours = _fields.SCHEMAS["ComputeDomain"]["spec"]
    theirs = schema["spec"]["properties"]
    assert (ours.keys(), ours["channel"].keys()) == (theirs.keys(), theirs["channel"]["properties"].keys())


def test_without_the_client_pod_templates_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fields, "models", None)
    dgd = {"spec": {"components": [{"name": "W", "gpus": 1, "podTemplate": {"x": 1}}]}}
    assert _fields.unknown_fields(dgd) == ["spec.components[W].gpus"]


def test_the_list_is_the_vendors() -> None:
    path = UPSTREAM / "wxsms__dynamo/deploy/operator/config/crd/bases/nvidia.com_dynamographdeployments.yaml"
    if not path.exists():
        pytest.skip("the vendor's CRD is not there: the list of fields is not compared with it")
    versions = _catalog.load_yaml(str(path))[0]["spec"]["versions"]
    schema = next(v for v in versions if v["name"] == "v1beta1")["schema"]["openAPIV3Schema"]

    def same(ours: Any, theirs: dict[str, Any], where: str) -> None:
        if isinstance(ours, list) and not isinstance(ours[0], str):
            same(ours[0], theirs["items"], where)
        elif isinstance(ours, dict):
            assert sorted(ours) == sorted(theirs["properties"]), where
            for key, value in ours.items():
                same(value, theirs["properties"][key], f"{where}.{key}")

    same(_fields.SCHEMA, schema, "")
