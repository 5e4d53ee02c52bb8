# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this file may change without notice; nothing outside this collection may import it.
# Over 400 lines: pods run it as it is, so that it has to be one file.
"""Is the checkpoint in a directory complete and intact? Answered from the files alone, without the hub.

Standard library only, Python 3.9+, and no other file of this collection: it is mounted into pods and run there::

    python3 _safetensors.py [--verify headers|sizes|sha256] [--commit HEX] [--threads N] DIR ...

prints {"state": ..., "directories": [verdict, ...]} and exits 0 complete, 3 incomplete, 4 corrupt, 2 usage.

headers: every safetensors file says in its first bytes which tensors it holds and where they end; that has to agree
with the file's size, with the index and with the other files. Truncation, holes, pointers and error pages show here.
sizes: besides, every file of the repository is there with the size that the hub published for this commit
(trees/<commit>.json, left by huggingface_hub >= 2 or by our download).
sha256: besides, the content has the published hash (git's own sha1 for files outside LFS). Only this level reads tensor
data, and only this level sees a flipped bit or a zeroed block.
"""

from __future__ import annotations

import argparse
import errno
import gc
import hashlib
import json
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, groupby, islice
from math import prod
from operator import lt, mul
from typing import Any, NamedTuple, NoReturn

LEVELS = ("headers", "sizes", "sha256")
EXIT = {"COMPLETE": 0, "INCOMPLETE": 3, "CORRUPT": 4}
# Bits per element of every dtype of safetensors 0.8.0.
BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
_BITS = {name.encode(): bits for name, bits in BITS.items()}
JSON_CAP = 100_000_000  # bytes; safetensors refuses longer headers, and no index is that long
TOKEN_CAP = 4_000_000  # JSON values in one file: about 400,000 tensors, at most some 400 MB of Python objects
RANK_CAP = 64  # dimensions; models have at most eight
BIG = 8_000_000  # bytes; JSON above this is parsed one file at a time
FILES_CAP = 100_000  # entries below one directory: a checkpoint has a few hundred
SHOWN = 50  # problems in a verdict
RECORD = ".inferops-dynamo.json"  # our own proof in a plain folder; no file of the checkpoint
PATIENCE = 0.1  # seconds of waiting for the storage after which files are read side by side
WRITING = 60  # seconds: a partial file touched more recently is being written
FIRST_READ = 16_384
CHUNK = 1 << 20
METADATA_CAP = 1 << 20  # bytes; matching takes a hundred times the memory of the text
# Beside every name that begins with "tokenizer.".
TOKENIZERS = ("vocab.json", "vocab.txt", "tekken.json", "spiece.model", "tiktoken.model")
# What engines read with json.load, also as quantize_config.json; another .json file may hold what it likes.
COMPANIONS = re.compile(r"(.*[._/-])?(config|tokenizer|vocab|tekken|tokens_map|added_tokens)\.json")
TYPED = (".json", ".model", ".safetensors", ".tiktoken")  # files that are never HTML and never empty

_NUMBERED = re.compile(r"^(.*)-(\d{1,9})-of-(\d{1,9})\.safetensors$")
_COMMIT = re.compile(r"^[0-9a-f]{40}$")
_HASH = re.compile(r"^[0-9a-f]{40}$|^[0-9a-f]{64}$")
# The form that safetensors writes; a string here has no escapes, a number no leading zero and fits 64 bits.
_METADATA = re.compile(rb'\{"__metadata__":(\{(?:"(?:[^"\\]|\\.)*":"(?:[^"\\]|\\.)*",?)*\})')
_SHAPE = re.compile(rb":\[((?:(?:0|[1-9][0-9]{0,18})(?:,(?!\])|(?=\])))*)\],")
# What is between the quotes of one tensor in that form: name, dtype, shape and offsets are the columns 0, 4, 7 and 9.
_BETWEEN = ((1, b":{"), (2, b"dtype"), (3, b":"), (5, b","), (6, b"shape"), (8, b"data_offsets"))
_IN_STRINGS = bytes(byte for byte in range(32, 256) if byte not in b'"\\')
_WEIGHT_MAP = re.compile(rb'"weight_map"\s*:\s*\{')
_COLON = re.compile(rb"[ \t\n\r]*:[ \t\n\r]*")
_COMMA = re.compile(rb"[ \t\n\r]*,[ \t\n\r]*")
_big_lock = threading.Lock()


class Problem(NamedTuple):
    level: str  # "corrupt", "incomplete" or "note"; a note doesn't change the state
    code: str
    file: str  # relative to the directory, "" for the directory itself
    message: str


class Bad(Exception):
    """What is wrong with one file: (code, message)."""


class Found(NamedTuple):
    path: str
    size: int
    error: Problem | None


class Shard(NamedTuple):
    tensors: int
    bytes: int
    problems: list[Problem]
    hashed: bool


def _name(text: Any) -> str:
    """A name from a file, safe to print: one line, ASCII, at most 120 characters."""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return ascii(text if len(str(text)) <= 120 else str(text)[:117] + "...")


def rank(level: str) -> int:
    """0, 1, 2 for headers, sizes, sha256; -1 for anything else."""
    return LEVELS.index(level) if level in LEVELS else -1


# --- JSON with bounds -------------------------------------------------------------------------------------------------


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"the number {_name(text)} is not an integer")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _short_int(text: str) -> int:
    return int(text) if len(text) <= 40 else _refuse(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _value in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Bad("duplicate_key", f"the key {_name(twice)} is there twice")
    return result


# Before 3.9.14 and 3.10.7 int() of a long number takes quadratic time.
_INT: Any = None if hasattr(sys, "get_int_max_str_digits") else _short_int
_TOLERANT = json.JSONDecoder(object_pairs_hook=_unique, parse_int=_INT)
_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_int=_INT, parse_float=_refuse, parse_constant=_refuse)


def _loads(raw: bytes, numbers: bool = False) -> Any:
    """json.loads within TOKEN_CAP. Raises Bad. `numbers` admits what only the index's metadata may hold: floats."""
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > TOKEN_CAP or (
        len(raw) > JSON_CAP // 4 and not raw.isascii()
    ):
        raise Bad("too_complex", f"{len(raw)} bytes of JSON hold more values than any checkpoint needs")
    try:
        return (_TOLERANT if numbers else _STRICT).decode(raw.decode())
    except RecursionError:
        raise Bad("not_json", "the JSON is nested too deeply") from None
    except ValueError as error:
        raise Bad("not_json", f"no valid JSON: {str(error)[:200]}") from None


def _parse(raw: bytes) -> tuple[dict[bytes, tuple[int, int]], set[str]]:
    """Any valid header, slowly: {tensor: (begin, end)} and the dtypes that are not known. Raises Bad."""
    parsed = _loads(raw)
    if not isinstance(parsed, dict):
        raise Bad("not_json", "the header is no JSON object")
    metadata = parsed.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise Bad("header_invalid", "__metadata__ is not a map of strings")
    spans, unknown = {}, set()
    for name, tensor in parsed.items():
        if not isinstance(tensor, dict) or set(tensor) != {"dtype", "shape", "data_offsets"}:
            raise Bad("header_invalid", f"tensor {_name(name)} has not exactly dtype, shape and data_offsets")
        shape, offsets, dtype = tensor["shape"], tensor["data_offsets"], tensor["dtype"]
        if not (isinstance(shape, list) and isinstance(offsets, list) and isinstance(dtype, str)):
            raise Bad("header_invalid", f"tensor {_name(name)}: dtype, shape or data_offsets has the wrong type")
        numbers = len(offsets) == 2 and len(shape) <= RANK_CAP
        if not numbers or not all(_whole(n) and 0 <= n < 1 << 64 for n in shape + offsets):
            raise Bad("header_invalid", f"tensor {_name(name)}: shape or data_offsets holds something that cannot be")
        spans[name.encode("utf-8", "surrogatepass")] = (offsets[0], offsets[1])
        if dtype not in BITS:
            unknown.add(dtype)
        elif prod(shape) * BITS[dtype] != (offsets[1] - offsets[0]) * 8:
            bits = min(prod(shape) * BITS[dtype], 1 << 99)  # a hostile shape may have a thousand digits
            text = (
                f"tensor {_name(name)}: its shape in {dtype} takes {bits / 8:.15g} bytes, not {offsets[1] - offsets[0]}"
            )
            raise Bad("tensor_size", text)
    return spans, unknown


def _columns(raw: bytes, data: int) -> set[bytes] | None:
    """The tensors of a sound header in the form that safetensors itself writes, by columns instead of one object per
    tensor: a fifth of the time. None: another form, or something is wrong, which the slow way puts into words."""
    metadata = _METADATA.match(raw, 0, METADATA_CAP)
    text = raw[metadata.end() :] if metadata else b"," + raw[1:]
    if raw[:1] != b"{" or text[:2] != b',"' or len(raw) > JSON_CAP // 4:
        return None
    parts = text[2:].rstrip(b" \t\n\r").split(b'"')
    count, rest = divmod(len(parts), 10)
    if rest or parts[-1][-3:] != b"]}}":
        return None
    parts[-1] = parts[-1][:-1] + b","
    for column, between in _BETWEEN:
        if parts[column::10].count(between) != count:
            return None
    names, dtypes, shapes, spans = set(parts[::10]), parts[4::10], parts[7::10], b"".join(parts[9::10])
    if len(names) != count or b"__metadata__" in names or b"".join(names).translate(None, _IN_STRINGS):
        return None
    bits = {dtype: _BITS.get(dtype, 0) for dtype in set(dtypes)}
    elements = {}
    for shape in set(shapes):
        found = _SHAPE.fullmatch(shape)
        sides = found[1].split(b",") if found and found[1] else []
        if not found or len(sides) > RANK_CAP:
            return None
        elements[shape] = prod(map(int, sides))
    sizes = list(map(mul, map(bits.__getitem__, dtypes), map(elements.__getitem__, shapes)))
    if not all(bits.values()) or any(size % 8 for size in set(sizes)):
        return None
    ends = list(accumulate(sizes))
    if ends[-1] != data * 8:
        return None
    # Each begins where the one before it ends, and no number is padded: there is one right text.
    numbers = [0] * (2 * count)
    numbers[1::2] = [end >> 3 for end in ends]
    numbers[2::2] = numbers[1:-1:2]
    if spans != (b":[%d,%d]}," * count) % tuple(numbers):
        return None
    try:
        if not raw.isascii():
            raw.decode()
        if metadata and metadata[1] != b'{"format":"pt"}':
            _loads(metadata[1])
    except (Bad, ValueError):
        return None
    return names


def check_header(raw: bytes, data: int) -> tuple[set[bytes], set[str]]:
    """A header against the `data` bytes that follow it: (tensors, unknown dtypes). Raises Bad."""
    names = _columns(raw, data)
    if names is not None:
        return names, set()
    spans, unknown = _parse(raw)
    at = 0
    for begin, end, name in sorted((*span, name) for name, span in spans.items()):
        if not at == begin <= end:
            what = "overlaps the one before it" if begin < at else f"leaves a hole of {begin - at} bytes before it"
            code = "overlap" if begin < at else "hole" if begin > at else "header_invalid"
            raise Bad(code, f"tensor {_name(name)} {what if begin != at else 'ends before it begins'}")
        at = end
    if at != data:
        code = "cut_data" if at > data else "trailing_bytes"
        raise Bad(code, f"the tensors end at byte {at} of the data, the file has {data}")
    return set(spans), unknown


# --- one file ---------------------------------------------------------------------------------------------------------


def _read(fd: int, start: int, length: int) -> bytes:
    first = part = os.pread(fd, min(length, 1 << 26), start)
    if len(first) == length:
        return first
    parts = [first]
    while part and length > len(part):
        start, length = start + len(part), length - len(part)
        part = os.pread(fd, min(length, 1 << 26), start)
        parts.append(part)
    return b"".join(parts)


def _sniff(head: bytes, size: int, typed: bool) -> None:
    """Raises Bad when the first bytes are those of something else than a model's file."""
    if size == 0 and typed:
        raise Bad("empty_file", "the file is empty")
    if head.startswith(b"version https://git-lfs"):
        raise Bad("lfs_pointer", "a git-lfs pointer, not the file itself")
    if typed and b"<" in head[:512] and head[:512].lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise Bad("html_page", "a web page (an error page of a proxy or hub?), not the file itself")


def _header_of(fd: int, head: bytes, size: int) -> bytes:
    length = int.from_bytes(head[:8], "little")
    if size < 8:
        raise Bad("cut_header", f"the file has {size} bytes, not even a header's length")
    if length > JSON_CAP:
        raise Bad("header_too_long", f"the header claims {length} bytes, over the {JSON_CAP} that safetensors allows")
    if 8 + length > size:
        raise Bad("header_beyond_file", f"the header claims {length} bytes, the file has {size}")
    header = head[8 : 8 + length]
    return header + _read(fd, 8 + len(header), length - len(header)) if len(header) < length else header


def _hash(fd: int, size: int, published: str) -> None:
    """Compares the content with a sha256 (64 hex) or git's blob sha1 (40 hex). Raises Bad."""
    digest = hashlib.sha256() if len(published) == 64 else hashlib.sha1(b"blob %d\0" % size)
    buffer = memoryview(bytearray(CHUNK))
    os.lseek(fd, 0, os.SEEK_SET)
    with open(fd, "rb", buffering=0, closefd=False) as file:
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
    if digest.hexdigest() != published:
        raise Bad("wrong_hash", f"{digest.name} is {digest.hexdigest()}, published is {published}")


def _tensors_of(
    fd: int, head: bytes, size: int, rel: str, wanted: list[bytes] | None
) -> tuple[int, int, list[Problem]]:
    header = _header_of(fd, head, size)
    tensors, unknown = check_header(header, size - 8 - len(header))
    problems = [
        Problem("note", "unknown_dtype", rel, f"dtype {_name(dtype)} is not known here: its sizes are not checked")
        for dtype in sorted(unknown)[:5]
    ]
    if wanted is not None and (len(wanted) != len(tensors) or not tensors.issuperset(wanted)):
        names = set(wanted)
        for level, code, what, odd in (
            ("corrupt", "tensor_not_in_shard", "in the index and not in this shard", names - tensors),
            ("unlisted", "tensor_not_in_index", "in this shard and not in the index", tensors - names),
        ):
            if odd:
                problems.append(Problem(level, code, rel, f"{len(odd)} tensors are {what}, first {_name(min(odd))}"))
    return len(tensors), size - 8 - len(header), problems


def _companion(fd: int, head: bytes, size: int) -> None:
    """A config, tokenizer or the like as json.load takes it; of a long one only the end, which a cut one lacks."""
    if size > CHUNK:
        if _read(fd, size - FIRST_READ, FIRST_READ).rstrip()[-1:] not in (b"}", b"]"):
            raise Bad("not_json", "the JSON has no end")
        return
    try:
        json.loads(head + _read(fd, len(head), size - len(head)), parse_int=_INT)
    except (ValueError, RecursionError) as error:
        raise Bad("not_json", f"no valid JSON: {str(error)[:200]}") from None


def check_file(rel: str, path: str, wanted: list[bytes] | None = None, published: str = "") -> Shard:
    """Everything about one file that needs no other one. `wanted`: tensors that the index puts there. Never raises for
    what the file is or holds."""
    problems: list[Problem] = []
    tensors = size = 0
    hashed = False
    weights = rel.endswith(".safetensors")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            before = os.fstat(fd)
            head = _read(fd, 0, min(before.st_size, FIRST_READ))
            try:
                _sniff(head, before.st_size, rel.endswith(TYPED))
                if weights:
                    if before.st_size > BIG and int.from_bytes(head[:8], "little") > BIG:
                        with _big_lock:
                            tensors, size, problems = _tensors_of(fd, head, before.st_size, rel, wanted)
                    else:
                        tensors, size, problems = _tensors_of(fd, head, before.st_size, rel, wanted)
                elif COMPANIONS.fullmatch(rel):
                    _companion(fd, head, before.st_size)
                if published:
                    _hash(fd, before.st_size, published)
                    hashed = True
            except Bad as bad:
                problems.append(Problem("corrupt", bad.args[0], rel, bad.args[1]))
            after = os.stat(path)
            if (after.st_ino, after.st_size, after.st_mtime_ns) != (before.st_ino, before.st_size, before.st_mtime_ns):
                problems.append(Problem("incomplete", "being_written", rel, "the file changed while it was checked"))
        finally:
            os.close(fd)
    except OSError as error:
        problems.append(Problem("corrupt", "unreadable", rel, error.strerror or str(error)))
    return Shard(tensors, size, problems, hashed)


# --- a directory ------------------------------------------------------------------------------------------------------


def _stat(rel: str, path: str) -> Found:
    try:
        info = os.stat(path)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return Found(path, -1, Problem("incomplete", "link_to_nothing", rel, "a link to a file that is not there"))
        code = "link_loop" if error.errno == errno.ELOOP else "unreadable"
        return Found(path, -1, Problem("corrupt", code, rel, error.strerror or str(error)))
    if stat.S_ISDIR(info.st_mode) and not rel.endswith(".safetensors"):
        return Found(path, -1, Problem("note", "link_to_directory", rel, "a link to a directory: not followed"))
    if not stat.S_ISREG(info.st_mode):
        return Found(path, -1, Problem("corrupt", "special_file", rel, "not a regular file"))
    return Found(path, info.st_size, None)


def _walk(root: str, skip: tuple[str, ...]) -> Iterator[tuple[str, os.DirEntry[str] | None, OSError | None]]:
    """(path relative to root, entry, None) of all that is no real directory; links to directories are not followed."""
    pending, seen = [""], 0
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(root, folder) if folder else root) as entries:
                for entry in entries:
                    seen += 1
                    if seen > FILES_CAP:
                        raise ValueError(
                            f"{root} holds more than {FILES_CAP} files: not the directory of one checkpoint"
                        )
                    rel = f"{folder}/{entry.name}" if folder else entry.name
                    if not entry.is_dir(follow_symlinks=False):
                        yield rel, entry, None
                    elif rel not in skip:
                        if rel.endswith(".safetensors"):
                            yield rel, entry, None
                        pending.append(rel)
        except OSError as error:
            yield folder, None, error


def leftovers(root: str) -> list[tuple[str, int, float]]:
    """(path, bytes on disk, mtime) of partial files that downloads of this directory left or are writing."""
    hub = _hub_root(root)
    folder = os.path.join(hub, "blobs") if hub else os.path.join(root, ".cache", "huggingface", "download")
    found = []
    for _rel, entry, _error in _walk(folder, ()):
        if entry is not None and entry.name.endswith(".incomplete"):
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # finished or removed meanwhile
            found.append((entry.path, min(info.st_size, info.st_blocks * 512), info.st_mtime))
    return found


def _hub_root(root: str) -> str:
    """models--owner--name of a snapshot directory, "" for a plain folder."""
    parts = os.path.abspath(root).rsplit(os.sep, 2)
    return (
        parts[0]
        if len(parts) == 3 and parts[1] == "snapshots" and os.path.basename(parts[0]).startswith("models--")
        else ""
    )


def snapshot(path: str, commit: str = "") -> str:
    """The directory to check: models--* stands for its snapshot. Raises ValueError when that is ambiguous."""
    if not os.path.basename(os.path.abspath(path)).startswith("models--"):
        return path
    folder = os.path.join(path, "snapshots")
    names = [commit] if commit else sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    if len(names) != 1:
        raise ValueError(f"{path} has {len(names)} snapshots: name one of them, or a commit")
    return os.path.join(folder, names[0])


def listing_path(root: str, commit: str) -> str:
    """Where huggingface_hub (>= 2) keeps what the hub published for this commit."""
    return os.path.join(_hub_root(root) or os.path.join(root, ".cache", "huggingface"), "trees", f"{commit}.json")


def _safe(rel: Any) -> bool:
    return (
        isinstance(rel, str)
        and rel != ""
        and "\0" not in rel
        and not rel.startswith("/")
        and ".." not in rel.split("/")
    )


def read_listing(root: str, commit: str) -> dict[str, dict[str, Any]] | None:
    """{path: {size, blob_id, lfs_sha256?}} as published, None when it isn't there or can't be used."""
    try:
        with open(listing_path(root, commit), "rb") as file:
            files = _loads(file.read(JSON_CAP))["files"]
        usable = all(_safe(path) and _whole(info["size"]) for path, info in files.items())
        return files if files and usable else None
    except (OSError, Bad, KeyError, TypeError, AttributeError):
        return None


def _commit_of(root: str, commit: str) -> str:
    if commit:
        return commit
    if _hub_root(root):
        return os.path.basename(os.path.abspath(root))
    try:
        names = [name[:-5] for name in os.listdir(os.path.dirname(listing_path(root, "x"))) if _COMMIT.match(name[:-5])]
    except OSError:
        return ""
    return names[0] if len(names) == 1 else ""


def _published(rel: str, path: str, listing: dict[str, dict[str, Any]] | None) -> str:
    """The hash that the hub gave this file: from the listing, else from the name of the blob that is linked to."""
    if listing is not None:
        info = listing.get(rel, {})
        digest = str(info.get("lfs_sha256") or info.get("blob_id") or "")
        return digest if _HASH.match(digest) else ""
    blob = os.path.basename(os.path.realpath(path)) if os.path.islink(path) else ""
    return blob if _HASH.match(blob) else ""


class _Index(NamedTuple):
    rel: str
    shards: dict[str, list[bytes]]  # shard, relative to the checkpoint's directory -> tensors
    total: Any


def _pairs(raw: bytes, at: int) -> tuple[dict[str, list[bytes]], bytes] | None:
    """The map that begins at `at` by columns, piece by piece, which bounds memory, and what follows its last value.
    None: it has escapes, a name twice, or another form."""
    shards: dict[bytes, list[bytes]] = {}
    first, more, ordered, last = True, True, True, b""
    while more:
        cut = raw.find(b'.safetensors",', at + CHUNK)
        more = cut >= 0
        end = cut + 13 if more else raw.find(b"}", max(at, raw.rfind(b'.safetensors"', at)))
        parts = raw[at:end].split(b'"') if end > at else []
        if len(parts) < 5 or len(parts) % 4 != 1 or parts[-1].strip(b" \t\n\r"):
            return None
        if parts[0].strip(b" \t\n\r") if first else not _COMMA.fullmatch(parts[0]):
            return None
        for between, form in ((parts[2::4], _COLON), (parts[4:-1:4], _COMMA)):
            if between and not (form.fullmatch(between[0]) and between.count(between[0]) == len(between)):
                return None
        names = parts[1::4]
        ordered = ordered and last < names[0] and all(map(lt, names, islice(names, 1, None)))
        last = names[-1]
        done = 0
        for shard, run in groupby(parts[3::4]):
            count = len(list(run))
            shards.setdefault(shard, []).extend(names[done : done + count])
            done += count
        at, first = end, False
    # Names in order are all different; telling so from a set of them takes as long as all the rest.
    if not ordered and len(set().union(*shards.values())) != sum(map(len, shards.values())):
        return None
    return {shard.decode("utf-8", "surrogateescape"): names for shard, names in shards.items()}, raw[at:]


def _weight_map(raw: bytes) -> tuple[Any, dict[str, list[bytes]]]:
    """An index -> (metadata.total_size, {shard: tensors}). Raises Bad."""
    start = _WEIGHT_MAP.search(raw)
    usable = start and len(raw) < JSON_CAP // 4 and b"\\" not in raw
    found = _pairs(raw, start.end()) if start and usable else None
    parsed: Any = None
    shards: dict[str, list[bytes]] = {}
    if start and found:
        # The map itself is read by columns, a fraction of the time for large models; what is around it as JSON.
        parsed, shards = _loads(raw[: start.start()] + b'"weight_map":{' + found[1], numbers=True), found[0]
    if not (isinstance(parsed, dict) and parsed.get("weight_map") == {}):
        parsed, shards = _loads(raw, numbers=True), {}
        weights = parsed.get("weight_map") if isinstance(parsed, dict) else None
        if not isinstance(weights, dict) or not all(isinstance(shard, str) for shard in weights.values()):
            raise Bad("index_invalid", "the index has no weight_map of names")
        for name, shard in weights.items():
            shards.setdefault(shard, []).append(name.encode("utf-8", "surrogatepass"))
    if not shards:
        raise Bad("index_invalid", "the index names no tensor")
    metadata = parsed.get("metadata")
    return metadata.get("total_size") if isinstance(metadata, dict) else None, shards


def _read_index(rel: str, path: str, problems: list[Problem]) -> _Index | None:
    try:
        with open(path, "rb") as file:
            raw = file.read(JSON_CAP + 1)
        _sniff(raw, len(raw), True)
        total, shards = _weight_map(raw)
        for shard in shards:
            if not _safe(shard):
                raise Bad("index_unsafe_path", f"the index names a file outside its directory: {_name(shard)}")
    except Bad as bad:
        problems.append(Problem("corrupt", bad.args[0], rel, bad.args[1]))
        return None
    except OSError as error:
        problems.append(Problem("corrupt", "unreadable", rel, error.strerror or str(error)))
        return None
    folder = rel[: rel.rfind("/") + 1]
    named: dict[str, list[bytes]] = {}
    for shard, names in shards.items():
        named.setdefault(os.path.normpath(folder + shard), []).extend(names)
    return _Index(rel, named, total)


def _numbered(weights: list[str], indexed: set[str]) -> Iterator[Problem]:
    """Gaps in model-00001-of-00072 names (some count from 0); where an index names model-*, it says what is needed."""
    covered = {match[1] for match in map(_NUMBERED.match, indexed) if match}
    groups: dict[tuple[str, str], set[int]] = {}
    for rel in weights:
        match = _NUMBERED.match(rel)
        if match and match[1] not in covered:
            groups.setdefault((match[1], match[3]), set()).add(int(match[2]))
    for (stem, total), have in sorted(groups.items()):
        begin = 0 if 0 in have else 1
        first = next((number for number in range(begin, begin + int(total)) if number not in have), -1)
        if first >= 0:
            missing = int(total) - len(have)
            yield Problem(
                "incomplete",
                "shard_missing",
                f"{stem}-{first:0{len(total)}d}-of-{total}.safetensors",
                f"{missing} of {int(total)} shards are not there; this is the first",
            )
        if int(total) > 1:
            yield Problem(
                "unlisted",
                "index_missing",
                f"{stem}.safetensors.index.json",
                "shards without an index: which tensors they should hold is not known",
            )


class _Check:
    """One run over one directory; `verdict` is what comes out."""

    def __init__(self, root: str, commit: str, verify: str, threads: int, tokenizer: bool) -> None:
        self.root, self.verify, self.tokenizer = root, verify, tokenizer
        self.commit = _commit_of(root, commit)
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.threads = threads or (min(cpus, 16) if verify == "sha256" else 4)
        self.problems: list[Problem] = []
        self.files: dict[str, Found] = {}
        self.listing = read_listing(root, self.commit) if self.commit else None
        self.not_checked: list[str] = []
        self.shards = self.tensors = self.tensor_bytes = 0
        self.hashed = False

    def add(self, level: str, code: str, file: str, message: str) -> None:
        self.problems.append(Problem(level, code, file, message))

    def find(self) -> None:
        for rel, entry, error in _walk(self.root, (".cache", ".git")):
            if entry is None:
                self.add("corrupt", "unreadable", rel, error.strerror or str(error) if error else "")
            elif rel != RECORD:
                self.files[rel] = found = _stat(rel, entry.path)
                if found.error:
                    self.problems.append(found.error)

    def compare_listing(self) -> None:
        if self.listing is None:
            if rank(self.verify) > 0:
                self.not_checked.append("sizes: the hub's listing for this commit is not in the directory")
            return
        for rel, info in self.listing.items():
            found = self.files.get(rel)
            if found is None:
                self.add("incomplete", "file_missing", rel, "published for this commit and not there")
            elif rank(self.verify) > 0 and found.error is None and found.size != info["size"]:
                self.add("corrupt", "wrong_size", rel, f"{found.size} bytes, published are {info['size']}")

    def weights(self) -> None:
        """Indexes, shards and all that one needs the other for; every file is opened once, here."""
        indexes = []
        for rel in sorted(self.files):
            if rel.endswith(".safetensors.index.json") and self.files[rel].error is None:
                index = _read_index(rel, self.files[rel].path, self.problems)
                if index:
                    indexes.append(index)
        wanted: dict[str, list[bytes]] = {}
        for index in indexes:
            for shard, names in index.shards.items():
                wanted[shard] = [*{*wanted[shard], *names}] if shard in wanted else names
        have = sorted(rel for rel in self.files if rel.endswith(".safetensors"))
        self.shards = len(have)
        for rel in sorted(wanted.keys() - self.files.keys()):
            if self.listing is None or rel not in self.listing:
                self.add("incomplete", "shard_missing", rel, "named in the index and not there")
        published = have if self.listing is None else [rel for rel in have if rel in self.listing]
        self.problems.extend(_numbered(published, set(wanted)))
        if wanted:
            folders = {index.rel.rpartition("/")[0] for index in indexes}
            for rel in have:
                if rel not in wanted and rel.rpartition("/")[0] in folders:
                    self.add("note", "shard_not_in_index", rel, "no index names this file")
        elif not have:
            self.add("incomplete", "no_weights", "", "no safetensors file and no index")
        results = self.open_all(wanted)
        self.tensors = sum(result.tensors for result in results.values())
        self.tensor_bytes = sum(result.bytes for result in results.values())
        for index in indexes:
            parts = [results.get(shard) for shard in index.shards]
            if _whole(index.total) and all(
                part and not any(p.level == "corrupt" for p in part.problems) for part in parts
            ):
                total = sum(part.bytes for part in parts if part)
                if total != index.total:
                    self.add(
                        "unlisted",
                        "total_size",
                        index.rel,
                        f"the index says {index.total} bytes, its shards hold {total}; with the hub's listing, which a"
                        " download leaves, it is known whether that was published",
                    )

    def open_all(self, wanted: dict[str, list[bytes]]) -> dict[str, Shard]:
        jobs, unhashed = [], 0
        for rel, found in self.files.items():
            if found.error is not None:
                continue
            published = _published(rel, found.path, self.listing) if self.verify == "sha256" else ""
            unhashed += self.verify == "sha256" and not published and rel.endswith(".safetensors")
            if published or rel.endswith(TYPED) or found.size < 200:
                jobs.append((found.size, rel, found.path, wanted.get(rel), published))
        jobs.sort(reverse=True, key=lambda job: job[0])
        results: dict[str, Shard] = {}
        queue = iter(jobs)  # taking the next item of a list is atomic

        def work(waiting: float = float("inf")) -> None:
            wall, cpu = time.monotonic(), time.thread_time()
            for _size, rel, path, names, published in queue:
                results[rel] = check_file(rel, path, names, published)
                spent = time.monotonic() - wall
                if spent > waiting and spent - (time.thread_time() - cpu) > waiting:
                    break

        # Threads only get in each other's way while the parsing takes the time and not the storage.
        hashing = self.verify == "sha256"
        if not hashing:
            work(PATIENCE)
        helpers = min(self.threads, len(jobs) - len(results))
        if helpers > 0:
            with ThreadPoolExecutor(helpers) as pool:
                for done in [pool.submit(work) for _thread in range(helpers)]:
                    done.result()
        for result in results.values():
            self.problems.extend(result.problems)
        if unhashed:
            self.not_checked.append(f"sha256: {unhashed} safetensors files have no published hash here")
        self.hashed = self.verify == "sha256" and not unhashed
        return results

    def companions(self) -> None:
        """What an engine needs besides weights; only a note when the hub's own listing lacks it too (a draft)."""
        level = "incomplete" if self.listing is None else "note"
        there = {*self.files, *(self.listing or {})}
        if not there & {"config.json", "params.json"}:  # the second is Mistral's own
            self.add(level, "config_missing", "config.json", "no config.json")
        if not any(rel in TOKENIZERS or rel.startswith("tokenizer.") or rel.endswith(".tiktoken") for rel in there):
            level = level if self.tokenizer else "note"
            self.add(level, "tokenizer_missing", "tokenizer.json", "no tokenizer.*, " + ", ".join(TOKENIZERS))

    def partial(self) -> dict[str, Any]:
        now = time.time()
        found = leftovers(self.root)
        ages = [max(0, int(now - mtime)) for _path, _size, mtime in found]
        if found:
            young = min(ages) < WRITING
            # In the hub's layout they may be another commit's: nothing that is published for this one is missing.
            gaps = ("file_missing", "wrong_size", "shard_missing", "unreadable")
            whole = self.listing is not None and not any(p.code in gaps for p in self.problems)
            level, code = ("incomplete", "being_written") if young and not whole else ("note", "leftover")
            size = sum(found_size for _path, found_size, _mtime in found)
            self.add(level, code, "", f"{len(found)} partial downloads, {size} bytes, touched {min(ages)} s ago")
        return {
            "files": len(found),
            "bytes": sum(size for _path, size, _mtime in found),
            "oldest": max(ages, default=0),
            "newest": min(ages, default=0),
        }

    def run(self) -> dict[str, Any]:
        started = time.monotonic()
        if os.path.isdir(self.root):
            self.find()
            self.compare_listing()
            self.weights()
            self.companions()
            partial = self.partial()
        elif os.path.lexists(self.root):
            raise ValueError(f"{self.root} is not a directory")
        else:
            self.add("incomplete", "directory_missing", "", "the directory is not there")
            partial = {"files": 0, "bytes": 0, "oldest": 0, "newest": 0}
        # What differs only between the publisher's own files is theirs once the sizes are as published.
        as_published = (
            self.listing is not None
            and rank(self.verify) > 0
            and not any(p.code in ("wrong_size", "file_missing") for p in self.problems)
        )
        level = "note" if as_published else "corrupt"
        unlisted = {"tensor_not_in_index": level, "total_size": level, "index_missing": "note"}
        problems = sorted(
            (p._replace(level=unlisted[p.code]) if p.level == "unlisted" else p for p in self.problems),
            key=lambda p: (("corrupt", "incomplete", "note").index(p.level), p.file, p.code),
        )
        levels = {p.level for p in problems}
        if self.verify != "sha256":
            self.not_checked.append(
                "the content of tensors (a flipped bit or zeroed data): only verify sha256 reads it"
            )
        return {
            "path": self.root,
            "layout": "hub" if _hub_root(self.root) else "folder",
            "commit": self.commit,
            "state": "CORRUPT" if "corrupt" in levels else "INCOMPLETE" if "incomplete" in levels else "COMPLETE",
            "verify": self.verify,
            "proved": LEVELS[
                0 if self.listing is None and not self.hashed else min(rank(self.verify), 2 if self.hashed else 1)
            ],
            "files": sum(found.error is None for found in self.files.values()),
            "bytes": sum(found.size for found in self.files.values() if found.error is None),
            "shards": self.shards,
            "tensors": self.tensors,
            "tensor_bytes": self.tensor_bytes,
            "incomplete": partial,
            "problems": [p._asdict() for p in problems],
            "problems_total": len(problems),
            "not_checked": self.not_checked,
            "seconds": round(time.monotonic() - started, 3),
        }


def check(
    path: str, commit: str = "", verify: str = "sizes", threads: int = 0, tokenizer: bool = True
) -> dict[str, Any]:
    """The verdict on one directory, with every problem. `threads` 0: 4, or for sha256 one per CPU (16 at most).
    tokenizer: it must have one, unlike the model of a release that makes drafts for another.

    Raises ValueError for what is no checkpoint directory at all (a file, a hub cache with several snapshots), and for
    a negative number of threads.
    """
    if threads < 0:
        raise ValueError(f"threads is {threads}; it must be 0 or more")
    collecting = gc.isenabled()
    gc.disable()  # parsing makes hundreds of thousands of objects and no cycles: collecting costs a third of the time
    try:
        return _Check(snapshot(path, commit), commit, verify, threads, tokenizer).run()
    finally:
        if collecting:
            gc.enable()


def worst(verdicts: list[dict[str, Any]]) -> str:
    return max((verdict["state"] for verdict in verdicts), key=lambda state: EXIT[state])


def shown(verdict: dict[str, Any]) -> dict[str, Any]:
    """The verdict with its first problems only, to print."""
    return {**verdict, "problems": verdict["problems"][:SHOWN]}


def main() -> int:
    parser = argparse.ArgumentParser(description="Is the checkpoint in DIR complete and intact?")
    parser.add_argument("directory", nargs="+", metavar="DIR")
    parser.add_argument("--verify", choices=LEVELS, default="sizes")
    parser.add_argument("--commit", default="")
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    try:
        verdicts = [check(path, args.commit, args.verify, args.threads) for path in args.directory]
    except ValueError as error:
        parser.error(str(error))
    print(json.dumps({"state": worst(verdicts), "directories": [shown(verdict) for verdict in verdicts]}, indent=1))
    return EXIT[worst(verdicts)]


if __name__ == "__main__":
    sys.exit(main())
