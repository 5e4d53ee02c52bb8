# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Over 400 lines: the tables of findings and headers belong together.
"""Each finding by the smallest checkpoint that shows it, and agreement with the safetensors package on headers."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _safetensors
from ansible_collections.inferops.dynamo.plugins.module_utils._safetensors import Bad, check, check_header

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]


def tensor(begin: int, end: int, dtype: str = "U8", shape: list[Any] | None = None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


def packed(header: Any, data: int | bytes = b"", length: int | None = None) -> bytes:
    """A file with this header (JSON-able, or bytes as they are) and data."""
    raw = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    body = bytes(data) if isinstance(data, int) else data
    return (len(raw) if length is None else length).to_bytes(8, "little") + raw + body


def write(folder: Path, **files: Any) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def index(weights: dict[str, str], **metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata, "weight_map": weights}


def checkpoint(folder: Path) -> dict[str, bytes]:
    """Two shards of one 8-byte tensor each; the files, by name."""
    files = {
        SHARDS[0]: packed({"__metadata__": {"format": "pt"}, "a": tensor(0, 8)}, b"12345678"),
        SHARDS[1]: packed({"b": tensor(0, 8, "BF16", [2, 2])}, b"abcdefgh"),
        "model.safetensors.index.json": json.dumps(
            index({"a": SHARDS[0], "b": SHARDS[1]}, total_size=16), indent=2
        ).encode(),
        "config.json": b"{}",
        "tokenizer.json": b"{}",
        "README.md": b"<html> is fine here",
    }
    write(folder, **files)
    return files


def listing(files: dict[str, bytes]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for name, data in files.items():
        entries[name] = {"size": len(data), "blob_id": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()}
        if name.endswith(".safetensors"):
            entries[name] |= {"lfs_sha256": hashlib.sha256(data).hexdigest(), "lfs_size": len(data)}
    return {"format_version": 1, "files": entries}


def downloaded(folder: Path) -> dict[str, bytes]:
    files = checkpoint(folder)
    write(folder, **{f".cache/huggingface/trees/{COMMIT}.json": listing(files)})
    return files


def codes(verdict: dict[str, Any], level: str = "") -> list[str]:
    return sorted(p["code"] for p in verdict["problems"] if not level or p["level"] == level)


def test_complete_plain_folder(tmp_path: Path) -> None:
    files = downloaded(tmp_path)
    for level in _safetensors.LEVELS:
        verdict = check(str(tmp_path), verify=level)
        assert (verdict["state"], verdict["proved"], verdict["problems"]) == ("COMPLETE", level, [])
    assert (verdict["layout"], verdict["commit"], verdict["shards"]) == ("folder", COMMIT, 2)
    assert (verdict["tensors"], verdict["tensor_bytes"], verdict["files"]) == (2, 16, len(files))
    assert verdict["bytes"] == sum(map(len, files.values()))


def test_without_listing_only_headers_are_proved(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    verdict = check(str(tmp_path), verify="sha256")
    assert (verdict["state"], verdict["proved"]) == ("COMPLETE", "headers")
    assert len(verdict["not_checked"]) == 2


def test_single_file_and_indexless(tmp_path: Path) -> None:
    write(tmp_path, **{"config.json": {}, "vocab.json": {"a": 1}, "model.safetensors": packed({"a": tensor(0, 1)}, 1)})
    assert check(str(tmp_path), verify="headers")["problems"] == []
    (tmp_path / "model.safetensors").rename(tmp_path / SHARDS[1])
    verdict = check(str(tmp_path), verify="headers")
    assert (verdict["state"], codes(verdict)) == ("INCOMPLETE", ["index_missing", "shard_missing"])
    assert SHARDS[0] in [p["file"] for p in verdict["problems"]]
    write(tmp_path, **{SHARDS[0]: packed({"a": tensor(0, 1)}, 1)})
    assert check(str(tmp_path), verify="headers")["state"] == "COMPLETE"
    (tmp_path / SHARDS[1]).rename(tmp_path / "model-00000-of-00002.safetensors")
    assert check(str(tmp_path), verify="headers")["state"] == "COMPLETE", "some count from 0"


def replace(name: str, content: Any) -> Callable[[Path], None]:
    return lambda folder: write(folder, **{name: content})


def drop(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def rename(name: str, other: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).rename(folder / other)

    return change


def link(name: str, target: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return change


def fifo(folder: Path) -> None:
    (folder / SHARDS[0]).unlink()
    os.mkfifo(folder / SHARDS[0])


def old_partial(folder: Path) -> None:
    write(folder, **{".cache/huggingface/download/x.1.incomplete": b"12"})
    os.utime(folder / ".cache/huggingface/download/x.1.incomplete", (1, 1))


INDEX = "model.safetensors.index.json"
GOOD = packed({"a": tensor(0, 8)}, 8)
CASES: list[tuple[str, Callable[[Path], None], str, list[str]]] = [
    ("shard missing", drop(SHARDS[1]), "INCOMPLETE", ["shard_missing"]),
    ("shard not in the index", replace("extra.safetensors", GOOD), "COMPLETE", ["shard_not_in_index"]),
    ("empty file", replace(SHARDS[0], b""), "CORRUPT", ["empty_file"]),
    ("pointer", replace(SHARDS[0], b"version https://git-lfs.github.com/spec/v1\n"), "CORRUPT", ["lfs_pointer"]),
    ("pointer of a tokenizer", replace("tokenizer.json", b"version https://git-lfs"), "CORRUPT", ["lfs_pointer"]),
    ("web page", replace(SHARDS[0], b"\n <!DOCTYPE html><html>"), "CORRUPT", ["html_page"]),
    ("web page as config", replace("config.json", b"<html>"), "CORRUPT", ["html_page"]),
    ("config is no JSON", replace("config.json", b"{"), "CORRUPT", ["not_json"]),
    ("cut tokenizer", replace("tokenizer.json", b'{"a": {'), "CORRUPT", ["not_json"]),
    ("cut large tokenizer", replace("tokenizer.json", b'{"a": "' + b"x" * 2_000_000), "CORRUPT", ["not_json"]),
    ("large tokenizer", replace("tokenizer.json", b'{"a": "' + b"x" * 2_000_000 + b'"}\n'), "COMPLETE", []),
    ("what json.load takes", replace("vocab.json", b'{"a": NaN, "a": 1}'), "COMPLETE", []),
    ("JSON lines that no engine reads", replace("prompts.json", b"{}\n{}\n"), "COMPLETE", []),
    ("link to a directory", link("more", "."), "COMPLETE", ["link_to_directory"]),
    ("shard that is a directory", link(SHARDS[0], "."), "CORRUPT", ["special_file"]),
    ("shard of another commit", replace("model-00003-of-00009.safetensors", GOOD), "COMPLETE", ["shard_not_in_index"]),
    ("set without an index", replace("other-00003-of-00009.safetensors", GOOD), "INCOMPLETE",
     ["shard_missing", "shard_not_in_index"]),
    ("shard by two names", replace(INDEX, index({"a": SHARDS[0], "b": f"./{SHARDS[0]}", "c": SHARDS[1]})), "CORRUPT",
     ["tensor_not_in_index", "tensor_not_in_shard", "tensor_not_in_shard"]),
    ("two indexes", lambda folder: write(folder, **{
        "more.safetensors.index.json": index({"a": SHARDS[0]}),
        SHARDS[0]: packed({"a": tensor(0, 7), "x": tensor(7, 8)}, 8)}), "CORRUPT", ["tensor_not_in_index"]),
    ("cut length", replace(SHARDS[0], b"\1\0\0"), "CORRUPT", ["cut_header"]),
    ("header beyond the file", replace(SHARDS[0], packed(b"{}", 0, 99)), "CORRUPT", ["header_beyond_file"]),
    ("header too long", replace(SHARDS[0], b"\xff" * 9), "CORRUPT", ["header_too_long"]),
    ("all zeros", replace(SHARDS[0], bytes(64)), "CORRUPT", ["not_json"]),
    ("cut data", replace(SHARDS[0], GOOD[:-1]), "CORRUPT", ["cut_data"]),
    ("trailing byte", replace(SHARDS[0], GOOD + b"x"), "CORRUPT", ["trailing_bytes"]),
    ("hole", replace(SHARDS[0], packed({"a": tensor(4, 8)}, 8)), "CORRUPT", ["hole"]),
    ("overlap", replace(SHARDS[0], packed({"a": tensor(0, 8), "c": tensor(4, 8)}, 8)), "CORRUPT", ["overlap"]),
    ("wrong tensor", replace(SHARDS[0], packed({"x": tensor(0, 8)}, 8)), "CORRUPT",
     ["tensor_not_in_index", "tensor_not_in_shard"]),
    ("one too many", replace(SHARDS[0], packed({"a": tensor(0, 7), "x": tensor(7, 8)}, 8)), "CORRUPT",
     ["tensor_not_in_index"]),
    ("total_size", replace(INDEX, index({"a": SHARDS[0], "b": SHARDS[1]}, total_size=17)), "CORRUPT", ["total_size"]),
    ("unknown dtype", replace(SHARDS[0], packed({"a": tensor(0, 8, "F1")}, 8)), "COMPLETE", ["unknown_dtype"]),
    ("config missing", drop("config.json"), "INCOMPLETE", ["config_missing"]),
    ("tokenizer missing", drop("tokenizer.json"), "INCOMPLETE", ["tokenizer_missing"]),
    ("tokenizer without its tokens", rename("tokenizer.json", "tokenizer_config.json"), "INCOMPLETE",
     ["tokenizer_missing"]),
    ("leftover", old_partial, "COMPLETE", ["leftover"]),
    ("being written", replace(".cache/huggingface/download/x.1.incomplete", b"12"), "INCOMPLETE", ["being_written"]),
    ("path out of the directory", replace(INDEX, index({"a": "../" + SHARDS[0]})), "CORRUPT", ["index_unsafe_path"]),
    ("absolute path", replace(INDEX, index({"a": "/etc/passwd"})), "CORRUPT", ["index_unsafe_path"]),
    ("index without map", replace(INDEX, {"weight_map": []}), "CORRUPT", ["index_invalid"]),
    ("index of numbers", replace(INDEX, {"weight_map": {"a": 1}}), "CORRUPT", ["index_invalid"]),
    ("index twice", replace(INDEX, b'{"weight_map": {"a": "x", "a": "y"}}'), "CORRUPT", ["duplicate_key"]),
    ("index cut", replace(INDEX, b'{"weight_map": {"a": "x"'), "CORRUPT", ["not_json"]),
    ("link loop", link(SHARDS[0], SHARDS[0]), "CORRUPT", ["link_loop"]),
    ("link to nothing", link(SHARDS[0], "gone"), "INCOMPLETE", ["link_to_nothing"]),
    ("pipe", fifo, "CORRUPT", ["special_file"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "state", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_findings(tmp_path: Path, change: Callable[[Path], None], state: str, expected: list[str]) -> None:
    checkpoint(tmp_path)
    change(tmp_path)
    verdict = check(str(tmp_path), verify="headers")
    found = [code for code in codes(verdict) if code not in ("index_missing", "shard_not_in_index") or code in expected]
    assert (verdict["state"], found) == (state, expected)


@pytest.mark.parametrize("name", ["tiktoken.model", "tokenizer.tok.json", "tokenizer.model.v3", "x.tiktoken"])
def test_tokenizers_of_other_families(tmp_path: Path, name: str) -> None:
    checkpoint(tmp_path)
    (tmp_path / "tokenizer.json").rename(tmp_path / name)
    (tmp_path / "config.json").rename(tmp_path / "params.json")
    (tmp_path / "tsconfig.json").write_text("{} // of no engine")
    assert check(str(tmp_path), verify="headers")["state"] == "COMPLETE"


def test_threads_that_read_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="threads is -1; it must be 0 or more"):
        check(str(tmp_path), verify="sha256", threads=-1)


def test_nothing_there(tmp_path: Path) -> None:
    assert codes(check(str(tmp_path / "absent"))) == ["directory_missing"]
    assert codes(check(str(tmp_path), verify="headers")) == ["config_missing", "no_weights", "tokenizer_missing"]
    with pytest.raises(ValueError, match="not a directory"):
        check(__file__)


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_unreadable(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    (tmp_path / SHARDS[0]).chmod(0)
    assert codes(check(str(tmp_path), verify="headers")) == ["unreadable"]


def test_the_listing_knows_every_file(tmp_path: Path) -> None:
    files = downloaded(tmp_path)
    (tmp_path / "README.md").unlink()
    write(tmp_path, **{"tokenizer.json": b'{"cut": 1}'})
    verdict = check(str(tmp_path))
    assert (verdict["state"], codes(verdict)) == ("CORRUPT", ["file_missing", "wrong_size"])
    flipped = files[SHARDS[0]][:-1] + b"!"
    write(tmp_path, **{**files, SHARDS[0]: flipped})
    assert check(str(tmp_path))["state"] == "COMPLETE"
    verdict = check(str(tmp_path), verify="sha256")
    assert (verdict["state"], codes(verdict)) == ("CORRUPT", ["wrong_hash"])


def test_a_stale_shard_beside_all_that_is_published(tmp_path: Path) -> None:
    files = downloaded(tmp_path)
    del files[INDEX]
    (tmp_path / INDEX).unlink()
    write(
        tmp_path,
        **{f".cache/huggingface/trees/{COMMIT}.json": listing(files), "model-00001-of-00009.safetensors": GOOD},
    )
    assert check(str(tmp_path))["state"] == "COMPLETE"


def test_what_the_publisher_got_wrong_is_a_note(tmp_path: Path) -> None:
    files = checkpoint(tmp_path)
    files[INDEX] = json.dumps(index({"a": SHARDS[0], "b": SHARDS[1]}, total_size=1)).encode()
    del files["tokenizer.json"]
    (tmp_path / "tokenizer.json").unlink()
    write(tmp_path, **{**files, f".cache/huggingface/trees/{COMMIT}.json": listing(files)})
    verdict = check(str(tmp_path))
    assert (verdict["state"], codes(verdict, "note")) == ("COMPLETE", ["tokenizer_missing", "total_size"])


@pytest.mark.parametrize("text", [b"{", b'{"files": []}', b'{"files": {"../x": {"size": 1}}}', b'{"files": {"a": 1}}'])
def test_unusable_listing_proves_nothing(tmp_path: Path, text: bytes) -> None:
    checkpoint(tmp_path)
    write(tmp_path, **{f".cache/huggingface/trees/{COMMIT}.json": text})
    assert check(str(tmp_path))["proved"] == "headers"


def hub_layout(root: Path) -> Path:
    files = checkpoint(root / "plain")
    repo = root / "models--a--b"
    snapshot = repo / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for name, info in listing(files)["files"].items():
        digest = info.get("lfs_sha256") or info["blob_id"]
        write(repo / "blobs", **{digest: files[name]})
        (snapshot / name).symlink_to(f"../../blobs/{digest}")
    return repo


def test_another_commit_that_is_fetched_meanwhile_takes_nothing_from_this_one(tmp_path: Path) -> None:
    repo = hub_layout(tmp_path)
    write(repo, **{f"trees/{COMMIT}.json": listing(checkpoint(tmp_path / "plain"))})
    (repo / "blobs" / f"{'d' * 64}.12345678.incomplete").write_bytes(b"1")
    found = check(str(repo / "snapshots" / COMMIT))
    assert (found["state"], [p["code"] for p in found["problems"]]) == ("COMPLETE", ["leftover"])


def test_hub_layout(tmp_path: Path) -> None:
    repo = hub_layout(tmp_path)
    verdict = check(str(repo), verify="sha256")
    assert (verdict["state"], verdict["layout"], verdict["commit"]) == ("COMPLETE", "hub", COMMIT)
    assert verdict["proved"] == "sha256", "the names of the blobs are their hashes"
    write(repo, **{f"trees/{COMMIT}.json": listing(checkpoint(tmp_path / "plain"))})
    assert check(str(repo / "snapshots" / COMMIT))["proved"] == "sizes"
    blob = (repo / "snapshots" / COMMIT / SHARDS[0]).resolve()
    blob.write_bytes(blob.read_bytes()[:-1] + b"!")
    assert codes(check(str(repo), verify="sha256")) == ["wrong_hash"]
    blob.unlink()
    assert check(str(repo))["state"] == "INCOMPLETE"
    (repo / "snapshots" / ("f" * 40)).mkdir()
    with pytest.raises(ValueError, match="2 snapshots"):
        check(str(repo))
    assert check(str(repo), commit=COMMIT)["commit"] == COMMIT


def test_problems_are_bounded(tmp_path: Path) -> None:
    write(tmp_path, **{INDEX: index({f"t{n}": f"s{n}.safetensors" for n in range(80)}), "config.json": {}})
    verdict = check(str(tmp_path), verify="headers")
    assert verdict["problems_total"] == 81
    assert len(_safetensors.shown(verdict)["problems"]) == 50


def test_nested_checkpoint(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    checkpoint(tmp_path / "draft")
    assert check(str(tmp_path), verify="headers")["state"] == "COMPLETE"
    (tmp_path / "draft" / SHARDS[0]).unlink()
    verdict = check(str(tmp_path), verify="headers")
    assert [p["file"] for p in verdict["problems"]] == [f"draft/{SHARDS[0]}"]


# --- headers


SMALL: list[Any] = [
    {"a": tensor(0, 3, "F6_E2M3", [4])}, {"a": tensor(0, 2, "F4", [4])}, {"a": tensor(0, 8, "C64", [1])},
    {"a": tensor(0, 1, "F8_E8M0", [1])}, {"a": tensor(0, 0, "F32", [0, 9])}, {"a": tensor(0, 4, "F32", [])}, {},
    {"__metadata__": {"format": "pt", "note": 'with "quotes"'}, "a": tensor(0, 1)},
    {"b": tensor(1, 2), "a": tensor(0, 1)}, {"näme \\ \n": tensor(0, 1)},
    {"a": {"data_offsets": [0, 1], "dtype": "U8", "shape": [1]}},
    b' {"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    b'{ "a" : {"dtype":"U8","shape":[ 1 ],"data_offsets":[0,1]}} \n',
    # not sound
    {"a": tensor(0, 1, "F4", [3])}, {"a": tensor(0, 8, "F32")}, {"a": tensor(0, 4, "F32", [-1, -1])},
    {"a": tensor(0, 1, "U8", [1.0])}, {"a": tensor(0, 1, "U8", [True])}, {"a": tensor(0, 1, "U8", [1, None])},
    {"a": {"dtype": "U8", "shape": [1]}}, {"a": 1}, {"a": tensor(1, 0)}, {"a": tensor(0, 1, "U8", ["1"])},
    {"__metadata__": {"a": 1}, "a": tensor(0, 1)}, {"__metadata__": [], "a": tensor(0, 1)},
    b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}', b'{"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}}',
    b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},}',
    b'{"\xff":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    b'{"a\tb":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    b'{"a":{"dtype":"U8","shape":[1,],"data_offsets":[0,1]}}',
    b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]};"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}',
    b'{"__metadata__":{"a":"b",},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"", b"[]", b"{}x", b"null",
]  # fmt: skip


def size_of(header: Any) -> int:
    """Where the tensors of a header end, if it says."""
    try:
        parsed = json.loads(header) if isinstance(header, bytes) else header
        return max((t["data_offsets"][1] for n, t in parsed.items() if n != "__metadata__"), default=0)
    except (ValueError, TypeError, KeyError, AttributeError):
        return 1


def accepted(raw: bytes, data: int) -> bool:
    """As safetensors has it, to which a dtype that it doesn't know is an error."""
    try:
        return not check_header(raw, data)[1]
    except Bad:
        return False


def agree(raw: bytes, data: int) -> None:
    safetensors = pytest.importorskip("safetensors")
    try:
        safetensors.deserialize(packed(raw, data))
        theirs = True
    except safetensors.SafetensorError:
        theirs = False
    assert accepted(raw, data) == theirs, (raw, data)


@pytest.mark.parametrize("header", SMALL)
def test_headers_agree_with_safetensors(header: Any) -> None:
    raw = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    agree(raw, size_of(header))
    agree(raw, size_of(header) + 1)


@pytest.mark.parametrize("dtype", sorted(_safetensors.BITS))
def test_every_dtype_agrees(dtype: str) -> None:
    size = _safetensors.BITS[dtype]
    agree(json.dumps({"a": tensor(0, size, dtype, [8])}, separators=(",", ":")).encode(), size)


@pytest.mark.parametrize("seed", range(4))
def test_mutated_headers_agree_and_never_crash(seed: int) -> None:
    rng = random.Random(seed)
    good = json.dumps({f"t{n}": tensor(n * 8, n * 8 + 8, "F32", [2]) for n in range(4)}, separators=(",", ":")).encode()
    for _round in range(400):
        raw = bytearray(good)
        for _change in range(rng.randint(1, 3)):
            at = rng.randrange(len(raw))
            raw[at : at + rng.randint(0, 2)] = rng.choice(b'{}[]":,0123456789eE-. \\\xff').to_bytes(1, "big")
        # Twice the same key is a finding of ours; safetensors takes the last one.
        try:
            json.loads(raw, object_pairs_hook=_safetensors._unique)
        except Bad:
            assert not accepted(bytes(raw), 32)
        except (ValueError, RecursionError):
            assert not accepted(bytes(raw), 32)
        else:
            agree(bytes(raw), 32)


HOSTILE = {
    "deep": b'{"a":' + b"[" * 200_000,
    "wide": b'{"a":[' + b"[]," * 5_000_000 + b"[]]}",
    "objects": b'{"a":' + b'{"":' * 100_000,
    "long number": b'{"a":{"dtype":"U8","shape":[' + b"9" * 1_000_000 + b'],"data_offsets":[0,1]}}',
    "huge shape": b'{"a":{"dtype":"U8","shape":[' + b"9" * 19 + b",999" * 60 + b'],"data_offsets":[0,1]}}',
    "many dimensions": b'{"a":{"dtype":"U8","shape":[' + b"9," * 200_000 + b'9],"data_offsets":[0,1]}}',
    "exponent": b'{"a":{"dtype":"U8","shape":[1e999],"data_offsets":[0,1]}}',
    "not a number": b'{"a":{"dtype":"U8","shape":[NaN],"data_offsets":[0,1]}}',
    "twice": b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
    b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    "twice inside": b'{"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}}',
    "twice by an escape": b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
    b'"\\u0061":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}}',
}  # fmt: skip


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_headers_end_in_a_verdict(tmp_path: Path, raw: bytes) -> None:
    write(tmp_path, **{"config.json": {}, "tokenizer.json": {}, "model.safetensors": packed(raw, 1)})
    verdict = check(str(tmp_path), verify="headers")
    assert verdict["state"] == "CORRUPT"
    assert len(verdict["problems"][0]["message"]) < 500


def test_hostile_headers_cost_bounded_memory(tmp_path: Path) -> None:
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30));"
        f"sys.path.insert(0, {str(Path(_safetensors.__file__).parent)!r}); import _safetensors;"
        "print(_safetensors.check(sys.argv[1], verify='headers')['problems'][0]['code'])"
    )
    wide = b'{"a":[' + b"[]," * 15_000_000 + b"[]]}"
    write(tmp_path, **{"config.json": {}, "tokenizer.json": {}, SHARDS[0]: packed(wide), SHARDS[1]: packed(wide)})
    done = subprocess.run([sys.executable, "-c", limited, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "too_complex"), done.stderr


# --- the program


def test_program(tmp_path: Path) -> None:
    def call(*arguments: str) -> tuple[int, Any]:
        command = [sys.executable, "-S", "-E", _safetensors.__file__, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, json.loads(done.stdout or "null")

    assert call()[0] == 2
    assert call(__file__)[0] == 2
    downloaded(tmp_path / "good")
    checkpoint(tmp_path / "cut")
    code, answer = call("--verify", "sha256", str(tmp_path / "good"))
    assert (code, answer["state"], answer["directories"][0]["proved"]) == (0, "COMPLETE", "sha256")
    (tmp_path / "cut" / SHARDS[0]).unlink()
    assert call(str(tmp_path / "good"), str(tmp_path / "cut"))[0] == 3
    (tmp_path / "cut" / SHARDS[0]).write_bytes(b"")
    assert call(str(tmp_path / "good"), str(tmp_path / "cut"))[0] == 4
