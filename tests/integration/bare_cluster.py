# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Kubernetes API that answers and has no Dynamo: enough of discovery for a client, empty lists, nothing else.

A kind cluster without the platform would prove the same for minutes of building.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
RESOURCES = {
    "/api/v1": {
        "namespaces": ("Namespace", False),
        "nodes": ("Node", False),
        "persistentvolumes": ("PersistentVolume", False),
        "persistentvolumeclaims": ("PersistentVolumeClaim", True),
        "pods": ("Pod", True),
        "secrets": ("Secret", True),
        "configmaps": ("ConfigMap", True),
        "events": ("Event", True),
    },
    "/apis/batch/v1": {"jobs": ("Job", True)},
    "/apis/storage.k8s.io/v1": {"storageclasses": ("StorageClass", False)},
}


def answer(path: str) -> dict[str, Any] | None:
    """The body for a GET; None is a 404."""
    if path == "/version":
        return {"major": "1", "minor": "34", "gitVersion": "v1.34.4"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        versions = [{"groupVersion": base[6:], "version": "v1"} for base in RESOURCES if base.startswith("/apis/")]
        groups = [{"name": v["groupVersion"][:-3], "versions": [v], "preferredVersion": v} for v in versions]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if path in RESOURCES:
        resources = [
            {"name": name, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind, "verbs": VERBS}
            for name, (kind, namespaced) in RESOURCES[path].items()
        ]
        group = path.removeprefix("/apis/").removeprefix("/api/")
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": resources}
    if path == "/api/v1/namespaces/kube-system":
        return {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "kube-system", "uid": "0-0"}}
    plural = path.rpartition("/")[2]
    for base, resources_of in RESOURCES.items():
        if path.startswith(base) and plural in resources_of:
            kind = f"{resources_of[plural][0]}List"
            return {"kind": kind, "apiVersion": base.rpartition("api/")[2], "metadata": {}, "items": []}
    return None


class Handler(BaseHTTPRequestHandler):
    """Refuses every write: a test that causes one has found a defect."""

    writes: list[str]

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        body = answer(self.path.partition("?")[0].rstrip("/"))
        self._send(*(404, {"kind": "Status", "reason": "NotFound", "code": 404}) if body is None else (200, body))

    def _write(self) -> None:
        self.writes.append(f"{self.command} {self.path}")
        self._send(403, {"kind": "Status", "reason": "Forbidden", "code": 403, "message": "read only"})

    do_POST = do_PUT = do_PATCH = do_DELETE = _write

    def log_message(self, *_args: Any) -> None:
        pass


@contextmanager
def bare_cluster() -> Iterator[tuple[str, list[str]]]:
    """(address, list of the writes that were tried)"""
    writes: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bare", (Handler,), {"writes": writes}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", writes
    finally:
        server.shutdown()
        server.server_close()
