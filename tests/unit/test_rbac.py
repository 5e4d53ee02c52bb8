# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/rbac.yaml against the calls in the source. What a real run asks for: tests/integration/test_user.py."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils import _changes, _objects

ROOT = Path(__file__).resolve().parents[2]
Right = tuple[str, str]  # verb, resource or resource/subresource

# Methods of Cluster, and functions beside them that take an API version and a kind and hand them on.
VERBS = {
    "get": ["get"],
    "list": ["list"],
    "listed": ["list"],
    "maybe": ["list"],
    "_list": ["list"],
    "delete": ["delete"],
    "patch": ["patch"],
    "apply": ["create", "patch"],
}
SUBRESOURCES = {
    "log": [("get", "pods/log")],
    "service_proxy": [("get", "services/proxy"), ("create", "services/proxy")],
    "open_port": [("get", "pods/portforward"), ("create", "pods/portforward")],
}
# Plurals that aren't the kind in lower case with an s.
PLURALS = {"StorageClass": "storageclasses", "DeviceClass": "deviceclasses"}
# What the manifests that a playbook removes are of: old ConfigMaps and ComputeDomains, Jobs with another template, a
# teardown. Their kinds are data, so no call shows them.
REMOVED = {"ConfigMap", "ComputeDomain", "Job", "DynamoGraphDeployment", "Secret", "PersistentVolumeClaim"}


def resource(kind: str) -> str:
    return PLURALS.get(kind, f"{kind.lower()}s")


def strings(node: ast.expr, constants: dict[str, ast.expr]) -> list[str]:
    """The texts in an argument, through a constant of the module and a star."""
    if isinstance(node, ast.Starred):
        node = node.value
    if isinstance(node, ast.Name) and node.id in constants:
        node = constants[node.id]
    found = node.elts if isinstance(node, ast.Tuple) else [node]
    return [str(n.value) for n in found if isinstance(n, ast.Constant) and isinstance(n.value, str)]


@cache
def called() -> set[Right]:
    return set(search())


def search() -> Iterator[Right]:
    """The rights that the calls in the source need whose kind stands in the call."""
    for _api_version, kind in _changes.WATCHED:
        yield "watch", resource(kind)
    for path in sorted((ROOT / "plugins/module_utils").glob("_*.py")):
        if path.name == "_cluster.py":
            continue
        tree = ast.parse(path.read_text("utf-8"))
        constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            method = node.func.attr
            of_cluster = isinstance(node.func.value, ast.Attribute) and node.func.value.attr == "cluster"
            if of_cluster:
                yield from SUBRESOURCES.get(method, [])
            if method in VERBS and (
                of_cluster or (isinstance(node.func.value, ast.Name) and node.func.value.id == "self")
            ):
                texts = [text for argument in node.args[:2] for text in strings(argument, constants)]
                for kind in [text for text in texts if text[:1].isupper()]:
                    for verb in VERBS[method]:
                        yield verb, resource(kind)


def written() -> Iterator[Right]:
    """The rights for what the collection applies: read, dry run, server-side apply."""
    for kind in _objects.STAGES.keys() - {"CustomResourceDefinition", "Namespace"}:
        for verb in ("get", "create", "patch"):
            yield verb, resource(kind)
    yield from (("create", "pods"), ("patch", "pods"))  # dry runs of preflight
    yield "list", "jobs"  # teardown and benchmark find them by their labels


def granted(*kinds: str) -> set[Right]:
    rules = [
        rule
        for role in yaml.safe_load_all((ROOT / "docs/rbac.yaml").read_text("utf-8"))
        if role["kind"] in kinds
        for rule in role["rules"]
    ]
    return {(verb, name) for rule in rules for verb in rule["verbs"] for name in rule["resources"]}


def test_calls_are_found() -> None:
    """Guards the search: one of each shape."""
    rights = called()
    assert {("get", "pods/log"), ("list", "nodes"), ("watch", "dynamographdeployments"), ("list", "events")} <= rights


def test_every_call_is_granted() -> None:
    assert sorted({*called(), *written()} - granted("Role", "ClusterRole")) == []


def test_nothing_is_granted_that_no_call_needs() -> None:
    removed = {("delete", resource(kind)) for kind in REMOVED}
    assert sorted(granted("Role", "ClusterRole") - {*called(), *written()} - removed) == []


def test_the_cluster_wide_role_only_reads() -> None:
    assert {verb for verb, _name in granted("ClusterRole")} <= {"get", "list"}


def test_no_wildcard_and_no_right_to_more_rights() -> None:
    text: Any = list(yaml.safe_load_all((ROOT / "docs/rbac.yaml").read_text("utf-8")))
    for role in text:
        for rule in role["rules"]:
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]], role["metadata"]["name"]
            assert {"escalate", "bind", "impersonate"}.isdisjoint(rule["verbs"])
