# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`-e name=false` on the command line, and `name=false` in an INI inventory, are texts: none of them says yes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ansible_collections.inferops.dynamo.tests.unit.playbooks.runs import kubeconfig, run_playbook, stand_ins

pytestmark = [
    pytest.mark.playbook,
    pytest.mark.skipif("ansible_forked" in sys.modules, reason="run by make coverage: see test_inputs"),
]
SHOW = """
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        for kind in [item["kind"] for key in ("definitions", "select") for item in self._task.args[key]]:
            Display().display("REMOVES " + kind)
        for item in self._task.args["select"]:
            Display().display("SELECTS " + item["label_selector"])
        return dict(changed=False, objects=[])
"""
FLAGS = ("teardown_cache", "teardown_secret", "teardown_namespace", "teardown_records")


@pytest.mark.parametrize(("word", "much"), [("false", False), ("no", False), ("0", False), ("true", True)])
def test_what_a_teardown_keeps(tmp_path: Path, word: str, much: bool) -> None:
    stand_ins(tmp_path / "collections", {"manifests": SHOW})
    hosts = {"fra1": {"dynamo_kubeconfig": kubeconfig(tmp_path), "dynamo_report_dir": ""}}
    options = [f"-e{name}={word}" for name in FLAGS]
    done = run_playbook(tmp_path, "teardown", hosts, *options, collections=tmp_path / "collections")
    assert done.returncode == 0 and "REMOVES DynamoGraphDeployment" in done.stdout, done.stdout
    for kind in ("PersistentVolumeClaim", "Secret", "Namespace"):
        assert (f"REMOVES {kind}" in done.stdout) is much
    assert ("!inferops.dynamo/record" not in done.stdout) is much
    assert ("SELECTS inferops.dynamo/claim=" in done.stdout) is much
