# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installs the lab's platform in a cluster: CRDs, the stand-in operator, the ComputeDomain controller with its DRA
plugin, the model hub and an image registry. Runs on the controller. Progress goes to standard error; the last line on
standard output is JSON: {"changed": bool}. A second run changes nothing."""

from __future__ import annotations

import argparse
import hashlib
import json
import string
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import podschema
import yaml
from kubernetes import client, config
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import NotFoundError, ResourceNotFoundError

HERE = Path(__file__).resolve().parent
MANAGER = "inferops-lab"
PROGRAMS = (
    "kube",
    "admission",
    "render",
    "rollout",
    "status",
    "controller",
    "compute_domain",
    "dra_plugin",
    "hub",
    "registry",
    "provisioner",
)
RUNTIMES = [r"nvcr\.io/nvidia/ai-dynamo/(vllm|sglang|tensorrtllm)-runtime:1\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?"]

Object = dict[str, Any]


def say(text: str) -> None:
    print(f"lab platform: {text}", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--context", help="default: the kubeconfig's current one")
    parser.add_argument("--image", required=True, help="the lab's runtime image, present on every node")
    parser.add_argument(
        "--crds", action="append", default=[], help="directory of definitions that replace ours; repeatable"
    )
    parser.add_argument(
        "--known-image", action="append", default=[], help="one more image that the lab runs (regular expression)"
    )
    parser.add_argument(
        "--hub-token", action="append", default=[], help="token that opens the gated repository; repeatable"
    )
    parser.add_argument("--operator-version", default="1.6.0")
    parser.add_argument("--status-delay", default="0.1", help="seconds from a new generation to its first status")
    parser.add_argument("--timeout", type=float, default=300)
    return parser.parse_args()


# ---- what to apply ---------------------------------------------------------------------------------------------------
def definitions(directories: list[str], schemas: dict[str, Any]) -> Iterator[Object]:
    """Our CRDs, each replaced by one of the same name in the directories; others found there come too."""
    found: dict[str, Object] = {}
    for file in sorted((HERE.parent / "crds").glob("*.yaml")):
        crd = yaml.safe_load(file.read_text(encoding="utf-8"))
        found[crd["metadata"]["name"]] = podschema.fill(crd, schemas)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the real ones are 1.6 MB each
    for directory in directories:
        for file in sorted(Path(directory).glob("*.yaml")):
            for crd in yaml.load_all(file.read_text(encoding="utf-8"), Loader=loader):
                if crd and crd.get("kind") == "CustomResourceDefinition":
                    found[crd["metadata"]["name"]] = podschema.only_beta(podschema.fill(crd, schemas))
    yield from found.values()


def platform(args: argparse.Namespace) -> Iterator[Object]:
    programs = {f"{name}.py": (HERE / f"{name}.py").read_text(encoding="utf-8") for name in PROGRAMS}
    values = {
        "image": args.image,
        "programs": hashlib.sha256(json.dumps(programs).encode()).hexdigest()[:16],
        "known_images": json.dumps([*RUNTIMES, *args.known_image]).replace("'", "''"),
        "operator_version": args.operator_version,
        "status_delay": args.status_delay,
        "hub_tokens": " ".join(args.hub_token),
    }
    text = string.Template((HERE / "platform.yaml").read_text(encoding="utf-8")).substitute(values)
    for obj in yaml.safe_load_all(text):
        yield obj
        if obj["kind"] == "Namespace":
            metadata = {"name": "lab-platform", "namespace": obj["metadata"]["name"]}
            yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": programs}


# ---- cluster ---------------------------------------------------------------------------------------------------------
class Cluster:
    def __init__(self, kubeconfig: str, context: str | None) -> None:
        api = config.new_client_from_config(kubeconfig, context)
        self.dynamic = DynamicClient(api)
        self.changed = False

    def schemas(self) -> dict[str, Any]:
        answer = self.dynamic.request(
            "GET", "/openapi/v3/apis/apps/v1", header_params={"Accept": "application/json"}, serialize=False
        )
        result: dict[str, Any] = json.loads(answer.data)["components"]["schemas"]
        return result

    def apply(self, obj: Object) -> None:
        meta = obj["metadata"]
        place = {"name": meta["name"], "namespace": meta.get("namespace")}
        resource = self.dynamic.resources.get(api_version=obj["apiVersion"], kind=obj["kind"])
        try:
            before = resource.get(**place).metadata.resourceVersion
        except NotFoundError:
            before = None
        after = resource.server_side_apply(obj, field_manager=MANAGER, force_conflicts=True, **place)
        if after.metadata.resourceVersion != before:
            self.changed = True
            say(f"{'created' if before is None else 'changed'} {obj['kind']} {meta['name']}")

    def waiting(self, obj: Object) -> str:
        """What an object still lacks; empty when it is ready."""
        meta = obj["metadata"]
        resource = self.dynamic.resources.get(api_version=obj["apiVersion"], kind=obj["kind"])
        live = resource.get(name=meta["name"], namespace=meta.get("namespace")).to_dict()
        status = live.get("status") or {}
        if obj["kind"] == "CustomResourceDefinition":
            established = any(
                c["type"] == "Established" and c["status"] == "True" for c in status.get("conditions") or []
            )
            return "" if established else "not established"
        if status.get("observedGeneration", 0) < live["metadata"]["generation"]:
            return "not seen yet"
        if obj["kind"] == "DaemonSet":
            desired, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
            updated = status.get("updatedNumberScheduled", 0)
        else:
            desired, ready = live["spec"]["replicas"], status.get("availableReplicas", 0)
            updated = status.get("updatedReplicas", 0)
        return "" if ready >= desired and updated >= desired and desired else f"{ready} of {desired} ready"

    def wait(self, objects: list[Object], timeout: float) -> None:
        end, told = time.monotonic() + timeout, 0.0
        while True:
            left = {f"{o['kind']} {o['metadata']['name']}": self.waiting(o) for o in objects}
            left = {name: why for name, why in left.items() if why}
            if not left:
                return
            text = ", ".join(f"{name} ({why})" for name, why in left.items())
            if time.monotonic() > end:
                sys.exit(f"lab platform: after {timeout:.0f} s still waiting for {text}")
            if time.monotonic() - told > 10:
                say(f"waiting for {text}")
                told = time.monotonic()
            time.sleep(0.5)


def main() -> None:
    args = arguments()
    cluster = Cluster(args.kubeconfig, args.context)
    crds = list(definitions(args.crds, cluster.schemas()))
    for crd in crds:
        cluster.apply(crd)
    cluster.wait(crds, args.timeout)
    objects = list(platform(args))
    for obj in objects:
        cluster.apply(obj)
    cluster.wait([o for o in objects if o["kind"] in ("Deployment", "DaemonSet")], args.timeout)
    print(json.dumps({"changed": cluster.changed}))


if __name__ == "__main__":
    try:
        main()
    except (client.ApiException, ResourceNotFoundError, OSError, config.ConfigException) as error:
        sys.exit(f"lab platform: {error}")
