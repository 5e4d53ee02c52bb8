# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small client for the Kubernetes API from inside a pod: JSON in, JSON out, and watches. Standard library only,
because the lab's pods start in a tenth of the time without the big client."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

Object = dict[str, Any]


def log(*words: Any) -> None:
    print(time.strftime("%H:%M:%S"), *words, file=sys.stderr, flush=True)


class ApiError(Exception):
    """An answer that isn't 2xx; str() is the server's message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """One keep-alive connection per thread."""

    def __init__(self) -> None:
        self.tls = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
        self.local = threading.local()

    def _connect(self, timeout: float) -> http.client.HTTPSConnection:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=self.tls)

    def _headers(self, content_type: str) -> dict[str, str]:
        token = (ACCOUNT / "token").read_text(encoding="ascii")  # rotated by the kubelet
        return {"Authorization": f"Bearer {token}", "Content-Type": content_type, "Accept": "application/json"}

    def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
    ) -> Any:
        url = path + ("?" + urllib.parse.urlencode(query) if query else "")
        # As the server itself writes it: raw JSON in an immutable spec would otherwise differ from itself after a patch
        data = None if body is None else json.dumps(body, sort_keys=True, separators=(",", ":"))
        for attempt in (1, 2):
            if getattr(self.local, "connection", None) is None:
                self.local.connection = self._connect(30)
            try:
                self.local.connection.request(method, url, data, self._headers(content_type))
                answer = self.local.connection.getresponse()
                text = answer.read()
                break
            except (OSError, http.client.HTTPException):
                self.local.connection = None
                if attempt == 2:
                    raise
        result = json.loads(text) if text[:1] == b"{" else {"message": text.decode(errors="replace")}
        if answer.status >= 300:
            raise ApiError(answer.status, result.get("message", "no message"))
        return result

    def get(self, path: str) -> Object | None:
        try:
            result: Object = self.call("GET", path)
            return result
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def apply(self, path: str, body: Object) -> Object:
        """Server-side apply that takes every field it names."""
        result: Object = self.call("PATCH", path, body, APPLY, fieldManager="manager", force="true")
        return result

    def merge(self, path: str, body: Object) -> Object:
        result: Object = self.call("PATCH", path, body, MERGE, fieldManager="manager")
        return result

    def set_status(self, path: str, status: Object) -> Object:
        """Replaces the whole status."""
        patch = [{"op": "add", "path": "/status", "value": status}]
        result: Object = self.call("PATCH", path + "/status", patch, JSON_PATCH, fieldManager="manager")
        return result

    def delete(self, path: str) -> None:
        try:
            self.call("DELETE", path, {"propagationPolicy": "Background"})
        except ApiError as error:
            if error.status != 404:
                raise

    def watch(self, path: str, version: str, selector: str) -> Iterator[Object]:
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "300", "allowWatchBookmarks": "true"}
        connection = self._connect(330)
        try:
            connection.request(
                "GET", f"{path}?{urllib.parse.urlencode({**query, 'labelSelector': selector})}", None, self._headers("")
            )
            answer = connection.getresponse()
            if answer.status != 200:
                raise ApiError(answer.status, answer.read().decode(errors="replace"))
            for line in iter(answer.readline, b""):
                yield json.loads(line)
        finally:
            connection.close()


def follow(api: Api, path: str, selector: str, on_event: Callable[[str, Object], None]) -> None:
    """Lists, then watches, for ever. on_event gets ADDED, MODIFIED or DELETED; after a new list, objects that vanished
    unseen are reported as DELETED."""
    known: dict[str, Object] = {}
    while True:
        try:
            listing = api.call("GET", path, labelSelector=selector)
            fresh = {item["metadata"]["uid"]: item for item in listing["items"]}
            for uid in known.keys() - fresh.keys():
                on_event("DELETED", known.pop(uid))
            for uid, item in fresh.items():
                known[uid] = item
                on_event("MODIFIED", item)
            version = listing["metadata"]["resourceVersion"]
            while version:
                for event in api.watch(path, version, selector):
                    item = event["object"]
                    if event["type"] == "ERROR":
                        version = ""
                        break
                    version = item["metadata"]["resourceVersion"]
                    if event["type"] == "BOOKMARK":
                        continue
                    if event["type"] == "DELETED":
                        known.pop(item["metadata"]["uid"], None)
                    else:
                        known[item["metadata"]["uid"]] = item
                    on_event(event["type"], item)
        except Exception as error:  # a broken watch is started again, whatever broke it
            log(f"watch of {path} starts again after {error!r:.200}")
            time.sleep(1)
