# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cluster a kubeconfig means."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils import _kubeconfig
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError


def config(*names: str, current: str | None = None, namespace: str = "") -> dict[str, Any]:
    return {
        "current-context": current,
        "contexts": [{"name": name, "context": {"cluster": name, "namespace": namespace}} for name in names],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443/"}} for name in names],
        "users": [{"name": "u", "user": {"token": "not-to-be-kept"}}],
    }


def test_current_and_named_context() -> None:
    given = config("a", "b", current="a", namespace="llm")
    assert _kubeconfig.cluster_of(given, None, "x") == {"context": "a", "server": "https://a:6443", "namespace": "llm"}
    assert _kubeconfig.cluster_of(given, "b", "x")["server"] == "https://b:6443"


@pytest.mark.parametrize(
    ("given", "context", "words"),
    [
        (config("a", "b"), None, ["dynamo_kubeconfig has no current context", "dynamo_context", "a, b"]),
        (config("a", "b", current="a"), "c", ["dynamo_context: there is no context c", "a, b"]),
        (config("a", current="z"), None, ["current context of dynamo_kubeconfig: there is no context z"]),
        ({}, None, ["none"]),
        ({**config("a", current="a"), "clusters": []}, None, ["dynamo_kubeconfig: context a names no cluster"]),
    ],
)
def test_no_cluster(given: dict[str, Any], context: str | None, words: list[str]) -> None:
    with pytest.raises(DynamoError) as error:
        _kubeconfig.cluster_of(given, context, "dynamo_kubeconfig")
    assert error.value.code == "NO_CLUSTER"
    assert [word for word in words if word not in str(error.value)] == []


def test_several_files_are_merged_and_credentials_left_out(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(yaml.safe_dump(config("a")), "utf-8")
    (tmp_path / "b").write_text(yaml.safe_dump(config("b", current="b")), "utf-8")
    merged = _kubeconfig.load(os.pathsep.join(str(tmp_path / name) for name in ("absent", "a", "b")), "x")
    assert _kubeconfig.cluster_of(merged, None, "x")["context"] == "b"
    assert _kubeconfig.cluster_of(merged, "a", "x")["server"] == "https://a:6443"
    assert "not-to-be-kept" not in str(merged)


@pytest.mark.parametrize("text", ["a: [token: not-to-be-kept", "just text", "[1]"])
def test_unreadable_files_are_not_quoted(tmp_path: Path, text: str) -> None:
    (tmp_path / "k").write_text(text, "utf-8")
    with pytest.raises(DynamoError) as error:
        _kubeconfig.load(str(tmp_path / "k"), "dynamo_kubeconfig")
    assert error.value.code == "NO_CLUSTER"
    assert "not-to-be-kept" not in str(error.value)


def test_absent_file(tmp_path: Path) -> None:
    with pytest.raises(DynamoError, match="there is no kubeconfig"):
        _kubeconfig.load(str(tmp_path / "absent"), "dynamo_kubeconfig")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{a: 1}", "is not a kubeconfig: it has no contexts, only a."),
        ("", "is empty; it must be one kubeconfig."),
        ("a: 1\n---\nb: 2\n", "holds several documents"),
        ("text", "is not a kubeconfig: must be a dictionary, found 'text'."),
        ("a: 1\nb: [", " is not YAML."),
        ("contexts: 7", "contexts: must be a list, found 7."),
        ("contexts: [x]", "contexts[0]: must be a dictionary, found 'x'."),
        ("contexts: [{name: [a]}]", "contexts[0].name: must be a text, found a list."),
        ("contexts: [{name: a, context: x}]", "contexts[a].context: must be a dictionary"),
        ("{contexts: [{name: a}], clusters: [{name: c, cluster: {server: 7}}]}", "clusters[c].cluster.server: must be"),
        ("{contexts: [{name: a}], current-context: [a]}", "current-context: must be a text, found a list."),
    ],
)
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content, "utf-8")
    with pytest.raises(DynamoError) as error:
        _kubeconfig.load(str(path), "dynamo_kubeconfig")
    assert str(error.value).startswith(f"dynamo_kubeconfig: {path} ")
    assert words in str(error.value)
    assert error.value.code == "NO_CLUSTER"


def test_a_directory_and_a_dictionary_that_are_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(DynamoError, match=r"dynamo_kubeconfig: \S+ is a directory, no kubeconfig"):
        _kubeconfig.load(str(tmp_path), "dynamo_kubeconfig")
    with pytest.raises(DynamoError, match="dynamo_kubeconfig is not a kubeconfig: it has no contexts, only a"):
        _kubeconfig.load({"a": 1}, "dynamo_kubeconfig")
