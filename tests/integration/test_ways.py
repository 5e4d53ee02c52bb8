# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways to a frontend, each with a stream that arrives piece by piece; what `auto` takes; and a call of a tool."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab import CONTEXT, KUBECONFIG, Lab, Play, binding, inventory, play

pytestmark = pytest.mark.long
HOST = "mol-ways"
MARK = "]<]minimax[>["
CALL = f'{MARK}<invoke name="get_weather">{MARK}<city>Paris{MARK}</city>{MARK}</invoke>'
TOOL_CALL = f"{MARK}<tool_call>\n{CALL}\n{MARK}</tool_call>"
# What the documentation of openai_smoke asks for, by way.
RIGHTS: dict[str, list[tuple[str, list[str], list[str]]]] = {
    "service_proxy": [("", ["services/proxy"], ["get", "create"])],
    "port_forward": [
        ("", ["services"], ["get"]),
        ("", ["pods"], ["list"]),
        ("", ["pods/portforward"], ["get", "create"]),
    ],
    "job": [
        ("batch", ["jobs"], ["patch", "create", "delete"]),
        ("", ["pods"], ["list"]),
        ("", ["pods/log"], ["get"]),
    ],
}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A worker that takes 50 ms for each token."""
    lab = Lab()
    lab.remove([HOST])
    slowly = {"dynamo_binding": binding(env={"Worker": {"LAB_TOKEN_DELAY": "0.05"}})}
    run = play(
        "deploy.yml", inventory(tmp_path_factory.mktemp("ways"), {HOST: slowly}), "--extra-vars=target=sglang-gb300"
    )
    assert run.rc == 0
    yield lab
    lab.remove([HOST])


def user(lab: Lab, way: str, folder: Path) -> str:
    """A kubeconfig of a user who may do what one way needs, in this namespace, and nothing else."""
    name = way.replace("_", "-")
    metadata = {"name": name, "namespace": HOST}
    rules = [{"apiGroups": [group], "resources": kinds, "verbs": verbs} for group, kinds, verbs in RIGHTS[way]]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    rbac = "rbac.authorization.k8s.io/v1"
    lab.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    lab.apply({"apiVersion": rbac, "kind": "Role", "metadata": metadata, "rules": rules})
    subjects = [{"kind": "ServiceAccount", **metadata}]
    lab.apply({"apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata, "roleRef": role, "subjects": subjects})
    token = lab.core.create_namespaced_service_account_token(name, HOST, {"spec": {}}).status.token
    config = yaml.safe_load(KUBECONFIG.read_text("utf-8"))
    cluster = next(c["context"]["cluster"] for c in config["contexts"] if c["name"] == CONTEXT)
    config["clusters"] = [c for c in config["clusters"] if c["name"] == cluster]
    config["contexts"] = [{"name": CONTEXT, "context": {"cluster": cluster, "user": name}}]
    config["users"] = [{"name": name, "user": {"token": token}}]
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump({**config, "current-context": CONTEXT}), "utf-8")
    return str(path)


def smoke(folder: Path, **variables: Any) -> tuple[Play, dict[str, dict[str, Any]], str]:
    """The run, its checks by name, and the way that was used."""
    run = play("smoke_test.yml", inventory(folder, {HOST: variables}), "--extra-vars=target=sglang-gb300", "-vv")
    assert run.rc == 0
    rows = json.loads(re.search(r'"checks": (\[.*?\n\s*\]|\[.*?\])[,}]', run.output, re.S)[1])  # type: ignore[index]
    return run, {row["name"]: row for row in rows}, re.search(r'"via": "(\w+)"', run.output)[1]  # type: ignore[index]


@pytest.mark.parametrize("way", RIGHTS)
def test_auto_takes_the_way_that_a_user_may_go(deployed: Lab, tmp_path: Path, way: str) -> None:
    _run, rows, used = smoke(tmp_path, dynamo_kubeconfig=user(deployed, way, tmp_path))
    assert used == way
    assert [name for name, row in rows.items() if row["result"] != "passed"] == []
    # the first token came long before the last one
    assert rows["stream"]["first_token_seconds"] < rows["stream"]["seconds"] / 2


@pytest.mark.parametrize("way", RIGHTS)
def test_a_way_that_is_asked_for_is_taken(deployed: Lab, tmp_path: Path, way: str) -> None:
    _run, _rows, used = smoke(tmp_path, smoke_test_via=way, smoke_test_checks=["models", "chat"])
    assert used == way


def test_the_model_calls_a_tool(deployed: Lab, tmp_path: Path) -> None:
    """Through the frontend's own parser: the worker says it in the model's words."""
    calls = {"dynamo_binding": binding(env={"Worker": {"LAB_TEXT": TOOL_CALL}})}
    checks = {"smoke_test_checks": ["models", "tools"]}
    gap = "--extra-vars=allow_gap=true"
    run = play("deploy.yml", inventory(tmp_path, {HOST: {**calls, **checks}}), "--extra-vars=target=sglang-gb300", gap)
    assert run.rc == 0
    _run, rows, _used = smoke(tmp_path / "again", **calls, **checks)
    assert rows["tools"]["result"] == "passed"
