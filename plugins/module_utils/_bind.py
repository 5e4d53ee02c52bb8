# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: a recipe's portable manifests + what is true of this cluster -> the manifests to apply. Pure functions.

Components are addressed by name and type, never by position (a merge moves positions). The result of each
cluster fact is that of the vendor's Kustomize starter for the same choice.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _facts
from ansible_collections.inferops.dynamo.plugins.module_utils._dgd import GRAPH as GRAPH_LABEL
from ansible_collections.inferops.dynamo.plugins.module_utils._engine import expanded_arguments, settings
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import (
    HEX40,
    Manifest,
    digest,
    graph,
    immutable,
    main_container,
    map_text,
    name_limit,
    placeholder,
    refer,
    replace_paths,
    replace_text,
    workers_of,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._override import override

# On a deployment whose answers are not the model's: whoever finds it knows, also when the run that made it was cut off.
SYNTHETIC = "inferops.dynamo/synthetic-acceptance"
NO_SURGE = {
    "nvidia.com/deployment-rolling-update-max-surge": "0",
    "nvidia.com/deployment-rolling-update-max-unavailable": "1",
}


@dataclass(frozen=True)
class Site:
    """Facts of the release beside the binding.

    models: as in a release, plus `recipe_path`, the path that the recipe's text uses (folder layout).
    liveness: probe for workers that have none, None leaves it to the operator. health_check: False turns canaries off.
    synthetic_acceptance: for benchmarks only: drafts are accepted by a fixed rate, so answers are not the model's.
    """

    namespace: str
    claim: str = "shared-model-cache"
    recipe_claim: str = "shared-model-cache"
    models: tuple[Mapping[str, Any], ...] = ()
    surge_room: bool = False
    component_pathway: bool = True
    liveness: Mapping[str, Any] | None = None
    health_check: bool = True
    synthetic_acceptance: bool = False


def bind(base: list[Manifest], binding: Mapping[str, Any], site: Site) -> tuple[list[Manifest], list[str]]:
    """The manifests of a release and the cluster facts that found no place.

    :param base: portable manifests, support objects first; not changed.
    :param binding: as `_binding.normalise` returns it.
    :raises DynamoError: BINDING when an override fits nothing, NAME_TOO_LONG.
    """
    manifests = copy.deepcopy(base)
    unused: list[str] = []
    dgd = graph(manifests)
    renamed = _rename(manifests, binding.get("name") or dgd["metadata"]["name"])
    if binding.get("compute_domain") and not _rename_domain(manifests, binding["compute_domain"]):
        unused.append("dynamo_binding.compute_domain: the recipe has no ComputeDomain")
    _place_models(manifests, site.models)
    components: list[dict[str, Any]] = dgd["spec"]["components"]
    if not _facts.place_cache(components, site.recipe_claim, site.claim, binding.get("cache_volume")):
        unused.append(f"dynamo_cache_claim: no component mounts a claim {site.recipe_claim}")
    _facts.place(components, binding, unused)
    for worker in workers_of(dgd):
        _worker_rules(worker, site)
    if site.synthetic_acceptance:
        _accept_synthetically(manifests)
    override(dgd, binding)
    refer(dgd["spec"], renamed)  # the binding knows the recipe's own names
    if site.component_pathway:
        if any(component.get("multinode") for component in components):
            unused.append("dynamo_pathway: component: the recipe has workers of several nodes")
        else:
            dgd["metadata"].setdefault("annotations", {})["nvidia.com/enable-grove"] = "false"
    if binding.get("annotations"):
        dgd["metadata"].setdefault("annotations", {}).update(binding["annotations"])
    _own(manifests, binding.get("labels", {}), site.namespace)
    return immutable(manifests), unused


def _rename(manifests: list[Manifest], name: str) -> dict[str, str]:
    """Give the deployment this name, and what is beside it names of its own; {old name: new name} of ConfigMaps."""
    dgd = graph(manifests)
    old = dgd["metadata"]["name"]
    for component in dgd["spec"]["components"]:
        limit = name_limit(component)
        if len(name) > limit:
            raise DynamoError(
                f"the name {name} has {len(name)} characters; with component {component['name']} at most {limit} fit.",
                "NAME_TOO_LONG",
                "Set dynamo_release_name.",
            )
    if name == old:
        return {}

    def new(text: str) -> str:
        return name + text[len(old) :] if text == old or text.startswith(f"{old}-") else f"{name}-{text}"

    renamed = {m["metadata"]["name"]: new(m["metadata"]["name"]) for m in manifests if m["kind"] == "ConfigMap"}
    services = "|".join(re.escape(component["name"].lower()) for component in dgd["spec"]["components"])
    service = re.compile(rf"(?<![\w.-]){re.escape(old)}(?=-(?:{services})(?![\w-]))")
    for manifest in manifests:
        for body in {"spec", "data"} & manifest.keys():
            manifest[body] = map_text(manifest[body], lambda text: service.sub(name, text))
    _reselect(dgd["spec"], old, name)
    for manifest in manifests:
        manifest["metadata"]["name"] = new(manifest["metadata"]["name"])
        labels = manifest["metadata"].get("labels", {})
        if labels.get("app.kubernetes.io/name") == old:
            labels["app.kubernetes.io/name"] = name
        if manifest["kind"] == "ComputeDomain":
            _rename_template(dgd, manifest, new(manifest["spec"]["channel"]["resourceClaimTemplate"]["name"]))
    refer(dgd["spec"], renamed)
    return renamed


def _reselect(value: Any, old: str, name: str) -> None:
    """Let selectors of a deployment's pods (affinity, topology spread) mean those of the new name."""
    if isinstance(value, list):
        for item in value:
            _reselect(item, old, name)
    elif isinstance(value, dict):
        if value.get(GRAPH_LABEL) == old:
            value[GRAPH_LABEL] = name
        if value.get("key") == GRAPH_LABEL and value.get("values"):
            value["values"] = [name if item == old else item for item in value["values"]]
        for item in value.values():
            _reselect(item, old, name)


def _rename_domain(manifests: list[Manifest], name: str) -> bool:
    domain = next((m for m in manifests if m["kind"] == "ComputeDomain"), None)
    if domain:
        domain["metadata"]["name"] = name
        _rename_template(graph(manifests), domain, f"{name}-channel")
    return domain is not None


def _rename_template(dgd: Manifest, domain: Manifest, name: str) -> None:
    template = domain["spec"]["channel"]["resourceClaimTemplate"]
    before, template["name"] = template["name"], name
    for component in dgd["spec"]["components"]:
        for claim in component["podTemplate"]["spec"].get("resourceClaims", []):
            if claim.get("resourceClaimTemplateName") == before:
                claim["resourceClaimTemplateName"] = name


def _accept_synthetically(manifests: list[Manifest]) -> None:
    data = {m["metadata"]["name"]: m.get("data", {}) for m in manifests if m["kind"] == "ConfigMap"}
    if not _facts.synthetic_acceptance(graph(manifests)["spec"]["components"], data):
        raise DynamoError(
            "dynamo_synthetic_acceptance: no worker reads SPECULATIVE_CONFIG from a ConfigMap with a synthetic key.",
            "BINDING",
            "Leave it out for this target.",
        )
    graph(manifests)["metadata"].setdefault("annotations", {})[SYNTHETIC] = "true"


def _place_models(manifests: list[Manifest], models: tuple[Mapping[str, Any], ...]) -> None:
    """Folders where the recipe's text names them, and commits where it names a branch, each model's own."""
    paths = {model["recipe_path"]: model["path"] for model in models if model["layout"] == "folder"}
    hub = {model["id"]: model["commit"] or placeholder(model["id"]) for model in models if model["layout"] == "hub"}
    for worker in workers_of(graph(manifests)):
        given = expanded_arguments(worker, manifests)
        for flag, model in (
            ("--revision", settings(worker, manifests).get("model", "")),
            ("--speculative-draft-model-revision", given.get("--speculative-draft-model-path", "")),
        ):
            if model in hub:
                _revise(main_container(worker), flag, hub[model])
    for manifest in manifests:
        for body in {"spec", "data"} & manifest.keys():
            manifest[body] = replace_paths(manifest[body], paths)
            for model, revision in hub.items():
                manifest[body] = map_text(manifest[body], partial(_revise_json, model=model, revision=revision))


def _revise(main: dict[str, Any], flag: str, revision: str) -> None:
    """Let a flag that is there, in words of its own or in a shell's line, or the variable that it names, be this."""
    words = re.compile(rf"(?<![\w-])({flag})(=|\s+)([\"']?)([^\s\"']+)\3")

    def changed(value: str) -> str:
        name = re.fullmatch(r"\$[({]?(\w+)[)}]?", value)
        if not name:
            return value if HEX40.match(value) else revision
        for entry in main.get("env") or []:
            if entry["name"] == name[1] and entry.get("value") and not HEX40.match(entry["value"]):
                entry["value"] = revision
        return value

    for key in ("command", "args"):
        line = main.get(key) or []
        for index, word in enumerate(line):
            if index and line[index - 1] == flag:
                line[index] = changed(word)
            else:
                line[index] = words.sub(lambda m: f"{m[1]}{m[2]}{m[3]}{changed(m[4])}{m[3]}", word)


def _revise_json(text: str, model: str, revision: str) -> str:
    """The text with this revision in each of its JSON objects that names the model and no commit."""
    name = rf'"model"\s*:\s*"{re.escape(model)}"'
    branch = r'("revision"\s*:\s*")(?![0-9a-f]{40}")[^"]*(?=")'
    text = re.sub(rf"({name}[^{{}}]*?){branch}", lambda match: f"{match[1]}{match[2]}{revision}", text)
    return re.sub(rf"{branch}(?=[^{{}}]*?{name})", lambda match: f"{match[1]}{revision}", text)


def _worker_rules(worker: dict[str, Any], site: Site) -> None:
    main = main_container(worker)
    if site.liveness:
        main.setdefault("livenessProbe", copy.deepcopy(dict(site.liveness)))
    if not site.health_check and not any(entry["name"] == "DYN_HEALTH_CHECK_ENABLED" for entry in main.get("env", [])):
        main.setdefault("env", []).append({"name": "DYN_HEALTH_CHECK_ENABLED", "value": "false"})
    if not site.surge_room:
        worker["podTemplate"].setdefault("metadata", {}).setdefault("annotations", {}).update(NO_SURGE)


def _own(manifests: list[Manifest], labels: Mapping[str, str], namespace: str) -> None:
    name = graph(manifests)["metadata"]["name"]
    for manifest in manifests:
        manifest["metadata"]["namespace"] = namespace
        manifest["metadata"]["labels"] = {
            **manifest["metadata"].get("labels", {}),
            **labels,
            "app.kubernetes.io/part-of": "dynamo",
            "app.kubernetes.io/managed-by": "inferops.dynamo",
            "inferops.dynamo/release": name,
        }


def pin(release: Mapping[str, Any], commits: Mapping[str, str]) -> dict[str, Any]:
    """The release with these commits ({repository: 40 hex}) in its models, paths, arguments and digest.

    :raises DynamoError: BINDING for an unknown repository or something that is no commit.
    """
    pinned = copy.deepcopy(dict(release))
    known = [model["id"] for model in pinned["models"]]
    for repository, commit in commits.items():
        if repository not in known:
            raise DynamoError(f"dynamo_model_commit: {repository} is not one of {', '.join(known)}", "BINDING")
        if not isinstance(commit, str) or not HEX40.match(commit):
            raise DynamoError(
                f"dynamo_model_commit: {commit!r} of {repository} is no commit of 40 hexadecimal digits", "BINDING"
            )
    manifests = [*pinned["config_maps"], pinned["manifest"]]
    for model in pinned["models"]:
        new = commits.get(model["id"], model["commit"])
        old = model["commit"] or placeholder(model["id"])
        if new and new != old:
            path = model["path"]
            if model["layout"] == "folder" and not model.get("adopted"):
                model["path"] = path.removesuffix(model["commit"][:12] or old) + new[:12]
            for manifest in manifests:
                body = "spec" if "spec" in manifest else "data"
                if model["layout"] == "folder":
                    manifest[body] = replace_paths(manifest.get(body, {}), {path: model["path"]})
                else:
                    manifest[body] = replace_text(manifest.get(body, {}), old, new)
            model["commit"] = new
    first = pinned["models"][0]["commit"] if pinned["models"] else ""
    if first and "base" in pinned.get("job", {}):
        # One Job per model and commit; of several repositories the first one's, the others are in its annotation.
        pinned["job"]["name"] = f"{pinned['job']['base']}-{first[:8]}"
    immutable(manifests, again=True)
    domain = pinned["compute_domain"]
    pinned["digest"] = digest([*manifests, *([domain["manifest"]] if domain else [])])
    return pinned
