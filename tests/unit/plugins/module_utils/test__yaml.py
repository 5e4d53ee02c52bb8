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
    [("", []), ("---\n", [None]), ("a: 1\n---\n- true\n", [{"a": 1}, [True]]), ("2026-01-01", ["2026-01-01"])],
)
def test_load_all(text: str, documents: list[Any]) -> None:
    found = _yaml.load_all(io.StringIO(text))
    assert [str(item) for item in found] == [str(item) for item in documents]


@pytest.mark.parametrize(("text", "line"), [("a: 1\nb: c: d", 2), ("!!python/name:os.system ''", 1)])
def test_what_is_no_yaml(text: str, line: int) -> None:
    with pytest.raises(_yaml.NotYaml) as caught:
        _yaml.load_all(io.StringIO(text))
    assert caught.value.line == line and caught.value.problem


def test_dump_shows_text_line_by_line() -> None:
    assert _yaml.dump({"b": "x\ny\n", "a": ["1"]}) == "a:\n- '1'\nb: |\n  x\n  y\n"


@pytest.mark.parametrize("action", [lambda: _yaml.load_all(io.StringIO("")), lambda: _yaml.dump({})])
def test_without_the_library(action: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_yaml, "IMPORT_ERROR", ImportError("No module named 'yaml'"))
    with pytest.raises(DynamoError, match="PyYAML") as caught:
        action()
    assert caught.value.code == "NO_LIBRARY"
