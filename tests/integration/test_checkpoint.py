# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user sees of each way in which a hub fails, and what is left when the download is killed.

Every host has a hub of its own, run by the test on this machine at the address of the container engine's network.
"""

from __future__ import annotations

import importlib.util
import re
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


# mode -> what one line of the output must say, and whether a download was tried
FAILURES = {
    "401": (r"cp-401.*TOKEN_MISSING|cp-401.*(gated or private)", False),
    "403": (r"cp-403.*(gated or private|refuses the token)", False),
    "404": (r"cp-404.*no repository MiniMaxAI/MiniMax-M3\.1-Flash", False),
    "429": (r"cp-429.*limits requests", False),
    "500": (r"cp-500.*HTTP 500", False),
    "truncate": (r"cp-truncate.*(stopped|not complete)", True),
    "corrupt": (r"cp-corrupt.*corrupt.*(wrong_hash|sha256 is)", True),
}


def test_what_a_user_sees(cluster: Lab, serve: Any, tmp_path: Path) -> None:
    hosts = {f"cp-{mode}": serve(mode, model_cache_verify="sha256")[1] for mode in FAILURES}
    hosts["cp-slow"] = serve("slow/20000")[1]
    cluster.remove(hosts)
    try:
        run = play("prepare.yml", inventory(tmp_path / "fleet", hosts), TARGET, "--forks=8")
        assert run.rc != 0
        for mode, (pattern, tried) in FAILURES.items():
            assert re.search(pattern, run.output), f"{mode}: no line matches {pattern}"
            records = [name for kind, name in cluster.objects(f"cp-{mode}") if name.startswith("checkpoint-")]
            jobs = [name for kind, name in cluster.objects(f"cp-{mode}") if kind == "Job"]
            assert (records, bool(jobs)) == ([], tried), mode
        assert run.recap("cp-slow")["failed"] == 0
        assert "Traceback" not in run.output
    finally:
        cluster.remove(hosts)


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
    finally:
        cluster.remove(["cp-life"])


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
