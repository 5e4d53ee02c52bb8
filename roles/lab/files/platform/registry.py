# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image registry that misbehaves, on the loopback address of the node: there every container runtime speaks plain
HTTP without being configured. The first part of a repository's name says how it answers, any name and tag may follow:

  good       the lab's runtime image          slow-SECONDS   the same, so many seconds late
  absent     404                              refuses        401
  foreign    an image for another CPU only    busy           429
  broken     503

  registry.py PORT BLOBS      BLOBS: the blobs/sha256 directory of the node's containerd, where the lab's image is
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
SMALL = 64 * 1024  # no manifest is larger
MARK = "mkmodel.py"  # in the history of the lab's image, and of no other
FOREIGN = {
    "schemaVersion": 2,
    "mediaType": INDEX,
    "manifests": [
        {
            "mediaType": MANIFEST,
            "size": 2,
            "digest": f"sha256:{hashlib.sha256(b'{}').hexdigest()}",
            "platform": {"os": "linux", "architecture": "s390x"},
        }
    ],
}
REFUSALS = {
    "absent": (404, "MANIFEST_UNKNOWN", "manifest unknown"),
    "refuses": (401, "UNAUTHORIZED", "authentication required"),
    "busy": (429, "TOOMANYREQUESTS", "too many requests"),
    "broken": (503, "UNAVAILABLE", "service unavailable"),
}


class Store:
    """The node's own blobs."""

    def __init__(self, blobs: Path) -> None:
        self.blobs = blobs

    def blob(self, digest: str) -> Path | None:
        path = self.blobs / digest.removeprefix("sha256:")
        return path if re.fullmatch(r"sha256:[0-9a-f]{64}", digest) and path.is_file() else None

    @cached_property
    def image(self) -> bytes:
        """The manifest of the lab's runtime image, the newest one; LookupError when there is none."""
        found: list[tuple[str, bytes]] = []
        for path in self.blobs.iterdir():
            if not path.is_file() or path.stat().st_size > SMALL:
                continue
            manifest = read_json(path)
            config = self.blob(str((manifest.get("config") or {}).get("digest"))) if "layers" in manifest else None
            image = read_json(config) if config else {}
            if any(MARK in str(step.get("created_by")) for step in image.get("history") or []):
                found.append((str(image.get("created")), path.read_bytes()))
        if not found:
            raise LookupError("the lab's image is not on this node")
        return max(found)[1]


def read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Registry

    def do_GET(self) -> None:
        asked = re.fullmatch(r"/v2/(.+)/(manifests|blobs)/([^/?]+)", self.path)
        name, kind, reference = asked.groups() if asked else ("", "", "")
        how, _slash, _rest = name.partition("/")
        if self.path.rstrip("/") == "/v2":
            return self.send(200, "application/json", b"{}")
        if how in REFUSALS:
            return self.refuse(*REFUSALS[how])
        if kind == "blobs":
            return self.send_blob(reference)
        if how == "foreign" and kind:
            return self.send(200, INDEX, json.dumps(FOREIGN).encode())
        seconds = re.fullmatch(r"slow-(\d+)|good", how)
        if not kind or not seconds:
            return self.refuse(404, "NAME_UNKNOWN", "repository name not known to registry")
        try:
            manifest = self.server.store.image
        except LookupError as error:
            return self.refuse(500, "UNKNOWN", str(error))
        if self.command == "HEAD" and seconds[1]:
            time.sleep(float(seconds[1]))
        self.send(200, str(json.loads(manifest).get("mediaType") or MANIFEST), manifest)

    do_HEAD = do_GET

    def send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", f"sha256:{hashlib.sha256(body).hexdigest()}")
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="lab"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int, code: str, message: str) -> None:
        self.send(status, "application/json", json.dumps({"errors": [{"code": code, "message": message}]}).encode())

    def send_blob(self, digest: str) -> None:
        path = self.server.store.blob(digest)
        if path is None:
            return self.refuse(404, "BLOB_UNKNOWN", "blob unknown to registry")
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(path.stat().st_size))
        self.end_headers()
        if self.command != "HEAD":
            with path.open("rb") as blob:
                while piece := blob.read(1 << 20):
                    self.wfile.write(piece)


class Registry(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, blobs: Path) -> None:
        self.store = Store(blobs)
        super().__init__(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    Registry(int(sys.argv[1]), Path(sys.argv[2])).serve_forever()
