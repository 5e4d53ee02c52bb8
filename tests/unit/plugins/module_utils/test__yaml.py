# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import io
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _yaml
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("", []),
        ("---\n", [None]),
        ("a: 1\n---\n- true\n", [{"a": 1}, [True]]),
        ("2026-01-01T00:00:00Z", ["2026-01-01T00:00:00Z"]),
        ("a: =", [{"a": "="}]),
        ("a: &a {x: 1}\nb: {<<: *a, x: 2}", [{"a": {"x": 1}, "b": {"x": 2}}]),
        ("2026-01-01", ["2026-01-01"]),
    ],
)
def test_load_all(text: str, documents: list[Any]) -> None:
    found = _yaml.load_all(io.StringIO(text))
    assert [str(item) for item in found] == [str(item) for item in documents]


ALIASES = "a0: &a0 [x, x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(9))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: c: d", 2),
        ("!!python/name:os.system ''", 1),
        ("a: 1\nb: {c: 1, c: 2}", 2),
        ("a: 1\n'a': 2", 2),
        ("a: !!set {b}", 1),
        ("a: !!binary aaaa", 1),
        ("a: &a\n- *a", 1),
        ("&a {b: *a}", 1),
        ("!!int word", 0),
        ("0x_", 0),
        ("!!map [a]", 1),
        ("[" * 5000, 1),
        pytest.param(ALIASES, 0, id="aliases"),
    ],
)
def test_what_is_no_yaml(text: str, line: int) -> None:
    with pytest.raises(_yaml.NotYaml) as caught:
        _yaml.load_all(io.StringIO(text))
    assert caught.value.line == line and caught.value.problem


# `n` and the like are booleans to YAML 1.1 as Go has it, the others numbers or dates to YAML 1.2 or to Go.
@pytest.mark.parametrize(
    "text",
    "n y N Y no on 019 08 1e3 1e-5 12e4 .5e3 9e9 0o7 0o17 0x1f -1e3 +.5e3 ._5 1_0 0b1 2026-1-2 2026-1-2T1:2:3Z 1:30"
    f" = null ~ {'1' * 37}1e1".split(),
)
def test_dump_quotes_what_another_parser_reads_as_no_text(text: str) -> None:
    assert _yaml.dump({"a": [text], text: 1}).count(f"'{text}'") == 2
    assert next(iter(_yaml.load_all(io.StringIO(_yaml.dump([text]))))) == [text]


@pytest.mark.parametrize("text", ["nvidia", "yes-man", "-m", "--model", "a1", "/1", "$(N)"])
def test_dump_leaves_other_text_plain(text: str) -> None:
    assert _yaml.dump([text]) == f"- {text}\n"


def test_dump_shows_text_line_by_line() -> None:
    assert _yaml.dump({"b": "x\ny\n", "a": ["1"]}) == "a:\n- '1'\nb: |\n  x\n  y\n"


@pytest.mark.parametrize("action", [lambda: _yaml.load_all(io.StringIO("")), lambda: _yaml.dump({})])
def test_without_the_library(action: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_yaml, "IMPORT_ERROR", ImportError("No module named 'yaml'"))
    with pytest.raises(DynamoError, match="PyYAML") as caught:
        action()
    assert caught.value.code == "NO_LIBRARY"
