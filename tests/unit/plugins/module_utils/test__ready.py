# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Clock, Response, TransportError
from ansible_collections.inferops.dynamo.plugins.module_utils._ready import ABSENT, Expectation, at, missing, wait

DATA = {"data": [{"id": "m", "n": 3}], "a.b": 1, "empty": []}


@pytest.mark.parametrize(
    ("path", "value"),
    [("data[0].id", "m"), ('["a.b"]', 1), ("data[1].id", ABSENT), ("data.id", ABSENT), ("nope", ABSENT)],
)
def test_paths(path: str, value: Any) -> None:
    assert at(DATA, path) == value


def answer(status: int = 200, body: bytes = b'{"data": [{"id": "m", "n": 3}], "empty": []}') -> Response:
    return Response(status, {"content-type": "application/json"}, body)


@pytest.mark.parametrize(
    ("response", "want", "lacks"),
    [
        (answer(), {}, ""),
        (answer(503, b"no"), {}, "status 503: no"),
        (answer(204, b""), {"status": [204]}, ""),
        (answer(), {"content_type": "text/html"}, "content type application/json, text/html expected"),
        (answer(body=b""), {"json": [("data", "exists", None)]}, "empty body, JSON expected"),
        (answer(body=b"<p>"), {"json": [("data", "exists", None)]}, "no JSON: <p>"),
        (answer(), {"headers": {"Content-Type": "json"}}, ""),
        (answer(), {"headers": {"X-Served-By": "a"}}, "header X-Served-By is absent, a expected"),
        (answer(), {"json": [("data[0].id", "eq", "m"), ("data[0].n", "ge", 3)]}, ""),
        (answer(), {"json": [("data[0].n", "le", 2)]}, "data[0].n is 3, expected le 2"),
        (answer(), {"json": [("empty", "not_empty", None)]}, "empty is [], expected not_empty None"),
        (answer(), {"json": [("data[0]", "contains", "id"), ("x", "ne", 1)]}, "x is absent, expected ne 1"),
    ],
)
def test_assertions(response: Response, want: dict[str, Any], lacks: str) -> None:
    checks = [{"path": p, "operator": o, "value": v} for p, o, v in want.get("json", [])]
    expected = Expectation(want.get("status", [200]), [], want.get("content_type", ""), checks, want.get("headers", {}))
    assert missing(response, expected)[1] == lacks


def attempt(*script: Any, successes: int = 1, final: tuple[int, ...] = ()) -> dict[str, Any]:
    time, left = [0.0], list(script)

    def sleep(seconds: float) -> None:
        time[0] += seconds

    def get(url: str, timeout: float) -> Response:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return answer(found)

    want = Expectation([200], list(final))
    clock = Clock(lambda: time[0], sleep)
    return wait(
        get, ["u"], want, successes=successes, interval=2, timeout=10, clock=clock, jitter=lambda: 0.5
    )  # fmt: skip


def test_rounds_in_a_row() -> None:
    assert attempt(503, 200)["attempts"] == 2
    assert attempt(TransportError("refused", "x"), 200, 503, 200, 200, successes=2)["attempts"] == 5


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ((503,), "URL_NOT_READY", "not ready after 6 attempts in 10 s: u: status 503"),
        ((TransportError("tls", "bad certificate"),), "URL_NOT_READY", "tls: bad certificate"),
        ((503, 403), "URL_FINAL", "u: status 403"),
    ],
)
def test_failures(script: tuple[Any, ...], code: str, words: str) -> None:
    with pytest.raises(DynamoError) as caught:
        attempt(*script, final=(403,))
    assert caught.value.code == code and words in caught.value.message
