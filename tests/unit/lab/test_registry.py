# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image registry, asked as a container runtime asks it: HEAD of a manifest, then what it names."""

from __future__ import annotations

import hashlib
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import registry


def keep(folder: Path, content: Any) -> str:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    digest = hashlib.sha256(data).hexdigest()
    (folder / digest).write_bytes(data)
    return f"sha256:{digest}"


def image(folder: Path, created_by: str, created: str) -> str:
    config = keep(folder, {"created": created, "history": [{"created_by": created_by}]})
    layer = keep(folder, created.encode() * 9)
    return keep(folder, {"schemaVersion": 2, "config": {"digest": config}, "layers": [{"digest": layer}]})


@pytest.fixture
def blobs(tmp_path: Path) -> Path:
    image(tmp_path, "RUN mkmodel.py", "2026-01-01")
    image(tmp_path, "COPY kubelet", "2026-03-01")
    (tmp_path / ("0" * 64)).write_bytes(b"no JSON")
    return tmp_path


@pytest.fixture
def url(blobs: Path) -> Iterator[str]:
    server = registry.Registry(0, blobs)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def ask(url: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method)) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


@pytest.mark.parametrize(
    ("how", "status", "code"),
    [
        ("absent", 404, "MANIFEST_UNKNOWN"),
        ("refuses", 401, "UNAUTHORIZED"),
        ("busy", 429, "TOOMANYREQUESTS"),
        ("broken", 503, "UNAVAILABLE"),
        ("nothing", 404, "NAME_UNKNOWN"),
    ],
)
def test_the_name_says_how_it_answers(url: str, how: str, status: int, code: str) -> None:
    found, headers, body = ask(f"{url}/v2/{how}/ai/engine/manifests/1.3.0")
    assert (found, json.loads(body)["errors"][0]["code"]) == (status, code)
    assert ("WWW-Authenticate" in headers) == (status == 401)
    assert ask(f"{url}/v2/{how}/ai/engine/manifests/1.3.0", "HEAD")[0] == status


def test_the_newest_image_of_the_lab_is_served_from_the_nodes_own_blobs(url: str, blobs: Path) -> None:
    newest = image(blobs, "RUN mkmodel.py", "2026-02-01")
    status, headers, body = ask(f"{url}/v2/good/engine/manifests/1.3.0")
    assert (status, headers["Docker-Content-Digest"]) == (200, newest)
    for digest in (json.loads(body)["config"]["digest"], json.loads(body)["layers"][0]["digest"]):
        status, _headers, content = ask(f"{url}/v2/good/engine/blobs/{digest}")
        assert status == 200 and f"sha256:{hashlib.sha256(content).hexdigest()}" == digest
    assert ask(f"{url}/v2/good/engine/blobs/sha256:{'1' * 64}")[0] == 404
    assert ask(f"{url}/v2/good/engine/blobs/..%2F..")[0] == 404


def test_slow_is_late_once(url: str) -> None:
    began = time.monotonic()
    assert ask(f"{url}/v2/slow-1/engine/manifests/1.3.0", "HEAD")[0] == 200
    assert time.monotonic() - began >= 1
    assert ask(f"{url}/v2/slow-1/engine/manifests/1.3.0")[0] == 200


def test_an_image_for_another_cpu(url: str) -> None:
    body = json.loads(ask(f"{url}/v2/foreign/engine/manifests/1.3.0")[2])
    assert [m["platform"]["architecture"] for m in body["manifests"]] == ["s390x"]


def test_a_node_without_the_image_says_so(url: str, blobs: Path) -> None:
    for path in blobs.iterdir():
        path.unlink()
    status, _headers, body = ask(f"{url}/v2/good/engine/manifests/1.3.0")
    assert status == 500 and b"not on this node" in body
