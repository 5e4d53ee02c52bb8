# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: requests to the OpenAI API of a Dynamo frontend, and what its answers mean.

Standard library only and Python 3.9+, like `_http`. The states are those observed with the frontend of
ai-dynamo 1.6.1: without a worker it answers a chat with 404 and an empty body, with a worker that went away 503, for a
model it doesn't serve 404 and a JSON body, and an engine that produced nothing visible gives 200 with content null.
`/health` of the frontend is 200 without any worker and `/v1/models` can list a dead model: only a chat proves serving.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple
from urllib.parse import quote

from ansible_collections.inferops.dynamo.plugins.module_utils._http import Response

CHAT_PATH = "/v1/chat/completions"
MODELS_PATH = "/v1/models"
FINISHED = ("stop", "length", "tool_calls")
# An engine that raises may have met a request of its own warm-up; three times in a row is an engine that is broken.
ENGINE_ERRORS = 3
# What separates reasoning from the answer in the model's own words: none of it may be left in the content.
THINK_MARKS = re.compile(r"</?(\w+:)?think(ing)?>")
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}

# (method, path, body, timeout in seconds) -> answer; TransportError or DynamoError PATH_UNREACHABLE without one
Call = Callable[[str, str, "bytes | None", float], Response]


class Outcome(NamedTuple):
    """What one answer means.

    state: pass, retry (may pass later) or fail (asking again gives the same).
    tries: how often in a row this `retry` may be seen; 0 means until the deadline.
    answer: content, reasoning, finish_reason, usage of a chat, and first_token (seconds) of a stream; the model's entry
    of a model list.
    """

    state: str
    code: str = ""
    message: str = ""
    tries: int = 0
    answer: dict[str, Any] = {}


def ready_path(model: str) -> str:
    """The frontend accepts the slash of a model id as it is."""
    return f"{MODELS_PATH}/{quote(model, safe='/')}/ready"


def chat_body(model: str, body: dict[str, Any]) -> bytes:
    """The bytes of a chat request; `body` is a recipe's request, which doesn't name the model."""
    return json.dumps({"model": model, **body}).encode()


def error_text(response: Response) -> str:
    """An answer that is no success, in words: status and the message of its body.

    The frontend's own errors are {"message", "type", "code"}, those of others {"error": {"message"}}.
    """
    if not response.body.strip():
        return f"HTTP {response.status} with an empty body"
    try:
        data = response.json()
    except ValueError:
        data = None
    message = _message(data)
    return f"HTTP {response.status}: {message or response.text()}"


def _message(data: Any) -> str:
    if not isinstance(data, dict):
        return ""
    error = data.get("error")
    inner = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(data.get("message") or inner or "").split())


def judge_models(response: Response, model: str, context_length: int | None = None, alone: bool = False) -> Outcome:
    """Does `GET /v1/models` list the served name, with room for `context_length` tokens?

    `context_window` is 0 when the worker states no limit; nothing can be said then. alone: this frontend belongs to one
    release, so another name is a model of another one, which its requests may reach.
    """
    if response.status != 200:
        return _refused(response)
    try:
        listed = [m for m in response.json().get("data") or [] if isinstance(m, dict)]
    except (ValueError, AttributeError, TypeError):
        return Outcome("fail", "PATH_UNREACHABLE", f"no model list but: {response.text()}")
    entry = next((m for m in listed if m.get("id") == model), None)
    others = sorted(str(m.get("id")) for m in listed if m.get("id") != model)
    if entry is None:
        code = "MODEL_OTHER" if others else "MODEL_NOT_LISTED"
        return Outcome("retry", code, f"{MODELS_PATH} lists {', '.join(others) or 'no model'}, not {model}")
    if alone and others:
        return Outcome("retry", "MODEL_OTHER", f"{MODELS_PATH} lists {', '.join(others)} besides {model}")
    window = entry.get("context_window") or 0
    window = window if isinstance(window, (int, float)) else 0
    if context_length and 0 < window < context_length:
        return Outcome(
            "fail", "MODEL_CONTEXT", f"{model} is served with a context of {window} tokens, {context_length} expected"
        )
    return Outcome("pass", answer=entry)


def ready_reason(response: Response) -> str:
    """Why `GET /v1/models/{id}/ready` says no; empty when it says yes or nothing of use."""
    try:
        data = response.json()
    except ValueError:
        return ""
    if not isinstance(data, dict) or data.get("ready"):
        return ""
    reason = " ".join(str(data.get("reason") or data.get("message") or "").split())
    missing = [str(kind) for kind in data.get("missing_worker_types") or []]
    return "; ".join(filter(None, [reason, "missing worker types: " + ", ".join(missing) if missing else ""]))


def _object(response: Response) -> bool:
    try:
        return isinstance(response.json(), dict)
    except ValueError:
        return False


def _refused(response: Response) -> Outcome:
    text = error_text(response)
    status = response.status
    if status == 404 and not response.body.strip():
        return Outcome("retry", "MODEL_NO_WORKER", f"{text}: the frontend knows no live worker")
    if status == 404 and not _object(response):
        return Outcome("retry", "PATH_UNREACHABLE", f"{text}: no answer of a Dynamo frontend")
    if status == 404 and "not found" in text.lower() and "route" not in text.lower():
        return Outcome("retry", "MODEL_NOT_LISTED", text)
    if status == 429:
        return Outcome("retry", "MODEL_BUSY", text)
    if status == 503:
        return Outcome("retry", "MODEL_NOT_READY", text)
    if status in (502, 504):
        return Outcome("retry", "PATH_UNREACHABLE", text)
    if status >= 500:
        return Outcome("retry", "MODEL_ERROR", text, tries=ENGINE_ERRORS)
    return Outcome("fail", "REQUEST_REFUSED", text)


def judge_ready(response: Response) -> Outcome:
    """What `GET /v1/models/{id}/ready` says; skip where the endpoint isn't known."""
    try:
        data = response.json()
    except ValueError:
        data = None
    own = isinstance(data, dict) and ("ready" in data or "model not found" in error_text(response).lower())
    if response.status in (401, 403, 404, 405, 501) and not own:
        return Outcome("skip", "", f"this endpoint has no readiness of a model (HTTP {response.status})")
    if response.status == 200 and isinstance(data, dict) and data.get("ready") is True:
        return Outcome("pass")
    return Outcome("retry", "MODEL_NOT_READY", f"HTTP {response.status}: {ready_reason(response) or response.text()}")


def reasoning_of(message: dict[str, Any]) -> str:
    """The reasoning, under either name that a frontend may give it (--reasoning-field-name)."""
    return str(message.get("reasoning_content") or message.get("reasoning") or "")


def _usage(data: dict[str, Any]) -> dict[str, Any]:
    usage = data.get("usage")
    return usage if isinstance(usage, dict) else {}


def _events(body: bytes) -> Iterator[tuple[str, str, int]]:
    """(name, data, bytes up to its end) of the server-sent events that have data."""
    kind, lines, received = "", [], 0
    for raw in (*body.splitlines(keepends=True), b"\n"):
        received += len(raw)
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if line.startswith("event:"):
            kind = line[6:].strip()
        elif line.startswith("data:"):
            lines.append(line[5:].strip())
        elif not line:
            if any(lines):
                yield kind, "\n".join(lines), min(received, len(body))
            kind, lines = "", []


def read_stream(response: Response) -> dict[str, Any]:
    """A streamed chat as one message: content, reasoning, finish_reason, usage, error (text), broken (text), done.

    first_token: seconds until the first piece of content or reasoning had come; None when nobody took the time.
    """
    out: dict[str, Any] = {"content": "", "reasoning": "", "finish_reason": None, "usage": None, "first_token": None}
    out.update(error="", broken="", done=False, ids=set())
    for kind, data, received in _events(response.body):
        if out["done"]:
            out["broken"] = "events after [DONE]"
        if data == "[DONE]":
            out["done"] = True
            continue
        try:
            event = json.loads(data)
        except ValueError:
            event = None
        if kind == "error":
            out["error"] = _message(event) or data[:200]
            continue
        if not isinstance(event, dict):
            out["broken"] = f"an event that is no JSON object: {data[:100]}"
            continue
        if event.get("error"):
            out["error"] = _message(event) or json.dumps(event["error"])[:200]
        if event.get("id"):
            out["ids"].add(event["id"])
        out["usage"] = _usage(event) or out["usage"]
        for choice in event.get("choices") or []:
            delta = (choice.get("delta") or {}) if isinstance(choice, dict) else None
            content = (delta.get("content") or "") if isinstance(delta, dict) else None
            if delta is None or not isinstance(content, str):
                out["broken"] = f"a choice that is none of a chat: {json.dumps(choice)[:100]}"
                continue
            thought = reasoning_of(delta)
            if (content or thought) and out["finish_reason"]:
                out["broken"] = "text after the chunk with the finish_reason"
            if (content or thought) and out["first_token"] is None:
                out["first_token"] = next((at for size, at in response.arrivals if size >= received), None)
            out["content"] += content
            out["reasoning"] += thought
            out["finish_reason"] = choice.get("finish_reason") or out["finish_reason"]
    if len(out["ids"]) > 1:
        out["broken"] = "chunks of several answers"
    return out


def judge_chat(response: Response) -> Outcome:
    """Is this the answer of a model that works? Plain and streamed answers."""
    if response.status != 200:
        return _refused(response)
    streamed = "event-stream" in response.headers.get("content-type", "")
    if streamed:
        got = read_stream(response)
        if got["error"]:
            text = f"HTTP 200, then an error in the stream: {got['error']}"
            return Outcome("retry", "STREAM_ERROR", text, tries=ENGINE_ERRORS)
        if got["broken"] or not got["done"]:
            text = f"HTTP 200, but the stream is broken: {got['broken'] or 'no [DONE] at its end'}"
            return Outcome("retry", "STREAM_BROKEN", text, tries=ENGINE_ERRORS)
    else:
        try:
            data = response.json()
            choice = data["choices"][0]
            message = choice["message"]
            got = {
                "content": message.get("content") or "",
                "reasoning": reasoning_of(message),
                "finish_reason": choice.get("finish_reason"),
                "usage": _usage(data),
            }
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            return Outcome("fail", "MODEL_ERROR", f"HTTP 200 but no chat completion: {response.text()}")
    tokens = (got["usage"] or {}).get("completion_tokens")
    facts = f"finish_reason {got['finish_reason']}, completion_tokens {tokens}"
    if not str(got["content"]).strip():
        thought = ", reasoning only" if got["reasoning"] else ", no reasoning either"
        return Outcome("fail", "MODEL_EMPTY_ANSWER", f"HTTP 200 with empty content ({facts}{thought})")
    marks = THINK_MARKS.search(str(got["content"]))
    if marks:
        text = f"HTTP 200 with {marks.group(0)} in the content: the reasoning is not separated from the answer"
        return Outcome("fail", "MODEL_THINK_MARKS", text)
    if got["finish_reason"] not in FINISHED:
        return Outcome("fail", "MODEL_ERROR", f"HTTP 200 but the answer is not finished ({facts})")
    if not tokens and not streamed:
        return Outcome("fail", "MODEL_ERROR", f"HTTP 200 without a count of completion tokens ({facts})")
    answer = {
        "content": str(got["content"]),
        "reasoning": bool(got["reasoning"]),
        "finish_reason": got["finish_reason"],
        "usage": got["usage"] or {},
    }
    return Outcome("pass", answer={**answer, "first_token": got["first_token"]} if streamed else answer)


def stream_body(body: dict[str, Any]) -> dict[str, Any]:
    """The same request as a stream that ends with its count of tokens."""
    return {**body, "stream": True, "stream_options": {"include_usage": True}}


def judge_stream(response: Response) -> Outcome:
    """A streamed answer: also that it is one, and that it counts its tokens, as `stream_body` asks."""
    outcome = judge_chat(response)
    if outcome.state != "pass":
        return outcome
    if "first_token" not in outcome.answer:
        kind = response.headers.get("content-type") or "none"
        return Outcome("fail", "STREAM_BROKEN", f"a stream was asked for, the answer's content type is {kind}")
    if not outcome.answer["usage"].get("completion_tokens"):
        return Outcome("fail", "STREAM_BROKEN", "the stream has no count of tokens, although it was asked for")
    return outcome


def effort_body(body: dict[str, Any], level: str) -> dict[str, Any]:
    """The same request with another reasoning effort, in the place where the recipe gives it."""
    template = body.get("chat_template_kwargs") or {}
    if "reasoning_effort" in template:
        return {**body, "chat_template_kwargs": {**template, "reasoning_effort": level}}
    return {**body, "reasoning_effort": level}


def judge_effort(response: Response, level: str) -> Outcome:
    """A chat with an effort. That a model doesn't reason is its own choice, unless it was told `none` and did."""
    outcome = judge_chat(response)
    if outcome.state == "pass" and level == "none" and outcome.answer["reasoning"]:
        return Outcome("fail", "EFFORT_IGNORED", "the answer has reasoning although reasoning_effort is none")
    return outcome


def tool_body(body: dict[str, Any]) -> dict[str, Any]:
    """A question that only a tool can answer, with the other parameters of `body`."""
    question = "What is the weather in Paris now? Call the tool."
    return {**body, "messages": [{"role": "user", "content": question}], "tools": [TOOL], "tool_choice": "auto"}


def judge_tool(response: Response) -> Outcome:
    """Is the answer a call of TOOL with arguments that can be read?"""
    if response.status != 200:
        return _refused(response)
    try:
        choice = response.json()["choices"][0]
        calls = choice["message"].get("tool_calls") or []
        text = " ".join(str(choice["message"].get("content") or "no content").split())[:100]
        if not calls:
            return Outcome("fail", "TOOL_CALL", f"no tool call, but: {text}")
        function = calls[0]["function"]
        arguments = json.loads(function["arguments"])
        name = function["name"]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return Outcome("fail", "TOOL_CALL", f"HTTP 200 but no tool call that can be read: {response.text()}")
    if name != TOOL["function"]["name"] or not isinstance(arguments, dict) or not arguments.get("city"):  # type: ignore[index]
        return Outcome("fail", "TOOL_CALL", f"the call is {name}({json.dumps(arguments)[:100]}), not get_weather(city)")
    answer = {"finish_reason": choice.get("finish_reason"), "usage": _usage(response.json())}
    return Outcome("pass", answer=answer)


def image_body(body: dict[str, Any]) -> dict[str, Any]:
    """A question about an image that travels inside the request, with the other parameters of `body`."""
    parts = [
        {"type": "text", "text": "Which colour is this image?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(red_square()).decode()}},
    ]
    return {**body, "messages": [{"role": "user", "content": parts}]}


def red_square(size: int = 64) -> bytes:
    """A PNG of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    pixels = zlib.compress((b"\0" + b"\xff\0\0" * size) * size)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


# A chat without messages: every frontend refuses it, before an engine is asked.
BAD_REQUEST: dict[str, Any] = {"messages": []}


def judge_bad_request(response: Response) -> Outcome:
    """Is BAD_REQUEST refused with a status of 4xx and a message in JSON?"""
    if response.status in (404, 429) or response.status >= 500:
        outcome = _refused(response)
        return outcome if outcome.state == "retry" else Outcome("fail", "ERROR_SHAPE", outcome.message)
    try:
        message = _message(response.json())
    except ValueError:
        message = ""
    if 400 <= response.status < 500 and message:
        return Outcome("pass", answer={"message": message})
    return Outcome("fail", "ERROR_SHAPE", f"a chat without messages got HTTP {response.status}: {response.text(100)}")
