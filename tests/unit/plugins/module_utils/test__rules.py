# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Kubernetes takes, by examples on both sides of each rule."""

from __future__ import annotations

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _rules

GOOD = {
    "KEY": ["a", "A.b_c-9", "example.com/name", "nvidia.com/gpu", "x" * 63, f"{'a' * 63}.b/{'x' * 63}"],
    "ANNOTATION_KEY": ["Example.com/name", "a"],
    "LABEL": ["", "a", "A_b.c-9", "x" * 63],
    "OBJECT": ["a", "a.b-c", "x" * 253],
    "REGISTRY": ["mirror.example.com", "mirror.example.com:5000/nvcr/x", "localhost:5000", "[::1]:5000", "m/"],
    "IMAGE": [
        "python:3.12-slim",
        "registry.example.com/a/b_c/d--e:1.0",
        "localhost:5000/a",
        "inferops/lab-runtime:0123abcd",
        f"a/b:1@sha256:{'0' * 64}",
        f"a@sha256:{'f' * 64}",
    ],
}
BAD = {
    "KEY": ["", "a b", "a/b/c", "/a", "Example.com/a", "-a", "a-", "x" * 64, f"{'a.' * 130}a/b", "a\n"],
    "ANNOTATION_KEY": ["a b", "a/b/c"],
    "LABEL": ["a b", "-", "x" * 64, "a/b", "a\n"],
    "OBJECT": ["", "A", "a_b", "-a", "a.", "x" * 254, "a\n"],
    "REGISTRY": ["", "a b", "https://a", "u@a", "a/B", "a//b", "a:b"],
    "IMAGE": ["", "Bad Image:::", "a b", "A", "a:", "a:b:c", "https://a/b", "a@sha256:0", "a/B:1", "a\n"],
}


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in GOOD.items() for text in texts])
def test_good(rule: str, text: str) -> None:
    assert getattr(_rules, rule)[0].fullmatch(text)


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in BAD.items() for text in texts])
def test_bad(rule: str, text: str) -> None:
    assert not getattr(_rules, rule)[0].fullmatch(text)


@pytest.mark.parametrize(
    ("amount", "value"),
    [("2", 2), ("500m", 0.5), ("1.5Gi", 1.5 * 2**30), ("2k", 2000), ("3e3", 3000), ("1E", 10**18), ("1Ei", 2**60)],
)
def test_quantities(amount: str, value: float) -> None:
    assert float(_rules.quantity(amount)) == value


def test_tolerations() -> None:
    for good in (
        {"operator": "Exists"},
        {"key": "a"},
        {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 3},
    ):
        assert _rules.toleration(good) == ""
    for bad in ({}, {"value": "b"}, {"operator": "Exists", "value": "b"}, {"key": "a", "tolerationSeconds": 3}):
        assert _rules.toleration(bad)
