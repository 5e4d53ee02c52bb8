# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Somebody else applies what target.yml rendered; and a volume in place of a claim, which only root can write."""

from __future__ import annotations

import hashlib
import subprocess
import threading
import time
from pathlib import Path

import yaml
from lab import CONTEXT, DGD, Lab, binding, inventory, play, versions

TARGET = "--extra-vars=target=sglang-gb300"
COMMIT = hashlib.sha1(b"MiniMaxAI/MiniMax-M3.1-Flash@main").hexdigest()
NODE = CONTEXT.removeprefix("kind-") + "-control-plane"


def apply_when_there_is_a_namespace(cluster: Lab, namespace: str, file: Path) -> None:
    end = time.monotonic() + 240
    while namespace not in cluster.namespaces() and time.monotonic() < end:
        time.sleep(1)
    for manifest in yaml.safe_load_all(file.read_text("utf-8")):
        kind = cluster.dynamic.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
        body = {**manifest, "metadata": {"namespace": namespace, **manifest["metadata"]}}
        cluster.dynamic.server_side_apply(
            kind, body=body, name=manifest["metadata"]["name"], namespace=namespace, field_manager="gitops-test"
        )


def test_somebody_else_applies(cluster: Lab, tmp_path: Path) -> None:
    host, rendered = "gitops", tmp_path / "rendered.yaml"
    fleet = inventory(tmp_path / "fleet", {host: {"deploy_apply": False, "dynamo_model_commit": COMMIT}})
    cluster.remove([host])
    try:
        assert play("target.yml", fleet, TARGET, f"--extra-vars=target_output={rendered}").rc == 0
        controller = threading.Thread(target=apply_when_there_is_a_namespace, args=(cluster, host, rendered))
        controller.start()
        run = play("deploy.yml", fleet, TARGET)
        controller.join()
        assert run.rc == 0
        (deployed,) = [item for (kind, _name), item in cluster.objects(host).items() if kind == DGD[1]]
        managers = {entry["manager"] for entry in deployed["metadata"]["managedFields"]}
        assert "gitops-test" in managers and "inferops.dynamo" not in managers
        before = versions(cluster.objects(host))
        again = play("deploy.yml", fleet, TARGET)
        assert (again.rc, again.recap(host)["changed"]) == (0, 0)
        assert versions(cluster.objects(host)) == before
    finally:
        cluster.remove([host])


def test_a_volume_in_place_of_a_claim(cluster: Lab, tmp_path: Path) -> None:
    host, path = "cache-volume", "/var/lib/inferops-volume"
    volume = {"hostPath": {"path": path, "type": "DirectoryOrCreate"}}
    fleet = inventory(tmp_path / "fleet", {host: {"dynamo_binding": binding(cache_volume=volume)}})
    cluster.remove([host])
    try:
        refused = play("deploy.yml", fleet, TARGET)
        assert refused.rc != 0
        assert "uid 1000, gid 1000 cannot write" in refused.output and "model_cache_run_as" in refused.output
        run = play("deploy.yml", fleet, TARGET, "--extra-vars=model_cache_run_as=0")
        assert run.rc == 0
        assert not [name for kind, name in cluster.objects(host) if kind == "PersistentVolumeClaim"]
        assert cluster.ask(host, "minimax-m3-1-sglang-agg-gb300-frontend", "minimax-m3.1", "What is 2 + 2?").strip()
    finally:
        cluster.remove([host])
        subprocess.run(["docker", "exec", NODE, "rm", "-rf", path], check=True)
