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

import json
from typing import Any, Callable, NamedTuple
from urllib.parse import quote

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import (
    Clock,
    Narrator,
    Response,
    TransportError,
    poll,
)

CHAT_PATH = "/v1/chat/completions"
MODELS_PATH = "/v1/models"
FINISHED = ("stop", "length", "tool_calls")
# An engine that raises may have met a request of its own warm-up; three times in a row is an engine that is broken.
ENGINE_ERRORS = 3
# The Service exists before the first pod is ready; one that is missing for so many tries has another name.
ABSENT_SERVICE = 5
MAX_CONTENT = 500

# (method, path, body, timeout in seconds) -> answer; TransportError or DynamoError PATH_UNREACHABLE without one
Call = Callable[[str, str, "bytes | None", float], Response]


class Outcome(NamedTuple):
    """What one answer means.

    state: pass, retry (may pass later) or fail (asking again gives the same).
    tries: how often in a row this `retry` may be seen; 0 means until the deadline.
    answer: content, reasoning, finish_reason, usage of a chat; the model's entry of a model list.
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


def judge_models(response: Response, model: str, context_length: int | None = None) -> Outcome:
    """Does `GET /v1/models` list the served name, with room for `context_length` tokens?

    `context_window` is 0 when the worker states no limit; nothing can be said then.
    """
    if response.status != 200:
        return _refused(response)
    try:
        listed = [m for m in response.json().get("data") or [] if isinstance(m, dict)]
    except (ValueError, AttributeError):
        return Outcome("fail", "PATH_UNREACHABLE", f"no model list but: {response.text()}")
    entry = next((m for m in listed if m.get("id") == model), None)
    if entry is None:
        names = ", ".join(sorted(str(m.get("id")) for m in listed)) or "no model"
        return Outcome("retry", "MODEL_NOT_LISTED", f"{MODELS_PATH} lists {names}, not {model}")
    window = entry.get("context_window") or 0
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


def _refused(response: Response) -> Outcome:
    text = error_text(response)
    status = response.status
    if status == 404 and not response.body.strip():
        return Outcome("retry", "MODEL_NOT_READY", f"{text}: the frontend knows no live worker")
    if status == 404 and "not found" in text.lower() and "route" not in text.lower():
        return Outcome("retry", "MODEL_NOT_LISTED", text)
    if status in (429, 503):
        return Outcome("retry", "MODEL_NOT_READY", text)
    if status in (502, 504):
        return Outcome("retry", "PATH_UNREACHABLE", text)
    if status >= 500:
        return Outcome("retry", "MODEL_ERROR", text, tries=ENGINE_ERRORS)
    return Outcome("fail", "REQUEST_REFUSED", text)


def read_stream(body: bytes) -> dict[str, Any]:
    """A streamed chat as one message: content, reasoning, finish_reason, usage, error (text), done (saw [DONE])."""
    out: dict[str, Any] = {"content": "", "reasoning": "", "finish_reason": None, "usage": None}
    out.update(error="", done=False)
    for line in body.decode("utf-8", "replace").splitlines():
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            out["done"] = True
            continue
        try:
            event = json.loads(data)
        except ValueError:
            out["error"] = f"event that is not JSON: {data[:100]}"
            continue
        if event.get("error"):
            out["error"] = _message(event) or json.dumps(event["error"])[:200]
        out["usage"] = event.get("usage") or out["usage"]
        for choice in event.get("choices") or []:
            delta = choice.get("delta") or {}
            out["content"] += delta.get("content") or ""
            out["reasoning"] += delta.get("reasoning_content") or ""
            out["finish_reason"] = choice.get("finish_reason") or out["finish_reason"]
    return out


def judge_chat(response: Response) -> Outcome:
    """Is this the answer of a model that works? Plain and streamed answers."""
    if response.status != 200:
        return _refused(response)
    streamed = "event-stream" in response.headers.get("content-type", "")
    if streamed:
        got = read_stream(response.body)
        if got["error"] or not got["done"]:
            text = f"HTTP 200, then in the stream: {got['error'] or 'no [DONE] at its end'}"
            return Outcome("retry", "MODEL_ERROR", text, tries=ENGINE_ERRORS)
    else:
        try:
            data = response.json()
            choice = data["choices"][0]
            message = choice["message"]
            got = {
                "content": message.get("content") or "",
                "reasoning": message.get("reasoning_content") or "",
                "finish_reason": choice.get("finish_reason"),
                "usage": data.get("usage"),
            }
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            return Outcome("fail", "MODEL_ERROR", f"HTTP 200 but no chat completion: {response.text()}")
    tokens = (got["usage"] or {}).get("completion_tokens")
    facts = f"finish_reason {got['finish_reason']}, completion_tokens {tokens}"
    if not str(got["content"]).strip():
        thought = ", reasoning only" if got["reasoning"] else ", no reasoning either"
        return Outcome("fail", "MODEL_EMPTY_ANSWER", f"HTTP 200 with empty content ({facts}{thought})")
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
    return Outcome("pass", answer=answer)


HINTS = {
    "MODEL_NOT_LISTED": "Compare the worker's served model name with the target's, and look at the worker's log.",
    "MODEL_NOT_READY": "A worker is missing or not registered: look at the pods and the log of the workers.",
    "MODEL_CONTEXT": "The worker was started with a smaller context length than the target states.",
    "MODEL_EMPTY_ANSWER": "The engine answered, but nothing is left for content: compare the reasoning parser of the"
    " worker with the model, and max_tokens with the length of its reasoning.",
    "REQUEST_REFUSED": "Compare the request (smoke_test_requests) with what the frontend says about it.",
    "MODEL_ERROR": "The log of the worker says why.",
    "MODEL_NO_ANSWER": "The engine still starts or hangs: look at the log of the worker.",
    "PATH_UNREACHABLE": "The way to the frontend failed; this says nothing about the model.",
}


class Smoke:
    """The smoke test: the served name is listed, then every request is answered, `successes` rounds in a row.

    Raises DynamoError with the code of the last outcome.
    """

    def __init__(
        self,
        call: Call,
        model: str,
        timeout: float,
        *,
        clock: Clock = Clock(),
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.call, self.model, self.clock = call, model, clock
        self.timeout, self.deadline = timeout, clock.now() + timeout
        self.say = Narrator(say, clock)

    def run(
        self, requests: list[dict[str, Any]], context_length: int | None, successes: int = 1
    ) -> list[dict[str, Any]]:
        """Answers of the last round: name, content (capped), reasoning, finish_reason, latency_ms, usage."""
        self._until("models", "GET", MODELS_PATH, None, lambda r: judge_models(r, self.model, context_length))
        done = 0
        answers: list[dict[str, Any]] = []
        while done < successes:
            answers, clean = [], True
            for request in requests:
                body = chat_body(self.model, request["body"])
                answer, retried = self._until(request["name"], "POST", CHAT_PATH, body, judge_chat)
                answers.append({"name": request["name"], **answer, "content": answer["content"][:MAX_CONTENT]})
                clean = clean and not retried
            done = done + 1 if clean else 1
        return answers

    def _until(
        self, name: str, method: str, path: str, body: bytes | None, judge: Callable[[Response], Outcome]
    ) -> tuple[dict[str, Any], bool]:
        last = Outcome("retry", "MODEL_NO_ANSWER", "not asked, the time was used up before")
        row = attempts = 0

        def step(left: float) -> dict[str, Any] | None:
            nonlocal last, row, attempts
            attempts += 1
            began = self.clock.now()
            outcome = self._ask(method, path, body, max(1.0, left), judge)
            row = row + 1 if outcome.code == last.code else 1
            last = outcome
            if outcome.state == "pass":
                return {**outcome.answer, "latency_ms": round((self.clock.now() - began) * 1000)}
            if outcome.state == "fail" or (outcome.tries and row >= outcome.tries):
                raise self._error(name, outcome)
            self.say(f"{self.model}: {name}: {outcome.message}")
            return None

        found = poll(step, timeout=self.deadline - self.clock.now(), clock=self.clock)
        if found is None:
            raise self._error(name, last, f", still after {self.timeout:.0f} s")
        return found, attempts > 1

    def _ask(
        self, method: str, path: str, body: bytes | None, timeout: float, judge: Callable[[Response], Outcome]
    ) -> Outcome:
        try:
            return judge(self.call(method, path, body, timeout))
        except TransportError as error:
            if error.kind == "timeout":
                return Outcome("fail", "MODEL_NO_ANSWER", f"no complete answer within {timeout:.0f} s")
            return Outcome("retry", "PATH_UNREACHABLE", str(error))
        except DynamoError as error:
            if error.code != "PATH_UNREACHABLE":
                raise
            # The API server says so when this user may not: asking again changes nothing.
            state = "fail" if error.result.get("status") == 403 else "retry"
            tries = ABSENT_SERVICE if error.result.get("status") == 404 else 0
            return Outcome(state, error.code, error.message, tries)

    def _error(self, name: str, outcome: Outcome, duration: str = "") -> DynamoError:
        text = f"{self.model}: {name}: {outcome.message.rstrip('.')}{duration}"
        if outcome.code in ("MODEL_NOT_LISTED", "MODEL_NOT_READY"):
            try:
                reason = ready_reason(self.call("GET", ready_path(self.model), None, 10.0))
            except (TransportError, DynamoError):
                reason = ""
            text += f" ({reason})" if reason else ""
        return DynamoError(f"{text.rstrip('.')}.", outcome.code, HINTS[outcome.code], check=name)
