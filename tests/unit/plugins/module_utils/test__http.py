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
    address_problem,
    fetch,
    opener,
    poll,
)
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._loopback import Handler, serve


class Server(Handler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self.send_response(int(self.path[1:]))
        self.send_header("Location", "https://gateway.example/v1?x=1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        if self.path == "/reset":
            self.close_connection = True
            self.connection.close()
            return
        to = {"/loop": "/loop", "/bad": "http://[::1/", "/here": "/x"}.get(self.path, "")
        if self.path.startswith("/to/"):
            to = f"http://127.0.0.1:{self.path[4:]}/x"
        self.send_response(302 if to else {"/gone": 404}.get(self.path, 200))
        self.send_header("X-Path", self.path)
        self.send_header("X-Token", str(self.headers.get("X-Token")))
        if to:
            self.send_header("Location", to)
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
    ("path", "kind"), [("/reset", "reset"), ("/partial", "partial"), ("/loop", "redirect"), ("/bad", "protocol")]
)  # fmt: skip
def test_no_complete_answer(url: str, path: str, kind: str) -> None:
    with pytest.raises(TransportError) as caught:
        fetch("GET", url + path, send=SEND)
    assert caught.value.kind == kind


def test_another_host_is_not_given_the_headers(url: str) -> None:
    """A redirect to a storage, or to whoever took the name over: the token is for the address that was given."""
    sent = {"X-Token": "S3CRET", "Authorization": "Bearer S3CRET"}
    with serve(Server) as other:
        answer = fetch("GET", f"{url}/to/{other}", headers=sent, send=SEND)
    assert (answer.headers["x-path"], answer.headers["x-token"]) == ("/x", "None")
    assert fetch("GET", f"{url}/here", headers=sent, send=SEND).headers["x-token"] == "S3CRET"


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_what_is_sent_is_not_sent_elsewhere(url: str, code: int) -> None:
    """A GET without the body, as urllib would go on, is another request."""
    with pytest.raises(TransportError, match=f"HTTP {code} leads to https://gateway.example/v1: give") as caught:
        fetch("PUT", f"{url}/{code}", body=b"x", send=SEND)
    assert caught.value.kind == "redirect"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("http://a.example:8000/v1", ""),
        ("https://[::1]:8000", ""),
        ("frontend", "no http or https address: frontend"),
        ("localhost:8000", "no http or https"),
        ("http://localhost:80a/", "no http or https"),
        ("file:///etc/hostname", "no http or https"),
        ("http://[::1/x", "no http or https"),
        ("http://a/\u00e9", "no http or https"),
        ("http://u:S3CRET@a/", "holds a user name or password"),
        ("http://u:S3/CRET@a/", "is no http or https address"),
    ],
)
def test_addresses(address: str, problem: str) -> None:
    found = address_problem(address)
    assert problem in found and bool(problem) == bool(found) and "CRET" not in found


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
