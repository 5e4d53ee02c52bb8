# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A loopback API server that speaks as much of Kubernetes as the tests of Cluster and of the plugins need.

Server-side apply is a merge with ownership of leaves: what a manager applied before and leaves out now goes away, and a
leaf that another manager set to something else is a conflict.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

RESOURCES = {
    "api/v1": {
        "namespaces": ("Namespace", False),
        "secrets": ("Secret", True),
        "configmaps": ("ConfigMap", True),
        "pods": ("Pod", True),
    },
    "apis/batch/v1": {"jobs": ("Job", True)},
    "apis/nvidia.com/v1beta1": {"dynamographdeployments": ("DynamoGraphDeployment", True)},
}


def status(code: int, message: str, **extra: Any) -> tuple[int, dict[str, Any]]:
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, **extra}


class FakeApi:
    """objects: (kind, namespace, name) -> object; answers: (method, path) -> (status, JSON or bytes) given instead."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.owned: dict[tuple[str, str, str], dict[str, dict[str, str]]] = {}
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.headers: list[dict[str, str]] = []
        self.version = 0
        self.url = ""

    @property
    def writes(self) -> list[str]:
        """`METHOD path` of every request that wanted to change something."""
        return [f"{m} {p}" for m, p, q in self.requests if m != "GET" and q.get("dryRun") != "All"]

    def add(self, obj: dict[str, Any], manager: str = "someone") -> dict[str, Any]:
        """Put an object there as if `manager` had applied it."""
        meta = obj["metadata"]
        key = (obj["kind"], meta.get("namespace", ""), meta["name"])
        if meta.get("namespace"):
            name = meta["namespace"]
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self.objects.setdefault(("Namespace", "", name), namespace)
        return self._apply(key, obj, manager, force=True, dry=False)[1]

    def handle(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if (method, path) in self.answers:
            return self.answers[method, path]
        if path == "version":
            return 200, {"gitVersion": "v1.34.4"}
        if path in RESOURCES:
            found = RESOURCES[path].items()
            return 200, {"resources": [{"name": n, "kind": k, "namespaced": ns} for n, (k, ns) in found]}
        for prefix, resources in RESOURCES.items():
            if path.startswith(prefix + "/"):
                parts = path[len(prefix) + 1 :].split("/")
                namespace = ""
                if parts[0] == "namespaces" and len(parts) > 2:
                    namespace, parts = parts[1], parts[2:]
                if parts[0] in resources:
                    kind = resources[parts[0]][0]
                    return self._object(method, kind, namespace, parts[1] if len(parts) > 1 else "", query, body)
        return status(404, "the server could not find the requested resource")

    def _object(
        self, method: str, kind: str, namespace: str, name: str, query: dict[str, str], body: Any
    ) -> tuple[int, Any]:
        key, dry = (kind, namespace, name), query.get("dryRun") == "All"
        if not name:
            wanted = [s for s in query.get("labelSelector", "").split(",") if s]
            items = [o for (k, n, _name), o in self.objects.items() if k == kind and namespace in ("", n)]
            return 200, {"metadata": {}, "items": [o for o in items if all(_matches(o, s) for s in wanted)]}
        if method == "PATCH" and isinstance(body, list):
            for operation in body:
                if operation["op"] == "replace":
                    self.objects[key]["metadata"]["managedFields"] = operation["value"]
                    self.owned[key] = {"inferops.dynamo": _leaves(self.objects[key])}
            return 200, self.objects[key]
        if method == "PATCH":
            if namespace and ("Namespace", "", namespace) not in self.objects:
                details = {"kind": "namespaces", "name": namespace}
                return status(404, f'namespaces "{namespace}" not found', details=details)
            return self._apply(key, body, query["fieldManager"], query.get("force") == "true", dry)
        if key not in self.objects:
            return status(404, f'{kind} "{name}" not found', details={"kind": kind, "name": name})
        if method == "DELETE":
            dry = (body or {}).get("dryRun") == ["All"]
            return 200, (self.objects.get(key) if dry else self.objects.pop(key))
        return 200, self.objects[key]

    def _apply(
        self, key: tuple[str, str, str], body: dict[str, Any], manager: str, force: bool, dry: bool
    ) -> tuple[int, Any]:
        live = self.objects.get(key)
        owned, wanted = copy.deepcopy(self.owned.get(key, {})), _leaves(body)
        causes = []
        for other, fields in owned.items():
            for path, value in fields.items():
                if other != manager and wanted.get(path, value) != value and not force:
                    message = f'conflict with "{other}" using v1'
                    causes.append({"reason": "FieldManagerConflict", "message": message, "field": path})
        if causes:
            return status(409, f"Apply failed with {len(causes)} conflict", details={"causes": causes})
        merged = _merge(copy.deepcopy(live or {}), body)
        for path in owned.get(manager, {}):
            if path not in wanted and not any(path in f for o, f in owned.items() if o != manager):
                _remove(merged, path)
        owned[manager] = wanted
        meta = merged["metadata"]
        if _clean(merged) != _clean(live or {}):
            self.version += 1
            meta["resourceVersion"] = str(self.version)
        meta.setdefault("uid", f"uid-{self.version}")
        meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        meta["managedFields"] = [{"manager": m, "operation": "Apply", "fieldsV1": {}} for m in owned]
        if not dry:
            self.objects[key], self.owned[key] = merged, owned
        return 200, merged


def _leaves(value: Any, path: str = "") -> dict[str, str]:
    if isinstance(value, dict):
        found: dict[str, str] = {}
        for key, item in value.items():
            if path or key not in ("apiVersion", "kind"):
                found.update(_leaves(item, f"{path}.{key}"))
        return found
    return {path: json.dumps(value)}


def _merge(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{k: _merge(old.get(k), v) for k, v in new.items()}}
    return copy.deepcopy(new)


def _remove(obj: dict[str, Any], path: str) -> None:
    for parent in (".metadata.labels.", ".metadata.annotations.", ".data.", ".spec."):
        if path.startswith(parent):
            node = obj
            for step in parent.strip(".").split("."):
                node = node.get(step, {})
            node.pop(path[len(parent) :], None)


def _clean(obj: dict[str, Any]) -> Any:
    rest = copy.deepcopy(obj)
    for name in ("managedFields", "resourceVersion"):
        rest.get("metadata", {}).pop(name, None)
    return rest


def _matches(obj: dict[str, Any], selector: str) -> bool:
    labels = obj["metadata"].get("labels") or {}
    if selector.startswith("!"):
        return selector[1:] not in labels
    key, _equals, value = selector.partition("=")
    return bool(labels.get(key) == value)


@contextmanager
def serve(api: FakeApi) -> Iterator[FakeApi]:
    """Run the API on a free loopback port; `api.url` says where."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def answer(self) -> None:
            url = urlsplit(self.path)
            query = {k: v[0] for k, v in parse_qs(url.query).items()}
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            api.requests.append((self.command, url.path.strip("/"), query))
            api.headers.append({k.lower(): v for k, v in self.headers.items()})
            body = json.loads(raw) if raw else None
            code, found = api.handle(self.command, url.path.strip("/"), query, body)
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain" if isinstance(found, bytes) else "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def kubeconfig(url: str, token: str = "") -> dict[str, Any]:
    """A kubeconfig with the one context `lab`."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
        "clusters": [{"name": "lab", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": token} if token else {}}],
    }
