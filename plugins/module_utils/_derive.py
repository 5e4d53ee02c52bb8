# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what recipe.yml would say of a recipe that has none, read from its manifests and the Job beside them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._engine import (
    SHELL_VARIABLE,
    expanded_arguments,
    gpus_of,
    hub_of,
    place_of,
    reads,
    settings,
    tokens,
    variables,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import (
    HEX40,
    Manifest,
    graph,
    main_container,
    workers_of,
)

# h100, gb200, l40s; not bf16, tp16, sm100.
GPU_NAME = re.compile(r"(?!(?:bf|fp|tf|sm|tp|dp|ep|pp)\d)[a-z]{1,2}\d{2,3}[a-z]?\Z")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# The operator's default of a worker without a startup probe: 720 tries, one in 10 s (facts: dynamo §4.6).
STARTUP_SECONDS = 7200


def derive(manifests: list[Manifest], target: str, beside: Sequence[Any] = ()) -> tuple[dict[str, Any], list[str]]:
    """Metadata of a recipe that has none of ours, and notes: what can't be told, and the variable that sets it.

    :param beside: the documents of the model's model-cache directory, claim and download Jobs.
    """
    dgd = graph(manifests)
    workers = workers_of(dgd)
    if not workers:
        return {}, ["the recipe has no worker component"]
    told = [settings(worker, manifests) for worker in workers]
    given = next((settings for settings in told if settings.get("model")), {})
    for more in told:
        if more.get("model") in (None, given.get("model")):
            given = {**more, **given}
    words = [word for word in re.split(r"[-/]", target.lower()) if GPU_NAME.match(word)]
    gpu = words[-1].upper() if words else ""
    model, context = given.get("model", ""), given.get("context", "")
    jobs = [document for document in beside if _is(document, "Job")]
    claim = claim_of(manifests)
    sizes = {
        document["metadata"].get("name"): document["spec"]["resources"]["requests"]["storage"]
        for document in beside
        if _is(document, "PersistentVolumeClaim")
    }
    repositories, job = _repositories(workers, manifests, jobs)
    meta: dict[str, Any] = {
        "framework": dgd["spec"].get("backendFramework") or _framework(workers, manifests),
        "topology": "disagg" if {worker["type"] for worker in workers} & {"prefill", "decode"} else "agg",
        "gpu": gpu,
        "gpu_products": [f"NVIDIA-{gpu}"] if gpu else [],
        "served_model": given.get("served_model") or ("" if model.startswith("/") else model),
        "context_length": tokens(context),
        "reads": model,
        "repositories": repositories,
        "claim": {"name": claim, "size": sizes.get(claim)} if claim else {},
        "job": {"name": job["metadata"]["name"]} if job else {},
        "timeouts": {"ready": max(_startup_seconds(main_container(worker)) for worker in workers)},
    }
    notes = _notes(meta, workers)
    others = sorted({more["model"] for more in told if more.get("model")} - {model})
    if others:
        notes.append(
            f"other workers read {', '.join(others)}; served, and asked by the smoke test, is {meta['served_model']}: "
            "dynamo_recipe.served_model sets it"
        )
    return meta, notes


def _notes(meta: Mapping[str, Any], workers: list[dict[str, Any]]) -> list[str]:
    notes = ["no recipe.yml: everything about this target was read from its manifests"]
    if not meta["gpu"]:
        notes.append("the GPU is not in the directory's name; dynamo_recipe.gpu sets it")
    if not meta["context_length"]:
        notes.append("the context length is not among the arguments; dynamo_recipe.context_length sets it")
    if not meta["claim"]:
        notes.append("no worker mounts a claim; dynamo_recipe.claim.name sets the recipe's")
    elif not meta["claim"]["size"]:
        notes.append("the size of a new claim is not told; dynamo_cache_size sets it")
    notes += [
        f"the revision of {repository['id']} is not pinned; dynamo_model_commit sets it"
        for repository in meta["repositories"]
        if not repository["commit"]
    ]
    notes += [
        f"component {worker['name']} asks for no GPU; dynamo_binding.resources sets it"
        for worker in workers
        if not gpus_of(worker)
    ]
    return notes


def _is(document: Any, kind: str) -> bool:
    return isinstance(document, dict) and document.get("kind") == kind


def _framework(workers: list[dict[str, Any]], manifests: list[Manifest]) -> str:
    return expanded_arguments(workers[0], manifests).get("-m", "").partition("dynamo.")[2]


def claim_of(manifests: list[Manifest]) -> str:
    """The claim of the model cache: where a worker looks for a model, else the first worker's first, or nothing."""
    workers = workers_of(graph(manifests))
    for worker in workers:
        for model, _revision in reads(worker, manifests):
            source, _inside = place_of(worker, model if model.startswith("/") else hub_of(worker, manifests))
            if "persistentVolumeClaim" in source:
                return str(source["persistentVolumeClaim"]["claimName"])
    for volume in workers[0]["podTemplate"]["spec"].get("volumes", []) if workers else []:
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if name:
            return str(name)
    return ""


def _startup_seconds(main: Mapping[str, Any]) -> int:
    probe = main.get("startupProbe")
    if not probe:
        return STARTUP_SECONDS
    tries, period = probe.get("failureThreshold", 3), probe.get("periodSeconds", 10)
    return int(probe.get("initialDelaySeconds", 0)) + int(tries) * int(period)


def _repositories(
    workers: list[dict[str, Any]],
    manifests: list[Manifest],
    jobs: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Repositories that the arguments name, or that a download Job put where the arguments look; and that Job."""
    named = [pair for worker in workers for pair in reads(worker, manifests)]
    loaded = {job["metadata"]["name"]: _downloads(job) for job in jobs}
    found: dict[str, dict[str, Any]] = {}
    chosen = None
    for name, revision in named:
        for job in jobs:
            for download in loaded[job["metadata"]["name"]]:
                if name and name.rstrip("/") in (download["id"], download.get("path")):
                    chosen = chosen or job
                    found.setdefault(download["id"], {**download, "commit": _commit(revision) or download["commit"]})
        if _HUB_NAME.fullmatch(name):
            found.setdefault(name, {"id": name, "commit": _commit(revision), "layout": "hub"})
    return list(found.values()), chosen


def _commit(revision: str) -> str:
    return revision if HEX40.match(revision) else ""


def _downloads(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the `hf download` lines of a Job load: id, commit, layout, and the folder's path."""
    container: dict[str, Any] = next(iter(job["spec"]["template"]["spec"]["containers"]), {})
    component = {"podTemplate": {"spec": {"containers": [{**container, "name": "main"}]}}}
    env = variables(component, [])
    script = "\n".join(str(word) for word in [*(container.get("command") or []), *(container.get("args") or [])])
    found = []
    for line in script.replace("\\\n", " ").splitlines():
        if not re.match(r"\s*(hf|huggingface-cli)\s+download\s", line):
            continue
        try:
            words = shlex.split(line, comments=True)[2:]
        except ValueError:
            continue
        words = [SHELL_VARIABLE.sub(lambda match: env.get(match[1], match[0]), word) for word in words]
        options = {word: words[index + 1] for index, word in enumerate(words[:-1]) if word.startswith("--")}
        if words and _HUB_NAME.fullmatch(words[0]):
            folder = options.get("--local-dir", "").rstrip("/")
            download = {"id": words[0], "commit": _commit(options.get("--revision", ""))}
            found.append({**download, **({"layout": "folder", "path": folder} if folder else {"layout": "hub"})})
    return found
