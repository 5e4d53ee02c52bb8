# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model hub on one port: repositories with the real names and generated content, enough of the hub's HTTP API for
huggingface_hub 2.4.0 (`snapshot_download` by branch or commit, into a folder or the cache; `hf cache verify`).

  hub.py PORT [HOST]          environment TOKENS: tokens that may read the gated repository, separated by spaces
Tests tell it to misbehave, for one repository or, with `*`, for all:
  /_mode/OWNER/NAME/MODE      ok, 401, 403, 404, 429, 500, 503 (every answer), truncate (shards end early, their
                              whole size promised), corrupt (the last byte of shards is wrong), hold/BYTES (shards stop
                              there until the mode changes), slow/BYTES_PER_SECOND
  /as/MODE/...                this one request in that mode, with a hyphen for the slash (an endpoint of its own)
  /_next/OWNER/NAME           publishes a new commit with other shards; the commits before it stay
  /_mode                      what is set;  /_mode/reset forgets it;  /_log: the requests so far
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import threading
import time
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

try:
    import mkmodel
except ImportError:  # in the checkout it lies with the image's programs
    sys.path.append(str(Path(__file__).resolve().parent.parent / "image"))
    import mkmodel

FLASH = "MiniMaxAI/MiniMax-M3.1-Flash"
NVFP4 = "nvidia/MiniMax-M3-NVFP4"
EAGLE3 = "Inferact/MiniMax-M3-EAGLE3-GQA"
GATED = "inferops-lab/gated"
SHARD_BYTES = 32 * 1024
ERRORS = {"401": "", "403": "GatedRepo", "404": "RepoNotFound", "429": "", "500": "", "503": ""}


def shard(name: str, number: int, tensors: int = 2) -> tuple[bytes, dict[str, str], int]:
    """(content, tensor -> file, bytes of tensors) of one deterministic safetensors file."""
    seed = hashlib.sha256(f"{name}/{number}".encode()).digest()
    data = (seed * (SHARD_BYTES // len(seed) + 1))[:SHARD_BYTES]
    step = SHARD_BYTES // tensors
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    for i in range(tensors):
        key = f"model.layers.{number}.weight_{i}"
        header[key] = {"dtype": "BF16", "shape": [step // 2], "data_offsets": [i * step, (i + 1) * step]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    keys = [key for key in header if key != "__metadata__"]
    return struct.pack("<Q", len(text)) + text + data, dict.fromkeys(keys, ""), SHARD_BYTES


class Repository:
    """A repository at its one commit. Its files are made when they are first asked for, and always the same."""

    def __init__(self, name: str, shards: int, commit: str = "", extra: int = 0, gated: bool = False) -> None:
        self.name, self.shards, self.extra, self.gated, self.version = name, shards, extra, gated, 0
        self.older: dict[str, Repository] = {}
        self.commit = commit or hashlib.sha1(f"{name}@main".encode()).hexdigest()

    def next(self) -> Repository:
        """The same repository one commit later."""
        commit = hashlib.sha1(f"{self.commit} next".encode()).hexdigest()
        later = Repository(self.name, self.shards, commit, self.extra, self.gated)
        later.version, later.older = self.version + 1, {**self.older, self.commit: self}
        return later

    @cached_property
    def files(self) -> dict[str, bytes]:
        result = {name: json.dumps(document).encode() for name, document in mkmodel.documents().items()}
        weights: dict[str, str] = {}
        total = 0
        for number in range(1, self.shards + 1):
            file = f"model-{number:05d}-of-{self.shards:05d}.safetensors"
            result[file], keys, size = shard(f"{self.name}@{self.version}" if self.version else self.name, number)
            weights |= dict.fromkeys(keys, file)
            total += size
        index = {"metadata": {"total_size": total}, "weight_map": weights}
        result["model.safetensors.index.json"] = json.dumps(index).encode()
        for name, text in ((".gitattributes", "*.safetensors filter=lfs\n"), ("README.md", f"# {self.name}\n")):
            result[name] = text.encode()
        for number in range(self.extra):
            result[f"assets/{number:02d}.txt"] = f"{self.name} {number}\n".encode()
        return result

    @cached_property
    def entries(self) -> list[dict[str, Any]]:
        """The tree listing: git's hash of every file, and sha256 of the large ones."""
        listing = []
        for path, content in sorted(self.files.items()):
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": blob}
            if path.endswith(".safetensors"):
                digest = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
            listing.append(entry)
        return listing

    def info(self) -> dict[str, Any]:
        names = [{"rfilename": entry["path"]} for entry in self.entries]
        head = {"_id": self.commit[:24], "id": self.name, "modelId": self.name, "sha": self.commit, "private": False}
        gated = "auto" if self.gated else False
        used = sum(entry["size"] for entry in self.entries)
        stamp = "2026-11-01T00:00:00.000Z"
        rest = {"gated": gated, "disabled": False, "tags": [], "downloads": 0, "likes": 0, "usedStorage": used}
        return {**head, **rest, "lastModified": stamp, "createdAt": stamp, "siblings": names}


def repositories() -> dict[str, Repository]:
    """M3.1 has 72 files in all, as the real one is said to have."""
    made = [
        Repository(FLASH, shards=62, extra=3),
        Repository(NVFP4, shards=24, commit="901464083161bf8612a29ff7ad29914cd4ab4a85"),
        Repository(EAGLE3, shards=1, commit="96692486b5fd38ebf8fd2a5f6bb53427d30819a8"),
        Repository(GATED, shards=2, gated=True),
    ]
    return {repository.name: repository for repository in made}


class Hub(ThreadingHTTPServer):
    """The server and what tests have told it."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], tokens: set[str]) -> None:
        super().__init__(address, Handler)
        self.tokens, self.repositories = tokens, repositories()
        self.modes: dict[str, str] = {}
        self.log: list[str] = []
        self.lock = threading.RLock()

    def mode(self, name: str) -> str:
        return self.modes.get(name, self.modes.get("*", "ok"))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, format: str, *args: Any) -> None:
        with self.server.lock:
            self.server.log.append(f"{self.command} {self.path} {args[1] if len(args) > 1 else ''}")

    def json(self, code: int, value: Any, **headers: str) -> None:
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, code: int, error: str, text: str) -> None:
        headers = {"X_Error_Code": error, "X_Error_Message": text} if error else {}
        if code == 429:
            headers["Retry_After"] = "1"
        self.json(code, {"error": text}, **headers)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self.body = self.rfile.read(length)
        self.do_GET()

    def do_GET(self) -> None:
        parts = [unquote(part) for part in self.path.split("?")[0].strip("/").split("/")]
        if parts[0] in ("_mode", "_log", "_next"):
            return self.control(parts)
        scripted = ""
        if parts[0] == "as" and len(parts) > 2:
            scripted, parts = parts[1].replace("-", "/"), parts[2:]
        api = parts[:2] == ["api", "models"]
        name = "/".join(parts[2:4] if api else parts[:2])
        rest = parts[4:] if api else parts[2:]
        repository = self.server.repositories.get(name)
        mode = scripted or self.server.mode(name)
        if mode in ERRORS:
            return self.refuse(int(mode), ERRORS[mode], f"scripted {mode}")
        if parts == ["api", "whoami-v2"]:
            return self.whoami()
        if repository is None:  # the hub doesn't tell an anonymous caller whether a repository exists
            return self.refuse(404 if self.token() else 401, "RepoNotFound", f"Repository {name} not found")
        if repository.gated and rest[:1] not in ([], ["revision"], ["tree"]) and self.token() not in self.server.tokens:
            code = 403 if self.token() else 401
            return self.refuse(code, "GatedRepo", f"Access to model {name} is restricted")
        revision = rest[1] if len(rest) > 1 else "main"
        repository = repository.older.get(revision, repository)
        if revision not in ("main", repository.commit):
            return self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if api:
            return self.answer_api(repository, rest)
        if rest[:1] == ["resolve"]:
            return self.send_file(repository, "/".join(rest[2:]), mode)
        self.refuse(404, "", "not found")

    def token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ").strip()

    def whoami(self) -> None:
        if self.token() in self.server.tokens:
            return self.json(200, {"type": "user", "name": "lab", "auth": {"accessToken": {"role": "read"}}})
        self.refuse(401, "", "Invalid username or password.")

    def control(self, parts: list[str]) -> None:
        with self.server.lock:
            if parts == ["_log"]:
                return self.json(200, list(self.server.log))
            if parts[0] == "_next":
                name = "/".join(parts[1:])
                self.server.repositories[name] = later = self.server.repositories[name].next()
                return self.json(200, later.commit)
            if parts == ["_mode", "reset"]:
                self.server.modes.clear()
            elif len(parts) > 2:
                size = 1 if parts[1] == "*" else 2
                self.server.modes["/".join(parts[1 : 1 + size])] = "/".join(parts[1 + size :])
            self.json(200, self.server.modes)

    def answer_api(self, repository: Repository, rest: list[str]) -> None:
        kind = rest[0] if rest else "info"
        if kind in ("info", "revision"):
            return self.json(200, repository.info())
        if kind == "tree":
            return self.json(200, repository.entries)
        if kind == "auth-check":
            return self.json(200, {})
        if kind == "paths-info":
            wanted = json.loads(self.body or b"{}").get("paths", [])
            return self.json(200, [entry for entry in repository.entries if entry["path"] in wanted])
        self.refuse(404, "", "not found")

    def send_file(self, repository: Repository, path: str, mode: str) -> None:
        content = repository.files.get(path)
        if content is None:
            return self.refuse(404, "EntryNotFound", f"Entry not found: {path}")
        entry = next(e for e in repository.entries if e["path"] == path)
        large = entry.get("lfs")
        start = 0
        wanted = self.headers.get("Range", "")
        if wanted.startswith("bytes="):
            start = int(wanted[6:].split("-")[0])
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(content) - start))
        self.send_header("ETag", f'"{large["oid"] if large else entry["oid"]}"')
        if large:
            self.send_header("X-Linked-Etag", f'"{large["oid"]}"')
            self.send_header("X-Linked-Size", str(len(content)))
        self.send_header("X-Repo-Commit", repository.commit)
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if self.command == "HEAD":
            return
        body = content[start:]
        if mode == "corrupt" and large:
            body = body[:-1] + bytes([body[-1] ^ 1])
        if mode.startswith("hold/") and large:
            count = int(mode.split("/")[1])
            self.wfile.write(body[:count])
            self.wfile.flush()
            while self.server.mode(repository.name) == mode:
                time.sleep(0.1)
            body = body[count:]
        if mode == "truncate" and large:
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return
        rate = int(mode.split("/")[1]) if mode.startswith("slow/") else 0
        step = max(1, rate // 10) if rate else len(body) or 1
        for at in range(0, len(body), step):
            self.wfile.write(body[at : at + step])
            if rate:
                self.wfile.flush()
                time.sleep(0.1)


def make_server(port: int, host: str = "127.0.0.1", tokens: set[str] | None = None) -> Hub:
    """A hub that is bound (port 0: a free one) and not yet serving; call serve_forever() in a thread."""
    return Hub((host, port), tokens if tokens is not None else set(os.environ.get("TOKENS", "").split()))


if __name__ == "__main__":
    make_server(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "0.0.0.0").serve_forever()
