# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster made of dictionaries, a scripted hub, and a small release: what a preflight looks at."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _hub
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import placeholder
from ansible_collections.inferops.dynamo.plugins.module_utils._preflight import RUNNING

COMMIT = "a" * 40
GPU = "nvidia.com/gpu"
OURS = {"app.kubernetes.io/part-of": "dynamo", "app.kubernetes.io/managed-by": "inferops.dynamo"}
LABELS = {**OURS, "inferops.dynamo/release": "dgd"}
NO_SURGE = {
    "nvidia.com/deployment-rolling-update-max-surge": "0",
    "nvidia.com/deployment-rolling-update-max-unavailable": "1",
}
DGD = ("nvidia.com/v1beta1", "DynamoGraphDeployment")


def worker(path: str, annotations: dict[str, str]) -> dict[str, Any]:
    resources = {"requests": {"cpu": "16", "memory": "128Gi"}, "limits": {GPU: "4"}}
    container = {"name": "main", "image": "x:1.6.0", "args": ["--model", path], "resources": resources}
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
    return {"name": "Worker", "type": "worker", "replicas": 1, "podTemplate": template}


def release(commit: str = COMMIT, annotations: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    path = f"/cache/tiny/{commit[:12] or placeholder('acme/tiny')}"
    frontend = {"name": "Frontend", "type": "frontend", "podTemplate": {"spec": {"containers": [{"name": "main"}]}}}
    manifest = {
        "apiVersion": DGD[0],
        "kind": DGD[1],
        "metadata": {"name": "dgd", "namespace": "llm", "labels": LABELS},
        "spec": {"components": [frontend, worker(path, NO_SURGE if annotations is None else annotations)]},
    }
    model = {
        "id": "acme/tiny",
        "commit": commit,
        "layout": "folder",
        "path": path,
        "files": 2,
        "bytes": None,
        "gated": None,
    }
    base = {
        "target": "m/sglang/agg-gb300",
        "replaces_target": "",
        "name": "dgd",
        "namespace": "llm",
        "applicable": True,
        "reason": "",
        "gpu_products": ["NVIDIA-GB300"],
        "models": [model],
        "mount": "/cache",
        "claim": {"name": "cache", "create": True, "storage_class": "nfs", "size": "1Gi", "volume_name": None},
        "secret": {"name": "hf", "key": "HF_TOKEN"},
        "job": {"name": "download", "env": {}},
        "compute_domain": None,
        "config_maps": [],
        "manifest": manifest,
        "timeouts": {"ready": 3600},
        "digest": "",
    }
    return copy.deepcopy({**base, **changes})


class FakeCluster:
    """The reading half of Cluster, and a server-side dry run that marks what it is given as the operator does."""

    context, server = "c1", "https://c1:6443"

    def __init__(self, *objects: dict[str, Any], absent: tuple[str, ...] = ("ComputeDomain",)) -> None:
        self.objects = list(objects)
        self.absent = absent
        self.forbidden: set[str] = set()
        self.calls: list[str] = []
        self.refusal: DynamoError | None = None
        self.pod_refusal: DynamoError | None = None
        self.operator = True

    def served(self, api_version: str, kind: str) -> bool:
        return kind not in self.absent

    def _guard(self, verb: str, kind: str) -> None:
        self.calls.append(f"{verb} {kind}")
        if kind in self.forbidden:
            raise DynamoError(f"not allowed to {verb} {kind}.", "FORBIDDEN")

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        self._guard("get", kind)
        return next((o for o in self.list_raw(kind, namespace) if o["metadata"]["name"] == name), None)

    def list_raw(self, kind: str, namespace: str | None) -> list[dict[str, Any]]:
        found = [o for o in self.objects if o["kind"] == kind]
        return [copy.deepcopy(o) for o in found if not namespace or o["metadata"].get("namespace") == namespace]

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[dict[str, Any]]:
        self._guard("list", kind)
        key, _sep, value = (label_selector or "").partition("=")
        found = self.list_raw(kind, namespace)
        if field_selector == RUNNING:
            found = [o for o in found if (o.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
        return [o for o in found if not key or (o["metadata"].get("labels") or {}).get(key) == value]

    def apply(self, obj: dict[str, Any], dry_run: bool = False, force: bool = False) -> dict[str, Any]:
        assert dry_run
        self.calls.append(f"dry run {obj['kind']} in {obj['metadata']['namespace']}")
        if obj["kind"] == "Pod":
            if self.pod_refusal:
                raise self.pod_refusal  # pylint: disable=raising-bad-type
            return obj
        if self.refusal:
            # core 2.18's pylint sees only the None of __init__
            raise self.refusal  # pylint: disable=raising-bad-type
        stored = copy.deepcopy(obj)
        if self.operator:
            stored["metadata"]["annotations"] = {
                "nvidia.com/workload-provider": "component",
                "nvidia.com/dynamo-operator-origin-version": "1.6.0",
            }
        return stored


def thing(kind: str, name: str, namespace: str | None = "llm", **more: Any) -> dict[str, Any]:
    labels = more.pop("labels", {})
    meta = {"name": name, "uid": f"uid-{name}", "labels": labels}
    if namespace:
        meta["namespace"] = namespace
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, **more}


def node(name: str = "n1", gpus: int = 4, product: str = "NVIDIA-GB300") -> dict[str, Any]:
    status = {"allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}}
    return thing("Node", name, None, labels={f"{GPU}.product": product}, status=status, spec={})


BARE = [
    thing("Namespace", "kube-system", None),
    thing("StorageClass", "nfs", None),
    node(),
]
CLAIM = thing("PersistentVolumeClaim", "cache", spec={"accessModes": ["ReadWriteMany"]}, status={"phase": "Bound"})
RECORD = thing(
    "ConfigMap",
    "checkpoint-acme-tiny-aaaaaaaaaaaa",
    labels={**OURS, "inferops.dynamo/checkpoint": "true"},
    data={
        "repository": "acme/tiny",
        "commit": COMMIT,
        "claim": "cache",
        "claim_uid": "uid-cache",
        "layout": "folder",
        "path": "/cache/tiny/aaaaaaaaaaaa",
        "verified_at": "2026-11-30T15:00:00Z",
        "problems": "0",
    },
)
CACHED = [*BARE, thing("Namespace", "llm", None), CLAIM, RECORD]


def live(of: dict[str, Any], ready: int = 1) -> dict[str, Any]:
    stored = FakeCluster().apply(of["manifest"], dry_run=True)
    stored["metadata"].update(uid="uid-dgd", generation=1, resourceVersion="5")
    condition = {"type": "Ready", "status": "True" if ready else "False", "message": "Resources not ready"}
    counts = {"Worker": {"readyReplicas": ready}, "Frontend": {"readyReplicas": 1}}
    stored["status"] = {"observedGeneration": 1, "conditions": [condition], "components": counts}
    return stored


def worker_pod(place: str = "n1") -> dict[str, Any]:
    labels = {"nvidia.com/dynamo-graph-deployment-name": "dgd"}
    spec = {"nodeName": place, "containers": [{"resources": {"limits": {GPU: "4"}}}]}
    return thing("Pod", "dgd-worker", labels=labels, spec=spec, status={"phase": "Running"})


class Hub:
    """Instead of _hub.access: the same answer for everything."""

    def __init__(self, status: str = "ok") -> None:
        self.status = status
        self.asked: list[tuple[str, str, str, str | None]] = []

    def __call__(
        self, send: Any, endpoint: str, repository: str, revision: str = "", token: str | None = None
    ) -> _hub.Access:
        self.asked.append((endpoint, repository, revision, token))
        commit = "b" * 40 if self.status == "ok" else ""
        return _hub.Access(
            id=repository,
            revision=revision or "main",
            status=self.status,
            commit=revision or commit,
            gated=False,
            files=2,
            bytes=1000,
            detail="",
        )


def strip(*kinds: str) -> list[dict[str, Any]]:
    return [o for o in CACHED if o["kind"] not in kinds]


NO_CLASS = {"name": "cache", "create": True, "storage_class": None, "volume_name": None}
FULL = thing("Pod", "other", "else", spec=worker_pod()["spec"], status={"phase": "Running"})


def codes(result: dict[str, Any], *levels: str) -> list[str]:
    return [f["code"] for f in result["findings"] if f["level"] in (levels or ("FAIL",))]
