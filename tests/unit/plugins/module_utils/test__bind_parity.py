# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same choices, once as a binding and once as a filled starter built by kustomize, give the same manifests."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _bind, _catalog
from ansible_collections.inferops.dynamo.plugins.module_utils._binding import normalise
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import graph

from .starter import COMPONENTS, ROCE, ROLES, build, fill, needs_kustomize, patch_of
from .test__catalog import CATALOG, EIGHT, UPSTREAM

AGG, DISAGG = (
    UPSTREAM / f"karya0__dynamo/recipes/minimax-m3/vllm/{topology}-gb200-agentic/deploy.yaml"
    for topology in ("agg", "disagg")
)
TEMPLATES = [
    UPSTREAM / f"yueying-AIHorizon__dynamo/recipes/templates/{framework}/agg/deploy-v1beta1.template.yaml"
    for framework in ("vllm", "trtllm")
]
BASES = [AGG, DISAGG, *TEMPLATES, *(Path(CATALOG[target]) / "deploy.yaml" for target in EIGHT)]
ROCE_NETWORKS = [{"interface": f"eth{n + 2}", "network": f"rdma-{n}"} for n in range(4)]


def scheduling(role: str) -> dict[str, Any]:
    term = {"key": "pool", "operator": "In", "values": [f"{role}-nodes"]}
    terms = [{"matchExpressions": [term]}]
    return {
        "node_selector": {"pool": f"{role}-nodes"},
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Equal", "value": f"{role}-only", "effect": "NoSchedule"}
        ],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
        "scheduler_name": "kai-scheduler",
        "runtime_class": "nvidia",
        "priority_class": "serving",
    }


def choice(component: str, topology: str) -> dict[str, Any]:
    """The binding for what a Component of the starter does when it is filled as in starter.FILLED."""
    roles = [role for role in ROLES if (role == "worker") == (topology == "agg") or role == "frontend"]
    devices = {role: {"infiniband": {"devices": f"mlx5_{role}:1"}} for role in roles if role != "frontend"}
    choices: dict[str, dict[str, Any]] = {
        "cache-binding": {},  # the claim is no part of the binding
        "registry-credentials": {"pull_secrets": ["ngc"]},
        "probes": {"startup_failures": {"workers": 1440}},
        "scheduling": {"scheduling": {"components": {role: scheduling(role) for role in roles}}},
        "network-interface": {"network": {"interface": "eth0", "rdma_resource": "rdma/ib", "rdma_count": 4}},
        "provider-networking/ib": {
            "network": {
                "interface": "eth0",
                "gloo_interface": "eth1",
                "rdma_resource": "rdma/ib",
                "rdma_count": 4,
                "components": devices,
            }
        },
        ROCE: {
            "network": {
                "interface": "eth0",
                "gloo_interface": "eth1",
                "gke_roce": {"default_interface": "eth0", "networks": ROCE_NETWORKS, "cross_nic": "0"},
            }
        },
        "placement": {"placement": {"topology_key": "nvidia.com/gpu.clique"}},
    }
    return choices[component]


def bound(base: Path, binding: dict[str, Any], **site: Any) -> dict[tuple[str, str], Any]:
    """What bind makes of a base, without what is ours: namespace, labels, the hash in names of ConfigMaps."""
    source = _catalog.checked(_catalog.load_yaml(str(base)), str(base))
    facts = _bind.Site(**{"namespace": "llm", "surge_room": True, "component_pathway": False, **site})
    manifests, unused = _bind.bind(source, normalise(binding), facts)
    assert unused == []
    renamed = {m["metadata"]["name"]: m["metadata"]["name"][:-9] for m in manifests if m["kind"] == "ConfigMap"}
    _bind.refer(graph(manifests)["spec"], renamed)
    for before, manifest in zip(source, manifests, strict=True):
        manifest.pop("immutable", None)
        manifest["metadata"] = before["metadata"]
    return {(m["kind"], m["metadata"]["name"]): m for m in manifests}


def topology_of(base: Path) -> str:
    return "disagg" if "PrefillWorker" in base.read_text("utf-8") else "agg"


def usable(base: Path) -> None:
    needs_kustomize()
    if not base.exists():
        pytest.skip(f"{base.name} of upstream is not there: {base.parent.name} is not compared with kustomize")


def same(base: Path, chosen: tuple[str, ...], directory: Path) -> None:
    usable(base)
    topology = topology_of(base)
    binding: dict[str, Any] = {}
    for component in chosen:
        binding |= choice(component, topology)
    ours = bound(base, binding, **({"claim": "models"} if "cache-binding" in chosen else {}))
    assert ours == build(fill(directory, base, topology, dict.fromkeys(chosen)))


SINGLE = [
    (base, (component,))
    for base in (AGG, DISAGG)
    for component in COMPONENTS
    if component != "placement" and (base is DISAGG or not component.startswith("provider"))
]
COMBINED = [
    (AGG, ("scheduling", "placement")),
    (DISAGG, ("scheduling", "placement")),
    (DISAGG, ("cache-binding", "scheduling", "provider-networking/ib", "placement")),
    (DISAGG, ("registry-credentials", "probes", ROCE)),
    *(
        (base, ("cache-binding", "registry-credentials", "probes", "scheduling", "network-interface", "placement"))
        for base in BASES
    ),
]


def name_of(value: Any) -> str:
    return "/".join(value.parts[-4:-1]) if isinstance(value, Path) else "+".join(value)


@pytest.mark.parametrize(("base", "chosen"), [*SINGLE, *COMBINED], ids=name_of)
def test_a_binding_gives_what_the_starter_gives(base: Path, chosen: tuple[str, ...], tmp_path: Path) -> None:
    same(base, chosen, tmp_path)


@pytest.mark.parametrize("base", [AGG, DISAGG], ids=name_of)
def test_only_some_operations_of_scheduling(base: Path, tmp_path: Path) -> None:
    """The starter's users delete the operations that they don't need."""
    usable(base)
    topology = topology_of(base)
    kept = [op for op in patch_of("scheduling", topology) if op["op"] == "test" or op["path"].endswith("nodeSelector")]
    roles = [role for role in ROLES if (role == "worker") == (topology == "agg") or role == "frontend"]
    components = {role: {"node_selector": {"pool": f"{role}-nodes"}} for role in roles}
    ours = bound(base, {"scheduling": {"components": components}})
    assert ours == build(fill(tmp_path, base, topology, {"scheduling": kept}))


def by_name(objects: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
    """With the variables of every container in alphabetical order."""
    for manifest in objects.values():
        for component in manifest["spec"]["components"] if manifest["kind"] == "DynamoGraphDeployment" else []:
            for container in component["podTemplate"]["spec"]["containers"]:
                container["env"].sort(key=lambda entry: entry["name"])
    return objects


@pytest.mark.parametrize(
    ("hook", "name", "value"),
    [
        (
            "vllm-compute-domain-kv-transfer-config",
            "KV_TRANSFER_CONFIG",
            '{"kv_connector":"NixlConnector","kv_role":"kv_both"}',
        ),
        ("sglang-nixl-backend", "SGLANG_DISAGGREGATION_NIXL_BACKEND", "UCX"),
    ],
)
def test_hooks_are_variables(hook: str, name: str, value: str, tmp_path: Path) -> None:
    """Order differs on purpose: kustomize moves what it merges to the front, so that patches by index fail. A variable
    of the binding keeps its place, or comes last. Pods don't tell the difference: the operator sorts variables by
    name."""
    usable(DISAGG)
    patch = _catalog.load_yaml(
        str(UPSTREAM / f"yueying-AIHorizon__dynamo/recipes/templates/kustomize/patches/{hook}.yaml")
    )
    theirs = build(fill(tmp_path, DISAGG, "disagg", {"network-interface": None}, tuple(patch)))
    binding = {**choice("network-interface", "disagg"), "env": {"workers": {name: value}}}
    ours = bound(DISAGG, binding)
    assert by_name(ours) == by_name(theirs)


@pytest.mark.parametrize("topology", ["agg", "disagg"])
def test_the_older_starter_appends_variables(topology: str, tmp_path: Path) -> None:
    """Order differs on purpose: the binding follows the newer starter. Nothing refers to these variables."""
    base = DISAGG if topology == "disagg" else AGG
    usable(base)
    older = UPSTREAM / "wxsms__dynamo@638c82f/recipes/templates/kustomize/components/network-interface"
    patch = _catalog.load_yaml(str(older / topology / "patch-dgd.yaml"))[0]
    for operation in patch:  # the resource stands in the path
        operation["path"] = operation["path"].replace("your-rdma.example.com~1device", "rdma~1ib")
    theirs = build(fill(tmp_path, base, topology, {"network-interface": patch}))
    assert by_name(bound(base, choice("network-interface", topology))) == by_name(theirs)


def test_placement_of_the_older_starter_names_a_type_that_no_pod_has(tmp_path: Path) -> None:
    """Different on purpose: the older one listed worker as well in disagg, which selects nothing there."""
    usable(DISAGG)
    older = UPSTREAM / "ai-dynamo__dynamo/recipes/templates/kustomize/components/placement/disagg/patch-dgd.yaml"
    patch = _catalog.load_yaml(str(older))[0]
    theirs = build(fill(tmp_path, DISAGG, "disagg", {"scheduling": None, "placement": patch}))
    ours = bound(DISAGG, {**choice("scheduling", "disagg"), **choice("placement", "disagg")})
    assert ours != theirs
    text = json.dumps(list(theirs.values()))
    assert list(ours.values()) == json.loads(text.replace('"worker", "prefill"', '"prefill"'))


def test_the_default_claim_is_no_mistake(tmp_path: Path) -> None:
    """Different on purpose: the vendor's validator refuses cache-binding with the name that is there already; here
    saying what is true anyway changes nothing."""
    usable(AGG)
    assert bound(AGG, {}, claim="shared-model-cache") == build(fill(tmp_path, AGG, "agg", {}))


@pytest.mark.parametrize("topology", ["agg", "disagg"])
def test_synthetic_acceptance(topology: str, tmp_path: Path) -> None:
    """Better on purpose: the vendor's Component goes by position, which networking moves; the binding goes by name."""
    base = DISAGG if topology == "disagg" else AGG
    usable(base)
    place = (
        f"mifegui__dynamo/recipes/minimax-m3/vllm/{topology}-gb200-agentic/kustomize/components/synthetic-acceptance"
    )
    patch = _catalog.load_yaml(str(UPSTREAM / place / "patch-dgd.yaml"))[0]
    theirs = build(fill(tmp_path / "alone", base, topology, {}, (patch,)))
    assert bound(base, {}, synthetic_acceptance=True) == theirs
    with pytest.raises(subprocess.CalledProcessError):
        build(fill(tmp_path / "networked", base, topology, {"network-interface": None}, (patch,)))
    ours = bound(base, choice("network-interface", topology), synthetic_acceptance=True)
    assert "speculative-config-synthetic" in str(ours[("DynamoGraphDeployment", f"minimax-m3-{base.parent.name}")])


def test_a_strategic_patch_by_hand(tmp_path: Path) -> None:
    usable(DISAGG)
    pod = {
        "spec": {
            "hostIPC": True,
            "containers": [
                {
                    "name": "main",
                    "env": [{"name": "NEW", "value": "1"}],
                    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                }
            ],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
        }
    }
    workers = [{"name": name, "podTemplate": pod} for name in ("PrefillWorker", "DecodeWorker")]
    patch = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "canonical-recipe"},
        "spec": {"components": [{"name": "Frontend"}, *workers]},
    }
    ours = bound(DISAGG, {"patches": [{"component": "workers", "merge": {"podTemplate": pod}}]})
    assert ours == build(fill(tmp_path, DISAGG, "disagg", {}, (patch,)))
