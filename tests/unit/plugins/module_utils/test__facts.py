# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a cluster in components; what the vendor's starter makes of the same facts is in test__bind_parity.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _facts
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import main_container, workers_of

from .test__bind import DISAGG, SGLANG, bound, component, env, graph


def mounts(worker: dict[str, Any]) -> dict[str, str]:
    return {mount["name"]: mount["mountPath"] for mount in main_container(worker)["volumeMounts"]}


def test_infiniband() -> None:
    network = {
        "interface": "eth0",
        "gloo_interface": "eth1",
        "rdma_resource": "rdma/ib",
        "rdma_count": 4,
        "infiniband": {"devices": "mlx5_0:1"},
        "components": {"decode": {"infiniband": {"devices": "mlx5_4:1"}, "rdma_count": 8}},
    }
    manifests = bound(DISAGG, {"network": network})
    for name, devices, count in (("PrefillWorker", "mlx5_0:1", "4"), ("DecodeWorker", "mlx5_4:1", "8")):
        variables = env(manifests, name)
        names = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "UCX_NET_DEVICES")
        assert [variables[key] for key in names] == ["eth0", "eth1", devices]
        worker = component(manifests, name)
        resources = main_container(worker)["resources"]
        assert resources["requests"]["rdma/ib"] == resources["limits"]["rdma/ib"] == count
        assert mounts(worker)["ib"] == "/dev/infiniband"
        assert {"name": "ib", "hostPath": {"path": "/dev/infiniband"}} in worker["podTemplate"]["spec"]["volumes"]
    assert "eth0" not in str(component(manifests, "Frontend"))


def test_gke_roce() -> None:
    networks = [{"interface": f"eth{index + 2}", "network": f"rdma-{index}"} for index in range(4)]
    network = {
        "interface": "eth0",
        "gke_roce": {"default_interface": "eth0", "networks": networks, "cross_nic": "0"},
    }
    manifests = bound(DISAGG, {"network": network})
    for worker in workers_of(graph(manifests)):
        annotations = worker["podTemplate"]["metadata"]["annotations"]
        assert annotations["networking.gke.io/default-interface"] == "eth0"
        pairs = json.loads(annotations["networking.gke.io/interfaces"])
        assert [pair["network"] for pair in pairs] == ["default", "rdma-0", "rdma-1", "rdma-2", "rdma-3"]
        resources = main_container(worker)["resources"]
        for index in range(4):
            for key in (f"networking.gke.io.networks/rdma-{index}", f"networking.gke.io.networks/rdma-{index}.IP"):
                assert resources["requests"][key] == resources["limits"][key] == "1"
        assert env(manifests, worker["name"])["NCCL_CROSS_NIC"] == "0"


def test_network_of_what_is_no_worker() -> None:
    with pytest.raises(DynamoError, match=r"dynamo_binding\.network\.components\.frontend: no such component"):
        bound(SGLANG, {"network": {"components": {"frontend": {"interface": "eth0"}}}})


@pytest.mark.parametrize(
    "volume",
    [
        {"nfs": {"server": "nas", "path": "/models"}},
        {"hostPath": {"path": "/models", "type": "Directory"}},
        {"csi": {"driver": "d", "volumeAttributes": {"a": "b"}}},
    ],
)
def test_a_volume_instead_of_the_claim(volume: dict[str, Any]) -> None:
    for worker in workers_of(graph(bound(DISAGG, {"cache_volume": volume}))):
        assert {"name": "shared-model-cache", **volume} in worker["podTemplate"]["spec"]["volumes"]
        assert "persistentVolumeClaim" not in str(worker)


def test_compile_cache_is_on_the_node_and_the_images_own() -> None:
    binding = {"compile_cache": {"host_path": "/var/cache/dynamo"}, "env": {"workers": {"TRITON_CACHE_DIR": "/mine"}}}
    manifests = bound(DISAGG, binding)
    worker = component(manifests, "PrefillWorker")
    folder = env(manifests, "PrefillWorker")["VLLM_CACHE_ROOT"].rsplit("/", 1)[0]
    assert mounts(worker)["compile-cache"] == "/compile-cache"
    assert env(manifests, "PrefillWorker")["FLASHINFER_WORKSPACE_BASE"] == f"{folder}/flashinfer"
    assert env(manifests, "PrefillWorker")["TRITON_CACHE_DIR"] == "/mine"
    other = bound(DISAGG, {**binding, "image_tag": {"workers": "9.9.9"}})
    assert env(other, "PrefillWorker")["VLLM_CACHE_ROOT"] != f"{folder}/vllm"
    assert "SGLANG_DG_CACHE_DIR" in env(bound(SGLANG, binding), "Worker")


def test_facts_without_a_worker_are_unused() -> None:
    unused: list[str] = []
    frontend = {"name": "Frontend", "type": "frontend", "podTemplate": {"spec": {}}}
    _facts.place([frontend], {"network": {"interface": "e"}, "compile_cache": {"host_path": "/c"}}, unused)
    assert [item.partition(":")[0] for item in unused] == ["dynamo_binding.network", "dynamo_binding.compile_cache"]


@pytest.mark.parametrize("network", [{}, {"interface": "eth0", "infiniband": {"devices": "mlx5_0"}}])
def test_synthetic_acceptance_finds_the_variable_by_its_name(network: dict[str, Any]) -> None:
    """The vendor's Component goes by the index and fails after a networking Component."""
    manifests = bound(DISAGG, {"network": network}, synthetic_acceptance=True)
    for worker in workers_of(graph(manifests)):
        reference = env(manifests, worker["name"])["SPECULATIVE_CONFIG"]["configMapKeyRef"]
        assert reference["key"] == "speculative-config-synthetic"


def test_synthetic_acceptance_of_a_recipe_that_has_none() -> None:
    with pytest.raises(DynamoError, match="dynamo_synthetic_acceptance: no worker reads SPECULATIVE_CONFIG"):
        bound(SGLANG, synthetic_acceptance=True)


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({"FLASHINFER_WORKSPACE_BASE": "/cache/flashinfer"}, ["W: FLASHINFER_WORKSPACE_BASE=/cache/flashinfer"]),
        ({"FLASHINFER_WORKSPACE_BASE": "/cache/tmp/f"}, []),
        ({"TRITON_CACHE_DIR": "/cached"}, []),
        ({"HF_HOME": "/cache"}, []),
    ],
)
def test_who_writes_to_the_model_cache(env: dict[str, str], found: list[str]) -> None:
    variables = [{"name": name, "value": value} for name, value in env.items()]
    mounts = [{"name": "c", "mountPath": "/cache/"}, {"name": "t", "mountPath": "/cache/tmp"}]
    container = {"name": "main", "env": variables, "volumeMounts": mounts}
    dgd = {"spec": {"components": [{"name": "W", "podTemplate": {"spec": {"containers": [container]}}}]}}
    assert list(_facts.cache_writers(dgd, "/cache")) == found
