# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/target.yml with target_output: one file for each host, or one line that says why not."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from .test_inputs import play

pytestmark = pytest.mark.skipif("ansible_forked" in sys.modules, reason="run by make unit, as the tests beside it")


def test_one_file_for_each_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", str(tmp_path))  # as a shell does
    pinned = {"dynamo_model_commit": "0" * 40}
    hosts: dict[str, dict[str, Any]] = {
        "good": {"target_output": "good.yaml", **pinned},
        "gpu": {"target_output": "gpu.yaml", "dynamo_gpu": "B200", **pinned},
        "unpinned": {"target_output": "unpinned.yaml"},
        "same": {"target_output": "twice.yaml", **pinned},
        "absolute": {"target_output": str(tmp_path / "tmp/../twice.yaml"), **pinned},
        "none": pinned,
    }
    done = play(tmp_path, "target", hosts)
    found = re.findall(r"^fatal: \[([^]]+)\]: FAILED! => (\{.*?\})$", done.stdout, re.M | re.S)
    said = {host: json.loads(result)["msg"] for host, result in found}
    assert said.keys() == {"gpu", "unpinned", "same", "absolute"}, done.stdout + done.stderr
    assert "is for GB300, dynamo_gpu is B200" in said["gpu"]
    assert "dynamo_model_commit" in said["unpinned"] and "own" not in said["unpinned"]
    for host in ("same", "absolute"):
        assert f"{tmp_path}/twice.yaml" in said[host] and "dynamo_model_commit" not in said[host]
    assert sorted(path.name for path in tmp_path.glob("*.yaml")) == ["good.yaml"]
    assert done.returncode == 2
