# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The binding's options: what is normalised, and what is refused with which path."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _binding
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError


@pytest.mark.parametrize(
    ("binding", "words"),
    [
        ("text", "dynamo_binding: must be a dictionary"),
        ({5: "x"}, "dynamo_binding: keys must be texts, found 5"),
        ({"job": {"node_selector": {"a": ["b"]}}}, "dynamo_binding.job.node_selector.a: must be a text"),
        ({"networking": {}}, "dynamo_binding.networking: no such key; there are annotations, cache_volume"),
        ({"network": {"ib": True}}, "dynamo_binding.network.ib: no such key; there are components, gke_roce"),
        (
            {"network": {"rdma_resource": "a/b", "rdma_count": "x"}},
            "dynamo_binding.network.rdma_count: must be a whole number of devices",
        ),
        ({"network": {"rdma_resource": "a/b"}}, "rdma_resource and rdma_count belong together"),
        ({"network": {"rdma_resource": "ib", "rdma_count": 1}}, "dynamo_binding.network.rdma_resource"),
        ({"network": {"rdma_resource": "a/b", "rdma_count": 0}}, "rdma_count: must be at least 1"),
        ({"network": {"infiniband": {}}}, "devices"),
        ({"network": {"gke_roce": {"default_interface": "eth0", "networks": [{"interface": "e"}]}}}, "network"),
        (
            {
                "network": {
                    "infiniband": {"devices": "a"},
                    "components": {
                        "decode": {
                            "gke_roce": {"default_interface": "e", "networks": [{"interface": "e", "network": "n"}]}
                        }
                    },
                }
            },
            "dynamo_binding.network.components.decode: infiniband and gke_roce exclude each other",
        ),
        ({"network": {"components": {"decode": {"mtu": 1}}}}, "dynamo_binding.network.components.decode.mtu"),
        ({"cache_volume": {"nfs": {"server": "s", "path": "/"}, "hostPath": {"path": "/"}}}, "exactly one of nfs"),
        ({"cache_volume": {"nfs": {"server": "s"}}}, "dynamo_binding.cache_volume.nfs.path: must be there"),
        ({"compile_cache": {"host_path": "a/../b"}}, "dynamo_binding.compile_cache.host_path"),
        ({"compute_domain": "A"}, "dynamo_binding.compute_domain"),
        ({"patches": [{"component": "all"}]}, "dynamo_binding.patches[0]: must have exactly one of merge, json6902"),
        ({"patches": [{"kind": "Pod"}]}, "kind"),
        ({"network": "abc"}, "dynamo_binding.network: must be a dictionary"),
        ({"placement": {}}, "topology_key"),
        ({"pull_secrets": {"name": "a"}}, "dynamo_binding.pull_secrets: must be a list, found a dictionary"),
        ({"pull_secrets": [{"name": "a"}]}, "dynamo_binding.pull_secrets"),
        ({"scheduling": {"tolerations": ["a"]}}, "dynamo_binding.scheduling.tolerations"),
        (
            {"scheduling": {"components": {"all": {"pool": 1}}}},
            "dynamo_binding.scheduling.components.all.pool: no such key",
        ),
        ({"scheduling": {"components": {"all": 1}}}, "dynamo_binding.scheduling.components.all: must be a dictionary"),
        ({"labels": {"a": True}}, "dynamo_binding.labels.a: must be a text, found bool; quote it"),
        ({"labels": {"app.kubernetes.io/managed-by": "x"}}, "is set by this collection"),
        (
            {"annotations": {"nvidia.com/enable-grove": "true"}},
            "dynamo_binding.annotations: nvidia.com/enable-grove is set",
        ),
        ({"name": "Upper"}, "dynamo_binding.name"),
        ({"image_registry": "https://mirror"}, "dynamo_binding.image_registry"),
        ({"image_registry": "a b"}, "dynamo_binding.image_registry: must be a registry and path such as"),
        ({"labels": {"a b": "c"}}, "dynamo_binding.labels: the key 'a b' must be a Kubernetes key such as"),
        ({"labels": {"a": "b c"}}, "dynamo_binding.labels.a: must be a label value: up to 63 letters"),
        ({"annotations": {"a/b/c": "d"}}, "dynamo_binding.annotations: the key 'a/b/c' must be"),
        ({"pull_secrets": ["a_b"]}, "dynamo_binding.pull_secrets[0]: must be a name of lower-case letters"),
        (
            {"job": {"tolerations": [{"key": "a", "effects": "x"}]}},
            "job.tolerations[0].effects: no such key; there are",
        ),
        (
            {"job": {"tolerations": [{"key": "a", "effect": "No"}]}},
            "effect: must be one of NoSchedule, PreferNoSchedule",
        ),
        ({"scheduling": {"tolerations": [{"operator": "Equal"}]}}, "scheduling.tolerations[0]: needs a key; without"),
        ({"scheduling": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}}, "Exists takes no value"),
        ({"scheduling": {"tolerations": [{"key": "a", "tolerationSeconds": 5}]}}, "tolerationSeconds needs effect"),
        ({"scheduling": {"node_selector": {"a": True}}}, "scheduling.node_selector.a: must be a text, found bool"),
        (
            {"scheduling": {"components": {"all": {"node_selector": {"a": "b c"}}}}},
            "scheduling.components.all.node_selector.a: must be a label value",
        ),
        ({"scheduling": {"affinity": {"nodes": {}}}}, "scheduling.affinity.nodes: no such key; there are nodeAffinity"),
        ({"scheduling": {"priority_class": "A b"}}, "dynamo_binding.scheduling.priority_class: must be a name"),
        ({"placement": {"topology_key": "a b"}}, "dynamo_binding.placement.topology_key: must be a Kubernetes key"),
        ({"cache_volume": {"hostPath": {"path": "data"}}}, "cache_volume.hostPath.path: must be an absolute path"),
        ({"cache_volume": {"nfs": {"sever": "s"}}}, "cache_volume.nfs.sever: no such key; there are path, readOnly"),
    ],
)
def test_refused(binding: Any, words: str) -> None:
    with pytest.raises(DynamoError) as error:
        _binding.normalise(binding)
    assert error.value.code == "BINDING"
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_normalised_and_not_changed() -> None:
    binding = {"scheduling": {"node_selector": {"a": "b"}, "tolerations": None}, "labels": {"n": 1}, "env": None}
    assert _binding.normalise(binding) == {
        "scheduling": {"node_selector": {"a": "b"}},
        "labels": {"n": "1"},
        "annotations": {},
    }
    assert binding == {
        "scheduling": {"node_selector": {"a": "b"}, "tolerations": None},
        "labels": {"n": 1},
        "env": None,
    }


@pytest.mark.parametrize(
    ("name", "value", "refused"),
    [
        ("HF_TOKEN", "x", True),
        ("AWS_SECRET_ACCESS_KEY", "x", True),
        ("MY_API_KEY", "x", True),
        ("db_password", "x", True),
        ("EXTRA", "hf_" + "a" * 20, True),
        ("HTTPS_PROXY", "http://user:pass@proxy:3128", True),
        ("HTTPS_PROXY", "http://user@proxy:3128", True),
        ("HTTPS_PROXY", "http://proxy:3128", False),
        ("MAX_TOKENS", "4", False),
        ("SGLANG_OPT_DEEPGEMM_MEGA_MOE_NUM_MAX_TOKENS_PER_RANK", "8192", False),
        ("NO_PROXY", "a@b", False),
    ],
)
def test_secrets_in_clear_text(name: str, value: str, refused: bool) -> None:
    problem = _binding.secret_problem(name, value)
    assert bool(problem) == refused
    assert value not in problem or len(value) < 5
    if refused:
        with pytest.raises(DynamoError, match=rf"dynamo_binding\.env\.all\.{name}"):
            _binding.environment({name: value}, "env.all")


def test_environment() -> None:
    reference = {"secretKeyRef": {"name": "s", "key": "k"}}
    assert _binding.environment({"A": "b", "N": 1, "HF_TOKEN": reference}, "env.all") == [
        {"name": "A", "value": "b"},
        {"name": "N", "value": "1"},
        {"name": "HF_TOKEN", "valueFrom": reference},
    ]


@pytest.mark.parametrize("variables", [{True: "x"}, {"A": True}, {"A": None}, {"A": {"x": 1}}, {"a b": "x"}, ["A"]])
def test_environment_refuses(variables: Any) -> None:
    with pytest.raises(DynamoError, match=r"dynamo_binding\.env\.all"):
        _binding.environment(variables, "env.all")
