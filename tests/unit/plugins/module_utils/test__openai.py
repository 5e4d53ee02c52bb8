# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Clock, Response, TransportError
from ansible_collections.inferops.dynamo.plugins.module_utils._openai import (
    Smoke,
    chat_body,
    judge_chat,
    judge_models,
    read_stream,
    ready_path,
    ready_reason,
)

MODEL = "minimax-m3.1"
USAGE = {"prompt_tokens": 44, "completion_tokens": 33, "total_tokens": 77}
NOT_READY = "Model `minimax-m3.1` is not ready to serve requests yet."


def answer(status: int, body: Any = b"", kind: str = "application/json") -> Response:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Response(status, {"content-type": kind}, data)


def chat(content: str | None = "2 + 2 = 4", finish: str | None = "stop", **message: Any) -> Response:
    usage = message.pop("usage", USAGE)
    choice = {"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    return answer(200, {"choices": [choice], "usage": usage})


def models(*names: str, window: int | None = 1048576) -> Response:
    return answer(200, {"object": "list", "data": [{"id": n, "context_window": window} for n in names]})


def stream(*events: Any, done: bool = True) -> Response:
    lines = [f"data: {json.dumps(e)}\n\n" for e in events] + (["data: [DONE]\n\n"] if done else [])
    return answer(200, "".join(lines).encode(), "text/event-stream")


def delta(**values: Any) -> dict[str, Any]:
    finish = values.pop("finish", None)
    return {"choices": [{"delta": values, "finish_reason": finish}]}


NOT_FOUND = {"message": "Model not found", "type": "Not Found", "code": 404}
STREAM_ERROR = {"error": {"message": "engine died", "type": "internal_server_error", "code": 500}}


@pytest.mark.parametrize(
    ("response", "state", "code", "words"),
    [
        (chat(), "pass", "", ""),
        (chat(finish="length"), "pass", "", ""),
        (chat(None), "fail", "MODEL_EMPTY_ANSWER", "finish_reason stop, completion_tokens 33, no reasoning"),
        (chat(" \n"), "fail", "MODEL_EMPTY_ANSWER", "HTTP 200 with empty content"),
        (
            chat(None, "length", reasoning_content="I think"),
            "fail",
            "MODEL_EMPTY_ANSWER",
            "finish_reason length, completion_tokens 33, reasoning only",
        ),
        (chat(finish=None), "fail", "MODEL_ERROR", "not finished"),
        (chat(usage=None), "fail", "MODEL_ERROR", "completion tokens"),
        (answer(200, b"<html>"), "fail", "MODEL_ERROR", "no chat completion: <html>"),
        (answer(200, {"choices": []}), "fail", "MODEL_ERROR", "no chat completion"),
        (answer(404), "retry", "MODEL_NOT_READY", "HTTP 404 with an empty body"),
        (answer(404, NOT_FOUND), "retry", "MODEL_NOT_LISTED", "HTTP 404: Model not found"),
        (answer(404, {"message": "Route not found: GET /x/"}), "fail", "REQUEST_REFUSED", "Route not found"),
        (answer(503, {"message": NOT_READY}), "retry", "MODEL_NOT_READY", f"HTTP 503: {NOT_READY}"),
        (answer(429, {"error": {"message": "slow down"}}), "retry", "MODEL_NOT_READY", "HTTP 429: slow down"),
        (answer(502, b"Bad Gateway"), "retry", "PATH_UNREACHABLE", "HTTP 502: Bad Gateway"),
        (answer(500, {"message": "Internal server error"}), "retry", "MODEL_ERROR", "HTTP 500: Internal"),
        (answer(400, {"message": "Validation: no"}), "fail", "REQUEST_REFUSED", "HTTP 400: Validation: no"),
        (answer(405), "fail", "REQUEST_REFUSED", "HTTP 405 with an empty body"),
        (stream(delta(content="4", finish="stop")), "pass", "", ""),
        (stream(delta(content="4", finish="stop"), done=False), "retry", "MODEL_ERROR", "no [DONE]"),
        (stream(delta(content="2"), STREAM_ERROR), "retry", "MODEL_ERROR", "HTTP 200, then in the stream: engine died"),
        (stream(delta(finish="stop")), "fail", "MODEL_EMPTY_ANSWER", "empty content"),
    ],
)
def test_chat_answers(response: Response, state: str, code: str, words: str) -> None:
    outcome = judge_chat(response)
    assert (outcome.state, outcome.code) == (state, code) and words in outcome.message


def test_a_stream_becomes_one_message() -> None:
    body = stream(
        delta(reasoning_content="Two and "),
        delta(reasoning_content="two."),
        delta(content="2 + 2"),
        delta(content=" = 4", finish="stop"),
        {"choices": [], "usage": USAGE},
    )
    got = read_stream(body.body)
    assert (got["content"], got["reasoning"], got["usage"], got["done"]) == ("2 + 2 = 4", "Two and two.", USAGE, True)
    assert judge_chat(body).answer["reasoning"] is True


@pytest.mark.parametrize(
    ("response", "context", "state", "code", "words"),
    [
        (models(MODEL), 1048576, "pass", "", ""),
        (models("other", MODEL), None, "pass", "", ""),
        (models(MODEL, window=0), 1048576, "pass", "", ""),
        (models(MODEL, window=32768), 1048576, "fail", "MODEL_CONTEXT", "32768 tokens, 1048576 expected"),
        (models(), None, "retry", "MODEL_NOT_LISTED", "lists no model, not minimax-m3.1"),
        (models("b", "a"), None, "retry", "MODEL_NOT_LISTED", "lists a, b, not"),
        (answer(200, b"hello"), None, "fail", "PATH_UNREACHABLE", "no model list but: hello"),
        (answer(503, b"x"), None, "retry", "MODEL_NOT_READY", "HTTP 503"),
    ],
)
def test_model_lists(response: Response, context: int | None, state: str, code: str, words: str) -> None:
    outcome = judge_models(response, MODEL, context)
    assert (outcome.state, outcome.code) == (state, code) and words in outcome.message


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (answer(200, {"ready": True}), ""),
        (
            answer(503, {"ready": False, "reason": "no worker", "missing_worker_types": ["prefill"]}),
            "no worker; missing worker types: prefill",
        ),
        (answer(404, NOT_FOUND), "Model not found"),
        (answer(404), ""),
    ],
)
def test_reason_of_the_readiness_endpoint(response: Response, reason: str) -> None:
    assert ready_reason(response) == reason


def test_requests() -> None:
    assert ready_path("nvidia/MiniMax M3") == "/v1/models/nvidia/MiniMax%20M3/ready"
    assert json.loads(chat_body(MODEL, {"max_tokens": 4})) == {"model": MODEL, "max_tokens": 4}


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

    def smoke(self, successes: int = 1, timeout: float = 20) -> list[dict[str, Any]]:
        smoke = Smoke(self, MODEL, timeout, clock=self.clock)
        return smoke.run([{"name": "chat", "body": {}}], 1048576, successes)

    def failure(self) -> DynamoError:
        with pytest.raises(DynamoError) as caught:
            self.smoke()
        return caught.value


def test_the_answer_is_reported() -> None:
    (got,) = Endpoint(chat("x" * 900, reasoning_content="hm")).smoke()
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
    assert endpoint.smoke()[0]["content"] == "2 + 2 = 4" and endpoint.chats == 6


def test_successes_must_come_in_a_row() -> None:
    endpoint = Endpoint(chat(), answer(503), chat(), chat(), chat())
    endpoint.smoke(3)
    assert endpoint.chats == 5


@pytest.mark.parametrize(
    ("endpoint", "code", "words", "seconds"),
    [
        (Endpoint(chat(), listed=models("other")), "MODEL_NOT_LISTED", "still after 20 s (no worker).", 20),
        (Endpoint(answer(503, {"message": NOT_READY})), "MODEL_NOT_READY", "yet, still after 20 s (no worker).", 20),
        (Endpoint(chat(None)), "MODEL_EMPTY_ANSWER", "minimax-m3.1: chat: HTTP 200 with empty content", 0),
        (Endpoint(answer(400)), "REQUEST_REFUSED", "HTTP 400", 0),
        (Endpoint(answer(500)), "MODEL_ERROR", "HTTP 500", 4),
        (Endpoint(TransportError("timeout", "x")), "MODEL_NO_ANSWER", "no complete answer within 20 s", 0),
        (Endpoint(TransportError("refused", "refused")), "PATH_UNREACHABLE", "refused", 20),
        (Endpoint(DynamoError("may not", "PATH_UNREACHABLE", status=403)), "PATH_UNREACHABLE", "may not", 0),
        (Endpoint(DynamoError("no Service", "PATH_UNREACHABLE", status=404)), "PATH_UNREACHABLE", "no Service", 8),
        (Endpoint(DynamoError("x", "NO_CLUSTER")), "NO_CLUSTER", "x", 0),
    ],
)
def test_failures_end_when_they_should(endpoint: Endpoint, code: str, words: str, seconds: float) -> None:
    error = endpoint.failure()
    assert error.code == code and words in error.message
    assert endpoint.time == pytest.approx(seconds, abs=0.9)
