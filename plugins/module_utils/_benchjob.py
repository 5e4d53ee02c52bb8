# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the objects of role benchmark: the Job, its ConfigMap, and the parts of a trace that comes along. Pure.

All of them carry the label BENCHMARK and go when the run is over; the record of a staged trace stays.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _benchload
from ansible_collections.inferops.dynamo.plugins.module_utils._benchload import Load
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import (
    Manifest,
    cache_source,
    cache_user,
    main_container,
    references,
    workers_of,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._objects import CONTENT, DGD_POD_LABEL, LABELS

BENCHMARK = "inferops.dynamo/benchmark"
TRACE = "inferops.dynamo/trace"
CONTAINER = "aiperf"
SCRATCH = "/tmp"  # an emptyDir: AIPerf's artifacts, data sets and caches
SCRIPTS = "/opt/inferops-dynamo"
PARTS = "/opt/trace"
TRACES = ".inferops-dynamo/traces"  # below the mount of the model cache
PART = 900_000  # characters of a ConfigMap, which may have 1 MiB
# Seconds after the sweep's own deadline, for the image and the trace before it: what ends the Job takes its log away.
GRACE = 1800
MAX_PARTS = 10  # what etcd is asked to hold for the time of a run
ENV = {
    "HOME": SCRATCH,
    "HF_HOME": f"{SCRATCH}/hf-home",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def job_name(release: Mapping[str, Any]) -> str:
    return f"{release['name'][:53].rstrip('-')}-benchmark"


def tokenizer_of(release: Mapping[str, Any]) -> dict[str, str]:
    """id, commit and directory of the served checkpoint, which holds its tokenizer."""
    model = release["models"][0]
    directory = model["path"]
    if model["layout"] == "hub":
        directory = f"{release['mount']}/hub/models--{model['id'].replace('/', '--')}/snapshots/{model['commit']}"
    return {"id": model["id"], "commit": model["commit"], "directory": directory}


def identity(release: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured, for summary and comparison."""
    workers = [main_container(component) for component in workers_of(release["manifest"])]
    said = [{key: worker.get(key) for key in ("command", "args", "env")} for worker in workers]
    return {
        "target": release["target"],
        "name": release["name"],
        "namespace": release["namespace"],
        "framework": release["framework"],
        "topology": release["topology"],
        "served_model": release["served_model"],
        "images": sorted({worker["image"] for worker in workers}),
        "models": [{"id": model["id"], "commit": model["commit"]} for model in release["models"]],
        "gpu": release["gpu"],
        "gpus": sum(worker["replicas"] * worker["nodes"] * worker["gpus"] for worker in release["workers"]),
        "workers": {worker["component"]: worker["replicas"] for worker in release["workers"]},
        "arguments": hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12],
        "release": release["digest"],
        "synthetic_acceptance": bool(release.get("synthetic_acceptance")),
    }


def parts_of(trace: bytes) -> list[str]:
    """The trace compressed, as texts that fit into a ConfigMap each.

    :raises DynamoError: BENCHMARK_LOAD when it is too large to travel this way.
    """
    text = base64.b64encode(gzip.compress(trace, mtime=0)).decode()
    if len(text) > PART * MAX_PARTS:
        raise DynamoError(
            f"benchmark_load.trace.file: has {len(text) * 3 // 4_000_000} MB even compressed,"
            f" at most {PART * MAX_PARTS * 3 // 4_000_000} MB can be staged.",
            "BENCHMARK_LOAD",
            "Copy it into the model cache and name it with benchmark_load.trace.path.",
        )
    return [text[start : start + PART] for start in range(0, len(text), PART)]


def staged(records: Iterable[Manifest], sha256: str, claim: str) -> bool:
    """Is there a record that this trace is in this claim (its uid, so that a claim made anew counts as empty)?"""
    data = [record.get("data") or {} for record in records]
    return bool(claim) and any(entry.get("sha256") == sha256 and entry.get("claim_uid") == claim for entry in data)


def record(release: Mapping[str, Any], sha256: str, claim: str) -> Manifest:
    """The record of a trace that the volume holds."""
    metadata = _metadata(release, f"benchmark-trace-{sha256[:12]}", {TRACE: "true"})
    del metadata["labels"][BENCHMARK]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"sha256": sha256, "claim_uid": claim, "path": f"{TRACES}/{sha256}.jsonl"},
    }


def objects(
    release: Mapping[str, Any], load: Load, script: str, options: Mapping[str, Any], trace_parts: list[str], run: str
) -> list[Manifest]:
    """ConfigMaps and Job of one run.

    :param options: image, env, resources, tolerations, node_selector, pull_secrets, run_as, beside_frontend,
        deadline, trust_remote_code.
    :param trace_parts: texts of `parts_of`, empty where the volume holds the trace.
    :param run: name of the run; another run's Job is replaced.
    """
    plan = json.dumps(_plan(release, load, options, bool(trace_parts)), indent=1, sort_keys=True)
    scripts = _config_map(release, f"{job_name(release)}-sweep", {"sweep.py": script, "plan.json": plan})
    parts = [
        _config_map(release, f"{job_name(release)}-trace-{number}", {f"part-{number:02}": text})
        for number, text in enumerate(trace_parts)
    ]
    volumes = [{"name": "scripts", "configMap": {"name": scripts["metadata"]["name"]}}]
    mounts = [{"name": "scripts", "mountPath": SCRIPTS, "readOnly": True}]
    trace = load.get("trace") or {}
    if trace.get("source") == "config_map":
        volumes.append({"name": "trace", "configMap": {"name": trace["name"]}})
    elif parts:
        sources: list[Any] = [{"configMap": {"name": part["metadata"]["name"]}} for part in parts]
        volumes.append({"name": "trace", "projected": {"sources": sources}})
    if len(volumes) == 2:
        mounts.append({"name": "trace", "mountPath": PARTS, "readOnly": True})
    return [scripts, *parts, _job(release, options, volumes, mounts, run)]


def _plan(release: Mapping[str, Any], load: Load, options: Mapping[str, Any], parts: bool) -> dict[str, Any]:
    """What sweep.py reads."""
    frontend, trace = release["frontend"], load.get("trace")
    tokenizer = tokenizer_of(release)
    endpoint = {
        "model": release["served_model"],
        "url": f"http://{frontend['service']}:{frontend['port']}",
        "tokenizer": tokenizer["id"],
        "commit": tokenizer["commit"],
        "trust_remote_code": "true" if options.get("trust_remote_code") else "",
    }
    file = ""
    if trace:
        places = {
            "config_map": f"{PARTS}/{trace.get('key')}",
            "path": f"{release['mount']}/{trace['name']}",
            "file": f"{release['mount']}/{TRACES}/{trace['sha256']}.jsonl",
        }
        file = places[trace["source"]]
    return {
        "seconds": int(options["deadline"]),
        "points": [{**p, "argv": _benchload.arguments(load, p, endpoint, file)} for p in load["points"]],
        "tokenizer": tokenizer,
        "trace": trace
        and {
            "file": file,
            "sha256": trace["sha256"],
            "parts": PARTS if parts else "",
            "max_input_tokens": load.get("max_input_tokens"),
        },
    }


def _metadata(release: Mapping[str, Any], name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    own = {**LABELS, BENCHMARK: release["name"], **(labels or {})}
    return {"name": name, "namespace": release["namespace"], "labels": own}


def _config_map(release: Mapping[str, Any], name: str, data: Mapping[str, str]) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(release, name), "data": dict(data)}


def _job(
    release: Mapping[str, Any], options: Mapping[str, Any], volumes: list[Any], mounts: list[Any], run: str
) -> Manifest:
    env = {**ENV, **{name: str(value) for name, value in (options.get("env") or {}).items()}}
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": options["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-u", f"{SCRIPTS}/sweep.py", f"{SCRIPTS}/plan.json"],
        "env": [{"name": name, "value": value} for name, value in sorted(env.items())],
        "resources": options.get("resources") or {},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            *mounts,
            {"name": "cache", "mountPath": release["mount"]},
            {"name": "scratch", "mountPath": SCRATCH},
        ],
    }
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [*volumes, {"name": "cache", **cache_source(release["claim"])}, {"name": "scratch", "emptyDir": {}}],
    }
    extra = {
        "imagePullSecrets": references(options.get("pull_secrets") or []),
        "tolerations": options.get("tolerations"),
        "nodeSelector": options.get("node_selector"),
        "securityContext": cache_user(int(options["run_as"])),
        "affinity": _beside(release) if options.get("beside_frontend") else None,
    }
    pod |= {key: value for key, value in extra.items() if value}
    metadata = _metadata(release, job_name(release))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "annotations": {CONTENT: run}},
        "spec": {
            # a second try would measure what the first one has left behind
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(options["deadline"]) + GRACE,
            "template": {"metadata": {"labels": metadata["labels"]}, "spec": pod},
        },
    }


def _beside(release: Mapping[str, Any]) -> dict[str, Any]:
    """On the frontend's node, so that no network is measured between the two."""
    labels = {DGD_POD_LABEL: release["name"], "nvidia.com/dynamo-component-type": "frontend"}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
