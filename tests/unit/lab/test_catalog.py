# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each built-in target: renders, has no finding, keeps the contract, and the stand-in's admission takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import admission
import pytest
import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils import _catalog, _contract, _lint, _release, _render

CATALOG = _catalog.find([str(Path(__file__).resolve().parents[3] / "roles/target/files/recipes")])
COMMITS = {"MiniMaxAI/MiniMax-M3.1-Flash": "0" * 40}
SITE: dict[str, Any] = {
    "pull_secrets": ["ngc"],
    "image_registry": "mirror.example.com/nvcr",
    "scheduling": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], "runtime_class": "nvidia"},
    "network": {
        "interface": "eth0",
        "rdma_resource": "rdma/ib",
        "rdma_count": 4,
        "infiniband": {"devices": "mlx5_0:1"},
    },
    "placement": {"topology_key": "nvidia.com/gpu.clique"},
    "startup_failures": {"workers": 1440},
    "compile_cache": {"host_path": "/var/cache/dynamo"},
    "pod_labels": {"all": {"team": "a"}},
}


@pytest.mark.parametrize("binding", [{}, SITE], ids=["bare", "bound"])
@pytest.mark.parametrize("target", sorted(CATALOG))
def test_target(target: str, binding: dict[str, Any]) -> None:
    recipe = _catalog.read(target, CATALOG)
    release = _release.build(recipe, {"namespace": "llm", "commits": COMMITS, "binding": binding})
    assert _lint.lint(recipe.manifests, release, recipe.meta["context_length"]) == []
    assert [*_contract.contract(recipe.manifests), *_contract.site_values(recipe.manifests)] == []
    manifests = list(yaml.safe_load_all(_render.render(release)))
    assert manifests[-1] == release["manifest"]
    assert not admission.undecodable(manifests[-1])
    assert admission.problems(manifests[-1], None) == []
