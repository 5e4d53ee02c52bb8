# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run asks of the API server: a proxy in front of the lab's that writes down the right behind each request."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import kubernetes

# Of one connection only.
HOP = {"connection", "host", "keep-alive", "transfer-encoding", "content-length"}


class Right(NamedTuple):
    """What RBAC is asked for. resource: with its subresource, `pods/log`; namespaced: in a namespace, or everywhere."""

    verb: str
    group: str
    resource: str
    namespaced: bool


def right(method: str, target: str) -> Right | None:
    """The right that a request needs; None for discovery, which everybody may."""
    url = urlsplit(target)
    parts = url.path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1] if len(parts) > 1 else "", parts[3:])
    if parts[0] not in ("api", "apis") or not rest:
        return None
    # To read a namespace itself is a right inside it. kube-system is nobody's own.
    namespaced = rest[0] == "namespaces" and len(rest) > 1 and rest[1] != "kube-system"
    if namespaced and len(rest) > 2:
        rest = rest[2:]
    resource = "/".join([rest[0], *rest[2:3]])
    verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method)
    if verb is None:
        watching = parse_qs(url.query).get("watch") == ["true"]
        verb = "watch" if watching else "get" if len(rest) > 1 else "list"
    return Right(verb, group, resource, namespaced)


class Recorder:
    """used: rights of requests that were let through; denied: those answered with 403."""

    def __init__(self, kubeconfig: str, context: str) -> None:
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(kubeconfig, context, client_configuration=configuration)
        # The certificates are the admin's, so only the authority is taken.
        self.tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        address = urlsplit(configuration.host)
        self.host, self.port = str(address.hostname), int(address.port or 443)
        self.used: set[Right] = set()
        self.denied: set[Right] = set()
        self.url = ""

    def note(self, method: str, target: str, status: int) -> None:
        asked = right(method, target)
        if asked is None:
            return
        (self.denied if status == 403 else self.used).add(asked)
        if status == 201 and method == "PATCH":  # server-side apply of what wasn't there takes both
            self.used.add(asked._replace(verb="create"))

    def connect(self) -> ssl.SSLSocket:
        return self.tls.wrap_socket(socket.create_connection((self.host, self.port)), server_hostname=self.host)


class Handler(BaseHTTPRequestHandler):
    recorder: Recorder

    def _forward(self) -> None:
        if "upgrade" in self.headers.get("Connection", "").lower():
            self._tunnel()
            return
        upstream = http.client.HTTPSConnection(self.recorder.host, self.recorder.port, context=self.recorder.tls)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
        upstream.request(self.command, self.path, body, headers)
        answer = upstream.getresponse()
        self.recorder.note(self.command, self.path, answer.status)
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP:
                self.send_header(name, value)
        self.end_headers()  # HTTP/1.0: the end of the body is that of the connection
        with suppress(OSError):  # the client of a watch leaves when it has seen enough
            while piece := answer.read1(65536):
                self.wfile.write(piece)
                self.wfile.flush()
        upstream.close()

    def _tunnel(self) -> None:
        """A port-forward: after the handshake bytes go both ways."""
        with self.recorder.connect() as upstream:
            lines = [f"{self.command} {self.path} HTTP/1.1", *(f"{k}: {v}" for k, v in self.headers.items()), "", ""]
            upstream.sendall("\r\n".join(lines).encode())
            first = upstream.recv(65536)
            self.recorder.note(self.command, self.path, int(first.split(b" ", 2)[1]))
            self.connection.sendall(first)
            back = threading.Thread(target=_pump, args=(upstream, self.connection), daemon=True)
            back.start()
            _pump(self.connection, upstream)
            back.join(5)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _forward

    def log_message(self, *_args: Any) -> None:
        pass


def _pump(source: Any, target: Any) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def recorder(kubeconfig: str, context: str) -> Iterator[Recorder]:
    """A running proxy; its `url` takes the place of the API server's."""
    found = Recorder(kubeconfig, context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Recording", (Handler,), {"recorder": found}))
    found.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
