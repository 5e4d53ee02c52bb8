# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The vendor's Kustomize starter, filled in and built by standalone kustomize v5.8.1, to compare with."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from .test__catalog import UPSTREAM

CACHE = Path(os.environ.get("INFEROPS_CACHE") or Path.home() / ".cache/inferops-dynamo")
KUSTOMIZE = CACHE / "bin/kustomize-v5.8.1"
STARTER = UPSTREAM / "yueying-AIHorizon__dynamo/recipes/templates/kustomize"
OPENAPI = UPSTREAM / "wxsms__dynamo/recipes/kustomize/components/dynamo-openapi"
# The patch of provider-networking/gke-roce/disagg is not among the stored files: its content, as the facts describe it.
ROCE = "provider-networking/gke-roce"
# The order that the starter requires.
COMPONENTS = (
    "cache-binding",
    "registry-credentials",
    "probes",
    "scheduling",
    "network-interface",
    "provider-networking/ib",
    ROCE,
    "placement",
)
ROLES = ("frontend", "worker", "prefill", "decode")
FILLED: dict[str, Any] = {
    "your-model-cache-claim": "models",
    "your-pull-secret": "ngc",
    "your-node-pool-label": "pool",
    "your-scheduler-name": "kai-scheduler",
    "your-runtime-class-name": "nvidia",
    "your-priority-class-name": "serving",
    "your-topology-key": "nvidia.com/gpu.clique",
    "your-rdma.example.com/device": "rdma/ib",
    **{f"your-{role}-node-pool": f"{role}-nodes" for role in ROLES},
    **{f"your-{role}-taint-key": "nvidia.com/gpu" for role in ROLES},
    **{f"your-{role}-taint-value": f"{role}-only" for role in ROLES},
    **{f"your-{role}-startup-failure-threshold": 1440 for role in ROLES},
    **{f"your-{role}-socket-interface": "eth0" for role in ROLES},
    **{f"your-{role}-nccl-socket-interface": "eth0" for role in ROLES},
    **{f"your-{role}-gloo-socket-interface": "eth1" for role in ROLES},
    **{f"your-{role}-rdma-resource-count": "4" for role in ROLES},
    **{f"your-{role}-rdma-resource-quantity": "4" for role in ROLES},
    **{f"your-{role}-rdma.example.com/resource": "rdma/ib" for role in ROLES},
    **{f"your-{role}-ucx-device-list": f"mlx5_{role}:1" for role in ROLES},
    "your-kv-transfer-config": '{"kv_connector":"NixlConnector","kv_role":"kv_both"}',
    "your-sglang-nixl-backend": "UCX",
}


def filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {filled(key): filled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item) for item in value]
    if isinstance(value, str) and value.startswith("your-"):
        return FILLED[value]
    return value


def roce() -> dict[str, Any]:
    devices = {f"networking.gke.io.networks/rdma-{n}{suffix}": "1" for n in range(4) for suffix in ("", ".IP")}
    pairs = ",".join(f'{{"interfaceName":"eth{n + 2}","network":"rdma-{n}"}}' for n in range(4))
    annotations = {
        "networking.gke.io/default-interface": "eth0",
        "networking.gke.io/interfaces": f'[{{"interfaceName":"eth0","network":"default"}},{pairs}]',
    }
    env = {"NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth1", "NCCL_CROSS_NIC": "0"}
    main = {
        "name": "main",
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "resources": {"requests": devices, "limits": devices},
    }
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [main]}}
    workers = [{"name": name, "podTemplate": template} for name in ("PrefillWorker", "DecodeWorker")]
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "canonical-recipe"},
        "spec": {"components": [{"name": "Frontend"}, *workers]},
    }


def patch_of(component: str, topology: str) -> Any:
    if component == ROCE:
        return roce()
    return yaml.safe_load((STARTER / "components" / component / topology / "patch-dgd.yaml").read_text("utf-8"))


def needs_kustomize() -> None:
    if not STARTER.exists() or not OPENAPI.exists():
        pytest.skip(f"{STARTER.name} of upstream is not there: bindings are not compared with the vendor's starter")
    if not built():
        pytest.skip(f"{KUSTOMIZE.name} is not there and Go is not: bindings are not compared with kustomize")


@functools.cache
def built() -> bool:
    """Kustomize as make setup builds it, made now if it is not there."""
    go = shutil.which("go")
    if not KUSTOMIZE.exists() and go:
        place = CACHE / "gobin"
        place.mkdir(parents=True, exist_ok=True)
        KUSTOMIZE.parent.mkdir(parents=True, exist_ok=True)
        module = "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1"
        environment = {**os.environ, "GOBIN": str(place), "CGO_ENABLED": "0"}
        done = subprocess.run([go, "install", "-ldflags", "-s -w", module], env=environment, check=False)
        if not done.returncode:
            (place / "kustomize").replace(KUSTOMIZE)
    return KUSTOMIZE.exists()


def fill(directory: Path, base: Path, topology: str, components: dict[str, Any], patches: tuple[Any, ...] = ()) -> Path:
    """A user's private copy of the starter: the patch of every component (None: the starter's), filled in."""
    target = {"group": "nvidia.com", "version": "v1beta1", "kind": "DynamoGraphDeployment"}
    shutil.copytree(OPENAPI, directory / "components/dynamo-openapi")
    names = ["components/dynamo-openapi"]
    for component in sorted(components, key=COMPONENTS.index):
        place = directory / "components" / component / topology
        place.mkdir(parents=True)
        patch = components[component] if components[component] is not None else patch_of(component, topology)
        (place / "patch-dgd.yaml").write_text(yaml.safe_dump(filled(patch)), "utf-8")
        own = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
        own["patches"] = [{"target": target, "path": "patch-dgd.yaml"}]  # type: ignore[assignment]
        (place / "kustomization.yaml").write_text(yaml.safe_dump(own), "utf-8")
        names.append(str(place.relative_to(directory)))
    root: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [str(base)],
        "components": names,
        "patches": [{"target": target, "patch": yaml.safe_dump(filled(patch))} for patch in patches],
        "sortOptions": {"order": "fifo"},
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(root), "utf-8")
    return directory


def build(directory: Path) -> dict[tuple[str, str], Any]:
    """{(kind, name): object} of what kustomize makes of it; CalledProcessError with its words in stderr."""
    command = [str(KUSTOMIZE), "build", "--load-restrictor", "LoadRestrictionsNone", str(directory)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(done.stdout)}
