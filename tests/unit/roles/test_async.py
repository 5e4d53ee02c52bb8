# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs that ansible runs in the background are found again where HOME is not the home of the user's passwd entry.

The job is written below HOME and looked for below the entry's home: "could not find job" after an hour of building.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.playbook

ROOT = Path(__file__).resolve().parents[3]
ROLES = sorted({task.parents[1] for task in ROOT.glob("roles/*/tasks/*.yml") if " async:" in task.read_text()})


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_background_job_is_found_with_another_home(role: Path, tmp_path: Path) -> None:
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "connection": "local",
        "vars": {"ansible_python_interpreter": sys.executable},
        "vars_files": [str(role / "defaults/main.yml"), str(role / "vars/main.yml")],
        "tasks": [{"ansible.builtin.command": {"cmd": "true"}, "async": 60, "poll": 1}],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    command = [sys.executable, "-m", "ansible.cli.playbook", "-i", "localhost,", str(tmp_path / "play.yml")]
    done = subprocess.run(
        command, env={**os.environ, "HOME": str(tmp_path / "home")}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_such_roles() -> None:
    assert ROLES
