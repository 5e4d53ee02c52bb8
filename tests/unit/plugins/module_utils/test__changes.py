# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watches against a server that ends them in every way there is. Real sockets and the real client."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _changes
from ansible_collections.inferops.dynamo.plugins.module_utils._changes import Changes
from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import Cluster
from ansible_collections.inferops.dynamo.tests.unit.plugins.fake_api import kubeconfig, status

POD = "/api/v1/namespaces/llm/pods"
KINDS = {
    "/api/v1": {"pods": "Pod", "events": "Event"},
    "/apis/nvidia.com/v1beta1": {"dynamographdeployments": "DynamoGraphDeployment"},
}
GONE = status(410, "too old resource version: 1 (9)")
PATIENCE = 20.0  # seconds that a busy machine may take for what is a matter of milliseconds


def change(version: int, kind: str = "MODIFIED", **about: Any) -> bytes:
    obj = {"metadata": {"name": "x", "resourceVersion": str(version)}, **about}
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


class Server:
    """Watches of pods end as `script` says, one entry a watch: status, lines, and `cut`, `end` or `stay` at its end.

    Watches of the other kinds stay open. asked: the queries of the watches of pods; tokens: who asked.
    """

    def __init__(self, *script: tuple[int, list[bytes], str]) -> None:
        self.script: queue.Queue[tuple[int, list[bytes], str]] = queue.Queue()
        for entry in script:
            self.script.put(entry)
        self.asked: list[dict[str, str]] = []
        self.tokens: list[str] = []
        self.others: dict[str, list[bytes]] = {}
        self.closing = threading.Event()

    def start(self) -> str:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                url = urlsplit(self.path)
                query = {key: values[0] for key, values in parse_qs(url.query).items()}
                if url.path in KINDS:
                    found = [{"name": n, "kind": k, "namespaced": True} for n, k in KINDS[url.path].items()]
                    return self.answer(200, {"resources": found})
                if "watch" not in query:
                    return self.answer(200, {"gitVersion": "v1.34.4"})
                if url.path != POD:
                    return self.stream(outer.others.get(url.path.rpartition("/")[2], []), "stay")
                outer.asked.append(query)
                outer.tokens.append(self.headers.get("Authorization", ""))
                code, lines, end = (200, [], "stay") if outer.script.empty() else outer.script.get()
                return self.stream(lines, end) if code == 200 else self.answer(*status(code, lines[0].decode()))

            def answer(self, code: int, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def stream(self, lines: list[bytes], end: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for line in lines:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
                if end == "stay":
                    outer.closing.wait()
                if end == "end":
                    self.wfile.write(b"0\r\n\r\n")
                self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def stop(self) -> None:
        self.closing.set()
        self.http.shutdown()
        self.http.server_close()


Opened = Callable[..., tuple[Changes, Server]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Changes on a server with a script."""
    monkeypatch.setattr(_changes, "PAUSES", (0.01, 0.05))
    monkeypatch.setattr(_changes, "SETTLE", 0)
    monkeypatch.setattr(Cluster, "_request", _impatient(Cluster._request))
    made: list[tuple[Changes, Server]] = []

    def start(*script: tuple[int, list[bytes], str], **others: list[bytes]) -> tuple[Changes, Server]:
        server = Server(*script)
        server.others = others
        url, count = server.start(), iter(range(1, 100))
        # as after a renewal: each look at the cluster has the token of that moment
        changes = Changes(lambda: Cluster.connect({"kubeconfig": kubeconfig(url, f"t{next(count)}")}), "llm", "lab-agg")
        made.append((changes, server))
        return changes, server

    yield start
    for changes, server in made:
        changes.close()
        server.stop()


def _impatient(request: Any) -> Any:
    def send(self: Cluster, *args: Any, **options: Any) -> Any:
        self._sleep = lambda _seconds: None
        return request(self, *args, **options)

    return send


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


BUSY = (429, [b"too many requests"], "")
ENDS: dict[str, list[tuple[int, list[bytes], str]]] = {
    "its time is over": [(200, [change(7)], "end")],
    "cut off": [(200, [change(7)], "cut")],
    "cut off in the middle of a line": [(200, [change(7), b'{"type": "MODI'], "cut")],
    "API server restarts": [(200, [change(7)], "cut"), (503, [b"apiserver is shutting down"], "")],
    "429": [(200, [change(7)], "end"), BUSY, BUSY, BUSY, BUSY, BUSY],
    "500": [(200, [change(7)], "end"), (500, [b"etcdserver: leader changed"], "")],
    "token expired": [(200, [change(7)], "end"), (401, [b"Unauthorized"], "")],
    "a bookmark": [(200, [change(5), change(7, "BOOKMARK")], "end")],
}


@pytest.mark.parametrize("script", ENDS.values(), ids=ENDS.keys())
def test_a_watch_goes_on_where_it_was(opened: Opened, script: list[tuple[int, list[bytes], str]]) -> None:
    changes, server = opened(*script, (200, [change(8)], "end"))
    until(lambda: len(server.asked) == len(script) + 2)
    versions = [query.get("resourceVersion") for query in server.asked]
    assert versions == [None, *["7"] * len(script), "8"]
    assert len(set(server.tokens)) > 1 and not changes.blind


@pytest.mark.parametrize(
    "gone", [(410, [b"too old"], ""), (200, [json.dumps({"type": "ERROR", "object": GONE[1]}).encode() + b"\n"], "end")]
)
def test_a_version_that_is_too_old_begins_anew(opened: Opened, gone: tuple[int, list[bytes], str]) -> None:
    server = opened((200, [change(7)], "end"), gone, (200, [change(90)], "stay"))[1]
    until(lambda: len(server.asked) == 3)
    assert [query.get("resourceVersion") for query in server.asked] == [None, "7", None]


def test_a_change_is_told_at_once(opened: Opened) -> None:
    changes, _server = opened((200, [change(7)], "stay"))
    began = time.monotonic()
    changes.wait(PATIENCE)
    assert time.monotonic() - began < PATIENCE


def test_what_is_no_change_is_not_told(opened: Opened) -> None:
    foreign = change(3, involvedObject={"kind": "Pod", "name": "other-1"})
    changes, server = opened((200, [change(7, "BOOKMARK")], "stay"), events=[foreign])
    until(lambda: len(server.asked) == 1)
    changes.wait(0.3)
    assert not changes._changed.is_set()


@pytest.mark.parametrize(
    "involved", [{"kind": "Pod", "name": "lab-agg-worker-1"}, {"kind": "PersistentVolumeClaim", "name": "cache"}]
)
def test_events_about_the_deployment_are_changes(opened: Opened, involved: dict[str, str]) -> None:
    changes, _server = opened(events=[change(3, involvedObject=involved)])
    until(changes._changed.is_set)


def test_who_may_not_watch_looks_often(opened: Opened) -> None:
    changes, server = opened((403, [b'pods is forbidden: User "u" cannot watch resource "pods"'], ""))
    until(lambda: changes.blind)
    assert len(server.asked) == 1
