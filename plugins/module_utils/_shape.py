# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: is a value of somebody's YAML what the code takes for granted? In words, with the path. Pure functions.

A shape is one of
  TEXT, COUNT, POSITIVE, NUMBER, FLAG, AMOUNT, DEVICES, ANYTHING   a kind of value
  (pattern, words)                              a text that matches as a whole; the words say what it must be
  ("a", "b")                                    one of these texts
  [shape]                                       a list
  {key: shape}                                  a dictionary with these keys; "key!" must be there, "..." stands for all
                                                others, and without it there are no others; "...keys" is the shape of
                                                all keys
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

TEXT = "a text"
COUNT = "a whole number from 0"
POSITIVE = "a whole number above zero"
NUMBER = "a number from 0"
FLAG = "true or false"
# Of a resource; the API takes a number for its text.
AMOUNT = "an amount such as 2, 500m or 8Gi"
DEVICES = "a whole number of devices"
ANYTHING = "a text, a number, true or false"
QUANTITY = re.compile(r"(\d+(\.\d*)?|\.\d+)(m|k|M|G|T|P|E|[KMGTPE]i|[eE][-+]?\d+)?")

_DIGITS = re.compile(r"\d+")


def found(value: Any) -> str:
    """A value as a message shows it: of dictionaries and lists only that they are one."""
    if value is None:
        return "nothing"
    if isinstance(value, (Mapping, list, tuple)):
        return "a dictionary" if isinstance(value, Mapping) else "a list"
    text = repr(value) if isinstance(value, str) else str(value).lower()
    return text if len(text) <= 60 else f"{text[:57]}..."


def problem(value: Any, shape: Any, path: str = "", null: bool = True) -> str:
    """The first thing that is wrong, `path: must be ..., found ...`, or nothing.

    :param null: null is as good as an absent key.
    """
    if value is None and (null or shape == ANYTHING):
        return ""
    if isinstance(shape, dict):
        return _dictionary(value, shape, path, null)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _wrong(path, "a list", value)
        for index, item in enumerate(value):
            name = item.get("name") if isinstance(item, Mapping) else None
            where = f"{path}[{name if isinstance(name, str) else index}]"
            wrong = problem(item, shape[0], where, null) if item is not None else _wrong(where, _words(shape[0]), item)
            if wrong:
                return wrong
        return ""
    if shape == ANYTHING and isinstance(value, Mapping):
        return _dictionary(value, {"...": ANYTHING}, path, null)
    if shape == ANYTHING and isinstance(value, list):
        items = (problem(item, ANYTHING, f"{path}[{index}]", null) for index, item in enumerate(value))
        return next(filter(None, items), "")
    return "" if _fits(value, shape) else _wrong(path, _words(shape), value)


def _dictionary(value: Any, shape: dict[str, Any], path: str, null: bool) -> str:
    if not isinstance(value, Mapping):
        return _wrong(path, "a dictionary", value)
    known = {key.rstrip("!"): inner for key, inner in shape.items()}
    others, keys = known.pop("...", None), known.pop("...keys", None)
    for key, item in value.items():
        where = f"{path}.{key}" if path else str(key)
        if not isinstance(key, str):
            return f"{path}: keys must be texts, found {found(key)}; quote it".removeprefix(": ")
        if keys and not _fits(key, keys):
            return f"{path}: the key {found(key)} must be {_words(keys)}".removeprefix(": ")
        if key not in known and others is None:
            return f"{where}: no such key; there are {', '.join(sorted(known))}"
        wrong = problem(item, known.get(key, others), where, null)
        if wrong:
            return wrong
    for key in shape:
        if key.endswith("!") and value.get(key[:-1]) in (None, "", []):
            wrong = "must not be empty" if value.get(key[:-1]) == [] else "must be there"
            return f"{f'{path}.' if path else ''}{key[:-1]}: {wrong}"
    return ""


def _words(shape: Any) -> str:
    if isinstance(shape, (dict, list)):
        return "a dictionary" if isinstance(shape, dict) else "a list"
    if isinstance(shape, tuple):
        return str(shape[1]) if isinstance(shape[0], re.Pattern) else f"one of {', '.join(shape)}"
    return str(shape)


def _wrong(path: str, words: str, value: Any) -> str:
    quote = "; quote it" if words == TEXT and isinstance(value, (bool, int, float)) else ""
    return f"{path}: must be {words}, found {found(value)}{quote}".removeprefix(": ")


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, tuple):
        return isinstance(value, str) and bool(
            shape[0].fullmatch(value) if isinstance(shape[0], re.Pattern) else value in shape
        )
    if shape == ANYTHING:  # that JSON can hold
        return isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))
    if shape == FLAG:
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if shape in (COUNT, POSITIVE):
        return isinstance(value, int) and value >= (shape == POSITIVE)
    if shape == NUMBER:
        return isinstance(value, (int, float)) and value >= 0
    if shape in (AMOUNT, DEVICES):
        number = isinstance(value, (str, int, float))
        return number and bool((QUANTITY if shape == AMOUNT else _DIGITS).fullmatch(str(value)))
    return isinstance(value, str)
