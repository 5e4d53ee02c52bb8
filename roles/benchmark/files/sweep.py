# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs AIPerf once for every point of a load, one after the other. Runs in the pod of the benchmark's Job.

    python3 sweep.py PLAN

PLAN is a JSON file: {seconds, points: [{name, argv, requests, ...}], tokenizer: {id, commit, directory},
trace: null or {file, sha256, parts, max_input_tokens}}. Standard library only; `aiperf` is a program of the image.

The numbers leave by the log: `progress {json}` lines, and after each point `artifact NAME I/N BASE64` lines, a
compressed archive of AIPerf's own files. Whoever may read a log can so fetch them, and what is measured stays when a
later point fails. The termination message is {"message", "trace_sha256", "rows"}.

AIPerf ends with 0 also when most requests have failed, and goes on when all do: both are looked at here.
Exit: 0 all points measured, 2 the plan can't be carried out, 3 requests failed, 4 AIPerf failed, 5 no time left.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any, NoReturn

TERMINATION_LOG = os.environ.get("BENCHMARK_TERMINATION_LOG", "/dev/termination-log")
ARTIFACTS = Path(os.environ.get("BENCHMARK_ARTIFACTS", "/tmp/artifacts"))
# In order of importance: what doesn't fit any more is left out. The kubelet keeps 10 MB of a log.
FILES = (
    "profile_export_aiperf.json",
    "profile_export_aiperf.csv",
    "phase_manifest.json",
    "aiperf.log",
    "server_metrics_export.json",
)
POINT_BYTES = 300_000  # of an archive
LINE = 8000  # characters of an artifact line; a log is cut into lines of 16 kB
SAY_EVERY = 5.0  # seconds
LOOK_EVERY = 1.0
FAILED_SHARE = 0.1  # of a point's requests, above which the sweep ends
FAILED_ROW = 20  # requests without one that succeeded, after which nothing will
ERROR = re.compile(r"^[\d:.]+ ERROR\s+(.*?)(?: \([\w.]+:\d+\))?$")


class Fail(Exception):
    """Ends the sweep: (exit code, message)."""


def say(word: str, data: Any) -> None:
    print(word, json.dumps(data) if isinstance(data, dict) else data, flush=True)


def offer(tokenizer: dict[str, str]) -> None:
    """Make the checkpoint's directory look like a cache of the hub.

    With the path of a directory AIPerf 0.13.0 replays no trace: its decoding processes take it for a repository's id.
    """
    if not os.path.isdir(tokenizer["directory"]):
        raise Fail(2, f"the tokenizer is not in the model cache: there is no directory {tokenizer['directory']}")
    repository = Path(os.environ["HF_HOME"], "hub", f"models--{tokenizer['id'].replace('/', '--')}")
    for folder in ("refs", "snapshots"):
        (repository / folder).mkdir(parents=True, exist_ok=True)
    (repository / "refs" / "main").write_text(tokenizer["commit"], "utf-8")
    (repository / "snapshots" / tokenizer["commit"]).symlink_to(tokenizer["directory"])


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def replayed(path: Path, longest: int | None) -> int:
    """How many requests the trace has for AIPerf, which skips those with an input_length over `longest`."""
    count = 0
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            length = None
            if longest is not None:
                try:
                    length = json.loads(line).get("input_length")
                except (ValueError, AttributeError):
                    raise Fail(2, f"the trace {path}: line {number} is no JSON object") from None
            count += not isinstance(length, int) or length <= (longest or 0)
    return count


def stage(trace: dict[str, Any]) -> dict[str, Any]:
    """Bring the trace to its place, where it isn't yet, and look at it: {trace_sha256, rows}."""
    path, longest = Path(trace["file"]), trace["max_input_tokens"]
    if trace.get("parts") and not (path.is_file() and sha256_of(path) == trace["sha256"]):
        parts = sorted(Path(trace["parts"]).glob("part-*"))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            half = path.with_name(f"{path.name}.{os.getpid()}")
            half.write_bytes(gzip.decompress(base64.b64decode(b"".join(part.read_bytes() for part in parts))))
            half.rename(path)
        except (OSError, ValueError, EOFError) as error:
            raise Fail(2, f"the trace can't be staged at {path}: {error}") from error
    try:
        found = sha256_of(path)
        rows = replayed(path, longest)
    except OSError as error:
        raise Fail(2, f"the trace {path} can't be read: {error.strerror}") from error
    if trace.get("sha256") and found != trace["sha256"]:
        raise Fail(2, f"the trace {path} has sha256 {found}, wanted is {trace['sha256']}")
    if not rows:
        limit = f"has no request of at most {longest} input tokens" if longest is not None else "is empty"
        raise Fail(2, f"the trace {path} {limit}")
    return {"trace_sha256": found, "rows": rows}


class Records:
    """What AIPerf's file of records, one line a request, says so far."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset, self.rest = path, 0, b""
        self.done = self.errors = self.row = self.tokens = 0
        self.warmup, self.since, self.last_error = 0, 0.0, ""

    def read(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as stream:
            stream.seek(self.offset)
            block = stream.read()
        self.offset += len(block)
        *lines, self.rest = (self.rest + block).split(b"\n")
        for line in filter(None, lines):
            self.count(json.loads(line))

    def count(self, record: dict[str, Any]) -> None:
        error = record.get("error")
        self.row = self.row + 1 if error else 0
        if error:
            self.last_error = f"{error.get('code') or error.get('type')}: {error.get('message')}"
        if (record.get("metadata") or {}).get("benchmark_phase") == "warmup":
            self.warmup += 1
            return
        self.since = self.since or time.monotonic()
        self.done += 1
        self.errors += bool(error)
        self.tokens += int(((record.get("metrics") or {}).get("output_sequence_length") or {}).get("value") or 0)

    def progress(self) -> dict[str, Any]:
        passed = time.monotonic() - self.since if self.since else 0.0
        stage_of = "measuring" if self.done else "warm-up" if self.warmup else "starting"
        rate = round(self.tokens / passed, 1) if passed > 1 else None
        return {"stage": stage_of, "done": self.done, "errors": self.errors, "tokens_per_s": rate}


def stop(process: subprocess.Popen[bytes]) -> None:
    """AIPerf has a family of processes; it gets time to end it by itself."""
    for number, patience in ((signal.SIGINT, 20), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience)
            return
        except (ProcessLookupError, PermissionError):
            return
        except subprocess.TimeoutExpired:
            continue


def run_point(point: dict[str, Any], place: dict[str, Any], end: float) -> None:
    """Measure one point, hand its files over, and judge it. end: when (monotonic) the time is over."""
    folder = ARTIFACTS / point["name"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    records, gave_up, said = Records(folder / "profile_export.jsonl"), False, 0.0
    program = [shutil.which("aiperf")] if shutil.which("aiperf") else [sys.executable, "-m", "aiperf"]
    command = [*program, "profile", *point["argv"], "--artifact-dir", str(folder)]
    total = {**place, "name": point["name"], "total": point.get("requests")}
    with (folder / "aiperf.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            while True:
                ended = process.poll() is not None
                records.read()
                if ended or time.monotonic() - said >= SAY_EVERY:
                    said = time.monotonic()
                    say("progress", {**total, **records.progress()})
                if ended:
                    break
                if time.monotonic() > end:
                    raise Fail(5, f"point {point['name']} was not done when the time was over")
                if records.row >= max(FAILED_ROW, int(point.get("concurrency") or 0)):
                    gave_up = True
                    break
                time.sleep(LOOK_EVERY)
        finally:
            if process.poll() is None:
                stop(process)
    hand_over(folder)
    if gave_up or records.errors > FAILED_SHARE * records.done:
        failed = f"{records.errors} of {records.done}" if records.done else f"all {records.warmup} warm-up"
        raise Fail(3, f"point {point['name']}: {failed} requests failed, the last with {one_line(records.last_error)}")
    if process.returncode != 0 or not (folder / FILES[0]).exists():
        why = first_error(folder / "aiperf.log")
        raise Fail(4, f"point {point['name']}: AIPerf ended with exit code {process.returncode}: {why}")


def first_error(log: Path) -> str:
    """The first line that AIPerf marks as an error; the rest follows from it."""
    lines = log.read_text("utf-8", "replace").splitlines()
    found = next((match[1] for match in map(ERROR.match, lines) if match), "")
    return one_line(found or " | ".join(line for line in lines if line.strip(" ╭╰│─"))[-400:])


def one_line(text: str) -> str:
    return " ".join(text.split())[:400]


def hand_over(folder: Path) -> None:
    """Print the archive of a point; AIPerf's log is cut, and what is too much is left out and named."""
    log = folder / "aiperf.log"
    log.write_bytes(log.read_bytes()[-60_000:])
    packed = b""
    for count in range(len(FILES), 0, -1):
        packed = archive(folder, FILES[:count])
        if len(packed) <= POINT_BYTES:
            break
        say("note", f"{FILES[count - 1]} of {folder.name} is too much for the log and left out")
    text = base64.b64encode(packed).decode()
    lines = [text[start : start + LINE] for start in range(0, len(text), LINE)]
    for number, line in enumerate(lines, 1):
        say("artifact", f"{folder.name} {number}/{len(lines)} {line}")


def archive(folder: Path, names: tuple[str, ...]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name in names:
            if (folder / name).is_file():
                tar.add(folder / name, name)
    return buffer.getvalue()


def sweep(plan: dict[str, Any], result: dict[str, Any]) -> None:
    offer(plan["tokenizer"])
    if plan.get("trace"):
        result |= stage(plan["trace"])
    # The Job's own deadline comes later: it takes the pod away, and with it the log and what was measured.
    end = time.monotonic() + plan["seconds"]
    for number, point in enumerate(plan["points"], 1):
        if plan.get("trace") and not point.get("requests") and not point.get("seconds"):
            point |= {"requests": result["rows"], "argv": [*point["argv"], "--request-count", str(result["rows"])]}
        run_point(point, {"point": number, "points": len(plan["points"])}, end)


def terminated(_number: int, _frame: Any) -> NoReturn:
    sys.exit(143)  # process 1 has no default action; unwinding ends AIPerf


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, terminated)
    result: dict[str, Any] = {"message": ""}
    code = 0
    try:
        sweep(json.loads(Path(arguments[0]).read_text("utf-8")), result)
    except Fail as failure:
        code, result["message"] = failure.args
    say("result", result)
    try:
        Path(TERMINATION_LOG).write_text(json.dumps(result), "utf-8")
    except OSError as error:
        say("note", f"no termination message: {error}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
