# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of the download Job, run as the pod runs it, against the lab's hub on a loopback port."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("huggingface_hub")

ROOT = Path(__file__).resolve().parents[3]
COMMIT = hashlib.sha1(b"small").hexdigest()


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lab = load(ROOT / "roles/lab/files/platform/hub.py")


# Importing huggingface_hub takes a second: it is done once, and every run is a fork of that process.
PARENT = """
import json, os, sys
from huggingface_hub import HfApi, snapshot_download
for line in sys.stdin:
    folder, env, spec = json.loads(line)
    pid = os.fork()
    if not pid:
        os.dup2(os.open(folder + "/stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.environ.update(env)
        sys.path.insert(0, folder)
        import download
        code = download.main([spec])
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Pod:
    """A volume, a hub, and the program with both."""

    def __init__(self, folder: Path, hub: Any, parent: subprocess.Popen[str]) -> None:
        self.hub, self.parent, self.folder, self.mount = hub, parent, folder, folder / "cache"
        self.mount.mkdir()
        for script in ("roles/model_cache/files/download.py", "plugins/module_utils/_safetensors.py"):
            shutil.copy(ROOT / script, folder)
        self.termination = folder / "termination-log"
        self.stdout = ""

    def model(self, name: str = "acme/small", layout: str = "folder", commit: str = COMMIT) -> dict[str, Any]:
        path = self.mount / name.split("/")[1] / commit[:12] if layout == "folder" else self.mount
        return {"id": name, "commit": commit, "layout": layout, "path": str(path)}

    def run(
        self, *models: dict[str, Any], verify: str = "sizes", token: str = "", source: str = "download"
    ) -> tuple[int, Any]:
        """(exit code, termination message). The log of the hub begins anew."""
        self.hub.log.clear()
        self.termination.unlink(missing_ok=True)
        spec = {"mount": str(self.mount), "claim": "cache", "verify": verify, "models": models or [self.model()]}
        spec["source"] = source
        env = {
            "MODEL_CACHE_STALE": "0.3",
            "MODEL_CACHE_TERMINATION_LOG": str(self.termination),
            **({"HF_TOKEN": token} if token else {}),
        }
        assert self.parent.stdin and self.parent.stdout
        self.parent.stdin.write(json.dumps([str(self.folder), env, json.dumps(spec)]) + "\n")
        self.parent.stdin.flush()
        code = int(self.parent.stdout.readline())
        self.stdout = (self.folder / "stdout").read_text()
        last = self.stdout.splitlines()[-1]
        assert last == "record " + self.termination.read_text()
        assert not token or token not in self.stdout
        return code, json.loads(last.removeprefix("record "))

    @property
    def root(self) -> Path:
        return self.mount / "small" / COMMIT[:12]

    def fetched(self) -> list[str]:
        """Names of the files that the hub has sent."""
        sent = [line.split(" ")[1] for line in self.hub.log if line.startswith("GET") and "/resolve/" in line]
        return sorted(path.rpartition("/")[2] for path in sent)


@pytest.fixture(scope="module")
def hub() -> Iterator[Any]:
    server = lab.make_server(0, tokens={"hf_goodtoken"})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def parent(hub: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    env = {k: v for k, v in os.environ.items() if not k.upper().endswith("_PROXY") and not k.startswith("HF_")}
    env |= {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": str(tmp_path_factory.mktemp("hf-home"))}
    env |= {f"HF_HUB_DISABLE_{name}": "1" for name in ("PROGRESS_BARS", "TELEMETRY", "UPDATE_CHECK")}
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin
        process.stdin.close()


@pytest.fixture
def pod(tmp_path: Path, hub: Any, parent: subprocess.Popen[str]) -> Pod:
    hub.repositories = lab.repositories()
    hub.repositories["acme/small"] = small = lab.Repository("acme/small", shards=3, commit=COMMIT)
    assert small.entries
    hub.modes.clear()
    return Pod(tmp_path, hub, parent)


SHARD = "model-00002-of-00003.safetensors"


def test_download_proof_and_second_run(pod: Pod) -> None:
    code, result = pod.run()
    assert (code, result["code"]) == (0, ""), result
    record = result["records"][0]
    files = pod.hub.repositories["acme/small"].files
    assert record["repository"], record["commit"] == ("acme/small", COMMIT)
    assert (record["verify"], record["problems"], record["path"]) == ("sizes", 0, str(pod.root))
    assert (record["files"], record["bytes"]) == (len(files), sum(map(len, files.values())))
    assert json.loads((pod.root / ".inferops-dynamo.json").read_text()) == record
    progress = [line for line in pod.stdout.splitlines() if line.startswith("progress {")]
    assert json.loads(progress[-1][9:])["files"] == len(files)
    code, result = pod.run()
    assert (code, result["records"][0]["bytes"], pod.hub.log) == (0, record["bytes"], [])


def test_proof_of_a_higher_level_is_kept_and_asked_for_offline(pod: Pod) -> None:
    assert pod.run()[0] == 0
    pod.hub.modes["*"] = "503"
    assert pod.run(verify="sha256")[1]["records"][0]["verify"] == "sha256"
    assert pod.run(verify="sizes")[1]["records"][0]["verify"] == "sha256"
    assert pod.hub.log == []


def test_a_file_that_was_fetched_again_is_proved_as_deeply_as_now(pod: Pod) -> None:
    """It came with one wrong byte, and sizes can't see it: the hashes of before are of another file."""
    assert pod.run(verify="sha256")[1]["records"][0]["verify"] == "sha256"
    (pod.root / SHARD).unlink()
    assert pod.run(source="proved", verify="sizes")[0] == 3
    pod.hub.modes[SHARD] = "corrupt"
    code, result = pod.run(verify="sizes")
    assert (code, result["records"][0]["verify"]) == (0, "sizes"), result
    assert json.loads((pod.root / ".inferops-dynamo.json").read_text())["verify"] == "sizes"


def test_a_deeper_proof_keeps_its_date(pod: Pod) -> None:
    assert pod.run(verify="sha256")[0] == 0
    place = pod.root / ".inferops-dynamo.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), "verified_at": "2026-01-01T00:00:00Z"}))
    record = pod.run(verify="headers")[1]["records"][0]
    assert (record["verify"], record["verified_at"]) == ("sha256", "2026-01-01T00:00:00Z")


def test_two_repositories_in_the_hub_layout(pod: Pod) -> None:
    models = [pod.model(layout="hub"), pod.model(lab.EAGLE3, "hub", pod.hub.repositories[lab.EAGLE3].commit)]
    code, result = pod.run(*models, verify="sha256")
    assert (code, len(result["records"])) == (0, 2), result
    snapshot = pod.mount / "hub" / "models--acme--small" / "snapshots" / COMMIT
    assert (snapshot / SHARD).is_symlink()
    assert (pod.mount / ".inferops-dynamo" / f"acme-small-{COMMIT[:12]}.json").is_file()
    assert pod.run(*models)[0] == 0
    assert pod.hub.log == []
    blob = (snapshot / SHARD).resolve()
    blob.write_bytes(blob.read_bytes()[:-1])
    assert pod.run(*models)[0] == 0
    assert pod.fetched() == [SHARD]


@pytest.mark.parametrize("damage", ["cut", "gone", "pointer", "zeros"])
def test_a_damaged_file_is_fetched_again(pod: Pod, damage: str) -> None:
    assert pod.run(verify="sha256")[0] == 0
    shard = pod.root / SHARD
    good, stamp = shard.read_bytes(), shard.stat().st_mtime_ns
    if damage == "gone":
        shard.unlink()
    else:
        bad = {"cut": good[:-1], "pointer": b"version https://git-lfs", "zeros": bytes(len(good))}
        shard.write_bytes(bad[damage])
        os.utime(shard, ns=(stamp, stamp))  # as bad storage leaves it: huggingface_hub alone would trust it
    code, result = pod.run(verify="sha256")
    assert (code, pod.fetched(), shard.read_bytes() == good) == (0, [SHARD], True), result


def test_flipped_bit_without_proof_is_found_by_sha256(pod: Pod) -> None:
    assert pod.run()[0] == 0
    shard = pod.root / SHARD
    good = shard.read_bytes()
    shard.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert pod.run()[0] == 0, "sizes cannot see it, and says so"
    assert pod.run(verify="sha256")[0] == 0
    assert (pod.fetched(), shard.read_bytes() == good) == ([SHARD], True)


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("401", "check the token"),
        ("403", "gated"),
        ("404", "has no acme/small"),
    ],
)
def test_refusals(pod: Pod, mode: str, text: str) -> None:
    pod.hub.modes["*"] = mode
    code, result = pod.run(token="hf_goodtoken")
    assert (code, result["code"], result["records"]) == (5, "HUB_ACCESS", [])
    assert text in result["message"]


def test_gated_repository(pod: Pod) -> None:
    model = pod.model(lab.GATED, commit=pod.hub.repositories[lab.GATED].commit)
    assert pod.run(model)[1]["message"].startswith("HTTP 401")
    assert pod.run(model, token="hf_badtoken")[1]["message"].startswith("HTTP 403")
    assert pod.run(model, token="hf_goodtoken")[0] == 0


def test_a_cut_download_goes_on_where_it_stopped(pod: Pod) -> None:
    pod.hub.modes["*"] = "truncate"
    assert pod.run()[0] == 3
    assert not (pod.root / SHARD).exists()
    pod.hub.modes.clear()
    partial = pod.root / ".cache" / "huggingface" / "download" / "x.y.incomplete"
    partial.write_bytes(b"12")
    os.utime(partial, (1, 1))
    assert pod.run()[0] == 0
    assert not partial.exists()
    assert "config.json" not in pod.fetched(), "what was there in its size is kept"


def test_wrong_bytes_of_the_right_size(pod: Pod) -> None:
    files = pod.hub.repositories["acme/small"].files
    files[SHARD] = bytes(len(files[SHARD]))
    code, result = pod.run(verify="sha256")
    assert (code, result["code"]) == (4, "CHECKPOINT_CORRUPT")
    assert SHARD in result["message"]
    assert pod.fetched().count(SHARD) == 2
    assert not (pod.root / ".inferops-dynamo.json").exists()


def test_a_listing_that_leads_elsewhere_deletes_nothing(pod: Pod) -> None:
    assert pod.run()[0] == 0
    served = pod.root / SHARD
    pod.hub.repositories["acme/small"].entries.append(
        {"type": "file", "path": f"../{COMMIT[:12]}/{SHARD}", "size": 1, "oid": "1" * 40}
    )
    code, result = pod.run(pod.model(commit=COMMIT) | {"path": str(pod.mount / "small" / "other")})
    assert code == 3 and "is no file of a repository" in result["message"]
    assert served.is_file()


def test_a_folder_that_says_it_is_another_commit_proves_nothing(pod: Pod) -> None:
    assert pod.run()[0] == 0
    asked = pod.model() | {"commit": "f" * 40, "adopted": True}
    for source in ("populated", "proved"):
        code, result = pod.run(asked, source=source)
        assert code == 3 and f"holds commit {COMMIT[:12]}" in result["message"]
    shutil.rmtree(pod.root / ".cache")
    assert pod.run(asked, source="populated")[0] == 3, "our record says it, too"
    (pod.root / ".inferops-dynamo.json").unlink()
    assert pod.run(asked, source="populated")[0] == 0


def test_no_space(pod: Pod) -> None:
    entry = next(e for e in pod.hub.repositories["acme/small"].entries if e["path"] == SHARD)
    entry["size"] = entry["lfs"]["size"] = 1 << 60
    code, result = pod.run()
    assert (code, result["code"], pod.fetched()) == (6, "NO_SPACE", [])


def test_a_writer_that_has_stopped_is_taken_over_from(pod: Pod) -> None:
    writer = pod.mount / ".inferops-dynamo" / f"acme-small-{COMMIT[:12]}.writer"
    writer.parent.mkdir()
    writer.write_text('{"writer": "killed 1", "beat": 3}')
    assert pod.run()[0] == 0
    assert "has stopped" in pod.stdout
    assert not writer.exists()


def test_what_somebody_else_filled_is_only_looked_at(pod: Pod) -> None:
    code, result = pod.run(source="populated")
    assert (code, result["code"], pod.hub.log) == (3, "CHECKPOINT_INCOMPLETE", [])
    assert pod.run()[0] == 0
    record = (pod.root / ".inferops-dynamo.json").read_bytes()
    shutil.rmtree(pod.root / ".cache")
    code, result = pod.run(source="populated")
    assert (code, result["records"][0]["verify"]) == (0, "sizes"), "the record is as good as before"
    code, result = pod.run(source="populated", verify="sha256")
    assert (code, result["code"]) == (8, "CHECKPOINT_UNVERIFIED"), "nothing there to compare with, and nothing bad"
    assert (pod.root / ".inferops-dynamo.json").read_bytes() == record


def test_a_model_that_drafts_for_another_needs_no_tokenizer(pod: Pod) -> None:
    models = [pod.model(), pod.model(lab.EAGLE3, commit=pod.hub.repositories[lab.EAGLE3].commit)]
    assert pod.run(*models)[0] == 0
    for model in models:
        shutil.rmtree(Path(model["path"]) / ".cache")
    for path in Path(models[1]["path"]).glob("tokenizer*"):
        path.unlink()
    assert pod.run(*models, source="populated")[0] == 0
    assert pod.run(*reversed(models), source="populated")[1]["code"] == "CHECKPOINT_INCOMPLETE"


def test_an_adopted_folder_is_never_downloaded_to(pod: Pod) -> None:
    assert pod.run({**pod.model(), "adopted": True})[0] == 3
    assert pod.hub.log == []


def test_looking_again_writes_nothing(pod: Pod) -> None:
    assert pod.run()[0] == 0
    before = {path: path.stat().st_mtime_ns for path in pod.mount.rglob("*")}
    assert pod.run(source="proved", verify="sha256")[1]["records"][0]["verify"] == "sha256"
    assert {path: path.stat().st_mtime_ns for path in pod.mount.rglob("*")} == before
    shard = pod.root / SHARD
    shard.write_bytes(shard.read_bytes()[:-1] + b"!")
    code, result = pod.run(source="proved", verify="sha256")
    assert (code, result["code"], shard.exists()) == (4, "CHECKPOINT_CORRUPT", True)


def test_a_volume_that_cannot_be_written(pod: Pod) -> None:
    (pod.mount / ".inferops-dynamo").write_text("in the way")
    assert pod.run()[1]["code"] == "CACHE_NOT_WRITABLE"


def test_unpinned_is_refused(pod: Pod) -> None:
    assert pod.run(pod.model(commit="main"))[1]["code"] == "USAGE"


def test_program_without_arguments(pod: Pod) -> None:
    env = {**os.environ, "MODEL_CACHE_TERMINATION_LOG": str(pod.termination)}
    command = [sys.executable, str(pod.folder / "download.py")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(pod.termination.read_text())["code"]) == (2, "USAGE"), done.stderr


def test_an_old_commit_is_deleted_and_the_new_one_stays(pod: Pod) -> None:
    assert pod.run()[0] == 0
    pod.hub.repositories["acme/small"] = later = pod.hub.repositories["acme/small"].next()
    assert pod.run(pod.model(commit=later.commit))[0] == 0
    code, result = pod.run(pod.model(), source="prune")
    assert (code, result["records"], pod.root.exists()) == (0, [], False)
    assert pod.run(pod.model(), source="prune")[0] == 0, "killed half-way, it can be run again"
    pod.hub.log.clear()
    assert pod.run(pod.model(commit=later.commit))[0] == 0
    assert pod.hub.log == []


def test_blobs_that_another_commit_uses_stay(pod: Pod) -> None:
    old, later = pod.model(layout="hub"), pod.hub.repositories["acme/small"].next()
    assert pod.run(old)[0] == 0
    pod.hub.repositories["acme/small"] = later
    new = pod.model(layout="hub", commit=later.commit)
    assert pod.run(new)[0] == 0
    blobs = pod.mount / "hub" / "models--acme--small" / "blobs"
    before = len(list(blobs.iterdir()))
    assert pod.run(old, source="prune")[0] == 0
    assert not (blobs.parent / "snapshots" / COMMIT).exists()
    assert not (pod.mount / ".inferops-dynamo" / f"acme-small-{COMMIT[:12]}.json").exists()
    assert len(list(blobs.iterdir())) == before - 3, "three shards; the rest both commits have"
    assert pod.run(new, verify="sha256")[0] == 0
    assert pod.hub.log == []


@pytest.mark.parametrize("path", ["/", ".", "..", "small", "../elsewhere/" + COMMIT[:12]])
def test_only_a_directory_of_the_commit_in_the_volume_is_deleted(pod: Pod, path: str) -> None:
    assert pod.run()[0] == 0
    outside = pod.mount.parent / "elsewhere" / COMMIT[:12]
    outside.mkdir(parents=True)
    code, result = pod.run({**pod.model(), "path": str(pod.mount / path)}, source="prune")
    assert (code, pod.root.is_dir(), outside.is_dir()) == (2, True, True), result
