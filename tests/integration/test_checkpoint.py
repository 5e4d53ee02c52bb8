# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a checkpoint: killed, repeated, verified, followed by another commit, deleted.

The hub is run by the test on this machine, at the address of the container engine's network.
"""

from __future__ import annotations

import importlib.util
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab import CONTEXT, ROOT, Lab, inventory, play, versions

TARGET = "--extra-vars=target=sglang-gb300"
JOB = "minimax-m3-1-model-download"


def hub_program() -> Any:
    spec = importlib.util.spec_from_file_location("hub", ROOT / "roles/lab/files/platform/hub.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hub = hub_program()


def gateway() -> str:
    """This machine as pods of the lab reach it."""
    node = CONTEXT.removeprefix("kind-") + "-control-plane"
    command = ["docker", "inspect", "-f", "{{.NetworkSettings.Networks.kind.Gateway}}", node]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[Any, dict[str, Any]]]]:
    """A hub with a small checkpoint in this mode, and the variables of a host that uses it."""
    servers: list[tuple[Any, threading.Thread]] = []

    def make(mode: str = "ok", **variables: Any) -> tuple[Any, dict[str, Any]]:
        server = hub.make_server(0, "0.0.0.0", {"hf_right"})
        server.repositories[hub.FLASH] = hub.Repository(hub.FLASH, shards=3)
        server.modes[hub.FLASH] = mode
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        servers.append((server, thread))
        endpoint = f"http://{gateway()}:{server.server_port}"
        retries = {"model_cache_backoff_limit": 0}
        return server, {"dynamo_hub_endpoint": endpoint, **retries, **variables}

    yield make
    for server, thread in servers:
        server.modes.clear()
        server.shutdown()
        server.server_close()
        thread.join()


def jobs(cluster: Lab, namespace: str) -> list[str]:
    return sorted(name for kind, name in cluster.objects(namespace) if kind == "Job")


def test_killed_repeated_and_a_new_commit(cluster: Lab, serve: Any, tmp_path: Path) -> None:
    server, variables = serve("hold/1000")
    fleet = inventory(tmp_path / "fleet", {"cp-life": variables})
    cluster.remove(["cp-life"])
    try:
        first = server.repositories[hub.FLASH].commit
        threading.Thread(target=kill_once, args=(cluster, server), daemon=True).start()
        assert play("prepare.yml", fleet, TARGET, "--extra-vars=model_cache_backoff_limit=3").rc == 0
        assert jobs(cluster, "cp-life") == [f"{JOB}-{first[:8]}"]
        accept_as_restricted(cluster, cluster.objects("cp-life")["Job", f"{JOB}-{first[:8]}"])

        server.log.clear()
        before = versions(cluster.objects("cp-life"))
        again = play("prepare.yml", fleet, TARGET)
        assert (again.rc, again.recap("cp-life")["changed"]) == (0, 0)
        assert versions(cluster.objects("cp-life")) == before
        assert server.log == [], "what is proved is not asked for"

        looked = play("prepare.yml", fleet, TARGET, "--extra-vars=model_cache_verify=sha256")
        assert looked.rc == 0
        assert f"{JOB}-{first[:8]}-verify" in jobs(cluster, "cp-life")
        assert server.log == []

        server.repositories[hub.FLASH] = server.repositories[hub.FLASH].next()
        second = server.repositories[hub.FLASH].commit
        assert play("prepare.yml", fleet, TARGET, "--extra-vars=model_update=true").rc == 0
        assert f"{JOB}-{second[:8]}" in jobs(cluster, "cp-life")
        # back to the first: it is still there and proved
        server.log.clear()
        back = play("prepare.yml", fleet, TARGET, f"--extra-vars=dynamo_model_commit={first}")
        assert (back.rc, back.recap("cp-life")["changed"], server.log) == (0, 0, [])

        pruned = play(
            "prepare.yml", fleet, TARGET, "--extra-vars=model_cache_prune=true", f"-edynamo_model_commit={first}"
        )
        assert pruned.rc == 0
        records = [name for _kind, name in cluster.objects("cp-life") if name.startswith("checkpoint-")]
        assert [name for name in records if name.endswith(second[:12])] == []
        assert len(records) == 1
        looked = play("prepare.yml", fleet, TARGET, "-emodel_cache_verify=sha256", f"-edynamo_model_commit={first}")
        assert (looked.rc, server.log) == (0, [])
        flip_a_bit(cluster, first)
        damaged = play("prepare.yml", fleet, TARGET, "-emodel_cache_verify=sha256", f"-edynamo_model_commit={first}")
        assert damaged.rc != 0 and "CHECKPOINT_CORRUPT" in damaged.output
        mended = play("prepare.yml", fleet, TARGET, f"-edynamo_model_commit={first}")
        assert mended.rc == 0
        fetched = {line.split()[1].rpartition("/")[2] for line in server.log if "/resolve/" in line}
        assert [name for name in fetched if name.endswith(".safetensors")] == ["model-00002-of-00003.safetensors"]
        looked = play("prepare.yml", fleet, TARGET, "-emodel_cache_verify=sha256", f"-edynamo_model_commit={first}")
        assert looked.rc == 0
    finally:
        cluster.remove(["cp-life"])


def accept_as_restricted(cluster: Lab, job: dict[str, Any]) -> None:
    """Pod Security `restricted` takes the Job's pod, or this raises."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.remove(["cp-restricted"])
    cluster.core.create_namespace({"metadata": {"name": "cp-restricted", "labels": labels}})
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "download"}, "spec": job["spec"]["template"]["spec"]}
    cluster.core.create_namespaced_pod("cp-restricted", pod, dry_run="All")
    cluster.remove(["cp-restricted"])


def flip_a_bit(cluster: Lab, commit: str) -> None:
    """In the data of a shard, past the pods, as failing storage does."""
    (claim,) = [item for (kind, _name), item in cluster.objects("cp-life").items() if kind == "PersistentVolumeClaim"]
    folder = f"/var/lib/inferops-lab/pvc-{claim['metadata']['uid']}/MiniMax-M3.1-Flash/{commit[:12]}"
    shell = f"printf X | dd of={folder}/model-00002-of-00003.safetensors bs=1 seek=9000 conv=notrunc"
    node = CONTEXT.removeprefix("kind-") + "-control-plane"
    subprocess.run(["docker", "exec", node, "sh", "-c", shell], check=True)


@pytest.mark.long
def test_killed_at_any_point_and_run_again_ends_in_a_proof(cluster: Lab, serve: Any, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    server, variables = serve()
    fleet = inventory(tmp_path / "fleet", {"cp-chance": variables})
    cluster.remove(["cp-chance"])
    try:
        for _attempt in range(6):
            server.modes[hub.FLASH] = f"hold/{chance.randrange(hub.SHARD_BYTES)}"
            killer = threading.Thread(target=kill, args=(cluster, "cp-chance", chance.uniform(0, 4)))
            killer.start()
            assert play("prepare.yml", fleet, TARGET).rc != 0, f"seed {seed}"
            killer.join()
        server.modes.clear()
        assert play("prepare.yml", fleet, TARGET).rc == 0, f"seed {seed}"
        assert play("prepare.yml", fleet, TARGET, "--extra-vars=model_cache_verify=sha256").rc == 0, f"seed {seed}"
    finally:
        cluster.remove(["cp-chance"])


def kill(cluster: Lab, namespace: str, delay: float) -> None:
    """Deletes the first pod that runs, so many seconds after it was seen."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        pods = [pod for pod in cluster.pods(namespace) if pod.status.phase == "Running"]
        if pods:
            time.sleep(delay)
            cluster.core.delete_namespaced_pod(pods[0].metadata.name, namespace, grace_period_seconds=0)
            return
        time.sleep(0.3)


def kill_once(cluster: Lab, server: Any) -> None:
    """Deletes the download's pod when the hub holds a shard back, and lets the next one have it."""
    end = time.monotonic() + 240
    while time.monotonic() < end:
        sent = [line for line in list(server.log) if line.startswith("GET") and ".safetensors " in line]
        pods = [pod for pod in cluster.pods("cp-life") if pod.status.phase == "Running"] if sent else []
        if pods:
            time.sleep(2)
            cluster.core.delete_namespaced_pod(pods[0].metadata.name, "cp-life", grace_period_seconds=1)
            time.sleep(5)
            server.modes.clear()
            return
        time.sleep(0.5)
