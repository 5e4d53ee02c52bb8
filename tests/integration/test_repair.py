# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mistyped image name is repaired by the same command, on a node with room for exactly one worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import DGD, Lab, binding, inventory, play

HOST, FILLER = "mol-image", "mol-image-filler"
NAME = "minimax-m3-1-sglang-agg-gb300"
WORKER_GPUS = 4


@pytest.fixture
def room_for_one_worker(cluster: Lab) -> Iterator[None]:
    cluster.remove([HOST, FILLER])
    cluster.fill(FILLER, WORKER_GPUS)
    yield
    cluster.remove([HOST, FILLER])


@pytest.mark.usefixtures("room_for_one_worker")
def test_mistyped_image_is_repaired_by_the_same_command(cluster: Lab, tmp_path: Path) -> None:
    mistyped = binding(image={"Worker": "registry.invalid/sglang-runtime:1.3.0"})
    # how long a registry that doesn't answer is waited for
    host = {"dynamo_binding": mistyped, "deploy_budgets": {"slow": 45}}
    bad = inventory(tmp_path / "bad", {HOST: host})
    first = play("deploy.yml", bad, "--extra-vars=target=sglang-gb300")
    assert first.rc != 0
    assert [line for line in first.output.splitlines() if "registry.invalid/sglang-runtime:1.3.0" in line]
    assert (DGD[1], NAME) in cluster.objects(HOST)

    good = inventory(tmp_path / "good", {HOST: {}})
    second = play("deploy.yml", good, "--extra-vars=target=sglang-gb300")
    assert second.rc == 0
    assert "4" in cluster.ask(HOST, f"{NAME}-frontend", "minimax-m3.1", "What is 2 + 2?")
