# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: recipe + binding + the inventory's choices -> release, the one dictionary that every role receives."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _options, _rules
from ansible_collections.inferops.dynamo.plugins.module_utils._bind import Site, bind, pin
from ansible_collections.inferops.dynamo.plugins.module_utils._binding import (
    ENV_NAME,
    fits,
    normalise,
    secret_problem,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._catalog import Recipe
from ansible_collections.inferops.dynamo.plugins.module_utils._engine import expanded_arguments, gpus_of
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import (
    NAME,
    Manifest,
    digest,
    graph,
    main_container,
    mirrored,
    placeholder,
    workers_of,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._shape import problem

# What a recipe without a request of its own is asked; a model that reasons first needs room for it.
SMOKE_REQUESTS = [
    {"name": "chat", "body": {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 1024}}
]
JOB_NAME = 48  # characters; -<commit8> and -verify follow, and a pod needs six more


def build(recipe: Recipe, options: Mapping[str, Any]) -> dict[str, Any]:
    """The release of a recipe on a cluster.

    :param options: the parameters of target_info, with `namespace` decided.
    :raises DynamoError: BAD_OPTION, BINDING, NAME_TOO_LONG.
    """
    _options.check(options)
    meta = recipe.meta
    reason = mismatch(meta, options.get("gpu") or "")
    # A binding of another kind of cluster may name what this target doesn't have; nothing will be applied there.
    binding = normalise({} if reason else options.get("binding") or {})
    if options.get("release_name") and not reason:
        fits(options["release_name"], NAME, "dynamo_release_name")
        binding["name"] = options["release_name"]
    claim_of_recipe = (meta.get("claim") or {}).get("name") or "shared-model-cache"
    _refuse_doubt(recipe, {} if reason else options, claim_of_recipe)
    mount = _mount(recipe.manifests, claim_of_recipe)
    paths = commits_of(None if reason else options.get("model_path"), [r["id"] for r in meta["repositories"]], "path")
    models = [_model(repository, mount, paths.get(repository["id"], "")) for repository in meta["repositories"]]
    site = Site(
        namespace=options["namespace"],
        claim=options.get("cache_claim") or claim_of_recipe,
        recipe_claim=claim_of_recipe,
        models=tuple(models),
        surge_room=bool(options.get("surge_room")),
        component_pathway=options.get("pathway", "component") == "component",
        liveness=meta.get("worker_liveness") if options.get("worker_liveness", "recipe") == "recipe" else None,
        health_check=bool(meta.get("health_check", True) or options.get("trtllm_health_check")),
        synthetic_acceptance=bool(options.get("synthetic_acceptance")) and not reason,
    )
    manifests, unused = bind(recipe.manifests, binding, site)
    dgd = graph(manifests)
    domain = next((m for m in manifests if m["kind"] == "ComputeDomain"), None)
    decided = {
        "commit": options.get("commits"),
        "claim size": options.get("cache_size"),
        "worker liveness": not site.liveness,
    }
    inferred = [item for item in _inferred(meta) if not decided.get(item.partition(":")[0])]
    if not site.health_check:
        inferred.append(
            "DYN_HEALTH_CHECK_ENABLED=false on workers: hang detection is off; dynamo_trtllm_health_check keeps it"
        )
    if site.synthetic_acceptance:
        inferred.append("synthetic acceptance: drafts are accepted at a fixed rate, for benchmarks only")
    release = {
        "target": recipe.target,
        "name": dgd["metadata"]["name"],
        "namespace": site.namespace,
        "applicable": not reason,
        "reason": reason,
        "gpu": meta.get("gpu") or "",
        "gpu_products": options.get("gpu_products") or meta.get("gpu_products") or [],
        "framework": meta.get("framework") or "",
        "topology": meta.get("topology") or "",
        "served_model": meta["served_model"],
        "context_length": meta.get("context_length"),
        "frontend": _frontend(dgd, manifests),
        "models": [{key: value for key, value in model.items() if key != "recipe_path"} for model in models],
        "mount": mount,
        "claim": _claim(meta, options, site.claim, binding.get("cache_volume"), models),
        "secret": {
            "name": options.get("secret_name") or "hf-token-secret",
            "key": options.get("secret_key") or "HF_TOKEN",
        },
        "job": _job(recipe, options, binding, dgd),
        "compute_domain": domain
        and {
            "name": domain["metadata"]["name"],
            "template": domain["spec"]["channel"]["resourceClaimTemplate"]["name"],
            "manifest": domain,
        },
        "config_maps": [m for m in manifests if m["kind"] == "ConfigMap"],
        "manifest": dgd,
        "workers": [_worker(component) for component in workers_of(dgd)],
        "timeouts": {"ready": options.get("ready_timeout") or (meta.get("timeouts") or {}).get("ready") or 7200},
        "benchmark": _benchmark(meta, binding),
        "synthetic_acceptance": site.synthetic_acceptance,
        "smoke": {
            "model": meta["served_model"],
            "requests": (meta.get("smoke") or {}).get("requests") or SMOKE_REQUESTS,
            "images": bool((meta.get("smoke") or {}).get("images")),
        },
        "surge_room": site.surge_room,
        "inferred": inferred,
        "notes": list(recipe.notes),
        "unused": unused,
        "digest": digest([*(m for m in manifests if m["kind"] == "ConfigMap"), dgd, *([domain] if domain else [])]),
    }
    known = [model["id"] for model in models]
    commits = commits_of(None if reason else options.get("commits"), known)
    unused.extend(
        f"dynamo_model_commit: {name} is no repository of this target" for name in commits if name not in known
    )
    return pin(release, {name: commit for name, commit in commits.items() if name in known})


def _refuse_doubt(recipe: Recipe, options: Mapping[str, Any], claim: str) -> None:
    """What would otherwise be decided, or left out, without a word."""
    domains = [m["metadata"]["name"] for m in recipe.manifests if m["kind"] == "ComputeDomain"]
    if len(domains) > 1:
        raise DynamoError(
            f"the recipe {recipe.target} has the ComputeDomains {', '.join(domains)}; a release has one.", "RECIPE"
        )
    if options.get("kustomization") and options.get("cache_claim") not in (None, "", claim):
        raise DynamoError(
            f"dynamo_cache_claim: {options['cache_claim']}, but dynamo_kustomization mounts {claim}.",
            "BINDING",
            "Leave dynamo_cache_claim out for this host, or mount it in the Kustomization.",
        )


def _claim(
    meta: Mapping[str, Any],
    options: Mapping[str, Any],
    name: str,
    volume: Mapping[str, Any] | None,
    models: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    """The claim of the model cache. Without one, `volume` is what pods mount and the name only tells it from others."""
    size = options.get("cache_size") or _twice(models) or (meta.get("claim") or {}).get("size") or "1000Gi"
    return {
        "name": f"volume-{digest([dict(volume)])[:8]}" if volume else name,
        "create": bool(options.get("cache_claim_create", True)) and not volume,
        "storage_class": options.get("storage_class") or None,
        "size": size,
        "volume_name": options.get("cache_volume") or None,
        "volume": dict(volume) if volume else None,
    }


def _twice(models: Iterable[Mapping[str, Any]]) -> str:
    """Room for a new checkpoint beside the old and a tenth more; nothing when sizes are unknown."""
    sizes = [model.get("bytes") or 0 for model in models]
    return f"{math.ceil(sum(sizes) * 2.2 / (1 << 30))}Gi" if all(sizes) and sizes else ""


def mismatch(meta: Mapping[str, Any], gpu: str) -> str:
    """Why this target is not for a host with these GPUs, or nothing."""
    names = {str(name).upper() for name in [meta.get("gpu") or "", *(meta.get("gpu_products") or [])]} - {""}
    if not gpu or not names or gpu.upper() in names or f"NVIDIA-{gpu.upper()}" in names:
        return ""
    return f"the target is for {meta.get('gpu')}, dynamo_gpu is {gpu}"


def commits_of(value: Any, repositories: list[str], what: str = "commit") -> dict[str, str]:
    """dynamo_model_commit (or _path) as {repository: commit}; one text is enough for a recipe with one repository."""
    if not value:
        return {}
    if isinstance(value, Mapping):
        return {str(key): str(item) for key, item in value.items() if item}
    if len(repositories) > 1:
        variable = "dynamo_model_path" if what == "path" else "dynamo_model_commit"
        raise DynamoError(
            f"{variable}: this target has the repositories {', '.join(repositories)}.",
            "BINDING",
            f"Give a dictionary {{repository: {what}}}.",
        )
    return {repositories[0]: str(value)}


def _mount(manifests: list[Manifest], claim: str) -> str:
    for worker in workers_of(graph(manifests)):
        volumes = worker["podTemplate"]["spec"].get("volumes", [])
        names = [v["name"] for v in volumes if v.get("persistentVolumeClaim", {}).get("claimName") == claim]
        for mount in main_container(worker).get("volumeMounts", []):
            if mount["name"] in names:
                return str(mount["mountPath"]).rstrip("/")
    return "/shared-model-cache"


def _model(repository: Mapping[str, Any], mount: str, adopted: str = "") -> dict[str, Any]:
    """A model of a release, unpinned without a commit. `recipe_path` is the folder that the recipe's text names.

    :param adopted: a folder that somebody filled, on the mount; it is used as it is, whatever the commit.
    """
    commit = repository.get("commit") or ""
    folder = f"{mount}/{repository['id'].split('/')[-1]}"
    layout = repository.get("layout") or "hub"
    if adopted:
        path = posixpath.normpath(posixpath.join(mount, adopted))
        if layout != "folder" or not path.startswith(f"{mount}/"):
            allowed = f"a folder below {mount}" if layout == "folder" else "nothing: this recipe reads the hub's layout"
            raise DynamoError(f"dynamo_model_path: {adopted!r} of {repository['id']}; allowed is {allowed}", "BINDING")
        return {**_model(repository, mount), "path": path, "adopted": True}
    return {
        "id": repository["id"],
        "commit": commit,
        "layout": layout,
        "path": f"{folder}/{commit[:12] or placeholder(repository['id'])}" if layout == "folder" else mount,
        "files": repository.get("files"),
        "bytes": repository.get("bytes"),
        "gated": repository.get("gated"),
        "recipe_path": repository.get("path") or folder,
    }


def _frontend(dgd: Manifest, manifests: list[Manifest]) -> dict[str, Any]:
    for component in dgd["spec"]["components"]:
        if component.get("type") == "frontend":
            port = expanded_arguments(component, manifests).get("--http-port", "")
            service = f"{dgd['metadata']['name']}-{component['name']}".lower()
            return {"service": service, "port": int(port) if port.isdecimal() else 8000}
    return {"service": "", "port": 8000}


def _worker(component: Mapping[str, Any]) -> dict[str, Any]:
    requests = main_container(component).get("resources", {}).get("requests", {})
    return {
        "component": component["name"],
        "type": component["type"],
        "replicas": component.get("replicas", 1),
        "nodes": (component.get("multinode") or {}).get("nodeCount", 1),
        "gpus": gpus_of(component),
        "cpu": str(requests.get("cpu", "0")),
        "memory": str(requests.get("memory", "0")),
    }


def _job(recipe: Recipe, options: Mapping[str, Any], binding: Mapping[str, Any], dgd: Manifest) -> dict[str, Any]:
    """The default image is the workers' own, bound: it has huggingface_hub, and the nodes need it anyway."""
    job = recipe.meta.get("job") or {}
    env: dict[str, str] = {}
    for name, value in (options.get("download_env") or {}).items():
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise DynamoError(f"dynamo_download_env.{name}: must be a text; quote it", "BINDING")
        env[str(name)] = str(value)
        wrong = secret_problem(str(name), env[str(name)])
        wrong = wrong or ("" if ENV_NAME.match(str(name)) else "is no variable name")
        if wrong:
            raise DynamoError(f"dynamo_download_env.{name}: {wrong}", "BINDING")
    image = options.get("download_image") or main_container(workers_of(dgd)[0])["image"]
    wrong = problem(image, _rules.IMAGE, "dynamo_download_image")
    if wrong:
        raise DynamoError(f"{wrong}.", "BAD_OPTION")
    slug = re.sub(r"[^a-z0-9]+", "-", recipe.target.split("/")[0].lower()).strip("-")
    where = binding.get("job") or {}
    base = str(job.get("name") or f"{slug[:33].rstrip('-')}-model-download")[:JOB_NAME].rstrip("-")
    return {
        "name": base,
        "base": base,
        "image": image,
        "deadline": int(job.get("deadline") or 14400),
        "env": env,
        "tolerations": where.get("tolerations") or [],
        "node_selector": where.get("node_selector") or {},
        "pull_secrets": binding.get("pull_secrets", _pull_secrets(recipe.manifests)),
    }


def _benchmark(meta: Mapping[str, Any], binding: Mapping[str, Any]) -> dict[str, Any]:
    """{image, trust_remote_code, deadline, presets: {name: load}} of role benchmark."""
    found = dict(meta.get("benchmark") or {})
    image, registry = found.get("image") or "", binding.get("image_registry")
    found["image"] = mirrored(image, registry) if image and registry else image
    return {"trust_remote_code": False, "deadline": 10800, "presets": {}, **found}


def _pull_secrets(manifests: list[Manifest]) -> list[str]:
    """Those of the workers, as a Kustomization or a recipe of somebody else has them."""
    workers = workers_of(graph(manifests))
    secrets = workers[0]["podTemplate"]["spec"].get("imagePullSecrets") or [] if workers else []
    return [secret["name"] for secret in secrets]


def _inferred(meta: Mapping[str, Any]) -> list[str]:
    """What a recipe's metadata calls inferred: `field: reason`."""
    found = []
    for name, origin in (meta.get("provenance") or {}).items():
        word, _colon, why = str(origin).partition(":")
        if word == "inferred":
            found.append(f"{name}: {why.strip()}" if why.strip() else name)
    return found
