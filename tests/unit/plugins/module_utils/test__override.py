# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Overrides that are newer than test__bind.py: tags, labels, startup budget, patches."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _bind
from ansible_collections.inferops.dynamo.plugins.module_utils._binding import normalise
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import main_container

from .test__bind import AGG, DISAGG, SGLANG, base, bound, component, env, graph

TEST = {"op": "test", "path": "/podTemplate/spec/containers/0/name", "value": "main"}
ENV = "/podTemplate/spec/containers/0/env/-"


def test_a_component_named_like_its_type_is_patched_once() -> None:
    """So it is in the vendor's recipes: prefill and decode."""
    manifests = base(SGLANG)
    worker = next(c for c in graph(manifests)["spec"]["components"] if c["name"] == "Worker")
    worker["name"] = "worker"
    patch = {
        "component": "worker",
        "json6902": [TEST, {"op": "add", "path": ENV, "value": {"name": "A", "value": "b"}}],
    }
    bound, _unused = _bind.bind(manifests, normalise({"patches": [patch]}), _bind.Site(namespace="llm"))
    names = [entry["name"] for entry in main_container(component(bound, "worker"))["env"]]
    assert names.count("A") == 1


def test_the_same_amount_as_number_and_text_is_equal() -> None:
    amounts = {"requests": {"nvidia.com/gpu": 4, "rdma/ib": "1"}, "limits": {"nvidia.com/gpu": "4", "rdma/ib": 1}}
    manifests = base(SGLANG)
    main_container(component(manifests, "Worker"))["resources"] = amounts
    made, _unused = _bind.bind(manifests, normalise({}), _bind.Site(namespace="llm"))
    assert main_container(component(made, "Worker"))["resources"] == amounts


@pytest.mark.parametrize(
    "patch",
    [
        {"merge": {"spec": None}},
        {"merge": {"spec": "x"}},
        {"json6902": [{"op": "replace", "path": "/spec/components", "value": 5}]},
        {"json6902": [{"op": "replace", "path": "/spec/components", "value": ["x"]}]},
    ],
)
def test_a_patch_that_leaves_no_components_is_refused(patch: dict[str, Any]) -> None:
    with pytest.raises(DynamoError, match=r"dynamo_binding.patches\[0\]"):
        bound(SGLANG, {"patches": [patch]})


@pytest.mark.parametrize(
    ("image", "tag", "result"),
    [
        ("mirror:5000/a/b:1", "2", "mirror:5000/a/b:2"),
        ("mirror:5000/a/b@sha256:" + "0" * 64, "2", "mirror:5000/a/b:2"),
        ("b", "2@sha256:" + "1" * 64, "b:2@sha256:" + "1" * 64),
    ],
)
def test_image_tag(image: str, tag: str, result: str) -> None:
    manifests = bound(SGLANG, {"image": {"Worker": image}, "image_tag": {"Worker": tag}})
    assert main_container(component(manifests, "Worker"))["image"] == result


def test_startup_failures_and_pod_labels() -> None:
    manifests = bound(DISAGG, {"startup_failures": {"all": 1440, "decode": 60}, "pod_labels": {"all": {"team": "a"}}})
    probes = [main_container(component(manifests, name))["startupProbe"] for name in ("PrefillWorker", "DecodeWorker")]
    assert [probe["failureThreshold"] for probe in probes] == [1440, 60]
    assert probes[0]["httpGet"] == {"path": "/live", "port": "system"}
    frontend = component(manifests, "Frontend")
    assert "startupProbe" not in main_container(frontend)
    assert frontend["podTemplate"]["metadata"]["labels"] == {"team": "a"}


def test_compute_domain() -> None:
    manifests = bound(AGG, {"compute_domain": "rack-7"})
    domain = next(m for m in manifests if m["kind"] == "ComputeDomain")
    assert domain["metadata"]["name"] == "rack-7"
    claim = component(manifests, "Worker")["podTemplate"]["spec"]["resourceClaims"][0]
    assert claim["resourceClaimTemplateName"] == "rack-7-channel"
    assert domain["spec"]["channel"]["resourceClaimTemplate"]["name"] == "rack-7-channel"


def test_patches_come_last_and_by_component() -> None:
    patches: list[dict[str, Any]] = [
        {"component": "workers", "merge": {"podTemplate": {"spec": {"hostIPC": True}}}},
        {
            "component": "DecodeWorker",
            "json6902": [TEST, {"op": "add", "path": ENV, "value": {"name": "Z", "value": "1"}}],
        },
        {"merge": {"spec": {"env": [{"name": "ALL", "value": "1"}]}}},
        {"json6902": [{"op": "add", "path": "/spec/labels", "value": {"a": "b"}}]},
    ]
    manifests = bound(DISAGG, {"env": {"decode": {"Y": "0"}}, "patches": patches})
    assert [component(manifests, n)["podTemplate"]["spec"]["hostIPC"] for n in ("PrefillWorker", "DecodeWorker")]
    assert list(env(manifests, "DecodeWorker"))[-2:] == ["Y", "Z"]
    assert "Z" not in env(manifests, "PrefillWorker")
    assert graph(manifests)["spec"]["env"] == [{"name": "ALL", "value": "1"}]
    assert graph(manifests)["spec"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("binding", "words"),
    [
        ({"replicas": {"worker": 0}}, "dynamo_binding.replicas.worker: must be a whole number from 1, found 0"),
        ({"replicas": {"all": 0}}, "dynamo_binding.replicas.all: must be a whole number from 1, found 0"),
        ({"image": {"all": "Bad Image:::"}}, "dynamo_binding.image.all: must be an image such as registry.example.com"),
        (
            {"pod_labels": {"all": {"a b": "c"}}},
            "dynamo_binding.pod_labels.all: the key 'a b' must be a Kubernetes key",
        ),
        ({"pod_labels": {"all": {"a": "b!"}}}, "dynamo_binding.pod_labels.all.a: must be a label value"),
        ({"pod_annotations": {"all": {"a b": "c"}}}, "dynamo_binding.pod_annotations.all: the key 'a b' must be"),
        ({"env": {"all": {"A": {"secretKeyRef": {"name": "x"}}}}}, "env.all.A.secretKeyRef.key: must be there"),
        (
            {"resources": {"worker": {"requests": {"cpu": 4}, "limits": {"cpu": "500m"}}}},
            "resources.Worker: cpu has request 4 and limit 500m; a request may not be above its limit",
        ),
        ({"resources": {"worker": {"limits": {"a b": 1}}}}, "resources.worker.limits: the key 'a b' must be"),
        ({"patches": [{"merge": {"spec": {"labels": {"a": "b c"}}}}]}, "patches[0]: spec.labels.a: must be a label"),
        (
            {"patches": [{"component": "Worker", "merge": {"replicas": 0}}]},
            "dynamo_binding.replicas.Worker: must be a whole number from 1, found 0",
        ),
        ({"image_tag": {"Worker": "a b"}}, "dynamo_binding.image_tag.Worker: 'a b' is no tag"),
        (
            {"resources": {"worker": {"requests": {"cpu": "lots"}}}},
            "resources.worker.requests.cpu: 'lots' must be an amount",
        ),
        ({"resources": {"worker": {"limits": {"memory": "-1Gi"}}}}, "resources.worker.limits.memory: '-1Gi' must be"),
        (
            {"resources": {"worker": {"limits": {"nvidia.com/gpu": "0.5"}}}},
            "nvidia.com/gpu: '0.5' must be a whole number",
        ),
        ({"shared_memory": {"worker": "lots"}}, "dynamo_binding.shared_memory.worker: 'lots' must be an amount"),
        ({"startup_failures": {"frontend": 1}}, "dynamo_binding.startup_failures.frontend: only workers"),
        ({"startup_failures": {"worker": 0}}, "must be a whole number from 1, found 0"),
        (
            {"patches": [{"component": "decode", "merge": {"x": 1}}]},
            "dynamo_binding.patches[0].decode: no such component",
        ),
        ({"patches": [{"merge": {"metadata": {"name": "x"}}}]}, "patches[0].merge: without component only spec"),
        ({"patches": [{"json6902": [{"op": "remove", "path": "/metadata/name"}]}]}, "begins with /spec/"),
        ({"patches": [{"component": "all", "merge": {"name": "x"}}]}, "may not add, remove, rename or move components"),
        ({"patches": [{"merge": {"spec": {"components": None}}}]}, "may not add, remove, rename or move components"),
        ({"patches": [{"component": "all", "merge": {"podTemplate": None}}]}, "podTemplate: must be there"),
        (
            {"patches": [{"component": "all", "merge": {"podTemplate": {"metadata": {"a": "http://u:p@h"}}}}]},
            "patches[0].merge.podTemplate.metadata.a: holds a URL with a user name",
        ),
        (
            {"patches": [{"component": "Worker", "json6902": [TEST, {**TEST, "op": "replace", "value": 1}]}]},
            "patches[0]: component Worker: podTemplate.spec.containers[0].name: must be a text, found 1",
        ),
    ],
)
def test_refused(binding: dict[str, Any], words: str) -> None:
    with pytest.raises(DynamoError) as error:
        bound(SGLANG, binding)
    assert error.value.code == "BINDING"
    assert words in str(error.value)


def test_selectors_follow_the_name() -> None:
    """Anti-affinity that looks for the old name keeps nothing apart, and affinity leaves the pods Pending."""
    label = "nvidia.com/dynamo-graph-deployment-name"
    manifests = base(SGLANG)
    old = graph(manifests)["metadata"]["name"]
    pod = component(manifests, "Worker")["podTemplate"]["spec"]
    pod["topologySpreadConstraints"] = [{"labelSelector": {"matchLabels": {label: old}}}]
    term = {"labelSelector": {"matchExpressions": [{"key": label, "operator": "In", "values": [old, "another"]}]}}
    pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made, _unused = _bind.bind(manifests, normalise({"name": "prod"}), _bind.Site(namespace="llm"))
    text = json.dumps(component(made, "Worker")["podTemplate"]["spec"])
    assert f'"{label}": "prod"' in text and '["prod", "another"]' in text
