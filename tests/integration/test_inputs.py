# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrong input ends with one clear line, and nothing is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from bare_cluster import bare_cluster
from lab import KUBECONFIG, Lab, Play, inventory, play

HOST = "mol-inputs"
TARGET = "--extra-vars=target=sglang-gb300"

# what the host says, the target, and what one line of the output must say
HOST_CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown target": ({}, "sglang-b900", r"sglang-b900.*minimax-m3\.1/sglang/agg-gb300"),
    "ambiguous target": ({}, "sglang", r"sglang.*minimax-m3\.1/sglang/agg-b200.*minimax-m3\.1/sglang/agg-gb300"),
    "no such kubeconfig": ({"dynamo_kubeconfig": "no/such/file"}, "sglang-gb300", r"no/such/file.*dynamo_kubeconfig"),
    "no such context": (
        {"dynamo_context": "no-such-context"},
        "sglang-gb300",
        r"dynamo_context.*no-such-context.*kind-inferops-lab",
    ),
    "no such storage class": (
        {"dynamo_storage_class": "no-such-class"},
        "sglang-gb300",
        r"no-such-class.*dynamo_storage_class",
    ),
    "no claim": (
        {"dynamo_cache_claim_create": False, "dynamo_cache_claim": "no-such-claim"},
        "sglang-gb300",
        r"no-such-claim.*dynamo_cache_claim",
    ),
    "gated model without a token": (
        {"dynamo_recipe": {"repositories": [{"id": "inferops-lab/gated", "commit": "", "layout": "folder"}]}},
        "sglang-gb300",
        r"inferops-lab/gated.*dynamo_hf_token",
    ),
    "mistyped option": (
        {"dynamo_binding": {"shedulling": {}}},
        "sglang-gb300",
        r"dynamo_binding\.shedulling",
    ),
}


def kubeconfig(folder: Path, server: str) -> str:
    entry = {"clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": {}}]}
    context = {"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "current-context": "c"}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **entry, **context}))
    return str(path)


def refuses(run: Play, pattern: str) -> None:
    assert run.rc != 0
    lines = [line for line in run.output.splitlines() if re.search(pattern, line)]
    assert lines, f"no line of the output matches {pattern}"
    assert "Traceback" not in run.output
    assert "BUG" not in run.output


@pytest.fixture(autouse=True)
def nothing_changes(cluster: Lab) -> Iterator[None]:
    """Of what a deployment writes, the namespace comes first."""
    cluster.remove([HOST])
    yield
    assert HOST not in cluster.namespaces()


@pytest.mark.parametrize(("variables", "target", "pattern"), HOST_CASES.values(), ids=HOST_CASES)
def test_wrong_host(tmp_path: Path, variables: dict[str, Any], target: str, pattern: str) -> None:
    fleet = inventory(tmp_path / "fleet", {HOST: variables})
    refuses(play("deploy.yml", fleet, f"--extra-vars=target={target}"), pattern)


def test_check_mode_where_nothing_is_yet_creates_nothing(tmp_path: Path) -> None:
    """Not even the namespace; the fixture looks."""
    fleet = inventory(tmp_path / "fleet", {HOST: {}})
    assert play("deploy.yml", fleet, TARGET, "--check", "--diff").rc == 0


def test_no_target(tmp_path: Path) -> None:
    fleet = inventory(tmp_path / "fleet", {HOST: {}})
    refuses(play("deploy.yml", fleet), r"target.*minimax-m3\.1/sglang/agg-gb300")


def test_cluster_that_does_not_answer(tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, "https://127.0.0.1:1")
    fleet = inventory(tmp_path / "fleet", {HOST: {"dynamo_kubeconfig": config, "dynamo_context": "c"}})
    refuses(play("deploy.yml", fleet, TARGET), r"127\.0\.0\.1:1\b.*dynamo_(kubeconfig|context)")


def test_cluster_without_dynamo(tmp_path: Path) -> None:
    with bare_cluster() as (server, writes):
        config = kubeconfig(tmp_path, server)
        fleet = inventory(tmp_path / "fleet", {HOST: {"dynamo_kubeconfig": config, "dynamo_context": "c"}})
        refuses(play("deploy.yml", fleet, TARGET), r"DynamoGraphDeployment")
        assert writes == []


def test_mistyped_inventory(tmp_path: Path) -> None:
    run = play("deploy.yml", "--inventory=inventories/labb", TARGET, env={"KUBECONFIG": str(KUBECONFIG)})
    refuses(run, r"inventories/labb.*(no host|does not exist|doesn't exist|could not be read|not found)")


def test_inventory_without_hosts(tmp_path: Path) -> None:
    empty = inventory(tmp_path / "fleet", {})
    refuses(play("deploy.yml", empty, TARGET, env={"KUBECONFIG": str(KUBECONFIG)}), r"(?i)no host")


def test_two_hosts_in_one_place(tmp_path: Path) -> None:
    place = {"dynamo_namespace": HOST}
    fleet = inventory(tmp_path / "fleet", {f"{HOST}-1": place, f"{HOST}-2": place})
    refuses(play("deploy.yml", fleet, TARGET), rf"{HOST}-1.*{HOST}-2|{HOST}-2.*{HOST}-1")


def test_host_of_a_fleet_without_a_cluster_of_its_own(tmp_path: Path) -> None:
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    fleet = inventory(tmp_path / "fleet", {f"{HOST}-1": local, f"{HOST}-2": local}, shared=False)
    run = play("deploy.yml", fleet, TARGET, env={"KUBECONFIG": str(KUBECONFIG)})
    refuses(run, r"dynamo_(kubeconfig|context|namespace)")
