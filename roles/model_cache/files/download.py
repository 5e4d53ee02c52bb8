# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Over 400 lines: the pod runs it as one file beside _safetensors.py.
"""Brings checkpoints into a volume and proves them. Runs in the pod of the download Job, beside _safetensors.py.

    python3 download.py '{"mount": DIR, "claim": NAME, "verify": "sizes", "source": "download",
                          "models": [{id, commit, layout, path, adopted}]}'

adopted: this one is somebody else's folder, never downloaded to. source: download what is missing; populated: somebody
else fills the volume, only look; proved: as populated, of a checkpoint with a proof, and the volume is not written at
all; prune: delete these. A checkpoint that is proved already is found without asking the hub. Python 3.9+, standard
library, and huggingface_hub when bytes are missing.

Prints `progress {json}` lines and, last, `record {json}`, which also becomes the container's termination message:
{"code", "message", "records": [...]}. Exit: 0 proved, 2 usage, 3 incomplete (worth another try), 4 corrupt,
5 no access, 6 no space, 7 the volume cannot be written, 8 no published hashes or sizes to compare with.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import _safetensors

TERMINATION_LOG = os.environ.get("MODEL_CACHE_TERMINATION_LOG", "/dev/termination-log")
CODES = {
    2: "USAGE",
    3: "CHECKPOINT_INCOMPLETE",
    4: "CHECKPOINT_CORRUPT",
    5: "HUB_ACCESS",
    6: "NO_SPACE",
    7: "CACHE_NOT_WRITABLE",
    8: "CHECKPOINT_UNVERIFIED",
}
SAY_EVERY = 5.0  # seconds
HEARTBEAT = 5.0  # seconds between two signs of life of the writer
STALE = float(os.environ.get("MODEL_CACHE_STALE", "30"))  # seconds without one, as watched from here
SOURCES = ("download", "populated", "proved", "prune")
STARTED = time.time()

ACCESS = {
    401: "the hub does not accept the token (or there is none) for {id}: check the token in the Secret",
    403: "the token has no access to {id}: it is gated; accept its licence on the hub with the account of the token",
    404: "the hub has no {id} at commit {commit}, or hides it from this token: check repository, commit and token",
}


class Fail(Exception):
    """Ends the program: (exit code, message)."""


def say(word: str, data: Any) -> None:
    print(word, json.dumps(data) if isinstance(data, dict) else data, flush=True)


def gigabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


# --- where things are -------------------------------------------------------------------------------------------------


def slug(repository: str) -> str:
    return re.sub(r"[^a-z0-9]", "-", repository.lower())


def directory(spec: dict[str, Any], model: dict[str, Any]) -> str:
    """Where the files of this commit are: the plain folder, or the snapshot below HF_HOME."""
    if model["layout"] == "folder":
        return str(model["path"])
    folder = "models--" + model["id"].replace("/", "--")
    return os.path.join(spec["mount"], "hub", folder, "snapshots", model["commit"])


def record_path(spec: dict[str, Any], model: dict[str, Any]) -> str:
    if model["layout"] == "folder":
        return os.path.join(model["path"], _safetensors.RECORD)
    return os.path.join(spec["mount"], ".inferops-dynamo", f"{slug(model['id'])}-{model['commit'][:12]}.json")


def write_json(path: str, data: dict[str, Any]) -> None:
    """Whole or not at all, also after a crash of the node."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle, name = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".inferops-", suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(data, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise


def read_record(path: str) -> dict[str, Any]:
    """A record in the volume, empty if there is none."""
    try:
        with open(path) as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def recorded(spec: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    """The record in the volume that proves this checkpoint, empty if there is none."""
    found = read_record(record_path(spec, model))
    same = found.get("repository") == model["id"] and found.get("commit") == model["commit"]
    return found if same else {}


# --- the hub ----------------------------------------------------------------------------------------------------------


def hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise Fail(2, "this image has no huggingface_hub: set dynamo_download_image to one that has it") from None
    return huggingface_hub


def status_of(error: BaseException | None) -> int:
    """The HTTP status behind an error of huggingface_hub, 0 if none: it wraps some of them."""
    while error is not None:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status:
            return int(status)
        error = error.__cause__ or error.__context__
    return 0


@contextmanager
def asking(model: dict[str, Any]) -> Iterator[None]:
    """Turns what huggingface_hub raises into a Fail."""
    try:
        yield
    except Fail:
        raise
    except Exception as error:
        status = status_of(error)
        if status in ACCESS:
            raise Fail(5, f"HTTP {status}: " + ACCESS[status].format(**model)) from error
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Fail(6, f"the volume is full: {error.strerror}") from error
        if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise unwritten(str(error.filename or model["path"]), error) from error
        text = " ".join(f"{type(error).__name__}: {error}".split())[:600]
        raise Fail(
            3, f"the download of {model['id']} stopped{f' with HTTP {status}' if status else ''}: {text}"
        ) from error


def ask_listing(model: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the hub publishes for this commit, in the form of huggingface_hub's own trees/<commit>.json."""
    files: dict[str, dict[str, Any]] = {}
    with asking(model):
        for entry in hub().HfApi().list_repo_tree(model["id"], recursive=True, revision=model["commit"]):
            if not hasattr(entry, "blob_id"):
                continue
            info: dict[str, Any] = {"size": entry.size, "blob_id": entry.blob_id}
            if getattr(entry, "lfs", None):
                info.update(lfs_sha256=entry.lfs.sha256, lfs_size=entry.lfs.size)
            if getattr(entry, "xet_hash", None):
                info["xet_hash"] = entry.xet_hash
            if not _safetensors._safe(entry.path) or not isinstance(entry.size, int):
                raise Fail(3, f"the hub lists {entry.path!r:.200} of {model['id']}, which is no file of a repository")
            files[entry.path] = info
    if not files:
        raise Fail(3, f"the hub lists no file of {model['id']} at {model['commit']}")
    return files


def fetch(spec: dict[str, Any], model: dict[str, Any]) -> None:
    with asking(model):
        if model["layout"] == "folder":
            where = {"local_dir": model["path"]}
        else:
            where = {"cache_dir": os.path.join(spec["mount"], "hub")}
        hub().snapshot_download(model["id"], revision=model["commit"], max_workers=8, **where)


# --- the volume -------------------------------------------------------------------------------------------------------


def not_writable(path: str, error: OSError) -> str:
    """Who cannot write where, and whose it is."""
    while not os.path.exists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    info = os.stat(path)
    owner = f"mode {stat.S_IMODE(info.st_mode):04o}, owner {info.st_uid}:{info.st_gid}"
    return f"uid {os.getuid()}, gid {os.getgid()} cannot write {path} ({owner}): {error.strerror}"


def unwritten(path: str, error: OSError) -> Fail:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Fail(6, f"the volume is full: {error.strerror}")
    return Fail(7, not_writable(path, error))


def try_writing(folder: str) -> None:
    """Everything that a download does to a volume, on one small file. Raises Fail."""
    name = os.path.join(folder, f".inferops-trial-{os.uname().nodename}")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(name, "w") as file:
            file.write("trial")
        os.replace(name, name + ".renamed")
        os.unlink(name + ".renamed")
    except OSError as error:
        raise unwritten(folder, error) from error


class Writer(threading.Thread):
    """The right to write one checkpoint: a file on the volume with a heartbeat. Who finds it beating waits.

    Clocks of nodes differ, so that a heartbeat is not compared with one: it is watched until it has stood still.
    """

    def __init__(self, spec: dict[str, Any], model: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        name = f"{slug(model['id'])}-{model['commit'][:12]}.writer"
        self.path = os.path.join(spec["mount"], ".inferops-dynamo", name)
        self.me, self.beats, self.done = f"{os.uname().nodename} {os.getpid()}", 0, threading.Event()

    def read(self) -> str:
        try:
            with open(self.path) as file:
                return file.read()
        except OSError:
            return ""

    def beat(self) -> None:
        self.beats += 1
        write_json(self.path, {"writer": self.me, "beat": self.beats})

    def run(self) -> None:
        while not self.done.wait(HEARTBEAT):
            try:
                self.beat()
            except OSError as error:
                say("stage", f"no heartbeat: {error}")

    def __enter__(self) -> Writer:
        seen, since = self.read(), time.monotonic()
        while seen:
            time.sleep(min(1.0, STALE / 3))
            now = self.read()
            if now != seen:
                seen, since = now, time.monotonic()
                say("stage", "waiting for another download of this checkpoint")
            elif time.monotonic() - since > STALE:
                say("stage", "another download of this checkpoint has stopped; going on where it was")
                break
        try:
            self.beat()
        except OSError as error:
            raise unwritten(self.path, error) from error
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.done.set()
        self.join()
        try:
            os.unlink(self.path)
        except OSError as error:
            say("stage", f"the writer file stays: {error}")


def another_commit(root: str, commit: str) -> str:
    """The commit that a folder says it holds, in the hub's listing or in our record, where that isn't this one."""
    if _safetensors.read_listing(root, commit) is not None:
        return ""
    record = read_record(os.path.join(root, _safetensors.RECORD))
    named = _safetensors._commit_of(root, "") or str(record.get("commit") or "")
    return "" if named == commit else named


def blob_is_there(root: str, info: dict[str, Any]) -> bool:
    """In the hub's layout another commit may have brought the content: then it is only linked to."""
    blobs = os.path.join(_safetensors._hub_root(root), "blobs")
    path = os.path.join(blobs, str(info.get("lfs_sha256") or info.get("blob_id")))
    return bool(_safetensors._hub_root(root)) and os.path.isfile(path) and os.path.getsize(path) == info["size"]


def missing(root: str, files: dict[str, dict[str, Any]]) -> dict[str, int]:
    """{file: bytes} of what is not there in its published size."""
    found = {}
    for rel, info in files.items():
        try:
            if os.stat(os.path.join(root, rel)).st_size == info["size"]:
                continue
        except OSError:
            pass
        found[rel] = info["size"]
    return found


def remove(root: str, rel: str) -> None:
    """Take a bad file away together with what makes huggingface_hub trust it: its blob, its metadata."""
    path = os.path.join(root, rel)
    say("stage", f"removing {rel}, to be fetched again")
    if os.path.islink(path):
        blob = os.path.realpath(path)
        if os.path.basename(os.path.dirname(blob)) == "blobs" and os.path.isfile(blob):
            os.unlink(blob)
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path)):
        os.unlink(path)
    metadata = os.path.join(root, ".cache", "huggingface", "download", rel + ".metadata")
    if os.path.lexists(metadata):
        os.unlink(metadata)


def sweep(root: str, before: float) -> None:
    """Remove partial files that nobody has written to since `before`: a later run never resumes them."""
    for path, size, mtime in _safetensors.leftovers(root):
        if mtime < before:
            say("stage", f"removing a partial download of {gigabytes(size)} left by an earlier run")
            os.unlink(path)


class Progress(threading.Thread):
    """Says every few seconds how much of the listing is there. Counted from the volume, never estimated."""

    def __init__(self, root: str, files: dict[str, dict[str, Any]], stage: str) -> None:
        super().__init__(daemon=True)
        self.root, self.files, self.stage = root, files, stage
        self.total = sum(info["size"] for info in files.values())
        self.done = threading.Event()

    def report(self) -> None:
        lacking = missing(self.root, self.files)
        partial = sum(size for _path, size, mtime in _safetensors.leftovers(self.root) if mtime >= STARTED)
        count = self.total - sum(lacking.values())
        numbers = {"files": len(self.files) - len(lacking), "files_total": len(self.files)}
        numbers.update(bytes=min(self.total, count + partial), bytes_total=self.total)
        say("progress", {"stage": self.stage, **numbers})

    def run(self) -> None:
        while not self.done.wait(SAY_EVERY):
            self.report()

    def __enter__(self) -> Progress:
        self.report()
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.done.set()
        self.join()
        self.report()


# --- one checkpoint ---------------------------------------------------------------------------------------------------


def bad_files(verdict: dict[str, Any]) -> list[str]:
    return sorted({problem["file"] for problem in verdict["problems"] if problem["level"] == "corrupt"} - {""})


def first_problems(verdict: dict[str, Any]) -> str:
    grave = [problem for problem in verdict["problems"] if problem["level"] != "note"]
    shown = "; ".join(f"{problem['file'] or 'directory'}: {problem['message']}" for problem in grave[:3])
    return f"{len(grave)} problems: {shown}"


def proved(verdict: dict[str, Any], level: str) -> bool:
    return verdict["state"] == "COMPLETE" and _safetensors.rank(verdict["proved"]) >= _safetensors.rank(level)


def record(spec: dict[str, Any], model: dict[str, Any], verdict: dict[str, Any]) -> dict[str, Any]:
    """Write the proof, last of all, and return it."""
    before = recorded(spec, model)
    level, new = str(before.get("verify") or ""), verdict["proved"]
    deeper = _safetensors.rank(level) > _safetensors.rank(new)  # nothing was fetched since, or it would be gone
    data = {
        "repository": model["id"],
        "commit": model["commit"],
        "claim": spec["claim"],
        "verify": level if deeper else new,
        "files": verdict["files"],
        "bytes": verdict["bytes"],
        "path": model["path"],
        "layout": model["layout"],
        "verified_at": before.get("verified_at") if deeper else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "problems": 0,
    }
    if spec["source"] == "proved" or level == data["verify"]:
        return data  # what is proved is not written again
    try:
        write_json(record_path(spec, model), data)
    except OSError as error:
        if spec["source"] == "download" and not model.get("adopted"):
            raise unwritten(record_path(spec, model), error) from error
        say("stage", f"the proof is kept in the cluster only: {not_writable(record_path(spec, model), error)}")
    return data


def prepare(spec: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    """The record of a checkpoint that is proved in the end. Raises Fail."""
    root, commit, level = directory(spec, model), model["commit"], spec["verify"]
    say("stage", f"looking for {model['id']} at {commit[:12]} in {root}")
    if spec["source"] != "download" or model.get("adopted"):
        return look(spec, model, root)
    verdict = _safetensors.check(root, commit, level)
    if proved(verdict, level):
        say("stage", "it is there and proved; the hub is not asked")
        return record(spec, model, verdict)
    for folder in [spec["mount"], *([root] if os.path.isdir(root) else [])]:
        try_writing(folder)
    with Writer(spec, model):
        return download(spec, model, root)


def unverifiable(root: str, model: dict[str, Any], level: str, verdict: dict[str, Any]) -> Fail:
    """Nothing is wrong with what is there, but it can't be shown."""
    why = "; ".join(verdict["not_checked"])
    return Fail(8, f"{model['id']} in {root}: {level} cannot be verified, nothing bad was found: {why}")


def look(spec: dict[str, Any], model: dict[str, Any], root: str) -> dict[str, Any]:
    """The record of a checkpoint that is there. A folder that somebody filled may lack the hub's listing: then it is
    proved to the level that its files allow, but sha256 is never claimed without."""
    level = spec["verify"]
    other = another_commit(root, model["commit"])
    if other:
        raise Fail(
            3,
            f"{root} says of itself that it holds commit {other[:12]}, not {model['commit'][:12]}: name that one"
            " (dynamo_model_commit), or another folder",
        )
    served = model["id"] == spec["models"][0]["id"]
    verdict = _safetensors.check(root, model["commit"], level, tokenizer=served)
    if verdict["state"] != "COMPLETE":
        raise Fail(_safetensors.EXIT[verdict["state"]], f"{model['id']} in {root}: {first_problems(verdict)}")
    if not proved(verdict, level) and (level == "sha256" or spec["source"] == "proved"):
        raise unverifiable(root, model, level, verdict)
    return record(spec, model, verdict)


def download(spec: dict[str, Any], model: dict[str, Any], root: str) -> dict[str, Any]:
    """Bring what is missing, verify, record. Raises Fail."""
    commit, level = model["commit"], spec["verify"]
    sweep(root, time.time() - _safetensors.WRITING)
    verdict = _safetensors.check(root, commit, level)  # another writer may have finished meanwhile
    if proved(verdict, level):
        return record(spec, model, verdict)
    files = ask_listing(model)
    with asking(model):
        write_json(_safetensors.listing_path(root, commit), {"format_version": 1, "files": files})
        wrong = {rel for rel in missing(root, files) if os.path.lexists(os.path.join(root, rel))}
        for rel in sorted(wrong | set(bad_files(verdict))):
            remove(root, rel)
        if (gone := [rel for rel in files if not os.path.exists(os.path.join(root, rel))]) and recorded(spec, model):
            say("stage", f"the proof of before is dropped, {len(gone)} files are missing")
            os.unlink(record_path(spec, model))  # of files that are fetched again it says nothing
    unlinked = {rel: size for rel, size in missing(root, files).items() if not blob_is_there(root, files[rel])}
    needed, free = sum(unlinked.values()), shutil.disk_usage(spec["mount"]).free
    if needed > free:
        raise Fail(
            6, f"{model['id']} needs {gigabytes(needed)} more, the claim {spec['claim']} has {gigabytes(free)} free"
        )
    for again in (True, False):
        with Progress(root, files, "download"):
            fetch(spec, model)
        sweep(root, STARTED)
        with Progress(root, files, "verify"):
            verdict = _safetensors.check(root, commit, level)
        if verdict["state"] != "CORRUPT" or not again:
            break
        with asking(model):
            for rel in bad_files(verdict):
                remove(root, rel)
    if verdict["state"] != "COMPLETE":
        raise Fail(_safetensors.EXIT[verdict["state"]], f"{model['id']} at {commit}: {first_problems(verdict)}")
    if not proved(verdict, level):
        raise unverifiable(root, model, level, verdict)
    return record(spec, model, verdict)


def prune(spec: dict[str, Any], model: dict[str, Any]) -> None:
    """Delete a checkpoint and the record in the volume. Of the hub's layout, also the blobs that no other commit uses.

    The record goes first: what is half deleted must not look proved.
    """
    root, mount = os.path.realpath(directory(spec, model)), os.path.realpath(spec["mount"])
    commit = model["commit"]
    if os.path.basename(root) not in (commit, commit[:12]) or not root.startswith(mount + os.sep):
        raise Fail(2, f"{root} is no directory of commit {commit[:12]} below {mount}: nothing is deleted")
    say("stage", f"deleting {model['id']} at {commit[:12]} in {root}")
    if os.path.lexists(record_path(spec, model)):
        os.unlink(record_path(spec, model))
    if os.path.isdir(root):
        shutil.rmtree(root)
    if model["layout"] == "hub":
        repository = os.path.dirname(os.path.dirname(root))
        used = {
            os.path.realpath(os.path.join(folder, name))
            for folder, _folders, names in os.walk(os.path.join(repository, "snapshots"))
            for name in names
        }
        blobs = os.path.join(repository, "blobs")
        for name in os.listdir(blobs) if os.path.isdir(blobs) else []:
            path = os.path.join(blobs, name)
            if path not in used and not name.endswith(".incomplete"):
                os.unlink(path)


def read_spec(text: str) -> dict[str, Any]:
    try:
        spec: dict[str, Any] = json.loads(text)
        for model in spec["models"]:
            if not re.fullmatch(r"[0-9a-f]{40}", model["commit"]) or model["layout"] not in ("folder", "hub"):
                raise ValueError(f"{model['id']} is not pinned to a commit, or its layout is unknown")
        if spec.setdefault("source", "download") not in SOURCES:
            raise ValueError(f"source {spec['source']!r} is none of {', '.join(SOURCES)}")
        if spec["verify"] not in _safetensors.LEVELS or not os.path.isdir(spec["mount"]):
            raise ValueError(f"verify {spec['verify']!r} or mount {spec['mount']!r} is wrong")
    except (ValueError, KeyError, TypeError) as error:
        raise Fail(2, f"the description of what to download is not valid: {error!r}") from error
    return spec


def main(arguments: list[str]) -> int:
    records: list[dict[str, Any]] = []
    code, message = 0, ""
    try:
        spec = read_spec(arguments[0] if arguments else "")
        for model in spec["models"]:
            if spec["source"] == "prune":
                prune(spec, model)
            else:
                records.append(prepare(spec, model))
    except Fail as fail:
        code, message = fail.args
    except (OSError, ValueError) as error:
        code, message = 3, f"{type(error).__name__}: {error}"
    token = os.environ.get("HF_TOKEN")
    message = " ".join((message.replace(token, "********") if token else message).split())[:1500]
    result = {"code": CODES.get(code, ""), "message": message, "records": records}
    text = json.dumps(result)
    if len(text) > 4000:  # the kubelet keeps 4096 bytes
        text = json.dumps({**result, "message": message[:300], "records": records[:5]})
    try:
        with open(TERMINATION_LOG, "w") as file:
            file.write(text)
    except OSError as error:
        say("stage", f"no termination message: {error}")
    say("record", text)
    return code


if __name__ == "__main__":
    # The first process of a container ignores SIGTERM otherwise, and its node would wait for the grace period.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    sys.exit(main(sys.argv[1:]))
