# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: HTTP requests and polling, with transport and clock injected.

Standard library only and Python 3.9+: this file is also copied into pods and run there.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, NamedTuple, TypeVar

T = TypeVar("T")
MAX_BODY = 8 << 20


class TransportError(Exception):
    """No complete HTTP answer. kind: refused, reset, dns, tls, timeout, partial, redirect or protocol."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Response(NamedTuple):
    """An HTTP answer of any status; header names are lower-case.

    arrivals: how the body came: (bytes so far, seconds since the request was sent), one a piece.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    arrivals: tuple[tuple[int, float], ...] = ()

    def json(self) -> Any:
        """The body as JSON; ValueError when it is something else."""
        return json.loads(self.body.decode("utf-8"))

    def text(self, limit: int = 300) -> str:
        """The body as one line of at most `limit` characters, for messages."""
        line = " ".join(self.body[: 4 * limit].decode("utf-8", "replace").split())
        return line if len(line) <= limit else line[: limit - 3] + "..."


class Clock(NamedTuple):
    """Seconds of a monotonic clock, and a way to let them pass."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


Opener = Callable[[urllib.request.Request, float], Any]


def address_problem(url: str) -> str:
    """Why `url` can't be asked, or nothing. A password in it is not repeated."""
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        usable = False
    if "@" in url.partition("://")[2].partition("/")[0]:
        return "holds a user name or password; give the address without it"
    if usable and re.fullmatch("[!-~]+", url):
        return ""
    return "is no http or https address" + ("" if "@" in url else f": {url}")


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = 5

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """None but a GET goes on to another address, and to another host without the caller's headers."""
        target = newurl.partition("?")[0]
        if req.get_method() not in ("GET", "HEAD"):
            text = f"{req.get_method()} {req.full_url}: HTTP {code} leads to {target}: give that address"
            raise TransportError("redirect", text)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request and urllib.parse.urlsplit(newurl)[:2] != urllib.parse.urlsplit(req.full_url)[:2]:
            request.headers = {}
        return request


def opener(validate_certs: bool = True, ca_path: str | None = None, proxies: bool = True) -> Opener:
    """A transport for `fetch`. `proxies=False` ignores http_proxy and friends (for loopback and cluster addresses)."""
    context = ssl.create_default_context(cafile=ca_path)
    if not validate_certs:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context), _Redirects()]
    if not proxies:
        handlers.append(urllib.request.ProxyHandler({}))
    director = urllib.request.build_opener(*handlers)

    def send(request: urllib.request.Request, timeout: float) -> Any:
        return director.open(request, timeout=timeout)

    return send


def _kind(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return "tls"
    if isinstance(error, (socket.timeout, TimeoutError)):
        return "timeout"
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, socket.gaierror):
        return "dns"
    # http.client raises RemoteDisconnected (a ConnectionResetError) when the peer closes without an answer.
    if isinstance(error, (ConnectionError, http.client.RemoteDisconnected)):
        return "reset"
    if isinstance(error, http.client.IncompleteRead):
        return "partial"
    return "protocol"


def fetch(
    method: str,
    url: str,
    *,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
    timeout: float = 30.0,
    send: Opener | None = None,
    clock: Clock = Clock(),
) -> Response:
    """One request. `timeout` (seconds) bounds the whole answer, also one that drips in slowly.

    Answers of every status are returned; TransportError when there is no complete answer.
    """
    request = urllib.request.Request(url, data=body, headers=headers or {}, method=method)
    began = clock.now()
    try:
        try:
            answer = (send or opener())(request, timeout)
        except urllib.error.HTTPError as error:
            # urllib's own text for more redirects than allowed; the answer itself is of no use then.
            if "redirect error" in str(error.reason or ""):
                raise TransportError("redirect", f"{method} {url}: redirect loop") from error
            answer = error
        with answer:
            chunks, size, arrivals = [], 0, []
            while size <= MAX_BODY:
                chunk = answer.read1(65536) if hasattr(answer, "read1") else answer.read(65536)
                if not chunk:
                    break
                chunks.append(chunk)
                size += len(chunk)
                arrivals.append((size, clock.now() - began))
                if arrivals[-1][1] > timeout:
                    raise TransportError("timeout", f"{method} {url}: answer not complete after {timeout:.0f} s")
            names = {str(k).lower(): str(v) for k, v in answer.headers.items()}
            expected = names.get("content-length", "")
            # read1 reports an early end of a body of known length as a plain end.
            if method != "HEAD" and size <= MAX_BODY and expected.isdecimal() and size < int(expected):
                raise TransportError("partial", f"{method} {url}: {size} of {expected} bytes received")
            return Response(int(answer.status), names, b"".join(chunks), tuple(arrivals))
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        cause = reason if isinstance(reason, BaseException) else error
        raise TransportError(_kind(cause), f"{method} {url}: {cause or type(cause).__name__}") from error
    except ValueError as error:  # a Location that is no address
        raise TransportError("protocol", f"{method} {url}: {type(error).__name__}") from error


def poll(
    step: Callable[[float], T | None], *, timeout: float, interval: float = 2.0, clock: Clock = Clock()
) -> T | None:
    """Call `step(seconds left)` at least once, then every `interval` seconds, until it returns something.

    None when `timeout` seconds have passed. No call starts after the deadline.
    """
    deadline = clock.now() + timeout
    while True:
        result = step(max(0.0, deadline - clock.now()))
        if result is not None:
            return result
        left = deadline - clock.now()
        if left <= 0:
            return None
        clock.sleep(min(interval, left))


class Narrator:
    """Progress of a wait: a line when the text changes, and the same line again every `every` seconds."""

    def __init__(self, say: Callable[[str], None], clock: Clock = Clock(), every: float = 15.0) -> None:
        self._say, self._clock, self._every = say, clock, every
        self._text, self._at = "", float("-inf")

    def __call__(self, text: str) -> None:
        now = self._clock.now()
        if text != self._text or now - self._at >= self._every:
            self._say(text)
            self._text, self._at = text, now
