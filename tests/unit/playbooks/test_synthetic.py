# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A benchmark with synthetic acceptance that is refused: there is nothing to put back, so nothing is deployed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ansible_collections.inferops.dynamo.tests.unit.playbooks.runs import kubeconfig, run_playbook, stand_ins
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._benchmark_objects import summary
from ansible_collections.inferops.dynamo.tests.unit.plugins.modules.test_benchmark import GIVEN

pytestmark = [
    pytest.mark.playbook,
    pytest.mark.skipif("ansible_forked" in sys.modules, reason="run by make coverage: see test_inputs"),
]
PLAN = """
import time
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        reasons = dict(deploy="another image")
        Display().display("PLANNED")
        plan = dict(steps=["model_cache", "deploy"], reasons=reasons, findings=[], synthetic=False)
        return dict(release=self._task.args["release"], plan=plan, cluster=dict(context="c"), started=time.time())
"""

DEPLOYED = PLAN.replace('["model_cache", "deploy"]', "[]").replace('dict(deploy="another image")', "{}")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("benchmark_preset=agentc", "has no preset agentc"),
        ("benchmark_baseline=nosuchrun", "nosuchrun is neither a run"),
        ("benchmark_max_regression=abc", "benchmark_max_regression is 'abc'; it must be a number from 0"),
        ("benchmark_max_regression=5", "benchmark_max_regression is 5, and benchmark_baseline names nothing"),
    ],
)
def test_a_run_that_cannot_be_made_changes_no_worker(tmp_path: Path, option: str, words: str) -> None:
    stand_ins(tmp_path / "collections", {"preflight_info": DEPLOYED})
    options = ["-ebenchmark_synthetic_acceptance=true", "-eallow_gap=true", "-e", option]
    cluster = {"dynamo_kubeconfig": kubeconfig(tmp_path), "dynamo_report_dir": ""}
    hosts = {"fra1": {**cluster, "dynamo_target": "vllm-agg-gb200"}}
    done = run_playbook(tmp_path, "benchmark", hosts, *options, collections=tmp_path / "collections")
    assert done.returncode != 0
    assert words in " ".join(done.stdout.split()), done.stdout
    assert done.stdout.count("PLANNED") <= 1, "the release was deployed otherwise, or put back"


@pytest.mark.parametrize("synthetic", [False, True])
def test_a_synthetic_run_is_compared_with_a_synthetic_one(tmp_path: Path, synthetic: bool) -> None:
    """Before the workers change as after: what is real is refused, what was measured alike is not."""
    stand_ins(tmp_path / "collections", {"preflight_info": DEPLOYED})
    found = summary()
    found["deployment"]["synthetic_acceptance"] = synthetic
    (tmp_path / "runs/first").mkdir(parents=True)
    (tmp_path / "runs/first/summary.json").write_text(json.dumps(found))
    given = {"benchmark_synthetic_acceptance": True, "allow_gap": True, "benchmark_load": GIVEN}
    given |= {"benchmark_output": str(tmp_path / "runs"), "benchmark_baseline": "first"}
    cluster = {"dynamo_kubeconfig": kubeconfig(tmp_path), "dynamo_report_dir": ""}
    hosts = {"fra1": {**cluster, "dynamo_target": "vllm-agg-gb200"}}
    collections = tmp_path / "collections"
    done = run_playbook(tmp_path, "benchmark", hosts, "-e", json.dumps(given), collections=collections)
    refused = "only one of this run and" in " ".join(done.stdout.split())
    assert refused is not synthetic, done.stdout
    assert (done.stdout.count("PLANNED") > 1) is synthetic, done.stdout


def test_what_is_refused_is_not_deployed_afterwards(tmp_path: Path) -> None:
    stand_ins(tmp_path / "collections", {"preflight_info": PLAN})
    options = ["-ebenchmark_synthetic_acceptance=true", "-eallow_gap=true"]
    cluster = {"dynamo_kubeconfig": kubeconfig(tmp_path), "dynamo_report_dir": ""}
    hosts = {"fra1": {**cluster, "dynamo_target": "vllm-agg-gb200"}}
    done = run_playbook(tmp_path, "benchmark", hosts, *options, collections=tmp_path / "collections")
    assert done.returncode != 0
    assert "What is deployed is not this release (another image): run deploy.yml first." in done.stdout
    assert "Bring the checkpoint into the cache" not in done.stdout and "Apply the release" not in done.stdout
