# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A start that is healthy and slow, at full length: an image that takes minutes, one restart, a long load."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from lab import Lab, Meddler, binding, inventory, kill_starting, play

HOST = "slow-start"
PULL, LOAD = 240, 600  # seconds; containerd gives up a pull that stands still for 300


@pytest.mark.long
def test_a_slow_start_ends_ready(cluster: Lab, tmp_path: Path) -> None:
    image = f"localhost:5000/slow-{PULL}/{uuid.uuid4().hex[:8]}/sglang:1.3.0"  # the lab's registry, a name never pulled
    slow = binding(image={"Worker": image}, env={"Worker": {"LAB_START_DELAY": str(LOAD)}})
    cluster.remove([HOST])
    meddler = Meddler(kill_starting(HOST))
    try:
        where = inventory(tmp_path / "fleet", {HOST: {"dynamo_binding": slow, "dynamo_ready_timeout": 3600}})
        run = play("deploy.yml", where, "--extra-vars=target=sglang-gb300")
        assert meddler.stop() == 1, "the worker was not killed while it loaded"
        assert run.rc == 0 and "2 + 2 = 4" in run.output
        (worker,) = cluster.pods(HOST, **{"nvidia.com/dynamo-component-type": "worker"})
        assert worker.status.container_statuses[0].restart_count == 1
        took = run.lines[-1][0] - run.lines[0][0]
        assert took.total_seconds() > PULL + LOAD, "nothing was slow"
    finally:
        meddler.stop()
        cluster.remove([HOST])
