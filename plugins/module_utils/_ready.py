# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: when is a URL ready? Assertions over one answer, and the loop over many. For http_ready."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Clock, Response, TransportError

ABSENT = object()
MAX_BODY = 500  # characters of an answer that a result shows


class Expectation(NamedTuple):
    """What an answer must have.

    content_type: beginning of the header; headers: texts that they must hold; json: {path, operator, value} each.
    """

    status: list[int]
    final_status: list[int]
    content_type: str = ""
    json: list[dict[str, Any]] = []
    headers: dict[str, str] = {}


def at(data: Any, path: str) -> Any:
    """The value at a path such as `data[0].id`, or ABSENT. A name with dots is written in quotes: `["a.b"]`."""
    for name, index, quoted in re.findall(r'([^.\[\]]+)|\[(\d+)\]|\["([^"]*)"\]', path):
        if index:
            data = data[int(index)] if isinstance(data, list) and int(index) < len(data) else ABSENT
        else:
            data = data.get(name or quoted, ABSENT) if isinstance(data, dict) else ABSENT
    return data


def _holds(found: Any, value: Any) -> bool:
    return isinstance(found, (list, dict)) and value in list(found)


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda found, value: bool(found == value),
    "ne": lambda found, value: bool(found != value),
    "ge": lambda found, value: isinstance(found, (int, float)) and found >= float(value),
    "le": lambda found, value: isinstance(found, (int, float)) and found <= float(value),
    "contains": lambda found, value: str(value) in found if isinstance(found, str) else _holds(found, value),
    "exists": lambda found, value: True,
    "not_empty": lambda found, value: found not in (None, "", [], {}),
}


def missing(response: Response, want: Expectation) -> tuple[str, str]:
    """What the answer lacks: status, content_type, header, empty or json, and the text; nothing, if both are empty."""
    if response.status not in want.status:
        return "status", f"status {response.status}: {response.text(200) or 'empty body'}"
    found_type = response.headers.get("content-type", "")
    if want.content_type and not found_type.lower().startswith(want.content_type.lower()):
        return "content_type", f"content type {found_type or 'none'}, {want.content_type} expected"
    for name, text in want.headers.items():
        found = response.headers.get(name.lower())
        if found is None or text not in found:
            return "header", f"header {name} is {found or 'absent'}, {text} expected"
    if not want.json:
        return "", ""
    if not response.body.strip():
        return "empty", "empty body, JSON expected"
    try:
        data = response.json()
    except ValueError:
        return "json", f"no JSON: {response.text(200)}"
    for check in want.json:
        value = at(data, check["path"])
        if value is ABSENT or not OPERATORS[check["operator"]](value, check.get("value")):
            shown = "absent" if value is ABSENT else repr(value)[:100]
            return "json", f"{check['path']} is {shown}, expected {check['operator']} {check.get('value', '')}".rstrip()
    return "", ""


def wait(
    get: Callable[[str, float], Response],
    urls: list[str],
    want: Expectation,
    *,
    successes: int,
    interval: float,
    timeout: float,
    clock: Clock = Clock(),
    jitter: Callable[[], float] = random.random,
) -> dict[str, Any]:
    """Ask all URLs in rounds until `successes` rounds in a row were good: attempts, seconds, answers.

    Pauses vary between 0.75 and 1.25 of `interval`, so that many hosts don't ask in step. DynamoError URL_FINAL (a
    status of final_status) or URL_NOT_READY (`timeout` seconds are over), both with the last answers.
    """
    began = clock.now()
    row = attempts = 0
    while True:
        attempts += 1
        answers = [_ask(get, url, want, max(1.0, timeout - (clock.now() - began)), clock) for url in urls]
        bad = [a for a in answers if a["missing"]]
        seconds = round(clock.now() - began, 1)
        facts: dict[str, Any] = {"attempts": attempts, "seconds": seconds, "answers": answers}
        row = 0 if bad else row + 1
        if row >= successes:
            return facts
        final = [a for a in bad if a["status"] in want.final_status]
        if final:
            raise DynamoError(f"{final[0]['url']}: {final[0]['missing']}.", "URL_FINAL", **facts)
        if seconds >= timeout:
            text = f"{bad[0]['url']}: {bad[0]['missing']}" if bad else f"{row} of {successes} good rounds in a row"
            raise DynamoError(
                f"not ready after {attempts} attempts in {seconds:.0f} s: {text}.", "URL_NOT_READY", **facts
            )
        clock.sleep(min(interval * (0.75 + jitter() / 2), max(0.0, timeout - seconds)))


def _ask(
    get: Callable[[str, float], Response], url: str, want: Expectation, timeout: float, clock: Clock
) -> dict[str, Any]:
    began = clock.now()
    answer: dict[str, Any] = {"url": url, "status": 0, "body": ""}
    try:
        response = get(url, timeout)
        answer.update(status=response.status, body=response.text(MAX_BODY))
        answer["problem"], answer["missing"] = missing(response, want)
    except TransportError as error:
        answer.update(problem=error.kind, missing=f"{error.kind}: {error}")
    return {**answer, "latency_ms": round((clock.now() - began) * 1000)}
