# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real runs of playbook rollout in which nothing but the two plugins that ask a cluster is made up.

The stand-ins: preflight always finds everything deployed, and the model of a host with `broken` set doesn't answer.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.tests.unit.playbooks.runs import kubeconfig, run_playbook, stand_ins

pytestmark = [
    pytest.mark.playbook,
    pytest.mark.skipif("ansible_forked" in sys.modules, reason="run by make coverage: see test_inputs"),
    pytest.mark.xdist_group(__name__),
]
STAND_IN = """
import time
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        host = task_vars["inventory_hostname"]
        if "{name}" == "openai_smoke":
            Display().display("asked " + host)
            return dict(answers=[dict(content="4")], failed=task_vars["broken"], msg="no answer", code="NO_ANSWER")
        release = self._task.args["release"]
        if task_vars["unprepared"]:
            return dict(failed=True, msg="no GPU", code="NO_GPU")
        plan = dict(steps=[], reasons={{}}, findings=[])
        return dict(release=release, plan=plan, cluster=dict(context=host), started=time.time())
"""


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection as it is, but for the two actions."""
    path = tmp_path_factory.mktemp("collections")
    stand_ins(path, {name: STAND_IN.format(name=name) for name in ("preflight_info", "openai_smoke")})
    return path


def rollout(
    collections: Path, folder: Path, hosts: dict[str, dict[str, Any]], *arguments: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, tuple[str, str]]]:
    """The run, and {host: (result, the line below it)} of the closing table."""
    common = {
        "broken": False,
        "unprepared": False,
        "dynamo_gpu": "B200",
        "dynamo_kubeconfig": kubeconfig(folder),
    }
    common["dynamo_report_dir"] = ""
    everyone = {name: {**common, "dynamo_target": "vllm-b200", **variables} for name, variables in hosts.items()}
    done = run_playbook(folder, "rollout", everyone, *arguments, collections=collections)
    lines = done.stdout.partition("cluster / namespace")[2].partition("PLAY RECAP")[0].splitlines()
    table = {}
    for line, below in itertools.pairwise(lines):
        found = re.match(r"(\S+)  .*(unchanged|not applicable|not started|failed)", line)
        if found:
            table[found[1]] = (found[2], below.strip() if below.startswith("  ") else "")
    return done, table


def asked(done: subprocess.CompletedProcess[str]) -> list[str]:
    return re.findall(r"^asked (\S+)$", done.stdout, re.M)


def test_the_first_wave_is_one_host_that_the_target_is_for(collections: Path, tmp_path: Path) -> None:
    hosts: dict[str, dict[str, Any]] = {
        "nu-a": {"dynamo_gpu": "GB300"},
        "nu-b": {"broken": True},
        "nu-c": {},
        "nu-d": {"dynamo_gpu": "GB300"},
    }
    done, table = rollout(collections, tmp_path, hosts)
    assert done.returncode != 0
    assert asked(done) == ["nu-b"], "the broken release must stop at one host"
    assert table["nu-b"] == ("failed", "NO_ANSWER: Ask the model: no answer")
    assert table["nu-c"] == ("not started", "another host failed before its turn")
    for host in ("nu-a", "nu-d"):
        assert table[host] == ("not applicable", "the target is for B200, dynamo_gpu is GB300")


def test_all_waves_of_a_rollout_that_works(collections: Path, tmp_path: Path) -> None:
    hosts: dict[str, dict[str, Any]] = {"nu-a": {"dynamo_gpu": "GB300"}, "nu-b": {}, "nu-c": {}, "nu-d": {}}
    waves = '{rollout_waves: [["nu-a"], ["nu-c"], ["nu-b", "nu-d"]]}'
    done, table = rollout(collections, tmp_path, hosts, "-e", waves)
    assert done.returncode == 0, done.stdout
    assert asked(done)[0] == "nu-c"
    assert sorted(asked(done)) == ["nu-b", "nu-c", "nu-d"]
    assert {table[host] for host in ("nu-b", "nu-c", "nu-d")} == {("unchanged", "answer: 4")}
    assert table["nu-a"][0] == "not applicable"
    assert re.search(r"^nu-c +nu-c / x-nu-c", done.stdout, re.M), "a later wave forgot the first"


def test_nothing_starts_where_one_host_is_not_prepared(collections: Path, tmp_path: Path) -> None:
    hosts: dict[str, dict[str, Any]] = {"nu-a": {"dynamo_gpu": "GB300"}, "nu-b": {}, "nu-c": {"unprepared": True}}
    done, table = rollout(collections, tmp_path, hosts)
    assert done.returncode != 0
    assert asked(done) == []
    assert [table[host][0] for host in hosts] == ["not applicable", "not started", "failed"]


@pytest.mark.parametrize(
    "waves",
    [
        'rollout_waves=[["nu-a"],["nu-b"]]',
        '{rollout_waves: ["nu-a", "nu-b"]}',
        '{rollout_waves: {"nu-a": ["nu-b"]}}',
        '{rollout_waves: [["nu-a"], ["nu-bb"]]}',
        '{rollout_waves: [["nu-a"], ["nu-a", "nu-b"]]}',
        '{rollout_waves: [["nu-a"]]}',
        "{rollout_waves: []}",
    ],
)
def test_waves_that_are_not_those_of_the_hosts(collections: Path, tmp_path: Path, waves: str) -> None:
    """A text is a sequence of letters, and a host that no wave names would never be deployed."""
    done, _table = rollout(collections, tmp_path, {"nu-a": {}, "nu-b": {}}, "-e", waves)
    assert done.returncode != 0 and asked(done) == [], done.stdout
    said = " ".join(done.stdout.split())
    assert "rollout_waves is" in said and "each of these hosts once: nu-a, nu-b" in said
