# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet in waves: a canary that fails leaves the others alone, and the repaired run finishes all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab import DGD, Lab, binding, inventory, play

CANARY, *OTHERS = HOSTS = ("mol-rollout-1", "mol-rollout-2", "mol-rollout-3")
NAME = "minimax-m3-1-sglang-agg-gb300"
ANSWERS_NOTHING = binding(env={"Worker": {"LAB_MODE": "empty"}})


@pytest.fixture
def clean(cluster: Lab) -> Iterator[None]:
    cluster.remove(HOSTS)
    yield
    cluster.remove(HOSTS)


@pytest.mark.usefixtures("clean")
def test_failing_canary_stops_the_rollout_and_the_repair_finishes_it(cluster: Lab, tmp_path: Path) -> None:
    hosts: dict[str, dict[str, Any]] = {host: {} for host in HOSTS}
    bad = inventory(tmp_path / "bad", {**hosts, CANARY: {"dynamo_binding": ANSWERS_NOTHING}})
    first = play("rollout.yml", bad, "--extra-vars=target=sglang-gb300")
    assert first.rc != 0
    assert (DGD[1], NAME) in cluster.objects(CANARY)
    for host in OTHERS:
        assert (DGD[1], NAME) not in cluster.objects(host)
        assert [line for line in first.output.splitlines() if host in line and "not started" in line], host

    # the canary's worker is ready though it answers nothing, so its repair interrupts a service
    good = inventory(tmp_path / "good", hosts)
    second = play("rollout.yml", good, "--extra-vars=target=sglang-gb300", "--extra-vars=allow_gap=true")
    assert second.rc == 0
    for host in HOSTS:
        assert "4" in cluster.ask(host, f"{NAME}-frontend", "minimax-m3.1", "What is 2 + 2?")
