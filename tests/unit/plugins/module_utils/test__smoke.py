# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Clock, Response, TransportError
from ansible_collections.inferops.dynamo.plugins.module_utils._smoke import CHECKS, HINTS, Smoke, junit
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils.test__openai import (
    MODEL,
    NOT_FOUND,
    NOT_READY,
    USAGE,
    answer,
    call,
    chat,
    delta,
    models,
    stream,
)

STREAM = stream(delta(content="4", finish="stop"), {"choices": [], "usage": USAGE})
BAD = answer(400, {"message": "Validation: messages"})
READY = answer(200, {"ready": True})


class Endpoint:
    """Answers from a script; the last one is repeated. An exception is raised."""

    def __init__(self, *script: Any, listed: Any = None, ready: Any = None) -> None:
        self.script, self.listed = list(script), listed or models(MODEL)
        self.ready = ready or answer(503, {"ready": False, "reason": "no worker"})
        self.time = 0.0
        self.clock = Clock(lambda: self.time, self.sleep)
        self.chats = 0

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def __call__(self, method: str, path: str, body: bytes | None, timeout: float) -> Response:
        self.time += 0.031
        if path.endswith("/ready"):
            return self.ready
        found = self.listed
        if method == "POST":
            assert body is not None and json.loads(body)["model"] == MODEL
            self.chats += 1
            found = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(found, Exception):
            raise found
        return found

    def smoke(self, *checks: str, **options: Any) -> Smoke:
        options = {"requests": [{"name": "chat", "body": {}}], "context_length": 1048576, **options}
        smoke = Smoke(self, MODEL, 20, clock=self.clock, **options)
        smoke.run(list(checks or ("models", "chat")))
        return smoke

    def failure(self) -> DynamoError:
        with pytest.raises(DynamoError) as caught:
            self.smoke()
        return caught.value


def test_the_answer_is_reported() -> None:
    smoke = Endpoint(chat("x" * 900, reasoning_content="hm")).smoke()
    (got,) = smoke.answers
    assert got == {
        "name": "chat",
        "content": "x" * 500,
        "reasoning": True,
        "finish_reason": "stop",
        "usage": USAGE,
        "latency_ms": 31,
    }


def test_starting_states_are_waited_out() -> None:
    away = DynamoError("no endpoints available", "PATH_UNREACHABLE", status=503)
    starting = (answer(404), answer(404, NOT_FOUND), answer(503), TransportError("reset", "reset"), away)
    endpoint = Endpoint(*starting, chat())
    assert endpoint.smoke().answers[0]["content"] == "2 + 2 = 4" and endpoint.chats == 6


def test_successes_must_come_in_a_row() -> None:
    endpoint = Endpoint(chat(), answer(503), chat(), chat(), chat())
    smoke = endpoint.smoke(successes=3)
    assert endpoint.chats == 5 and [row["name"] for row in smoke.rows] == ["models", "chat"]


@pytest.mark.parametrize(
    ("endpoint", "code", "words", "seconds"),
    [
        (Endpoint(chat(), listed=models("other")), "MODEL_OTHER", "still after 20 s (no worker).", 20),
        (Endpoint(chat(), listed=models()), "MODEL_NOT_LISTED", "still after 20 s (no worker).", 20),
        (Endpoint(answer(404)), "MODEL_NO_WORKER", "still after 20 s (no worker).", 20),
        (Endpoint(answer(503, {"message": NOT_READY})), "MODEL_NOT_READY", "yet, still after 20 s (no worker).", 20),
        (Endpoint(chat(None)), "MODEL_EMPTY_ANSWER", "minimax-m3.1: chat: HTTP 200 with empty content", 0),
        (Endpoint(answer(400)), "REQUEST_REFUSED", "HTTP 400", 0),
        (Endpoint(answer(500)), "MODEL_ERROR", "HTTP 500", 4),
        (Endpoint(TransportError("timeout", "x")), "MODEL_NO_ANSWER", "no complete answer within 20 s", 0),
        (Endpoint(answer(404), TransportError("timeout", "x")), "MODEL_NO_ANSWER", "within 20 s", 2),
        # one that begins shortly before the end gets the time of a request, so that its end says something
        (Endpoint(*[answer(404)] * 8, TransportError("timeout", "x")), "MODEL_NO_ANSWER", "within 20 s", 16),
        (Endpoint(chat(), listed=TransportError("timeout", "x")), "PATH_UNREACHABLE", "no answer within 20 s", 20),
        (Endpoint(answer(404, "404 page not found")), "PATH_UNREACHABLE", "404 page not found", 20),
        (Endpoint(TransportError("refused", "refused")), "PATH_UNREACHABLE", "refused", 20),
        (Endpoint(TransportError("redirect", "HTTP 301 leads to x")), "PATH_UNREACHABLE", "leads to x", 0),
        (Endpoint(DynamoError("may not", "PATH_UNREACHABLE", status=403)), "PATH_UNREACHABLE", "may not", 0),
        (Endpoint(DynamoError("no Service", "PATH_UNREACHABLE", status=404)), "PATH_UNREACHABLE", "no Service", 8),
        (Endpoint(DynamoError("x", "NO_CLUSTER")), "NO_CLUSTER", "x", 0),
    ],
)
def test_failures_end_when_they_should(endpoint: Endpoint, code: str, words: str, seconds: float) -> None:
    error = endpoint.failure()
    assert error.code == code and words in error.message
    assert endpoint.time == pytest.approx(seconds, abs=0.9)


def results(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["name"]: row["result"] for row in rows}


def test_all_checks() -> None:
    script = (chat(), STREAM, BAD, chat(), chat(), chat(), call(), chat("red"))
    smoke = Endpoint(*script, ready=READY).smoke(*CHECKS, images=True, alone=True)
    names = ["models", "ready", "chat", "stream", "bad_request", "effort none", "effort low", "effort high", "tools"]
    assert results(smoke.rows) == dict.fromkeys([*names, "image"], "passed")
    assert [row["tokens"] for row in smoke.rows[:4]] == [None, None, 33, 33]


def test_skipped_checks_say_why() -> None:
    route = answer(404, {"message": "Route not found"})
    rows = {row["name"]: row for row in Endpoint(chat(), ready=route).smoke("models", "ready", "chat", "image").rows}
    assert rows["image"]["result"] == "skipped" and "recipe" in rows["image"]["why"]
    assert rows["ready"]["result"] == "skipped" and "no readiness" in rows["ready"]["why"]
    assert results(Endpoint(chat()).smoke("stream", requests=[]).rows) == {"stream": "skipped"}


def test_what_follows_a_failure() -> None:
    with pytest.raises(DynamoError) as caught:
        Endpoint(chat(None)).smoke("models", "chat", "stream", "bad_request")
    rows = caught.value.result["checks"]
    assert results(rows) == {"models": "passed", "chat": "failed", "stream": "skipped", "bad_request": "skipped"}
    assert rows[2]["why"] == "chat failed"
    with pytest.raises(DynamoError) as caught:
        Endpoint(chat(), chat(), chat(), BAD).smoke("models", "chat", "stream", "bad_request", "tools")
    assert results(caught.value.result["checks"])["bad_request"] == "failed"
    assert caught.value.code == "STREAM_BROKEN" and "Also failed: bad_request, tools." in caught.value.message


def test_a_model_that_vanishes_has_its_own_code() -> None:
    endpoint = Endpoint(chat(), answer(404, NOT_FOUND))
    with pytest.raises(DynamoError) as caught:
        endpoint.smoke("models", "chat", "stream", "tools")
    assert caught.value.code == "MODEL_VANISHED" and "answered a moment ago" in caught.value.message
    assert results(caught.value.result["checks"])["tools"] == "skipped"


def test_only_the_first_request_may_take_long() -> None:
    limits: list[float] = []
    endpoint = Endpoint(chat(), STREAM)

    def ask(method: str, path: str, body: bytes | None, timeout: float) -> Response:
        limits.append(round(timeout))
        return endpoint(method, path, body, timeout)

    smoke = Smoke(ask, MODEL, 600, requests=[{"name": "chat", "body": {}}], request_timeout=30, clock=endpoint.clock)
    smoke.run(["models", "chat", "stream"])
    assert limits == [30, 600, 30]


def test_junit() -> None:
    with pytest.raises(DynamoError) as caught:
        Endpoint(chat(None)).smoke("models", "chat", "stream")
    suite = ET.fromstring(junit(MODEL, caught.value.result["checks"]))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None and failure.get("type") == "MODEL_EMPTY_ANSWER"


def test_every_code_has_a_hint() -> None:
    assert all(HINTS.values())
