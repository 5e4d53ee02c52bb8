# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrong input in a real run of playbook target, without a cluster: one line, which names what the user wrote.

It is one run with one host for each mistake, since most of the time goes into starting ansible.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.tests.unit.playbooks.runs import run_playbook

pytestmark = [
    pytest.mark.playbook,
    pytest.mark.skipif(
        "ansible_forked" in sys.modules,
        reason="run by make coverage: ansible-test would make the one long run of ansible-playbook anew for each test",
    ),
    pytest.mark.xdist_group(__name__),  # one run of ansible-playbook is for all
]

TOKEN = "hf_" + "t0ken" * 4
# host: variables, and the beginning of the message; None where nothing is wrong
CASES: dict[str, tuple[dict[str, Any], str | None]] = {
    "nothing": ({}, None),
    "null": ({"dynamo_cache_claim_create": None, "dynamo_recipe_paths": None, "dynamo_binding": None}, None),
    "list": ({"dynamo_gpu": ["GB300"]}, "dynamo_gpu is a list; it must be a text."),
    "dictionary": ({"dynamo_gpu_products": {}}, "dynamo_gpu_products is a dictionary; it must be a list of texts."),
    "flag": ({"dynamo_surge_room": "maybe"}, "dynamo_surge_room is 'maybe'; it must be true or false."),
    "number": ({"dynamo_ready_timeout": "soon"}, "dynamo_ready_timeout is 'soon'; it must be a whole number."),
    "choice": ({"dynamo_pathway": "x"}, "dynamo_pathway is 'x'; it must be one of component, grove."),
    "other-role": ({"dynamo_create_namespace": "x"}, "dynamo_create_namespace is 'x'; it must be true or false."),
    "late-role": (
        {"model_cache_verify": "md5"},
        "model_cache_verify is 'md5'; it must be one of recorded, headers, sizes, sha256",
    ),
    "report": ({"dynamo_report_dir": ["x"]}, "dynamo_report_dir is a list; it must be a text."),
    "token": ({"dynamo_hf_token": [TOKEN]}, "dynamo_hf_token is a list; it must be the token alone"),
    "undefined": ({"dynamo_storage_class": "{{ nope }}"}, "dynamo_storage_class can't be evaluated: 'nope' is undef"),
    "hub": ({"dynamo_hub_endpoint": "hub"}, "The address of the model hub (dynamo_hub_endpoint, or HF_ENDPOINT) is no"),
    "recipe": ({"dynamo_recipe": {"modle": "x"}}, "dynamo_recipe.modle: no such key; there are benchmark, "),
    "label": (
        {"dynamo_binding": {"pod_labels": {"all": {"a b": "c"}}}},
        "dynamo_binding.pod_labels.all: the key 'a b'",
    ),
    "replicas": ({"dynamo_binding": {"replicas": {"workers": 0}}}, "dynamo_binding.replicas.workers: must be a whole"),
    "gpu": ({"dynamo_gpu": "GB30"}, "dynamo_gpu is 'GB30': the catalog has no target for it, only for B200, GB"),
    "target": ({"dynamo_target": "gb300"}, "target gb300 fits 3 targets: minimax-m3.1/sglang/agg-gb300, "),
    "unseen": (
        {"dynamo_target": "sglang-gb30", "dynamo_kubeconfig": "/nowhere"},
        "target sglang-gb30 is not in the catalog. Did you mean sglang-gb300?",
    ),
    "option": ({"smoke_test_timout": 5}, "smoke_test_timout is no variable of this collection; did you mean smoke_"),
    "mistyped": ({"dynamo_storageclass": "x"}, "dynamo_storageclass is no variable of this collection; did you mean"),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """{host: its failure}."""
    done = run_playbook(tmp_path_factory.mktemp("inputs"), "target", {name: case[0] for name, case in CASES.items()})
    assert TOKEN not in done.stdout + done.stderr
    assert re.search('"workers: 1 Worker . 4 GB300"', done.stdout), "the short release of host nothing"
    assert '"manifest": {' not in done.stdout, "the whole one is for -v"
    failures = re.findall(r"^fatal: \[([^]]+)\]: FAILED! => (\{.*\})$", done.stdout, re.M)
    assert failures, done.stdout[-2000:] + done.stderr[-2000:]
    return {host: json.loads(result) for host, result in failures}


@pytest.mark.parametrize("host", CASES)
def test_one_line_names_the_variable(ran: dict[str, dict[str, Any]], host: str) -> None:
    wanted = CASES[host][1]
    if wanted is None:
        assert host not in ran
        return
    assert ran[host]["msg"].startswith(wanted)
    assert "\n" not in ran[host]["msg"]
    assert ran[host]["code"] not in ("", "BUG")


def failures_of(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    found = re.findall(r"^fatal: \[([^]]+)\]: FAILED! => (\{.*\})$", done.stdout, re.M)
    return {host: json.loads(result)["msg"] for host, result in found}


def test_a_file_that_is_not_written_is_said(tmp_path: Path) -> None:
    pinned = {"dynamo_model_commit": "a" * 40}
    cases: dict[str, dict[str, Any]] = {
        "relative": {**pinned, "target_output": "same.yaml"},
        "absolute": {**pinned, "target_output": f"{tmp_path}/./same.yaml"},
        "unpinned": {"target_output": "unpinned.yaml"},
        "other-gpu": {**pinned, "target_output": "other.yaml", "dynamo_gpu": "B200"},
    }
    found = failures_of(run_playbook(tmp_path, "target", cases))
    assert {host: " ".join(message.split()[:5]) for host, message in found.items()} == {
        "relative": "target_output needs a file of",
        "absolute": "target_output needs a file of",
        "unpinned": "target_output needs a commit for",
    }
    assert not list(tmp_path.glob("*.yaml"))
    found = failures_of(run_playbook(tmp_path, "target", {"other-gpu": cases["other-gpu"]}))
    assert found == {"other-gpu": "target_output: nothing was written, the target is for GB300, dynamo_gpu is B200."}


def test_the_closing_report_says_a_failure_once(tmp_path: Path) -> None:
    """Ansible's own output has it twice, and so had the task of the report."""
    done = run_playbook(tmp_path, "deploy", {"one": {"dynamo_report_dir": ["x"]}, "two": {"dynamo_gpu": ["GB300"]}})
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert output.count("dynamo_gpu is a list; it must be a text.") == 3, output
    assert done.stdout.count("    BAD_OPTION: Describe the release: dynamo_") == 2, "the table has both"
    assert "failed with BAD_OPTION: the closing table says why." in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hosts.yml", "tmp"]


def test_a_misspelled_word_of_the_command_line_is_refused(tmp_path: Path) -> None:
    done = run_playbook(tmp_path, "target", {"one": {}}, "-e", "taget=vllm-b200")
    assert "taget is no variable of this collection; did you mean target?" in done.stdout
