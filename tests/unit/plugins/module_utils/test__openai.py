# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._http import Response
from ansible_collections.inferops.dynamo.plugins.module_utils._openai import (
    chat_body,
    effort_body,
    image_body,
    judge_bad_request,
    judge_chat,
    judge_effort,
    judge_models,
    judge_ready,
    judge_stream,
    judge_tool,
    read_stream,
    ready_path,
    ready_reason,
    red_square,
    stream_body,
    tool_body,
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
        (answer(404), "retry", "MODEL_NO_WORKER", "HTTP 404 with an empty body"),
        (answer(404, NOT_FOUND), "retry", "MODEL_NOT_LISTED", "HTTP 404: Model not found"),
        (answer(404, {"message": "Route not found: GET /x/"}), "fail", "REQUEST_REFUSED", "Route not found"),
        (answer(503, {"message": NOT_READY}), "retry", "MODEL_NOT_READY", f"HTTP 503: {NOT_READY}"),
        (answer(429, {"error": {"message": "slow down"}}), "retry", "MODEL_BUSY", "HTTP 429: slow down"),
        (answer(502, b"Bad Gateway"), "retry", "PATH_UNREACHABLE", "HTTP 502: Bad Gateway"),
        (answer(500, {"message": "Internal server error"}), "retry", "MODEL_ERROR", "HTTP 500: Internal"),
        (answer(400, {"message": "Validation: no"}), "fail", "REQUEST_REFUSED", "HTTP 400: Validation: no"),
        (answer(405), "fail", "REQUEST_REFUSED", "HTTP 405 with an empty body"),
        (stream(delta(content="4", finish="stop")), "pass", "", ""),
        (stream(delta(content="4", finish="stop"), done=False), "retry", "STREAM_BROKEN", "no [DONE]"),
        (stream(delta(content="2"), STREAM_ERROR), "retry", "STREAM_ERROR", "an error in the stream: engine died"),
        (
            stream(delta(content="4", finish="stop"), delta(content="!")),
            "retry",
            "STREAM_BROKEN",
            "text after the chunk",
        ),
        (stream({"id": "a", **delta(content="4")}, {"id": "b"}), "retry", "STREAM_BROKEN", "chunks of several answers"),
        (answer(200, b"data: [DONE]\n\ndata: {}\n", "text/event-stream"), "retry", "STREAM_BROKEN", "after [DONE]"),
        (answer(200, b"data: {\n\n", "text/event-stream"), "retry", "STREAM_BROKEN", "no JSON object: {"),
        *(
            (answer(200, body + b"\n\ndata: [DONE]\n\n", "text/event-stream"), "retry", code, words)
            for body, code, words in (
                (b"data: null", "STREAM_BROKEN", "no JSON object: null"),
                (b"data: [1]", "STREAM_BROKEN", "no JSON object"),
                (b'data: {"choices": [null]}', "STREAM_BROKEN", "none of a chat: null"),
                (b'data: {"choices": [{"delta": {"content": ["4"]}}]}', "STREAM_BROKEN", "none of a chat"),
                (b'event: error\ndata: {"message": "worker died"}', "STREAM_ERROR", "worker died"),
                (b"event: error\ndata: worker died", "STREAM_ERROR", "worker died"),
            )
        ),
        (
            answer(
                200,
                b': ping\r\n\r\ndata:\r\n\r\ndata: {"choices": [{"delta": {"content": "4"},\r\n'
                b'data: "finish_reason": "stop"}]}\r\n\r\ndata: [DONE]\r\n\r\n',
                "text/event-stream",
            ),
            "pass",
            "",
            "",
        ),
        (chat("", reasoning="hm"), "fail", "MODEL_EMPTY_ANSWER", "reasoning only"),
        (answer(404, b"404 page not found"), "retry", "PATH_UNREACHABLE", "no answer of a Dynamo frontend"),
        (chat("<mm:think>Two</mm:think>4"), "fail", "MODEL_THINK_MARKS", "with <mm:think> in the content"),
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
    got = read_stream(body)
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
        (models("b", "a"), None, "retry", "MODEL_OTHER", "lists a, b, not"),
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


def test_a_frontend_of_one_release_lists_one_model() -> None:
    outcome = judge_models(models("other", MODEL), MODEL, alone=True)
    assert (outcome.state, outcome.code) == ("retry", "MODEL_OTHER") and "other besides" in outcome.message


@pytest.mark.parametrize(
    ("response", "state", "words"),
    [
        (answer(200, {"ready": True}), "pass", ""),
        (answer(503, {"ready": False, "reason": "no worker"}), "retry", "HTTP 503: no worker"),
        (answer(404, NOT_FOUND), "retry", "Model not found"),
        (answer(404, {"message": "Route not found: GET /x/ready"}), "skip", "no readiness"),
        (answer(404, b"nothing here"), "skip", "no readiness"),
        # gateways
        (answer(404, {"detail": "Not Found"}), "skip", "no readiness"),
        (answer(404, {"error": {"message": "Invalid URL (GET /v1/models/m/ready)"}}), "skip", "no readiness"),
        (answer(501, b"x"), "skip", "no readiness"),
        (answer(502, b"Bad Gateway"), "retry", "Bad Gateway"),
    ],
)
def test_readiness_endpoint(response: Response, state: str, words: str) -> None:
    outcome = judge_ready(response)
    assert outcome.state == state and words in outcome.message


def test_odd_types_in_an_answer_are_a_verdict() -> None:
    odd = answer(200, {"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}], "usage": [1]})
    assert judge_chat(odd).code == "MODEL_ERROR"
    assert judge_models(answer(200, {"data": 5}), MODEL).code == "PATH_UNREACHABLE"
    listed = answer(200, {"data": [{"id": MODEL, "context_window": "1000"}]})
    assert judge_models(listed, MODEL, 5000).state == "pass"


def test_time_to_the_first_token() -> None:
    first, second = stream(delta(role="assistant"), done=False).body, stream(delta(content="4", finish="stop")).body
    arrivals = ((len(first), 0.1), (len(first + second), 0.4))
    got = read_stream(Response(200, {}, first + second, arrivals))
    assert got["first_token"] == 0.4


@pytest.mark.parametrize(
    ("response", "code", "words"),
    [
        (stream(delta(content="4", finish="stop"), {"choices": [], "usage": USAGE}), "", ""),
        (stream(delta(content="4", finish="stop")), "STREAM_BROKEN", "no count of tokens"),
        (chat(), "STREAM_BROKEN", "content type is application/json"),
        (chat(None), "MODEL_EMPTY_ANSWER", "empty content"),
    ],
)
def test_streams(response: Response, code: str, words: str) -> None:
    outcome = judge_stream(response)
    assert outcome.code == code and words in outcome.message


def call(name: str = "get_weather", arguments: str = '{"city": "Paris"}') -> Response:
    return chat(None, "tool_calls", tool_calls=[{"function": {"name": name, "arguments": arguments}}])


@pytest.mark.parametrize(
    ("response", "code", "words"),
    [
        (call(), "", ""),
        (chat("It is sunny."), "TOOL_CALL", "no tool call, but: It is sunny."),
        (call(arguments="{"), "TOOL_CALL", "no tool call that can be read"),
        (call(arguments="{}"), "TOOL_CALL", "get_weather({}), not"),
        (call("other"), "TOOL_CALL", "the call is other("),
        (answer(400, {"message": "no tools"}), "REQUEST_REFUSED", "no tools"),
    ],
)
def test_tool_calls(response: Response, code: str, words: str) -> None:
    outcome = judge_tool(response)
    assert outcome.code == code and words in outcome.message


@pytest.mark.parametrize(
    ("response", "state", "code"),
    [
        (answer(400, {"message": "Validation: messages", "type": "Bad Request", "code": 400}), "pass", ""),
        (answer(422, {"error": {"message": "no"}}), "pass", ""),
        (answer(400, b"<html>"), "fail", "ERROR_SHAPE"),
        (chat(), "fail", "ERROR_SHAPE"),
        (answer(404, {"message": "Route not found"}), "fail", "ERROR_SHAPE"),
        (answer(404), "retry", "MODEL_NO_WORKER"),
        (answer(500, b""), "retry", "MODEL_ERROR"),
    ],
)
def test_bad_requests(response: Response, state: str, code: str) -> None:
    outcome = judge_bad_request(response)
    assert (outcome.state, outcome.code) == (state, code)


def test_efforts() -> None:
    assert judge_effort(chat(reasoning_content="hm"), "none").code == "EFFORT_IGNORED"
    assert judge_effort(chat(), "none").state == judge_effort(chat(), "high").state == "pass"
    assert effort_body({"max_tokens": 4}, "low") == {"max_tokens": 4, "reasoning_effort": "low"}
    recipe = {"chat_template_kwargs": {"reasoning_effort": "high", "x": 1}}
    assert effort_body(recipe, "low") == {"chat_template_kwargs": {"reasoning_effort": "low", "x": 1}}


def test_requests_of_the_checks_keep_the_recipe_s_parameters() -> None:
    recipe = {"messages": [], "max_tokens": 4}
    for body in (stream_body(recipe), tool_body(recipe), image_body(recipe)):
        assert body["max_tokens"] == 4
    url = image_body(recipe)["messages"][0]["content"][1]["image_url"]["url"]
    assert url.startswith("data:image/png;base64,") and red_square().startswith(b"\x89PNG")
