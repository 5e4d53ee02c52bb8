# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._http import (
    Clock,
    Narrator,
    Response,
    TransportError,
    fetch,
    opener,
    poll,
)
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._loopback import Handler, serve


class Server(Handler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/reset":
            self.close_connection = True
            self.connection.close()
            return
        self.send_response({"/gone": 404, "/loop": 302}.get(self.path, 200))
        self.send_header("X-Path", self.path)
        if self.path == "/loop":
            self.send_header("Location", "/loop")
        self.send_header("Content-Length", "9" if self.path == "/partial" else "2")
        self.end_headers()
        self.wfile.write(b"ok")
        self.close_connection = self.path == "/partial"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve(Server) as port:
        yield f"http://127.0.0.1:{port}"


SEND = opener(proxies=False)


@pytest.mark.parametrize(("path", "status"), [("/x", 200), ("/gone", 404)])
def test_every_status_is_an_answer(url: str, path: str, status: int) -> None:
    answer = fetch("GET", url + path, send=SEND)
    assert (answer.status, answer.headers["x-path"], answer.body) == (status, path, b"ok")


def test_a_body_is_sent(url: str) -> None:
    assert fetch("POST", url, body=b'{"a": 1}', send=SEND).json() == {"a": 1}


@pytest.mark.parametrize(
    ("path", "kind"), [("/reset", "reset"), ("/partial", "partial"), ("/loop", "redirect")]
)  # fmt: skip
def test_no_complete_answer(url: str, path: str, kind: str) -> None:
    with pytest.raises(TransportError) as caught:
        fetch("GET", url + path, send=SEND)
    assert caught.value.kind == kind


def test_refused_and_tls(url: str) -> None:
    with pytest.raises(TransportError) as caught:
        fetch("GET", "http://127.0.0.1:1/", send=SEND)
    assert caught.value.kind == "refused"
    with pytest.raises(TransportError) as caught:
        fetch("GET", url.replace("http:", "https:"), send=SEND)
    assert caught.value.kind == "tls"


class Drip:
    """An answer that never ends, one byte a second."""

    status = 200
    headers: dict[str, str] = {}

    def __init__(self, time: list[float]) -> None:
        self.time = time

    def __enter__(self) -> Drip:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    def read1(self, size: int) -> bytes:
        self.time[0] += 1
        return b"x"


def test_an_answer_that_drips_is_a_timeout() -> None:
    time = [0.0]
    with pytest.raises(TransportError) as caught:
        fetch("GET", "http://x/", timeout=5, send=lambda _r, _t: Drip(time), clock=Clock(lambda: time[0]))
    assert caught.value.kind == "timeout" and time[0] == 6


def test_text_is_one_short_line() -> None:
    assert Response(200, {}, b" a\n b ").text() == "a b"
    assert len(Response(200, {}, b"x" * 5000).text(100)) == 100


def clock() -> tuple[list[float], Clock]:
    time = [0.0]

    def sleep(seconds: float) -> None:
        time[0] += seconds

    return time, Clock(lambda: time[0], sleep)


def test_poll_ends_with_a_result_or_at_its_deadline() -> None:
    time, fake = clock()
    lefts: list[float] = []
    assert poll(lefts.append, timeout=5, interval=2, clock=fake) is None
    assert (lefts, time[0]) == ([5, 3, 1, 0], 5)
    assert poll(lambda left: "yes", timeout=0, clock=fake) == "yes"


def test_progress_repeats_only_every_15_seconds() -> None:
    time, fake = clock()
    said: list[str] = []
    narrator = Narrator(said.append, fake)
    for at, text in [(0, "a"), (2, "a"), (3, "b"), (14, "b"), (18, "b"), (20, "b")]:
        time[0] = at
        narrator(text)
    assert said == ["a", "b", "b"]
