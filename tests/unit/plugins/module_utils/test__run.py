# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _run
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import MASK, Run, censor, outcome, plain, scrub

TOKEN = 'hf_a/b+c d"e'


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run, "_hidden", set())


@pytest.mark.parametrize(
    "form",
    [
        TOKEN,
        base64.b64encode(TOKEN.encode()).decode(),
        base64.urlsafe_b64encode(TOKEN.encode()).decode(),
        quote(TOKEN),
        quote(TOKEN, safe=""),
        json.dumps(TOKEN)[1:-1],
    ],
)
def test_every_form_is_hidden_everywhere(form: str) -> None:
    run = Run()
    run.hide(TOKEN)
    result = scrub({"a": f"x{form}y", form: [1, {"b": (form, None, True)}]})
    assert result == {"a": f"x{MASK}y", MASK: [1, {"b": [MASK, None, True]}]}


def test_base64_without_padding_is_hidden() -> None:
    _run.hide("abcdefgh")
    assert scrub("-YWJjZGVmZ2g-") == f"-{MASK}-"


def test_lines_of_a_long_secret_are_hidden_one_by_one() -> None:
    _run.hide("-----BEGIN\nMIIabc\n-----END\n")
    assert scrub("    MIIabc") == f"    {MASK}"


@pytest.mark.parametrize("short", ["", "a", "abc", None])
def test_short_values_leave_the_output_alone(short: Any) -> None:
    _run.hide(short)
    assert scrub({"a": "abc a banana YWJj"}) == {"a": "abc a banana YWJj"}


def test_longer_secrets_go_first() -> None:
    _run.hide("secret")
    _run.hide("secret-and-more")
    assert scrub("secret-and-more") == MASK


def test_numbers_that_are_the_secret() -> None:
    _run.hide("123456")
    assert scrub({"a": 123456, "b": 1234567, "c": True}) == {"a": MASK, "b": 1234567, "c": True}


def test_hide_secret() -> None:
    _run.hide_secret({"kind": "ConfigMap", "data": {"a": "public-value"}})
    _run.hide_secret(
        {
            "kind": "Secret",
            "data": {"a": base64.b64encode(b"from-data").decode(), "b": "???"},
            "stringData": {"c": "plain-text"},
        }
    )
    assert scrub("public-value from-data plain-text ZnJvbS1kYXRh") == f"public-value {MASK} {MASK} {MASK}"


def test_hide_kubeconfig() -> None:
    _run.hide_kubeconfig({"users": [{"name": "me", "user": {"token": "tok-12345"}}]})
    assert scrub("me tok-12345") == f"me {MASK}"


def test_progress_is_one_scrubbed_line() -> None:
    shown: list[str] = []
    run = Run(show=shown.append)
    run.hide("tok-12345")
    run.progress("asked with\n tok-12345")
    assert shown == run.lines == [f"asked with {MASK}"]


def test_progress_of_a_module_is_only_kept() -> None:
    run = Run()
    run.progress("x")
    assert run.lines == ["x"]


class Text(str):
    """As ansible-core 2.19+ tags values."""


def test_plain_leaves_built_in_types() -> None:
    value = plain({Text("a"): [Text("b"), 1, 1.5, True, None, (1,), {2}]})
    assert value == {"a": ["b", 1, 1.5, True, None, [1], [2]]}
    assert [item.__class__ for item in (next(iter(value)), value["a"][0])] == [str, str]


def test_outcome_of_success() -> None:
    def plugin(params: dict[str, Any], run: Run) -> dict[str, Any]:
        run.hide(params["token"])
        return {"seen": params["token"], "diff": [1]}

    assert outcome(plugin, {"token": "tok-12345"}, Run(diff=True)) == {"changed": False, "seen": MASK, "diff": [1]}
    assert outcome(plugin, {"token": "tok-12345"}, Run()) == {"changed": False, "seen": MASK}


def test_outcome_of_a_failure() -> None:
    def plugin(params: dict[str, Any], run: Run) -> dict[str, Any]:
        run.hide("tok-12345")
        raise DynamoError("refused tok-12345.", "REFUSED", "Mend it.", status=400)

    assert outcome(plugin, {}, Run()) == {
        "changed": False,
        "failed": True,
        "msg": f"refused {MASK}. Mend it.",
        "code": "REFUSED",
        "hint": "Mend it.",
        "status": 400,
    }


def test_outcome_of_a_defect_is_one_line_and_the_traceback_is_kept_apart() -> None:
    def plugin(params: dict[str, Any], run: Run) -> dict[str, Any]:
        run.hide("tok-12345")
        raise ValueError("bad\ntok-12345")

    run = Run()
    result = outcome(plugin, {}, run)
    assert result["failed"] and result["code"] == "BUG" and result["msg"].startswith(f"ValueError: bad {MASK}")
    assert "Traceback" in run.traceback and "tok-12345" not in run.traceback + str(result)


def test_censor() -> None:
    spec = {
        "token": {"no_log": True},
        "one": {"options": {"key": {"no_log": True}, "name": {}}},
        "many": {"options": {"key": {"no_log": True}}},
    }
    params = {"token": "x", "one": {"key": "x", "name": "n"}, "many": [{"key": "x"}, "odd"], "other": 1, "none": None}
    assert censor(spec, params) == {
        "token": MASK,
        "one": {"key": MASK, "name": "n"},
        "many": [{"key": MASK}, "odd"],
        "other": 1,
        "none": None,
    }
