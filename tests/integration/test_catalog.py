# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every target of the catalog, by its name alone: eight hosts of one run, so that their waits overlap."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab import DGD, ROOT, Lab, Play, inventory, play, versions

RECIPES = ROOT / "roles/target/files/recipes"
TARGETS = sorted(str(path.parent.relative_to(RECIPES)) for path in RECIPES.glob("*/*/*/recipe.yml"))
HOSTS = {f"mol-catalog-{number}": target for number, target in enumerate(TARGETS, 1)}
MAX_SLOTS = 10


@pytest.fixture(scope="module")
def fleet(cluster: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cluster.remove(HOSTS)
    yield inventory(tmp_path_factory.mktemp("catalog"), {name: {"dynamo_target": t} for name, t in HOSTS.items()})
    cluster.remove(HOSTS)


@pytest.fixture(scope="module")
def deployed(fleet: str) -> Play:
    return play("deploy.yml", fleet, "--forks=8")


def test_catalog_has_the_eight_targets() -> None:
    assert len(TARGETS) == 8


@pytest.mark.parametrize(("host", "target"), HOSTS.items(), ids=TARGETS)
def test_target_deploys_and_answers(cluster: Lab, deployed: Play, host: str, target: str) -> None:
    assert deployed.recap(host)["failed"] == 0
    (name,) = [name for kind, name in cluster.objects(host) if kind == DGD[1]]
    (model,) = cluster.served(host, f"{name}-frontend")
    assert cluster.ask(host, f"{name}-frontend", model, "What is 2 + 2?").strip()


def test_check_mode_after_a_deployment_foresees_nothing(deployed: Play, fleet: str) -> None:
    check = play("deploy.yml", fleet, "--forks=8", "--check", "--diff")
    assert check.rc == 0
    assert {host: check.recap(host)["changed"] for host in HOSTS} == dict.fromkeys(HOSTS, 0)


def test_second_run_changes_nothing_and_is_short(cluster: Lab, deployed: Play, fleet: str) -> None:
    before = {host: versions(cluster.objects(host)) for host in HOSTS}
    again = play("deploy.yml", fleet, "--forks=8")
    assert again.rc == 0
    for host in HOSTS:
        recap = again.recap(host)
        assert recap["changed"] == 0, host
        assert recap["ok"] + recap["skipped"] <= MAX_SLOTS, f"{host}: {recap}"
        assert versions(cluster.objects(host)) == before[host], host
