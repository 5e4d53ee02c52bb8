# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what is wrong with a recipe or with the release that it becomes, before any cluster is asked. Pure.

A finding is {code, severity: FAIL or WARN, path, message, fix}. FAIL: it can't work. WARN: it works until it doesn't.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._contract import contract, site_values
from ansible_collections.inferops.dynamo.plugins.module_utils._engine import (
    VARIABLE,
    gpus_of,
    gpus_wanted,
    hub_of,
    place_of,
    reads,
    settings,
    tokens,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._fields import unknown_fields
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import (
    HEX40,
    Manifest,
    main_container,
    name_limit,
    placeholder,
    workers_of,
)

Finding = dict[str, str]
_PLACEHOLDER = re.compile(r"\byour-[a-z]|<your[ _-]|\b(?:CHANGE[_-]?ME|REPLACE[_-]?ME)\b", re.I)
_DOWNLOAD = re.compile(r"\b(?:hf|huggingface-cli)\s+download\b|\bsnapshot_download\b")
# What huggingface_hub takes for true, and where it looks for a token.
TRUE = ("1", "on", "yes", "true")
TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
# Added by the operator to every component, workers or the frontend (facts: dynamo §4.5), or by Kubernetes for services.
INJECTED = re.compile(
    r"DYN_(?:NAMESPACE|NAMESPACE_PREFIX|NAMESPACE_WORKER_SUFFIX|COMPONENT|PARENT_DGD_K8S_(?:NAME|NAMESPACE)|DISCOVERY_BACKEND|SYSTEM_\w+"
    r"|HEALTH_CHECK_ENABLED|FORWARDPASS_METRIC_PORT|HTTP_PORT)|DYNAMO_PORT|POD_(?:NAME|NAMESPACE|UID)|NIXL_TELEMETRY_\w+"
    r"|NATS_SERVER|ETCD_ENDPOINTS|MODEL_EXPRESS_URL|PROMETHEUS_ENDPOINT|\w+_SERVICE_(?:HOST|PORT\w*)"
)


def finding(code: str, severity: str, path: str, message: str, fix: str) -> Finding:
    """One finding; path within the deployment, components by their names."""
    return {"code": code, "severity": severity, "path": path, "message": message, "fix": fix}


def lint(
    manifests: list[Manifest], release: Mapping[str, Any], context_length: int | None, others: Iterable[str] = ()
) -> list[Finding]:
    """All findings, failures first.

    :param manifests: the recipe's own.
    :param release: as `_release.build` returns it.
    :param context_length: the model's, if it is known from elsewhere than the arguments.
    :param others: names of other deployments of the same namespace.
    """
    bound = [*release["config_maps"], release["manifest"]]
    found = [
        *(finding("CONTRACT", "WARN", path, problem, fix) for path, problem, fix in contract(manifests)),
        *(finding("SITE_VALUE", severity, *words) for severity, *words in site_values(manifests)),
        *_names(release, others),
        *_job(release),
        *_models(release),
        *_texts(bound),
        *_fields([*bound, *([release["compute_domain"]["manifest"]] if release["compute_domain"] else [])]),
    ]
    for component in release["manifest"]["spec"]["components"]:
        found += _image(component)
        found += _volumes(component)
        found += _variables(component, release["manifest"])
    for worker in workers_of(release["manifest"]):
        found += _worker(worker, release)
        found += _engine(worker, bound, context_length)
        found += _checkpoints(worker, bound, release)
    return sorted(found, key=lambda item: item["severity"] != "FAIL")


def _names(release: Mapping[str, Any], others: Iterable[str]) -> Iterator[Finding]:
    name = release["name"]
    for component in release["manifest"]["spec"]["components"]:
        limit = name_limit(component)
        if len(name) > limit:
            message = f"{name} has {len(name)} characters; with component {component['name']} at most {limit} fit"
            yield finding("NAME_TOO_LONG", "FAIL", "metadata.name", message, "set dynamo_release_name")
    for other in others:
        short, long = sorted((name, other), key=len)
        if name != other and long.startswith(f"{short}-"):
            message = f"{short} is the beginning of {long}: in one namespace their frontends serve each other's models"
            yield finding("NAME_CLASH", "FAIL", "metadata.name", message, "set dynamo_release_name")


def _job(release: Mapping[str, Any]) -> Iterator[Finding]:
    name = release["job"]["name"]
    told = [release["target"].split("/")[0], *(model["id"].split("/")[-1] for model in release["models"])]
    words = {word for text in told for word in re.split(r"[^a-z0-9]+", text.lower()) if len(word) > 1}
    if not words & set(re.split(r"[^a-z0-9]+", name)):
        message = f"the download Job is called {name}; other recipes of the namespace call theirs the same"
        yield finding("JOB_NAME_SHARED", "WARN", "job.name", message, "set dynamo_recipe.job.name")


def _models(release: Mapping[str, Any]) -> Iterator[Finding]:
    for model in release["models"]:
        if not model["commit"]:
            message = f"{model['id']} has no commit: what is deployed depends on when it was downloaded"
            yield finding("REVISION_UNPINNED", "WARN", "models", message, "set dynamo_model_commit")


def _texts(manifests: list[Manifest]) -> Iterator[Finding]:
    for manifest in manifests:
        body = {key: value for key, value in manifest.items() if key in ("metadata", "spec", "data")}
        for path, text in _walk(body, ""):
            if _PLACEHOLDER.search(text):
                message = f"a value that somebody was to fill in: {text[:80]!r}"
                yield finding("PLACEHOLDER", "FAIL", path, message, "fill it in, or set it in dynamo_binding")


def _walk(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            where = f"{path}.{key}" if path else str(key)
            yield where, str(key)
            yield from _walk(item, where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}[{item.get('name', index) if isinstance(item, Mapping) else index}]")
    elif isinstance(value, str):
        yield path, value


def _fields(manifests: list[Manifest]) -> Iterator[Finding]:
    for manifest in manifests:
        for path in unknown_fields(manifest):
            message = f"the schema of {manifest['kind']} has no such field; the API server refuses it"
            yield finding("FIELD_UNKNOWN", "FAIL", path, message, "correct its name or place")


def _path(component: Mapping[str, Any], rest: str) -> str:
    return f"spec.components[{component['name']}].{rest}"


def _image(component: Mapping[str, Any]) -> Iterator[Finding]:
    for container in _containers(component):
        name, at, _digest = str(container.get("image", "")).partition("@")
        tag = name.rpartition("/")[2].partition(":")[2]
        path = _path(component, f"podTemplate.spec.containers[{container['name']}].image")
        if not at and tag in ("", "latest"):
            message = f"{container.get('image')} is another image tomorrow"
            yield finding("IMAGE_LATEST", "WARN", path, message, f"set dynamo_binding.image_tag.{component['name']}")


def _volumes(component: Mapping[str, Any]) -> Iterator[Finding]:
    """Volumes that a recipe, a patch or a fact of the cluster brings twice."""
    spec, where = component["podTemplate"]["spec"], _path(component, "podTemplate.spec")
    names = [volume["name"] for volume in spec.get("volumes") or []]
    problems = [(f"{where}.volumes", f"there are two volumes {name}") for name in _twice(names)]
    for volume in spec.get("volumes") or []:
        sources = sorted(volume.keys() - {"name"})
        if len(sources) > 1:
            problems.append((f"{where}.volumes", f"volume {volume['name']} has the sources {', '.join(sources)}"))
    for container in _containers(component):
        place = f"{where}.containers[{container['name']}].volumeMounts"
        mounts = container.get("volumeMounts") or []
        paths = [str(mount["mountPath"]).rstrip("/") for mount in mounts]
        problems += [(place, f"{container['name']} mounts two volumes at {path}") for path in _twice(paths)]
        absent = sorted({mount["name"] for mount in mounts} - {*names})
        problems += [(place, f"{container['name']} mounts {name}, which is no volume") for name in absent]
    for path, message in problems:
        fix = "rename or remove the recipe's own, or leave the option of dynamo_binding out that brings the other"
        yield finding("VOLUME_CLASH", "FAIL", path, message, fix)


def _twice(values: list[str]) -> list[str]:
    return sorted({value for value in values if values.count(value) > 1})


def _variables(component: Mapping[str, Any], dgd: Manifest) -> Iterator[Finding]:
    """$(VAR): Kubernetes knows only variables that come earlier in the list, and the operator sorts main's by name."""
    for container in _containers(component):
        entries = [*(dgd["spec"].get("env") or []), *(container.get("env") or [])]
        names = {entry["name"] for entry in entries}
        where = _path(component, f"podTemplate.spec.containers[{container['name']}]")
        command = container.get("command") or [""]
        shell = command[0].rsplit("/", 1)[-1] in ("sh", "bash")
        for key in ("command", "args"):
            for word in container.get(key) or []:
                for name in sorted(set(VARIABLE.findall(word)) - names):
                    # $(name) of a shell is a command; what envFrom brings can't be seen here
                    if not INJECTED.fullmatch(name) and not container.get("envFrom") and (not shell or name.isupper()):
                        message = f"$({name}) is not defined, so the engine gets these very characters"
                        yield finding("VARIABLE_UNDEFINED", "FAIL", f"{where}.{key}", message, f"define {name} in env")
        for entry in entries:
            path = f"{where}.env[{entry['name']}]"
            for name in sorted(set(VARIABLE.findall(entry.get("value") or ""))):
                if name not in names and not INJECTED.fullmatch(name):
                    if not container.get("envFrom"):
                        message = f"$({name}) is not defined, so the value holds these very characters"
                        yield finding("VARIABLE_UNDEFINED", "FAIL", path, message, f"define {name} in env")
                elif name >= entry["name"] and container["name"] == "main":
                    message = f"$({name}) is not known yet: the operator sorts variables by name, {name} comes later"
                    yield finding(
                        "VARIABLE_LATE", "FAIL", path, message, "write the value out, or rename one of the two"
                    )


def _containers(component: Mapping[str, Any]) -> list[dict[str, Any]]:
    spec = component["podTemplate"]["spec"]
    return [*spec.get("initContainers", []), *spec["containers"]]


def _worker(worker: Mapping[str, Any], release: Mapping[str, Any]) -> Iterator[Finding]:
    main = main_container(worker)
    where = _path(worker, "podTemplate.spec.containers[main]")
    if "livenessProbe" not in main:
        message = "the operator's default restarts a worker at its first slow answer, in the middle of requests"
        fix = "set dynamo_recipe.worker_liveness to a probe (and dynamo_worker_liveness: recipe)"
        yield finding("LIVENESS_DEFAULT", "WARN", f"{where}.livenessProbe", message, fix)
    shared = release["manifest"]["spec"].get("env") or []
    offline = {entry["name"]: entry for entry in [*shared, *(main.get("env") or [])]}.get("HF_HUB_OFFLINE", {})
    reasons = [] if str(offline.get("value")).lower() in TRUE else ["HF_HUB_OFFLINE is not 1"]
    secrets: list[str] = []
    for container in _containers(worker):
        entries = [*shared, *(container.get("env") or [])]
        secrets += [entry["name"] for entry in entries if _is_token(entry, release["secret"]["name"])]
        secrets += [item["secretRef"]["name"] for item in container.get("envFrom") or [] if item.get("secretRef")]
        words = " ".join([*(container.get("command") or []), *(container.get("args") or [])])
        if _DOWNLOAD.search(words):
            reasons.append(f"container {container['name']} downloads")
    if secrets:
        reasons.append(f"it holds the hub's token ({', '.join(dict.fromkeys(secrets))})")
    if reasons:
        message = f"the worker may load from the hub instead of the proved checkpoint: {', '.join(reasons)}"
        fix = "set dynamo_binding.env.workers.HF_HUB_OFFLINE to 1, and take token and download out of the recipe"
        yield finding("HUB_FROM_WORKERS", "WARN", f"{where}.env", message, fix)


def _is_token(entry: Mapping[str, Any], secret: str) -> bool:
    source = entry.get("valueFrom") or {}
    named = entry["name"] in TOKENS and bool(source or entry.get("value"))
    return named or (source.get("secretKeyRef") or {}).get("name") == secret


def _engine(worker: Mapping[str, Any], manifests: list[Manifest], context_length: int | None) -> Iterator[Finding]:
    given = settings(worker, manifests)
    where = _path(worker, "podTemplate.spec.containers[main].args")
    has = gpus_of(worker)
    nodes = (worker.get("multinode") or {}).get("nodeCount", 2) if "multinode" in worker else 1
    wants = gpus_wanted(given, nodes)
    if has and wants and wants != has:
        severity = "FAIL" if wants > has else "WARN"
        message = f"the engine is told to use {wants} GPUs, the pod asks for {has}"
        yield finding("GPU_MISMATCH", severity, where, message, f"set dynamo_binding.resources.{worker['name']}")
    context = tokens(given.get("context", ""))
    if context_length and context and context > context_length:
        message = f"a context of {context} tokens is more than the model's {context_length}"
        yield finding(
            "CONTEXT_TOO_LONG", "FAIL", where, message, "correct the argument, or dynamo_recipe.context_length"
        )


def _checkpoints(worker: Mapping[str, Any], manifests: list[Manifest], release: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether what the engine is told to load is what the download Job writes and proves: repository, commit, place."""
    where = _path(worker, "podTemplate.spec.containers[main]")
    hub = {model["id"]: model for model in release["models"] if model["layout"] == "hub"}
    folders = {model["path"]: model for model in release["models"] if model["layout"] == "folder"}
    for name, revision in reads(worker, manifests):
        local = name.startswith("/")
        if not (local or "/" in name) or name.startswith("$"):
            continue  # a name that is no repository, such as ngram, or one that can't be told
        model = folders.get(name.rstrip("/")) if local else hub.get(name)
        if not model:
            message = f"the engine reads {name}, which is not among what the download Job writes and proves"
            yield finding("MODEL_UNPROVED", "WARN", f"{where}.args", message, "set dynamo_recipe.repositories")
            continue
        if not local:
            yield from _revision(name, revision, model, f"{where}.args")
        path = name.rstrip("/") if local else hub_of(worker, manifests)
        source, inside = place_of(worker, path)
        wanted = model["path"][len(release["mount"]) :].strip("/") if local else "hub"
        if not _is_cache(source, release["claim"]) or inside != wanted:
            holder = (source.get("persistentVolumeClaim") or {}).get("claimName") or next(iter(source), "no volume")
            message = (
                f"the engine looks for {name} in {path} ({holder}{f', {inside}' if inside else ''}), the download Job "
                f"writes {wanted} of {release['claim']['name']}"
            )
            fix = "set HF_HOME to where the claim is mounted, without subPath, or dynamo_recipe.claim.name"
            yield finding("CACHE_ELSEWHERE", "FAIL", f"{where}.volumeMounts", message, fix)
            return


def _is_cache(source: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    if claim["volume"]:
        return dict(source) == claim["volume"]
    return (source.get("persistentVolumeClaim") or {}).get("claimName") == claim["name"]


def _revision(name: str, revision: str, model: Mapping[str, Any], path: str) -> Iterator[Finding]:
    if revision == placeholder(name):
        return
    if not HEX40.match(revision):
        told = f"with revision {revision}" if revision else "without --revision"
        looks = f"offline the engine looks for {revision or 'main'}"
        message = f"{name} {told}: {looks}, which a download by commit doesn't write"
        yield finding("REVISION_UNPINNED", "WARN", path, message, "add --revision with dynamo_binding.patches")
    elif model["commit"] and revision != model["commit"]:
        message = f"the engine reads {name} at {revision}, the download Job writes {model['commit']}"
        yield finding("REVISION_OTHER", "FAIL", path, message, "take the commit out of the arguments, or set the same")
