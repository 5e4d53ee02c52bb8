# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _apierrors
from ansible_collections.inferops.dynamo.tests.unit.plugins.fake_api import status


def answer(code: int, message: str, **details: Any) -> SimpleNamespace:
    """An exception of the client, as far as it is looked at."""
    return SimpleNamespace(status=code, reason="", body=json.dumps(status(code, message, details=details)[1]).encode())


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (answer(401, "Unauthorized"), "UNAUTHORIZED", "https://c1 (context c1) does not accept the credentials"),
        (answer(403, 'User "me" cannot patch resource "secrets"'), "FORBIDDEN", "not allowed to patch Secret llm/s"),
        (answer(403, 'admission webhook "x" denied the request: no'), "REFUSED", "denied the request: no"),
        (answer(404, "gone", kind="namespaces", name="llm"), "NAMESPACE_ABSENT", "the namespace llm does not exist"),
        (answer(409, "the object has been modified."), "CONFLICT", "has been modified. Something else wrote it"),
        (answer(429, "storage is (re)initializing"), "API_ERROR", "(429): storage is (re)initializing. Try again"),
        (answer(503, ""), "API_ERROR", "cannot answer now (503)"),
        (answer(500, "failed calling webhook x"), "REFUSED", "An admission webhook does not answer"),
        (SimpleNamespace(status=500, reason="Broken", body=None), "REFUSED", "Broken"),
        (SimpleNamespace(status=502, reason="", body=b"<html>\n bad</html>"), "API_ERROR", "<html> bad</html>"),
    ],
)
def test_refusal(error: Any, code: str, words: str) -> None:
    found = _apierrors.refusal(error, "patch", "Secret llm/s", "https://c1 (context c1)")
    assert (found.code, found.result) == (code, {"status": error.status})
    assert words in str(found)


def test_unreachable_says_what_lies_below_the_wrappers() -> None:
    inner = ConnectionError("<urllib3.connection.HTTPConnection object at 0x7f>: Failed: refused")
    outer = Exception("HTTPConnectionPool(host='c1')")
    outer.reason = inner  # type: ignore[attr-defined]
    error = _apierrors.unreachable(outer, "https://c1")
    assert error.code == "NO_CLUSTER" and error.message == "no answer from the API server https://c1: Failed: refused."


def causes(*fields: str) -> list[dict[str, str]]:
    found = [{"field": field, "message": 'conflict with "kubectl" using v1'} for field in fields]
    body = json.dumps(status(409, "x", details={"causes": [*found, {"message": "no field"}]})[1])
    return _apierrors.causes_of(SimpleNamespace(body=body))


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_conflict(kind: str) -> None:
    wanted = {"kind": kind, "data": dict.fromkeys("abcde", "new")}
    live = {"kind": kind, "data": dict.fromkeys("abcd", "old")}
    error = _apierrors.conflict(causes(*(f".data.{name}" for name in "abcde")), wanted, live, f"{kind} llm/x")
    assert error.code == "CONFLICT" and "kubectl set .data.a" in error.message and "; and 2 more." in error.message
    assert ('to "old", wanted is "new"' in error.message) is (kind == "ConfigMap")
    assert len(error.result["conflicts"]) == 5
    assert error.result["conflicts"][4].get("live") == ("null" if kind == "ConfigMap" else None)


@pytest.mark.parametrize(
    ("kind", "name", "namespace", "title"),
    [
        ("Pod", "p", "llm", "Pod llm/p"),
        ("Node", "n", None, "Node n"),
        ("Pod", "", "llm", "Pods in llm"),
        ("Node", "", None, "Node"),
    ],
)
def test_titles(kind: str, name: str, namespace: str | None, title: str) -> None:
    assert _apierrors.title_of(kind, name, namespace) == title


@pytest.mark.parametrize(
    "body", [None, b"<html>", b"[]", b'{"kind": "Status"}', b'{"kind": "Pod", "apiVersion": "v1"}']
)
def test_what_is_no_status(body: Any) -> None:
    assert _apierrors.status_of(body) == {}


def test_lines_are_short() -> None:
    assert len(_apierrors.one_line(b"x" * 5000)) == 1000


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".data.greeting", "hi"),
        (".metadata.labels.app.kubernetes.io/name", "x"),
        ('.spec.components[name="Worker"].replicas', 2),
        (".spec.list[1]", "b"),
        ('.spec.list[="a"]', "a"),
        (".spec.absent.more", None),
        (".spec.list[9]", None),
        ('.spec.components[name="Nobody"].replicas', None),
        (".spec.components[name={].replicas", None),
        (".data.greeting[0]", None),
    ],
)
def test_field_value(path: str, value: Any) -> None:
    obj = {
        "metadata": {"labels": {"app.kubernetes.io/name": "x"}},
        "data": {"greeting": "hi"},
        "spec": {
            "components": [{"name": "Frontend", "replicas": 1}, {"name": "Worker", "replicas": 2}],
            "list": ["a", "b"],
        },
    }
    assert _apierrors.field_value(obj, path) == value


@pytest.mark.parametrize(
    ("kind", "manager", "words"),
    [
        ("ConfigMap", "kubectl", "takes over what kubectl apply or create set."),
        ("DynamoGraphDeployment", "kubectl-replace", "set, but not what kubectl-replace set."),
        ("Secret", "kubectl-replace", "then run again."),
        ("Secret", "kubectl", "then run again."),
    ],
)
def test_what_to_do_about_a_conflict_depends_on_who_owns_it(kind: str, manager: str, words: str) -> None:
    found = [{"field": ".spec.replicas", "message": f'conflict with "{manager}" using v1'}]
    error = _apierrors.conflict(found, {"kind": kind, "spec": {"replicas": 2}}, {"spec": {"replicas": 1}}, "X llm/x")
    assert f"{manager} set .spec.replicas" in error.message
    assert error.hint.endswith(words)
