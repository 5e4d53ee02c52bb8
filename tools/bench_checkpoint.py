# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkpoint check beside its yardsticks, on generated data, in one run. Exit 1 when a ratio is over its limit.

headers: 72 shards, (a) 1,440 tensors and 4.3 GB (sparse), (b) 144,000 tensors; against safetensors.safe_open over the
same files. sha256: N threads against sha256sum through xargs -P N. Both sides take turns, the best of several rounds
counts, and the page cache is warm. Memory: the peak of a process of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from safetensors import safe_open

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "plugins/module_utils"))
import _safetensors  # noqa: E402

SHARDS = 72
LIMITS = {"a": 1.25, "b": 1.5, "sha256": 0.95, "memory": 100e6}
COMMIT = "0" * 40


def shard_name(number: int) -> str:
    return f"model-{number + 1:05d}-of-{SHARDS:05d}.safetensors"


def make(folder: Path, tensors: int, size: int, full: bool = False) -> None:
    """A checkpoint of this many tensors and bytes; the data is a hole, or with `full` bytes that the listing hashes."""
    each = tensors // SHARDS
    step = size // tensors // 2 * 2
    weights: dict[str, str] = {}
    listing: dict[str, dict[str, object]] = {}
    for number in range(SHARDS):
        header: dict[str, object] = {"__metadata__": {"format": "pt"}}
        for i in range(each):
            name = f"model.layers.{number}.block_sparse_moe.experts.{i}.w1.weight_scale_inv"
            header[name] = {"dtype": "BF16", "shape": [step // 2], "data_offsets": [i * step, (i + 1) * step]}
            weights[name] = shard_name(number)
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / shard_name(number), "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + each * step)
        if full:
            with open(folder / shard_name(number), "r+b") as file:
                file.seek(8 + len(text))
                file.write(os.urandom(each * step))
            data = (folder / shard_name(number)).read_bytes()
            listing[shard_name(number)] = {"size": len(data), "lfs_sha256": hashlib.sha256(data).hexdigest()}
    index = {"metadata": {"total_size": each * step * SHARDS}, "weight_map": dict(sorted(weights.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text("{}")
    if full:
        trees = folder / ".cache/huggingface/trees"
        trees.mkdir(parents=True)
        (trees / f"{COMMIT}.json").write_text(json.dumps({"files": listing}))


def open_all(folder: Path) -> int:
    count = 0
    for number in range(SHARDS):
        with safe_open(folder / shard_name(number), "np") as file:
            count += len(file.keys())
    return count


def check(folder: Path, verify: str = "headers", threads: int = 0) -> int:
    verdict = _safetensors.check(str(folder), "", verify, threads)
    assert verdict["state"] == "COMPLETE", verdict["problems"]
    assert verify == "headers" or verdict["proved"] == verify, verdict["not_checked"]
    return int(verdict["tensors"])


def sha256sum(folder: Path, threads: int) -> None:
    command = f"printf '%s\\0' {folder}/*.safetensors | xargs -0 -n 1 -P {threads} sha256sum > {os.devnull}"
    subprocess.run(["bash", "-c", command], check=True)


def best(rounds: int, *sides: Callable[[], object]) -> list[float]:
    """Seconds of each side: they take turns, the fastest round of each counts."""
    seconds = [float("inf")] * len(sides)
    for _round in range(rounds):
        for number, side in enumerate(sides):
            begin = time.perf_counter()
            side()
            seconds[number] = min(seconds[number], time.perf_counter() - begin)
    return seconds


def peak(folder: Path, verify: str) -> int:
    """Peak memory in bytes of the program as pods run it. Of its own: ru_maxrss counts what it was forked from."""
    code = (
        "import re, runpy, sys; del sys.argv[0]\n"
        "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except SystemExit as end: assert not end.code\n"
        "print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])"
    )
    command = [sys.executable, "-S", "-E", "-c", code, _safetensors.__file__, "--verify", verify, str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout.split()[-1]) * 1024


def main() -> int:
    bad = 0

    def line(what: str, ours: str, theirs: str, ratio: float, limit: float, good: bool) -> None:
        nonlocal bad
        bad += not good
        print(f"{what:38} {ours:>12} {theirs:>26} {ratio:8.2f} (limit {limit:g}) {'ok' if good else 'MISSED'}")

    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as name:
        for case, tensors, size in (("a", 1_440, 4_300_000_000), ("b", 144_000, 300_000_000)):
            folder = Path(name) / case
            folder.mkdir()
            make(folder, tensors, size)
            assert check(folder) == open_all(folder) == tensors
            ours, theirs = best(100 if case == "a" else 25, lambda f=folder: check(f), lambda f=folder: open_all(f))  # type: ignore[misc]
            ratio, limit = ours / theirs, LIMITS[case]
            texts = f"{ours * 1e3:.1f} ms", f"safe_open {theirs * 1e3:.1f} ms"
            line(f"headers ({case}) {tensors} tensors", *texts, ratio, limit, ratio <= limit)
            memory = peak(folder, "headers")
            mark = memory <= LIMITS["memory"]
            line(f"headers ({case}) peak memory", f"{memory / 1e6:.0f} MB", "", memory / 1e6, 100, mark)
        folder = Path(name) / "sha256"
        folder.mkdir()
        make(folder, 1_440, SHARDS * 20 * (1 << 18), full=True)
        threads = len(os.sched_getaffinity(0))
        ours, theirs = best(3, lambda: check(folder, "sha256", threads), lambda: sha256sum(folder, threads))
        texts = f"{ours:.2f} s", f"sha256sum -P {threads} {theirs:.2f} s"
        line(f"sha256, {threads} threads, speed", *texts, theirs / ours, LIMITS["sha256"], theirs / ours >= 0.95)
        memory = peak(folder, "sha256")
        line("sha256 peak memory", f"{memory / 1e6:.0f} MB", "", memory / 1e6, 100, memory <= LIMITS["memory"])
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
