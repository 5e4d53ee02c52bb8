# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the playbooks of the collection, without a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils import _run

COLLECTIONS = Path(_run.__file__).parents[5]


ROOT = COLLECTIONS / "ansible_collections/inferops/dynamo"


def stand_ins(path: Path, actions: dict[str, str]) -> None:
    """The collection below `path` as it is, but for these actions (name: code)."""
    copy = path / "ansible_collections/inferops/dynamo"
    (copy / "plugins/action").mkdir(parents=True)
    for folder in (ROOT, ROOT / "plugins", ROOT / "plugins/action"):
        for entry in folder.iterdir():
            place = copy / entry.relative_to(ROOT)
            if not place.exists():
                place.symlink_to(entry.resolve())
    for name, code in actions.items():
        place = copy / f"plugins/action/{name}.py"
        place.unlink()
        place.write_text(code)


def kubeconfig(folder: Path) -> str:
    """A file in the folder, for a cluster that nobody asks."""
    config = {"clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1"}}], "current-context": "c"}
    config["contexts"] = [{"name": "c", "context": {"cluster": "c"}}]
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    return str(folder / "kubeconfig")


def run_playbook(
    folder: Path, playbook: str, cases: dict[str, dict[str, Any]], *arguments: str, collections: Path = COLLECTIONS
) -> subprocess.CompletedProcess[str]:
    """A run with the variables of each host."""
    local = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "dynamo_target": "sglang-gb300",
    }
    hosts = {name: {"dynamo_namespace": f"x-{name}", **variables} for name, variables in cases.items()}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": local}}))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("K8S_AUTH_", "ANSIBLE_"))}
    environment |= {"ANSIBLE_COLLECTIONS_PATH": str(collections), "ANSIBLE_LOCAL_TEMP": str(folder / "tmp")}
    environment |= {"ANSIBLE_NOCOLOR": "1", "KUBECONFIG": str(folder / "no-kubeconfig"), "HOME": str(folder / "tmp")}
    environment["PWD"] = str(folder)
    command = [
        sys.executable,
        "-m",
        "ansible.cli.playbook",
        "--forks=4",
        "-i",
        "hosts.yml",
        f"inferops.dynamo.{playbook}",
        *arguments,
    ]
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 300}
    return subprocess.run(command, cwd=folder, env=environment, check=False, **options)
