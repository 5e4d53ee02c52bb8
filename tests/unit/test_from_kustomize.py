# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/from_kustomize.md writes one cluster both ways: both snippets are executed, and give the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils import _catalog, _kustomize, _release
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils.starter import (
    KUSTOMIZE,
    fill,
    needs_kustomize,
)

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/from_kustomize.md").read_text("utf-8")
RECIPES = str(ROOT / "roles/target/files/recipes")


def snippet(first_line: str) -> str:
    found = re.search(rf"^```yaml\n({re.escape(first_line)}\n.*?)^```", PAGE, re.M | re.S)
    assert found, first_line
    return found[1]


def test_both_ways_give_the_same(tmp_path: Path) -> None:
    needs_kustomize()
    inventory = yaml.safe_load(snippet("# host_vars/oslo.yml"))
    catalog = _catalog.find([RECIPES])
    recipe = _catalog.read(_catalog.resolve(inventory["dynamo_target"], catalog), catalog)

    patches: dict[str, Any] = {}
    for name in re.findall(r"^# components/(.+)/disagg/patch-dgd\.yaml$", PAGE, re.M):
        patches[name] = yaml.safe_load(snippet(f"# components/{name}/disagg/patch-dgd.yaml"))
    assert list(patches) == ["cache-binding", "registry-credentials", "scheduling", "network-interface", "placement"]
    root = yaml.safe_load(snippet("# kustomization.yaml"))
    assert root["components"] == ["components/dynamo-openapi", *(f"components/{name}/disagg" for name in patches)]
    base = Path(catalog[recipe.target]) / "deploy.yaml"
    assert root["resources"] == [f"roles/target/files/recipes/{recipe.target}/deploy.yaml"]
    directory = str(fill(tmp_path / "oslo", base, "disagg", patches))

    site = {"namespace": inventory["dynamo_namespace"]}
    claim = {"cache_claim": inventory["dynamo_cache_claim"]}
    bound = _release.build(recipe, {**site, **claim, "binding": inventory["dynamo_binding"]})
    built = _kustomize.build(directory, [RECIPES], str(KUSTOMIZE))
    kustomized = _release.build(_catalog.kustomized(recipe, built, directory), site)
    assert bound["manifest"] == kustomized["manifest"]
    assert bound == kustomized


def test_the_other_way_of_writing_it_is_an_inventory_too() -> None:
    inventory = yaml.safe_load(snippet("# host_vars/bergen.yml"))
    assert inventory.keys() == {"dynamo_target", "dynamo_namespace", "dynamo_kustomization"}


@pytest.mark.parametrize("word", ["your-", "TODO"])
def test_nothing_is_left_to_fill_in(word: str) -> None:
    code = "".join(re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S))
    assert word not in code
