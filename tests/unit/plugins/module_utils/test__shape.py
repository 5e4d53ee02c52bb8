# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _shape

SHAPE = {
    "name!": _shape.TEXT,
    "count": _shape.COUNT,
    "size": _shape.NUMBER,
    "on": _shape.FLAG,
    "amount": _shape.AMOUNT,
    "gpus": _shape.DEVICES,
    "any": _shape.ANYTHING,
    "id": (re.compile(r"\d+"), "digits"),
    "word": ("a", "b"),
    "list": [{"name": _shape.TEXT, "...": _shape.COUNT}],
}


@pytest.mark.parametrize(
    "more",
    [
        {
            "count": 0,
            "size": 1.5,
            "on": False,
            "amount": 2,
            "gpus": "4",
            "any": [1, None, {"a": {"b": "c"}}],
            "id": "5",
            "word": "b",
        },
        {"list": [{"name": "x", "other": 3}, {}], "count": None, "amount": "500m"},
    ],
)
def test_what_fits(more: dict[str, Any]) -> None:
    assert _shape.problem({"name": "x", **more}, SHAPE) == ""


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"name": None}, "name: must be there"),
        ({"name": 5}, "name: must be a text, found 5; quote it"),
        ({"name": ["x"]}, "name: must be a text, found a list"),
        ({"other": 1}, "other: no such key; there are amount, any, count"),
        ({True: 1}, "keys must be texts, found true; quote it"),
        ({"count": -1}, "count: must be a whole number from 0, found -1"),
        ({"count": True}, "count: must be a whole number from 0, found true"),
        ({"size": "252e9"}, "size: must be a number from 0, found '252e9'"),
        ({"on": "yes"}, "on: must be true or false, found 'yes'"),
        ({"amount": "much"}, "amount: must be an amount such as 2, 500m or 8Gi, found 'much'"),
        ({"gpus": "4.5"}, "gpus: must be a whole number of devices"),
        ({"id": "x" * 80}, "id: must be digits, found 'xxx"),
        ({"word": 1}, "word: must be one of a, b, found 1"),
        ({"list": {}}, "list: must be a list, found a dictionary"),
        ({"list": [None]}, "list[0]: must be a dictionary, found nothing"),
        ({"list": [{"name": "x", "n": "y"}]}, "list[x].n: must be a whole number"),
        ({"any": {"a": [{1: 2}]}}, "any.a[0]: keys must be texts, found 1; quote it"),
        ({"any": [datetime.date(2026, 1, 1)]}, "any[0]: must be a text, a number, true or false, found 2026-01-01"),
        ({"any": {"a": {"b"}}}, "any.a: must be a text, a number"),
        ({"any": float("nan")}, "any: must be a text, a number"),
    ],
)
def test_what_does_not(more: dict[Any, Any], words: str) -> None:
    assert _shape.problem({"name": "x", **more}, SHAPE).startswith(words)
    assert len(_shape.problem({"name": "x", **more}, SHAPE)) < 120


def test_null_counts_where_it_may_not_be() -> None:
    assert _shape.problem({"name": "x", "count": None}, SHAPE, "spec", null=False).startswith("spec.count: must be")
    assert _shape.problem(None, SHAPE, null=False) == "must be a dictionary, found nothing"
