# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the smoke test: which checks there are, what follows when one fails, and its result as JUnit.

One request at a time, all of them short: the endpoint may be live.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _openai
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError, paragraph
from ansible_collections.inferops.dynamo.plugins.module_utils._http import (
    Clock,
    Narrator,
    Response,
    TransportError,
    poll,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._openai import CHAT_PATH, MODELS_PATH, Call, Outcome

MAX_CONTENT = 500
# The Service exists before the first pod is ready; one that is missing for so many tries has another name.
ABSENT_SERVICE = 5
# A worker that restarts is back after some tries, one every other second; more means that it is gone.
VANISHED = 15
GONE = ("MODEL_NOT_LISTED", "MODEL_OTHER", "MODEL_NO_WORKER", "MODEL_NOT_READY")
EFFORTS = ("none", "low", "high")

HINTS = {
    "MODEL_NOT_LISTED": "Compare the worker's served model name with the target's, and look at the worker's log.",
    "MODEL_OTHER": "Another release's workers register with this frontend: is there a deployment in the namespace whose"
    " name begins with this one's, or an address of another frontend?",
    "MODEL_NO_WORKER": "No worker has registered: look at the pods and the log of the workers.",
    "MODEL_NOT_READY": "A worker is missing or not registered: look at the pods and the log of the workers.",
    "MODEL_BUSY": "The endpoint refuses for now: too many requests of others.",
    "MODEL_VANISHED": "The model was served and is gone: has a worker ended, or been replaced, meanwhile?",
    "MODEL_CONTEXT": "The worker was started with a smaller context length than the target states.",
    "MODEL_EMPTY_ANSWER": "The engine answered, but nothing is left for content: compare the reasoning parser of the"
    " worker with the model, and max_tokens with the length of its reasoning.",
    "MODEL_THINK_MARKS": "The worker has no reasoning parser, or not the one of this model.",
    "EFFORT_IGNORED": "The chat template of the checkpoint doesn't know the effort that the recipe names.",
    "STREAM_ERROR": "The engine failed while it answered: the log of the worker says why.",
    "STREAM_BROKEN": "Something between frontend and here cuts or changes the stream, or the worker ended.",
    "TOOL_CALL": "Compare the tool call parser of the worker with the model.",
    "ERROR_SHAPE": "What answers is no Dynamo frontend, or something in between replaces its errors.",
    "REQUEST_REFUSED": "Compare the request (smoke_test_requests) with what the frontend says about it.",
    "MODEL_ERROR": "The log of the worker says why.",
    "MODEL_NO_ANSWER": "The engine still starts or hangs: look at the log of the worker.",
    "PATH_UNREACHABLE": "The way to the frontend failed; this says nothing about the model.",
}

Row = dict[str, Any]


class Skip(Exception):
    """Why a check was not made."""


class Smoke:
    """One smoke test. Its checks stand in CHECKS; `rows` holds the results so far.

    call: the way to the endpoint.  alone: the frontend belongs to this one release.  images: the recipe says that the
    model takes them.  timeout: seconds until the first chat, in which the engine may still compile, is answered,
    and for repeated tries.  request_timeout: seconds for each request after that.
    """

    def __init__(
        self,
        call: Call,
        model: str,
        timeout: float,
        *,
        requests: list[dict[str, Any]],
        context_length: int | None = None,
        successes: int = 1,
        request_timeout: float = 120,
        alone: bool = False,
        images: bool = False,
        clock: Clock = Clock(),
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.call, self.model, self.clock, self.requests = call, model, clock, requests
        self.context_length, self.successes, self.alone, self.images = context_length, successes, alone, images
        self.timeout, self.deadline, self.request_timeout = timeout, clock.now() + timeout, request_timeout
        self.say = Narrator(say, clock)
        self.answered = False
        self.rows: list[Row] = []
        self.answers: list[dict[str, Any]] = []

    def run(self, checks: list[str]) -> None:
        """Make these checks, in the order of CHECKS; all are made, unless the model can't be asked at all.

        DynamoError with the code of the first failure, and the rows as `checks`.
        """
        failures: list[DynamoError] = []
        for name in [name for name in CHECKS if name in checks]:
            first = failures[0].result["check"] if failures else ""
            basic = first in ("models", *(request["name"] for request in self.requests))
            if basic or (failures and failures[-1].code in ("PATH_UNREACHABLE", "MODEL_NO_ANSWER", "MODEL_VANISHED")):
                self._row(name, "skipped", f"{failures[-1].result['check']} failed")
                continue
            began = self.clock.now()
            try:
                CHECKS[name](self)
            except Skip as reason:
                self._row(name, "skipped", str(reason))
            except DynamoError as error:
                if error.code not in HINTS:
                    raise
                failures.append(error)
                self._row(error.result["check"], "failed", error.message, error.code, self.clock.now() - began)
        if failures:
            failed = [row["name"] for row in self.rows if row["result"] == "failed"]
            also = f" Also failed: {', '.join(failed[1:])}." if failed[1:] else ""
            raise DynamoError(
                failures[0].message + also,
                failures[0].code,
                failures[0].hint,
                check=failed[0],
                see=failures[0].result["see"],
                checks=self.rows,
                answers=self.answers,
            )

    # --- the checks

    def models(self) -> None:
        """The frontend lists the served name, with its context, and no other release's."""
        wanted = (self.model, self.context_length, self.alone)
        self._until("models", "GET", MODELS_PATH, None, lambda answer: _openai.judge_models(answer, *wanted))

    def ready(self) -> None:
        """The frontend's own word on the model's readiness."""
        self._until("ready", "GET", _openai.ready_path(self.model), None, _openai.judge_ready)

    def chat(self) -> None:
        """The recipe's requests, in rounds; a round in which something had to be asked again doesn't count."""
        done = 0
        while done < self.successes:
            self.answers, clean, rows = [], True, len(self.rows)
            for request in self.requests:
                answer, retried = self._chat(request["name"], request["body"], _openai.judge_chat)
                kept = {"name": request["name"], **answer, "content": answer["content"][:MAX_CONTENT]}
                self.answers.append(kept)
                clean = clean and not retried
            done = done + 1 if clean else 1
            if done < self.successes:
                del self.rows[rows:]

    def stream(self) -> None:
        """The recipe's first request as a stream."""
        self._chat("stream", _openai.stream_body(self._request()), _openai.judge_stream)

    def bad_request(self) -> None:
        """A request without messages is refused in words."""
        self._chat("bad_request", _openai.BAD_REQUEST, _openai.judge_bad_request)

    def effort(self) -> None:
        """The recipe's first request with each of EFFORTS."""
        for level in EFFORTS:
            body = _openai.effort_body(self._request(), level)
            self._chat(f"effort {level}", body, lambda r, level=level: _openai.judge_effort(r, level))  # type: ignore[misc]

    def tools(self) -> None:
        """The model calls a tool."""
        self._chat("tools", _openai.tool_body(self._request()), _openai.judge_tool)

    def image(self) -> None:
        """The model takes an image."""
        if not self.images:
            raise Skip("the recipe doesn't say that the model takes images")
        self._chat("image", _openai.image_body(self._request()), _openai.judge_chat)

    def _request(self) -> dict[str, Any]:
        if not self.requests:
            raise Skip("the recipe has no request")
        body: dict[str, Any] = self.requests[0]["body"]
        return body

    # --- asking

    def _chat(
        self, name: str, body: dict[str, Any], judge: Callable[[Response], Outcome]
    ) -> tuple[dict[str, Any], bool]:
        answer, retried = self._until(name, "POST", CHAT_PATH, _openai.chat_body(self.model, body), judge)
        self.answered = True
        return answer, retried

    def _until(
        self, name: str, method: str, path: str, body: bytes | None, judge: Callable[[Response], Outcome]
    ) -> tuple[dict[str, Any], bool]:
        """The answer that passed, and whether it took more than one try. Adds the check's row when it passes."""
        last = Outcome("retry", "MODEL_NO_ANSWER", "not asked, the time was used up before")
        row = attempts = 0

        def step(left: float) -> dict[str, Any] | None:
            nonlocal last, row, attempts
            attempts += 1
            began = self.clock.now()
            limit = min(self.request_timeout, self.timeout)
            if not self.answered and method == "POST":
                limit = max(left, limit)  # the engine may still compile
            outcome = self._ask(method, path, body, limit, judge)
            row = row + 1 if outcome.code == last.code else 1
            last = outcome
            if outcome.state == "pass":
                seconds = self.clock.now() - began
                tokens = (outcome.answer.get("usage") or {}).get("completion_tokens")
                self._row(name, "passed", "", "", seconds, outcome.answer.get("first_token"), tokens)
                return {**outcome.answer, "latency_ms": round(seconds * 1000)}
            if outcome.state == "skip":
                raise Skip(outcome.message)
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
            outcome = judge(self.call(method, path, body, timeout))
        except TransportError as error:
            if error.kind == "timeout" and method == "GET":
                return Outcome("retry", "PATH_UNREACHABLE", f"{path}: no answer within {timeout:.0f} s")
            if error.kind == "timeout":
                return Outcome("fail", "MODEL_NO_ANSWER", f"no complete answer within {timeout:.0f} s")
            # Where a redirect leads is for the user to say.
            state = "fail" if error.kind == "redirect" else "retry"
            return Outcome(state, "PATH_UNREACHABLE", str(error))
        except DynamoError as error:
            if error.code != "PATH_UNREACHABLE":
                raise
            # The API server says so when this user may not: asking again changes nothing.
            state = "fail" if error.result.get("status") == 403 else "retry"
            tries = ABSENT_SERVICE if error.result.get("status") == 404 else 0
            return Outcome(state, error.code, error.message, tries)
        if self.answered and outcome.state == "retry" and outcome.code in GONE:
            return Outcome("retry", "MODEL_VANISHED", f"answered a moment ago, now {outcome.message}", VANISHED)
        return outcome

    def _error(self, name: str, outcome: Outcome, duration: str = "") -> DynamoError:
        text = f"{self.model}: {name}: {outcome.message.rstrip('.')}{duration}"
        if outcome.code in (*GONE, "MODEL_VANISHED") and name != "ready":
            try:
                reason = _openai.ready_reason(self.call("GET", _openai.ready_path(self.model), None, 10.0))
            except (TransportError, DynamoError):
                reason = ""
            text += f" ({reason})" if reason else ""
        return DynamoError(
            f"{text.rstrip('.')}.", outcome.code, HINTS[outcome.code], check=name, see=paragraph(outcome.code)
        )

    def _row(
        self,
        name: str,
        result: str,
        why: str = "",
        code: str = "",
        seconds: float | None = None,
        first_token: float | None = None,
        tokens: int | None = None,
    ) -> None:
        took = {
            "seconds": None if seconds is None else round(seconds, 3),
            "first_token_seconds": None if first_token is None else round(first_token, 3),
        }
        self.rows.append({"name": name, "result": result, "why": why, "code": code, **took, "tokens": tokens})


CHECKS: dict[str, Callable[[Smoke], None]] = {
    "models": Smoke.models,
    "ready": Smoke.ready,
    "chat": Smoke.chat,
    "stream": Smoke.stream,
    "bad_request": Smoke.bad_request,
    "effort": Smoke.effort,
    "tools": Smoke.tools,
    "image": Smoke.image,
}
# Those that a live endpoint hardly feels.
DEFAULT_CHECKS = ["models", "ready", "chat", "stream", "bad_request"]


def junit(suite: str, rows: list[Row]) -> bytes:
    """The rows as a JUnit file."""
    counts = {kind: str(sum(r["result"] == kind for r in rows)) for kind in ("failed", "skipped")}
    seconds = sum(r["seconds"] or 0 for r in rows)
    root = ET.Element(
        "testsuite", name=suite, tests=str(len(rows)), failures=counts["failed"], skipped=counts["skipped"],
        time=f"{seconds:.3f}",
    )  # fmt: skip
    for row in rows:
        case = ET.SubElement(root, "testcase", classname=suite, name=row["name"], time=f"{row['seconds'] or 0:.3f}")
        if row["result"] == "failed":
            ET.SubElement(case, "failure", type=row["code"], message=row["why"])
        elif row["result"] == "skipped":
            ET.SubElement(case, "skipped", message=row["why"])
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))
