# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what is proved about the pods of a release without a GPU, while the old ones still serve. Pure.

A pod of each template that the API server would take (dry run), and new images pulled on the nodes they are for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._diagnose import read_refusal
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._findings import Finding, finding
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import Manifest
from ansible_collections.inferops.dynamo.plugins.module_utils._objects import HARMLESS, LABELS

SMALL = {"requests": {"cpu": "1m", "memory": "16Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}


def sample_pods(manifest: Manifest) -> dict[str, Manifest]:
    """A Pod from the template of each component that wants one; what the operator adds to it is not there."""
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    pods = {}
    for component in manifest["spec"].get("components") or []:
        template = component.get("podTemplate") or {}
        if component.get("replicas", 1) and template.get("spec"):
            given = template.get("metadata") or {}
            meta = {key: given[key] for key in ("labels", "annotations") if given.get(key)}
            meta.update(name=f"{name[:40]}-{component['name'].lower()[:15]}-sample", namespace=namespace)
            pods[component["name"]] = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
    return pods


def judge_pod(component: str, error: DynamoError, live: bool) -> Finding:
    """What the API server's refusal of a sample means. live: pods of the release may hold the quota themselves."""
    if error.code in ("FORBIDDEN", "NO_CLUSTER", "API_ERROR"):
        return finding("UNKNOWN", error.code, f"the pods of {component} can't be tried: {error.message}", error.hint)
    code, hint, budget = read_refusal(error.message)
    message = f"the pods of {component} would be refused: {error.message}"
    if error.result.get("status") == 422:
        return finding("FAIL", "DGD_REFUSED", message, "correct dynamo_binding, or the recipe")
    if budget == "slow" or (code == "QUOTA_EXCEEDED" and live):
        return finding("UNKNOWN", code, message, hint)
    return finding("FAIL", code, message, hint)


def pulls(live: Manifest, wanted: Manifest, nodes: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """Images that the change brings, by node: {image, node, secrets}. nodes: where the pods of each component go."""
    present = {image for component in live["spec"]["components"] for image in _images(component)}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for component in wanted["spec"]["components"]:
        pod = (component.get("podTemplate") or {}).get("spec") or {}
        for image in [i for i in _images(component) if i not in present]:
            for node in nodes.get(component["name"]) or []:
                secrets = list(pod.get("imagePullSecrets") or [])
                found[image, node] = {"image": image, "node": node, "secrets": secrets}
    return [found[key] for key in sorted(found)]


def _images(component: Mapping[str, Any]) -> list[str]:
    pod = (component.get("podTemplate") or {}).get("spec") or {}
    containers = [*(pod.get("initContainers") or []), *(pod.get("containers") or [])]
    return [str(container["image"]) for container in containers if container.get("image")]


def pull_jobs(name: str, namespace: str, wanted: list[Mapping[str, Any]], deadline: int) -> list[Manifest]:
    """A Job for each entry of `pulls` whose pod does nothing; it asks for no GPU, and goes by itself."""
    jobs = []
    for entry in wanted:
        which = hashlib.sha256(f"{entry['image']} {entry['node']}".encode()).hexdigest()[:8]
        container = {
            "name": "pull",
            "image": entry["image"],
            "command": ["sh", "-c", "exit 0"],
            "resources": SMALL,
            "securityContext": HARMLESS,
        }
        pod = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "nodeName": entry["node"],
            "tolerations": [{"operator": "Exists"}],
            "imagePullSecrets": list(entry["secrets"]),
            "containers": [container],
        }
        spec = {
            "backoffLimit": 0,
            "activeDeadlineSeconds": deadline,
            "ttlSecondsAfterFinished": 300,
            "template": {"spec": pod},
        }
        meta = {"name": f"{name[:45]}-pull-{which}", "namespace": namespace, "labels": dict(LABELS)}
        jobs.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
    return jobs
