# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hub's answers mean, and that a run asks once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _hub
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Response, TransportError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "acme/tiny"
INFO = {"id": REPOSITORY, "sha": COMMIT, "gated": False, "siblings": [{"rfilename": "config.json", "size": 10}]}


def answer(status: int, body: Any = "", **headers: str) -> Response:
    return Response(status, {k.replace("_", "-"): v for k, v in headers.items()}, json.dumps(body).encode())


class Hub:
    """Scripted answers; remembers what it was asked."""

    def __init__(self, info: Any, file: Any = answer(200)) -> None:
        self.info, self.file = info, file
        self.asked: list[tuple[str, str, dict[str, str]]] = []

    def __call__(self, method: str, url: str, headers: dict[str, str]) -> Response:
        self.asked.append((method, url, headers))
        reply = self.info if method == "GET" else self.file
        if isinstance(reply, list):
            reply = reply.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


OPEN = answer(200, INFO)


@pytest.mark.parametrize(
    ("info", "file", "token", "status"),
    [
        (OPEN, answer(200), None, "ok"),
        (OPEN, answer(302, location="https://storage.invalid/x"), None, "ok"),
        (OPEN, answer(404, x_error_code="EntryNotFound"), None, "ok"),
        (OPEN, [answer(307, location="/new/name/x"), answer(401, x_error_code="GatedRepo")], None, "TOKEN_MISSING"),
        (Response(200, {}, b"[" * 100_000), None, None, "HUB_UNREACHABLE"),
        (OPEN, answer(401, x_error_code="GatedRepo"), None, "TOKEN_MISSING"),
        (OPEN, answer(403, x_error_code="GatedRepo"), "hf_x", "TOKEN_REFUSED"),
        (answer(401), None, None, "TOKEN_MISSING"),
        (answer(401, x_error_code="RepoNotFound"), None, "hf_x", "TOKEN_REFUSED"),
        (answer(404, x_error_code="RepoNotFound"), None, "hf_x", "REPOSITORY_ABSENT"),
        (answer(404, x_error_code="RevisionNotFound"), None, None, "REVISION_ABSENT"),
        (answer(429), None, None, "HUB_RATE_LIMITED"),
        (answer(503), None, None, "HUB_UNREACHABLE"),
        (answer(200, {"sha": "main"}), None, None, "HUB_UNREACHABLE"),
        (answer(200, ["html"]), None, None, "HUB_UNREACHABLE"),
        (Response(200, {}, b"<html>"), None, None, "HUB_UNREACHABLE"),
        (TransportError("dns", "no such host"), None, None, "HUB_UNREACHABLE"),
        (OPEN, TransportError("timeout", "late"), None, "HUB_UNREACHABLE"),
    ],
)
def test_status(info: Any, file: Any, token: str | None, status: str) -> None:
    assert _hub.access(Hub(info, file), "http://hub/", REPOSITORY, "", token)["status"] == status


def test_what_is_asked_and_told() -> None:
    hub = Hub(OPEN)
    result = _hub.access(hub, "http://hub/", REPOSITORY, "", "hf_x")
    assert (result["commit"], result["files"], result["bytes"], result["gated"]) == (COMMIT, 1, 10, False)
    assert [(method, url) for method, url, _headers in hub.asked] == [
        ("GET", "http://hub/api/models/acme/tiny/revision/main?blobs=true"),
        ("HEAD", f"http://hub/acme/tiny/resolve/{COMMIT}/config.json"),
    ]
    assert all(headers == {"authorization": "Bearer hf_x"} for _method, _url, headers in hub.asked)


def test_sizes_that_the_hub_does_not_tell_are_unknown() -> None:
    info = answer(200, {**INFO, "siblings": [{"rfilename": "a"}, {"rfilename": "b", "size": 1}]})
    assert _hub.access(Hub(info), "http://hub", REPOSITORY)["bytes"] is None


@pytest.mark.parametrize(("location", "asked"), [("/api/models/new/name", 2), ("http://elsewhere/x", 1)])
def test_a_token_never_follows_to_another_host(location: str, asked: int) -> None:
    hub = Hub([answer(307, location=location), answer(404)])
    _hub.access(hub, "http://hub", REPOSITORY, "", "hf_x")
    assert len(hub.asked) == asked


def test_a_run_asks_once_and_all_hosts_get_the_same_commit(tmp_path: Path) -> None:
    newer = answer(200, {**INFO, "sha": "f" * 40})
    hub = Hub([OPEN, newer])
    first = _hub.shared_access(str(tmp_path), hub, "http://hub", REPOSITORY)
    second = _hub.shared_access(str(tmp_path), hub, "http://hub", REPOSITORY)
    assert first == second
    assert len(hub.asked) == 2


def test_another_token_asks_again_but_about_the_same_commit(tmp_path: Path) -> None:
    hub = Hub([OPEN, OPEN])
    _hub.shared_access(str(tmp_path), hub, "http://hub", REPOSITORY, "", "one")
    _hub.shared_access(str(tmp_path), hub, "http://hub", REPOSITORY, "", "two")
    assert hub.asked[2][1] == f"http://hub/api/models/acme/tiny/revision/{COMMIT}?blobs=true"
    kept = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "one" not in kept.replace("None", "")
    assert "two" not in kept


def test_a_failure_is_shared_too(tmp_path: Path) -> None:
    hub = Hub([answer(503)])
    for _host in range(2):
        assert _hub.shared_access(str(tmp_path), hub, "http://hub", REPOSITORY)["status"] == "HUB_UNREACHABLE"


def test_without_a_directory_nothing_is_shared() -> None:
    hub = Hub([OPEN, OPEN])
    for _host in range(2):
        _hub.shared_access(None, hub, "http://hub", REPOSITORY)
    assert len(hub.asked) == 4


def test_slug() -> None:
    assert _hub.slug("MiniMaxAI/MiniMax-M3.1_Flash") == "minimaxai-minimax-m3-1-flash"


@pytest.mark.parametrize(
    "endpoint", ["https://user:s3cret-mark@hub.invalid", "hub.invalid", "ftp://hub.invalid", "x@y"]
)
def test_address_of_the_hub_is_checked_and_its_password_not_repeated(endpoint: str) -> None:
    with pytest.raises(DynamoError, match="dynamo_hub_endpoint") as error:
        _hub.check_endpoint(endpoint)
    assert "s3cret-mark" not in str(error.value)
    _hub.check_endpoint("http://127.0.0.1:8080")


@pytest.mark.parametrize(
    ("answers", "status", "slept"),
    [
        ([answer(429, retry_after="2"), answer(200)], 200, [2]),
        ([answer(429), answer(429), answer(429), answer(429)], 429, [5, 5, 5]),
        ([answer(429, retry_after="3600")], 429, []),
        ([answer(429, retry_after="20"), answer(429, retry_after="20")], 429, [20]),
        ([answer(503, retry_after="1")], 503, []),
    ],
)
def test_retry_after_is_honoured_within_bounds(answers: list[Any], status: int, slept: list[float]) -> None:
    waits: list[float] = []
    queue = iter(answers)
    found = _hub.patient(lambda *_request: next(queue), "GET", "http://hub/", {}, waits.append)
    assert (found.status, waits) == (status, slept)
