# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each way in which a hub fails ends in one line that names it, and nothing is recorded as proved."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from lab import Lab

# mode -> what one line must say, and whether a download was tried
SEEN = {
    "401": ("is gated or private", False),
    "403": ("is gated or private|refuses the token", False),
    "404": (r"no repository MiniMaxAI/MiniMax-M3\.1-Flash", False),
    "429": ("limits requests", False),
    "500": ("HTTP 500", False),
    "truncate": ("stopped|not complete", True),
    "corrupt": ("corrupt.*sha256", True),
}


@pytest.fixture(scope="module")
def output() -> str:
    return (Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "output.txt").read_text()


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab()


@pytest.mark.parametrize("mode", SEEN)
def test_the_cause_is_named_and_nothing_is_recorded(lab: Lab, output: str, mode: str) -> None:
    said, tried = SEEN[mode]
    assert re.search(rf"mol-hub-{mode}\b.*({said})", output), f"no line of mol-hub-{mode} matches {said}"
    objects = lab.objects(f"mol-hub-{mode}")
    assert [name for kind, name in objects if name.startswith("checkpoint-")] == []
    assert bool([name for kind, name in objects if kind == "Job"]) == tried


def test_a_slow_hub_is_waited_for(lab: Lab, output: str) -> None:
    names = [name for kind, name in lab.objects("mol-hub-slow-20000") if kind == "ConfigMap"]
    assert [name for name in names if name.startswith("checkpoint-")]
    assert re.search(r"mol-hub-slow-20000\b.*failed=0", output)


def test_no_python_is_shown(output: str) -> None:
    assert "Traceback" not in output
