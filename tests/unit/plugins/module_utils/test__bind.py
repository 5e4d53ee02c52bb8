# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Binding: all eight targets, every key, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _bind, _catalog
from ansible_collections.inferops.dynamo.plugins.module_utils._binding import normalise
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import (
    graph,
    main_container,
    mirrored,
    workers_of,
)

from .test__catalog import CATALOG, EIGHT, UPSTREAM

SGLANG, TRTLLM, AGG, DISAGG = EIGHT[1], EIGHT[3], EIGHT[6], EIGHT[7]
SURGE = "nvidia.com/deployment-rolling-update-max-surge"
HEX = "0123456789abcdef0123456789abcdef01234567"


def base(target: str) -> list[dict[str, Any]]:
    return _catalog.read(target, CATALOG).manifests


def bound(target: str, binding: dict[str, Any] | None = None, **site: Any) -> list[dict[str, Any]]:
    manifests, _unused = _bind.bind(base(target), normalise(binding or {}), _bind.Site(**{"namespace": "llm", **site}))
    return manifests


def component(manifests: list[dict[str, Any]], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in graph(manifests)["spec"]["components"] if c["name"] == name)
    return found


def env(manifests: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in main_container(component(manifests, name))["env"]}


@pytest.mark.parametrize("target", EIGHT)
def test_nothing_but_our_own_is_added(target: str) -> None:
    before = base(target)
    kept = copy.deepcopy(before)
    manifests, unused = _bind.bind(
        before, normalise({}), _bind.Site(namespace="llm", surge_room=True, component_pathway=False)
    )
    assert before == kept, "the recipe was changed"
    assert unused == []
    for old, new in zip(kept, manifests, strict=True):
        assert new["metadata"]["namespace"] == "llm"
        assert new["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "inferops.dynamo"
        assert new["metadata"]["labels"]["inferops.dynamo/release"] == graph(kept)["metadata"]["name"]
        if old["kind"] == "ConfigMap":
            assert new["metadata"]["name"][:-9] == old["metadata"]["name"]
            assert (new["immutable"], new["data"]) == (True, old["data"])
        elif old["kind"] == "ComputeDomain":
            assert new["spec"] == old["spec"]
        else:
            renamed = next((m["metadata"]["name"] for m in manifests if m["kind"] == "ConfigMap"), "")
            assert str(new["spec"]).replace(renamed, renamed[:-9]) == str(old["spec"])


@pytest.mark.parametrize("target", EIGHT)
@pytest.mark.parametrize("room", [True, False])
def test_surge_and_pathway(target: str, room: bool) -> None:
    manifests = bound(target, surge_room=room)
    assert graph(manifests)["metadata"]["annotations"] == {"nvidia.com/enable-grove": "false"}
    for worker in workers_of(graph(manifests)):
        annotations = worker["podTemplate"].get("metadata", {}).get("annotations", {})
        assert annotations.get(SURGE) == (None if room else "0")
        assert annotations.get("nvidia.com/deployment-rolling-update-max-unavailable") == (None if room else "1")
    assert "metadata" not in component(manifests, "Frontend")["podTemplate"]


def test_liveness_and_health_check() -> None:
    probe = {"httpGet": {"path": "/live", "port": "system"}, "periodSeconds": 10}
    manifests = bound(TRTLLM, liveness=probe, health_check=False)
    assert main_container(component(manifests, "Worker"))["livenessProbe"] == probe
    assert "livenessProbe" not in main_container(component(manifests, "Frontend"))
    assert env(manifests, "Worker")["DYN_HEALTH_CHECK_ENABLED"] == "false"
    assert "DYN_HEALTH_CHECK_ENABLED" not in env(bound(TRTLLM), "Worker")
    chosen = bound(TRTLLM, {"env": {"workers": {"DYN_HEALTH_CHECK_ENABLED": "true"}}}, health_check=False)
    assert env(chosen, "Worker")["DYN_HEALTH_CHECK_ENABLED"] == "true"


def test_facts_give_what_the_starter_gives() -> None:
    near: dict[str, Any] = {"preferredDuringSchedulingIgnoredDuringExecution": []}
    manifests = bound(
        DISAGG,
        {
            "pull_secrets": ["ngc"],
            "scheduling": {
                "scheduler_name": "kai",
                "runtime_class": "nvidia",
                "components": {"workers": {"node_selector": {"pool": "gpu"}, "affinity": {"nodeAffinity": near}}},
            },
            "network": {"interface": "eth0", "rdma_resource": "rdma/ib", "rdma_count": 4},
            "placement": {"topology_key": "nvidia.com/gpu.clique"},
        },
        claim="models",
    )
    for name in ("Frontend", "PrefillWorker", "DecodeWorker"):
        spec = component(manifests, name)["podTemplate"]["spec"]
        assert spec["imagePullSecrets"] == [{"name": "ngc"}]
        assert (spec["schedulerName"], spec["runtimeClassName"]) == ("kai", "nvidia")
        assert ("nodeSelector" in spec) == (name != "Frontend")
    for worker in workers_of(graph(manifests)):
        spec, main = worker["podTemplate"]["spec"], main_container(worker)
        assert spec["volumes"][0]["persistentVolumeClaim"]["claimName"] == "models"
        assert [e["name"] for e in main["env"][:3]] == [
            "NCCL_SOCKET_IFNAME",
            "GLOO_SOCKET_IFNAME",
            "KV_TRANSFER_CONFIG",
        ]
        assert main["resources"]["requests"]["rdma/ib"] == main["resources"]["limits"]["rdma/ib"] == "4"
        assert spec["affinity"]["nodeAffinity"] == near
        assert spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == [
            {
                "topologyKey": "nvidia.com/gpu.clique",
                "matchLabelKeys": ["nvidia.com/dynamo-graph-deployment-name"],
                "labelSelector": {
                    "matchExpressions": [
                        {"key": "nvidia.com/dynamo-component-type", "operator": "In", "values": ["prefill", "decode"]}
                    ]
                },
            }
        ]


def test_overrides_go_from_general_to_exact() -> None:
    manifests = bound(
        DISAGG,
        {
            "env": {
                "DecodeWorker": {"A": "name"},
                "decode": {"A": "type", "B": 2},
                "all": {"A": "all", "HF_HUB_OFFLINE": "0"},
            },
            "replicas": {"workers": 1, "prefill": "2"},
            "resources": {"workers": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": None}}},
            "image": {"frontend": "mirror/frontend:1.6.0"},
            "shared_memory": {"workers": "1Gi"},
            "termination_grace": {"workers": 5},
            "pod_annotations": {"workers": {"k8s.v1.cni.cncf.io/networks": "rail0"}},
            "labels": {"team": "a"},
            "annotations": {"nvidia.com/kai-scheduler-queue": "b"},
        },
    )
    assert env(manifests, "DecodeWorker")["A"] == "name"
    assert env(manifests, "DecodeWorker")["B"] == "2"
    assert env(manifests, "PrefillWorker")["A"] == "all"
    assert [e["name"] for e in main_container(component(manifests, "Frontend"))["env"]].count("HF_HUB_OFFLINE") == 1
    assert (component(manifests, "PrefillWorker")["replicas"], component(manifests, "DecodeWorker")["replicas"]) == (
        2,
        1,
    )
    assert main_container(component(manifests, "PrefillWorker"))["resources"] == {
        "claims": [{"name": "compute-domain-channel"}],
        "requests": {"cpu": "100m", "memory": "64Mi", "nvidia.com/gpu": "4"},
        "limits": {"memory": "512Gi", "nvidia.com/gpu": "4"},
    }
    assert main_container(component(manifests, "Frontend"))["image"] == "mirror/frontend:1.6.0"
    worker = component(manifests, "DecodeWorker")
    assert (worker["sharedMemorySize"], worker["podTemplate"]["spec"]["terminationGracePeriodSeconds"]) == ("1Gi", 5)
    assert worker["podTemplate"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "rail0"
    assert all(m["metadata"]["labels"]["team"] == "a" for m in manifests)
    assert graph(manifests)["metadata"]["annotations"]["nvidia.com/kai-scheduler-queue"] == "b"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.0", "mirror.test/n/nvidia/ai-dynamo/vllm-runtime:1.6.0"),
        ("nvcr.io/a/b@sha256:00", "mirror.test/n/a/b@sha256:00"),
        ("localhost:5000/b:1", "mirror.test/n/b:1"),
        ("python:3.12-slim", "mirror.test/n/python:3.12-slim"),
        ("library/python", "mirror.test/n/library/python"),
    ],
)
def test_mirror(image: str, expected: str) -> None:
    assert mirrored(image, "mirror.test/n/") == expected


def test_rename_reaches_every_object_and_reference() -> None:
    manifests = bound(DISAGG, {"name": "m3-canary"})
    text = str(manifests).replace("gb200-agentic-bench", "")
    assert "minimax-m3-disagg-gb200-agentic" not in text
    config, domain, dgd = manifests
    assert config["metadata"]["name"].startswith("m3-canary-config-")
    assert domain["spec"]["channel"]["resourceClaimTemplate"]["name"] == "m3-canary-cd-channel"
    assert dgd["metadata"]["labels"]["app.kubernetes.io/name"] == "m3-canary"
    assert env(manifests, "DecodeWorker")["SPECULATIVE_CONFIG"]["configMapKeyRef"]["name"] == config["metadata"]["name"]
    worker = component(manifests, "PrefillWorker")
    assert worker["podTemplate"]["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == "m3-canary-cd-channel"


@pytest.mark.parametrize(("target", "limit"), [(SGLANG, 47), (DISAGG, 40)])
def test_name_length(target: str, limit: int) -> None:
    assert graph(bound(target, {"name": "a" * limit}))["metadata"]["name"] == "a" * limit
    with pytest.raises(DynamoError, match=rf"at most {limit} fit") as error:
        bound(target, {"name": "a" * (limit + 1)})
    assert error.value.code == "NAME_TOO_LONG"


def test_references_to_config_maps_are_rewritten_everywhere() -> None:
    manifests = base(TRTLLM)
    name = manifests[0]["metadata"]["name"]
    main = main_container(component(manifests, "Worker"))
    main["envFrom"] = [{"configMapRef": {"name": name}}, {"configMapRef": {"name": "foreign"}}]
    component(manifests, "Worker")["podTemplate"]["spec"]["volumes"].append(
        {"name": "p", "projected": {"sources": [{"configMap": {"name": name}}]}}
    )
    result, _unused = _bind.bind(manifests, normalise({}), _bind.Site(namespace="llm"))
    new = result[0]["metadata"]["name"]
    assert str(result[-1]).count(f"'{new}'") == 3
    assert f"'{name}'" not in str(result[-1])
    assert "'foreign'" in str(result[-1])
    manifests[0]["data"]["agg.yaml"] += "# changed"
    changed, _unused = _bind.bind(manifests, normalise({}), _bind.Site(namespace="llm"))
    assert changed[0]["metadata"]["name"] != new


def test_text_in_braces_is_left_alone() -> None:
    manifests = base(SGLANG)
    main_container(component(manifests, "Worker"))["args"].append("{{ lookup('env', 'HOME') }}")
    result, _unused = _bind.bind(manifests, normalise({"env": {"all": {"A": "{{ b }}"}}}), _bind.Site(namespace="llm"))
    assert main_container(component(result, "Worker"))["args"][-1] == "{{ lookup('env', 'HOME') }}"
    assert env(result, "Worker")["A"] == "{{ b }}"


def test_facts_without_a_place_are_listed() -> None:
    manifests = base(SGLANG)
    del component(manifests, "Worker")["podTemplate"]["spec"]["volumes"]
    component(manifests, "Worker")["multinode"] = {"nodeCount": 2}
    result, unused = _bind.bind(manifests, normalise({}), _bind.Site(namespace="llm"))
    assert [item.partition(":")[0] for item in unused] == ["dynamo_cache_claim", "dynamo_pathway"]
    assert "annotations" not in graph(result)["metadata"]
    del graph(manifests)["spec"]["components"][1]
    binding = normalise({"network": {"interface": "e"}, "placement": {"topology_key": "k"}})
    _result, unused = _bind.bind(manifests, binding, _bind.Site(namespace="llm"))
    assert [item.partition(":")[0] for item in unused][1:] == ["dynamo_binding.network", "dynamo_binding.placement"]


@pytest.mark.parametrize(
    ("binding", "words"),
    [
        (
            {"env": {"decode": {"A": "b"}}},
            "dynamo_binding.env.decode: no such component in this recipe; it has Frontend",
        ),
        ({"replicas": {"worker": "many"}}, "dynamo_binding.replicas.worker: must be a whole number"),
        ({"replicas": {"worker": True}}, "dynamo_binding.replicas.worker"),
        ({"resources": {"worker": {"cpu": 1}}}, "dynamo_binding.resources.worker: must be a dictionary with requests"),
        ({"resources": {"worker": {"limits": {"nvidia.com/gpu": 2}}}}, "nvidia.com/gpu has request 4 and limit 2"),
        ({"resources": {"worker": {"limits": 3}}}, "dynamo_binding.resources.worker.limits"),
        ({"scheduling": {"components": {"epp": {}}}}, "dynamo_binding.scheduling.components.epp: no such component"),
        ({"pod_annotations": {"all": ["a"]}}, "dynamo_binding.pod_annotations.all: must be a dictionary"),
    ],
)
def test_overrides_that_fit_nothing(binding: dict[str, Any], words: str) -> None:
    with pytest.raises(DynamoError) as error:
        bound(SGLANG, binding)
    assert error.value.code == "BINDING"
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("target", EIGHT)
def test_bound_manifests_are_valid(target: str) -> None:
    """Against the vendor's own schema; unknown fields are refused as server-side apply refuses them."""
    jsonschema = pytest.importorskip("jsonschema")
    crd = UPSTREAM / "wxsms__dynamo/deploy/operator/config/crd/bases/nvidia.com_dynamographdeployments.yaml"
    if not crd.exists():
        pytest.skip("the vendor's CRD is not there: manifests are not checked against it")
    versions = _catalog.load_yaml(str(crd))[0]["spec"]["versions"]
    schema = strict(next(v for v in versions if v["name"] == "v1beta1")["schema"]["openAPIV3Schema"])
    binding = {
        "network": {"interface": "eth0", "rdma_resource": "rdma/ib", "rdma_count": 1},
        "placement": {"topology_key": "k"},
        "pull_secrets": ["ngc"],
        "scheduling": {"tolerations": [{"key": "a", "operator": "Exists"}], "priority_class": "high"},
        "termination_grace": {"workers": 30},
    }
    probe = _catalog.read(target, CATALOG).meta["worker_liveness"]
    manifests = bound(target, binding, liveness=probe, health_check=False)
    validator = jsonschema.Draft202012Validator(schema)
    unknown = copy.deepcopy(graph(manifests))
    main_container(unknown["spec"]["components"][1])["wibble"] = 1
    assert not validator.is_valid(unknown)
    errors = list(validator.iter_errors(graph(manifests)))
    assert [f"{list(error.path)}: {error.message[:200]}" for error in errors] == []


def strict(schema: Any) -> Any:
    """A CRD schema as JSON schema: unlisted properties refused, int-or-string understood."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: strict(item) for key, item in schema.items()}
    if schema.get("x-kubernetes-int-or-string") is True:
        return {"type": ["integer", "string"]}
    if (
        isinstance(schema.get("properties"), dict)
        and schema.get("type") == "object"
        and "name" not in schema.get("format", "")
    ):
        open_ended = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
        # metadata is checked by the API itself and has no properties in a CRD
        result.setdefault("additionalProperties", bool(open_ended))
    return result


def release(target: str) -> dict[str, Any]:
    """The parts of a release that pin() works on."""
    recipe = _catalog.read(target, CATALOG)
    models = [
        {
            "id": repository["id"],
            "commit": repository["commit"],
            "layout": repository["layout"],
            "path": f"/shared-model-cache/MiniMax-M3.1-Flash/{_bind.placeholder(repository['id'])}"
            if repository["layout"] == "folder"
            else "/shared-model-cache",
            "recipe_path": "/shared-model-cache/MiniMax-M3.1-Flash",
        }
        for repository in recipe.meta["repositories"]
    ]
    manifests, _unused = _bind.bind(recipe.manifests, {}, _bind.Site(namespace="llm", models=tuple(models)))
    return {
        "models": models,
        "config_maps": [m for m in manifests if m["kind"] == "ConfigMap"],
        "manifest": graph(manifests),
        "compute_domain": None,
        "digest": "",
    }


@pytest.mark.parametrize("target", EIGHT[:6])
def test_pin_a_folder(target: str) -> None:
    unpinned = release(target)
    kept = copy.deepcopy(unpinned)
    repository = unpinned["models"][0]["id"]
    folder = "/shared-model-cache/MiniMax-M3.1-Flash"
    assert env([unpinned["manifest"]], "Worker")["MODEL_NAME"] == f"{folder}/@commit:{repository}@"
    pinned = _bind.pin(unpinned, {repository: HEX})
    assert unpinned == kept
    assert pinned["models"][0]["path"] == f"{folder}/0123456789ab"
    assert pinned["models"][0]["commit"] == HEX
    assert env([pinned["manifest"]], "Worker")["MODEL_NAME"] == f"{folder}/0123456789ab"
    assert "@commit:" not in str(pinned["manifest"])
    other = _bind.pin(pinned, {repository: "f" * 40})
    assert env([other["manifest"]], "Worker")["MODEL_NAME"] == f"{folder}/{'f' * 12}"
    assert other["digest"] != pinned["digest"]
    assert _bind.pin(pinned, {repository: HEX}) == _bind.pin(pinned, {}) == pinned


def test_pin_a_hub_layout_also_in_config_maps() -> None:
    unpinned = release(DISAGG)
    model, draft = (item["id"] for item in unpinned["models"])
    pinned = _bind.pin(unpinned, {model: HEX, draft: "e" * 40})
    for worker in workers_of(pinned["manifest"]):
        args = main_container(worker)["args"]
        assert args[args.index("--revision") + 1] == HEX
    assert pinned["config_maps"][0]["data"]["speculative-config"].count("e" * 40) == 1
    name = pinned["config_maps"][0]["metadata"]["name"]
    assert name != unpinned["config_maps"][0]["metadata"]["name"]
    assert name[:-9] == unpinned["config_maps"][0]["metadata"]["name"][:-9]
    assert env([pinned["manifest"]], "DecodeWorker")["SPECULATIVE_CONFIG"]["configMapKeyRef"]["name"] == name
    back = _bind.pin(pinned, {item["id"]: item["commit"] for item in unpinned["models"]})
    assert back["manifest"] == unpinned["manifest"]


def test_an_unpinned_revision_of_the_hub_gets_a_place() -> None:
    manifests = base(AGG)
    args = main_container(component(manifests, "Worker"))["args"]
    args[args.index("--revision") + 1] = "main"
    model = {"id": "nvidia/MiniMax-M3-NVFP4", "commit": "", "layout": "hub", "path": "/m"}
    result, _unused = _bind.bind(manifests, {}, _bind.Site(namespace="llm", models=(model,)))
    assert "@commit:nvidia/MiniMax-M3-NVFP4@" in main_container(component(result, "Worker"))["args"]


@pytest.mark.parametrize(
    "commits", [{"a/b": HEX}, {"MiniMaxAI/MiniMax-M3.1-Flash": "main"}, {"MiniMaxAI/MiniMax-M3.1-Flash": HEX[:12]}]
)
def test_pin_refuses(commits: dict[str, str]) -> None:
    with pytest.raises(DynamoError, match="dynamo_model_commit"):
        _bind.pin(release(SGLANG), commits)
