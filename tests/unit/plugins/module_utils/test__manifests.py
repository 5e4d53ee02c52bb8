# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifest helpers."""

from __future__ import annotations

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _manifests


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/m/A", "/m/A/c"),
        ("/m/A/draft", "/m/A/c/draft"),
        ("--model=/m/A", "--model=/m/A/c"),
        ('{"model":"/m/A"}', '{"model":"/m/A/c"}'),
        ("/m/A-GQA", "/m/A-GQA"),
        ("/m/A.1", "/m/A.1"),
        ("/x/m/A", "/x/m/A"),
    ],
)
def test_replace_paths(text: str, expected: str) -> None:
    assert _manifests.replace_paths({"k": [text]}, {"/m/A": "/m/A/c"}) == {"k": [expected]}


def test_what_is_mounted_inside_a_model_follows_it() -> None:
    mounts = [{"mountPath": "/m/A"}, {"mountPath": "/m/A/"}, {"mountPath": "/m/A/chat.jinja"}]
    moved = [mount["mountPath"] for mount in _manifests.replace_paths(mounts, {"/m/A": "/m/A/c"})]
    assert moved == ["/m/A", "/m/A/", "/m/A/c/chat.jinja"]


def test_map_text_leaves_keys_and_numbers() -> None:
    assert _manifests.map_text({"a": ["a", 1, None, True]}, str.upper) == {"a": ["A", 1, None, True]}


def test_content_hash_depends_on_content_only() -> None:
    one = _manifests.content_hash({"metadata": {"name": "x"}, "data": {"a": "1", "b": "2"}})
    assert one == _manifests.content_hash({"metadata": {"name": "y"}, "data": {"b": "2", "a": "1"}})
    assert one != _manifests.content_hash({"data": {"a": "1"}, "binaryData": {"b": "2"}})
    assert len(one) == 8
