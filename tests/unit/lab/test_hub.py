# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model hub, asked by huggingface_hub."""

from __future__ import annotations

import json
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import hub
import pytest

huggingface_hub = pytest.importorskip("huggingface_hub")


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    server = hub.make_server(0, tokens={"right"})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def get(url: str, token: str = "") -> tuple[int, str]:
    """(status, X-Error-Code)"""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("X-Error-Code", "")


def test_a_commit_is_found_and_downloaded_into_a_folder(url: str, tmp_path: Path) -> None:
    api = huggingface_hub.HfApi(endpoint=url, token=False)
    commit = api.model_info(hub.FLASH).sha
    assert len(commit) == 40
    folder = Path(api.snapshot_download(hub.FLASH, revision=commit, local_dir=tmp_path / "m"))
    files = [p for p in folder.rglob("*") if p.is_file() and ".cache" not in p.parts]
    assert len(files) == 72
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == {p.name for p in folder.glob("*.safetensors")}
    first = (folder / "model-00001-of-00062.safetensors").read_bytes()
    length = struct.unpack("<Q", first[:8])[0]
    header = json.loads(first[8 : 8 + length])
    assert max(t["data_offsets"][1] for n, t in header.items() if n != "__metadata__") == len(first) - 8 - length


def test_hub_layout_at_the_recipes_commits(url: str, tmp_path: Path) -> None:
    api = huggingface_hub.HfApi(endpoint=url, token=False)
    commit = "96692486b5fd38ebf8fd2a5f6bb53427d30819a8"
    folder = Path(api.snapshot_download(hub.EAGLE3, revision=commit, cache_dir=tmp_path))
    assert folder.parts[-2:] == ("snapshots", commit)
    assert (folder / "model-00001-of-00001.safetensors").stat().st_size > hub.SHARD_BYTES


def test_content_is_always_the_same() -> None:
    first, second = hub.repositories()[hub.FLASH], hub.repositories()[hub.FLASH]
    assert first.entries == second.entries


@pytest.mark.parametrize(
    ("token", "expected"), [("", (401, "GatedRepo")), ("wrong", (403, "GatedRepo")), ("right", (200, ""))]
)
def test_gated(url: str, token: str, expected: tuple[int, str]) -> None:
    assert get(f"{url}/{hub.GATED}/resolve/main/config.json", token) == expected
    assert get(f"{url}/api/models/{hub.GATED}", token)[0] == 200  # its existence is no secret


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/models/no/such", (401, "RepoNotFound")),
        (f"/api/models/{hub.FLASH}/revision/{'0' * 40}", (404, "RevisionNotFound")),
        (f"/{hub.FLASH}/resolve/main/nothing", (404, "EntryNotFound")),
    ],
)
def test_not_found(url: str, path: str, expected: tuple[int, str]) -> None:
    assert get(url + path) == expected


@pytest.mark.parametrize("code", [401, 403, 404, 429, 500, 503])
def test_told_to_misbehave(url: str, code: int) -> None:
    get(f"{url}/_mode/{hub.FLASH}/{code}")
    assert get(f"{url}/api/models/{hub.FLASH}")[0] == code
    assert get(f"{url}/api/models/{hub.NVFP4}")[0] == 200
    get(f"{url}/_mode/reset")
    assert get(f"{url}/api/models/{hub.FLASH}")[0] == 200


def test_truncated_shards(url: str) -> None:
    get(f"{url}/_mode/*/truncate")
    with urllib.request.urlopen(f"{url}/{hub.EAGLE3}/resolve/main/model-00001-of-00001.safetensors") as answer:
        promised = int(answer.headers["Content-Length"])
        with pytest.raises(Exception, match="IncompleteRead"):
            answer.read()
    assert promised > hub.SHARD_BYTES


def test_a_later_commit_leaves_the_one_before() -> None:
    first = hub.Repository("acme/small", shards=1)
    second = first.next()
    name = "model-00001-of-00001.safetensors"
    assert second.commit != first.commit
    assert second.files[name] != first.files[name]
    assert second.next().older == {first.commit: first, second.commit: second}


def test_wrong_bytes_of_the_right_size(url: str) -> None:
    with urllib.request.urlopen(f"{url}/_mode/{hub.EAGLE3}/corrupt"):
        pass
    with urllib.request.urlopen(f"{url}/{hub.EAGLE3}/resolve/main/model-00001-of-00001.safetensors") as answer:
        body = answer.read()
    good = hub.repositories()[hub.EAGLE3].files["model-00001-of-00001.safetensors"]
    assert (body[:-1], body[-1]) == (good[:-1], good[-1] ^ 1)


def test_an_endpoint_that_misbehaves_for_itself_only(url: str) -> None:
    path = f"/{hub.FLASH}/resolve/main/config.json"
    assert get(f"{url}/as/403{path}") == (403, "GatedRepo")
    assert get(f"{url}/as/slow-100000{path}") == (200, "")
    assert get(url + path) == (200, "")
