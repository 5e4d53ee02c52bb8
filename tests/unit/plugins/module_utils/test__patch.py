# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patches: what they do, and what they refuse."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _patch
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

DOCUMENT: dict[str, Any] = {
    "spec": {
        "containers": [
            {
                "name": "main",
                "args": ["a", "b"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {}}}],
            }
        ],
        "x/y": {"~": 1},
    }
}


def merged(patch: dict[str, Any]) -> Any:
    document = copy.deepcopy(DOCUMENT)
    _patch.merge(document, patch, "patches[0].merge")
    return document["spec"]


def test_merge() -> None:
    env = [{"name": "N", "value": "2"}, {"name": "B", "value": "3"}]
    spec = merged({"spec": {"containers": [{"name": "main", "args": ["c"], "env": env}], "x/y": None, "n": {"m": 1}}})
    assert spec == {
        "containers": [
            {
                "name": "main",
                "args": ["c"],
                "env": [{"name": "N", "value": "2"}, {"name": "A", "value": "1"}, {"name": "B", "value": "3"}],
            }
        ],
        "n": {"m": 1},
    }
    spec = merged({"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": None}]}]}})
    assert spec["containers"][0]["env"][0] == {"name": "A"}


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"spec": {"$patch": "delete"}}, "patches[0].merge.spec.$patch: directives"),
        ({"spec": {"containers": [{"image": "a"}]}}, "patches[0].merge.spec.containers[0]: needs name"),
        ({"spec": {"volumeMounts": ["a"]}}, "needs mountPath"),
    ],
)
def test_merge_refuses(patch: dict[str, Any], words: str) -> None:
    with pytest.raises(DynamoError) as error:
        merged(patch)
    assert words in str(error.value)


def test_json6902() -> None:
    document = copy.deepcopy(DOCUMENT)
    operations = [
        {"op": "replace", "path": "/spec/x~1y/~0", "value": 2},
        {"op": "test", "path": "/spec/containers/0/name", "value": "main"},
        {"op": "test", "path": "/spec/containers/0/args/1", "value": "b"},
        {"op": "replace", "path": "/spec/containers/0/args/1", "value": "B"},
        {"op": "add", "path": "/spec/containers/0/args/0", "value": "0"},
        {"op": "add", "path": "/spec/containers/0/args/-", "value": "z"},
        {"op": "test", "path": "/spec/containers/0/env/1/name", "value": "B"},
        {"op": "remove", "path": "/spec/containers/0/env/1"},
        {"op": "add", "path": "/spec/new", "value": [1]},
        {"op": "remove", "path": "/spec/new"},
    ]
    _patch.json6902(document, operations, "p")
    main = document["spec"]["containers"][0]
    assert (main["args"], main["env"]) == (["0", "a", "B", "z"], [{"name": "A", "value": "1"}])
    assert document["spec"].keys() == {"containers", "x/y"}
    assert document["spec"]["x/y"] == {"~": 2}


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ({"op": "move", "path": "/a"}, "op must be one of test, add, replace, remove"),
        ({"op": "add", "path": "spec", "value": 1}, "path must begin with /"),
        ({"op": "add", "path": "/spec"}, "add needs a value"),
        ({"op": "replace", "path": "/spec/containers/0/name", "value": 1}, "is a place in a list: test before it"),
        ({"op": "replace", "path": "/spec/none", "value": 1}, "/spec/none doesn't exist"),
        ({"op": "remove", "path": "/spec/none/x"}, "/spec/none/x doesn't exist"),
        ({"op": "test", "path": "/spec/containers/0/name", "value": "m"}, "/spec/containers/0/name is 'main', not 'm'"),
        ({"op": "test", "path": "/spec/containers/1", "value": 1}, "doesn't exist"),
        ({"op": "add", "path": "/spec/containers/-/x", "value": 1}, "doesn't exist"),
    ],
)
def test_json6902_refuses_and_changes_nothing(operation: dict[str, Any], words: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    with pytest.raises(DynamoError) as error:
        _patch.json6902(document, [{"op": "add", "path": "/spec/n", "value": 1}, operation], "patches[1].json6902")
    assert "dynamo_binding.patches[1].json6902[1]: " in str(error.value)
    assert words in str(error.value)
    assert document == DOCUMENT


NAME = {"op": "test", "path": "/spec/containers/0/name", "value": "main"}
FIRST = {"op": "test", "path": "/spec/containers/0/args/0", "value": "a"}
SECOND = {"op": "test", "path": "/spec/containers/0/args/1", "value": "b"}
REMOVE = {"op": "remove", "path": "/spec/containers/0/args/0"}


@pytest.mark.parametrize(
    ("operations", "place"),
    [
        ([NAME, REMOVE], "/spec/containers/0/args/0"),
        ([NAME, {"op": "replace", "path": "/spec/containers/0/env/1/value", "value": "c"}], "/spec/containers/0/env/1"),
        ([{"op": "test", "path": "/spec/x~1y/~0", "value": 1}, REMOVE], "/spec/containers/0"),
        ([NAME, FIRST, REMOVE, REMOVE], "/spec/containers/0/args/0"),
        ([NAME, FIRST, {**REMOVE, "op": "add", "value": "z"}, REMOVE], "/spec/containers/0/args/0"),
    ],
)
def test_a_test_is_about_its_own_place(operations: list[Any], place: str) -> None:
    with pytest.raises(DynamoError, match=f"{place} is a place in a list: test before it"):
        _patch.json6902(copy.deepcopy(DOCUMENT), operations, "p")


@pytest.mark.parametrize(
    "operations",
    [
        [FIRST, SECOND, {**REMOVE, "path": "/spec/containers/0/args/1"}, REMOVE],
        [{"op": "test", "path": "/spec/containers/0/args", "value": ["a", "b"]}, REMOVE, REMOVE],
        [NAME, {"op": "add", "path": "/spec/containers/0/args/0", "value": "z"}],
    ],
)
def test_places_that_are_known(operations: list[Any]) -> None:
    _patch.json6902(copy.deepcopy(DOCUMENT), operations, "p")


@pytest.mark.parametrize(
    "path",
    ["/spec/containers/²/name", "/spec/containers/0/args/9", "/spec/containers/0/args/x", "/spec/containers/0/name/x"],
)
def test_json6902_has_no_place(path: str) -> None:
    with pytest.raises(DynamoError, match=r"no place in the list|doesn't exist"):
        _patch.json6902(copy.deepcopy(DOCUMENT), [NAME, {"op": "add", "path": path, "value": 1}], "p")
