# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of README and docs, as they stand there, in the order in which somebody would type them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from lab import CACHE, ROOT, Lab, inventory

HOST = "mol-commands"
COMMANDS = yaml.safe_load((ROOT / "tests/unit/commands.yml").read_text("utf-8"))
# What the commands name; they may leave files beside it.
NAMED = ("Makefile", "docs", "execution-environment.yml", "inventories/example", "meta", "playbooks", "tools")


@pytest.fixture(scope="module")
def place(cluster: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    cluster.remove([HOST])
    folder = tmp_path_factory.mktemp("commands")
    inventory(folder / "inventories/prod", {HOST: {"dynamo_report_dir": str(CACHE / "reports")}})
    yield folder
    cluster.remove([HOST])


def execute(command: str, place: Path) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "K8S_AUTH_", "KUBECONFIG"))}
    clean |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PWD": str(place),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_HOME": str(CACHE / "ansible-home"),
    }
    done = subprocess.run(shlex.split(command), cwd=place, env=clean, capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr)
    assert done.returncode == 0


@pytest.mark.parametrize("command", COMMANDS["run"])
def test_command_without_a_cluster(tmp_path: Path, command: str) -> None:
    (tmp_path / "inventories").mkdir()
    for name in NAMED:
        (tmp_path / name).symlink_to(ROOT / name)
    execute(command, tmp_path)


@pytest.mark.parametrize("command", COMMANDS["lab"])
def test_command(place: Path, command: str) -> None:
    execute(command, place)
