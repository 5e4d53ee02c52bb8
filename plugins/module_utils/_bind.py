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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._binding import (
    BY_COMPONENT,
    environment,
    refuse,
    text,
    texts,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import (
    HEX40,
    WORKER_TYPES,
    Manifest,
    digest,
    graph,
    immutable,
    main_container,
    mirrored,
    placeholder,
    refer,
    replace_path,
    replace_text,
    workers_of,
)

NO_SURGE = {
    "nvidia.com/deployment-rolling-update-max-surge": "0",
    "nvidia.com/deployment-rolling-update-max-unavailable": "1",
}


@dataclass(frozen=True)
class Site:
    """Facts of the release beside the binding.

    models: as in a release, plus `recipe_path`, the path that the recipe's text uses (folder layout).
    liveness: probe for workers that have none, None leaves it to the operator. health_check: False turns canaries off.
    """

    namespace: str
    claim: str = "shared-model-cache"
    recipe_claim: str = "shared-model-cache"
    models: tuple[Mapping[str, Any], ...] = ()
    surge_room: bool = False
    component_pathway: bool = True
    liveness: Mapping[str, Any] | None = None
    health_check: bool = True


def bind(base: list[Manifest], binding: Mapping[str, Any], site: Site) -> tuple[list[Manifest], list[str]]:
    """The manifests of a release and the cluster facts that found no place.

    :param base: portable manifests, support objects first; not changed.
    :param binding: as `_binding.normalise` returns it.
    :raises DynamoError: BINDING when an override fits nothing, NAME_TOO_LONG.
    """
    manifests = copy.deepcopy(base)
    unused: list[str] = []
    dgd = graph(manifests)
    _rename(manifests, binding.get("name") or dgd["metadata"]["name"])
    _place_models(manifests, site.models)
    components: list[dict[str, Any]] = dgd["spec"]["components"]
    _place_claim(components, site, unused)
    _place_facts(components, binding, unused)
    for worker in workers_of(dgd):
        _worker_rules(worker, site)
    _override(components, binding)
    for path, container in _containers(components):
        _check_container(path, container)
    if site.component_pathway:
        if any(component.get("multinode") for component in components):
            unused.append("dynamo_pathway: component: the recipe has workers of several nodes")
        else:
            dgd["metadata"].setdefault("annotations", {})["nvidia.com/enable-grove"] = "false"
    if binding.get("annotations"):
        dgd["metadata"].setdefault("annotations", {}).update(binding["annotations"])
    _own(manifests, binding.get("labels", {}), site.namespace)
    return immutable(manifests), unused


def _rename(manifests: list[Manifest], name: str) -> None:
    dgd = graph(manifests)
    old = dgd["metadata"]["name"]
    for component in dgd["spec"]["components"]:
        # <dgd>-<component>-<8 hex> is a label value and an object's name; admission does not check it.
        limit = 63 - 1 - len(component["name"]) - (9 if component.get("type") in WORKER_TYPES else 0)
        if len(name) > limit:
            raise DynamoError(
                f"the name {name} has {len(name)} characters; with component {component['name']} at most {limit} fit.",
                "NAME_TOO_LONG",
                "Set dynamo_binding.name.",
            )
    if name == old:
        return

    def new(text: str) -> str:
        return name + text[len(old) :] if text == old or text.startswith(f"{old}-") else text

    renamed = {m["metadata"]["name"] for m in manifests if m["kind"] == "ConfigMap"}
    for manifest in manifests:
        manifest["metadata"]["name"] = new(manifest["metadata"]["name"])
        labels = manifest["metadata"].get("labels", {})
        if labels.get("app.kubernetes.io/name") == old:
            labels["app.kubernetes.io/name"] = name
        if manifest["kind"] == "ComputeDomain":
            template = manifest["spec"]["channel"]["resourceClaimTemplate"]
            before, template["name"] = template["name"], new(template["name"])
            for component in dgd["spec"]["components"]:
                for claim in component["podTemplate"]["spec"].get("resourceClaims", []):
                    if claim.get("resourceClaimTemplateName") == before:
                        claim["resourceClaimTemplateName"] = template["name"]
    refer(dgd["spec"], {item: new(item) for item in renamed})


def _place_models(manifests: list[Manifest], models: tuple[Mapping[str, Any], ...]) -> None:
    for model in models:
        for manifest in manifests:
            body = "spec" if "spec" in manifest else "data"
            if model["layout"] == "folder":
                manifest[body] = replace_path(manifest.get(body, {}), model["recipe_path"], model["path"])
        if model["layout"] == "hub" and not model["commit"]:
            for worker in workers_of(graph(manifests)):
                args = main_container(worker).get("args", [])
                for index, item in enumerate(args[1:], 1):
                    if args[index - 1] == "--revision" and not HEX40.match(item):
                        args[index] = placeholder(model["id"])


def _place_claim(components: list[dict[str, Any]], site: Site, unused: list[str]) -> None:
    found = False
    for component in components:
        for volume in component["podTemplate"]["spec"].get("volumes", []):
            claim = volume.get("persistentVolumeClaim", {})
            if claim.get("claimName") == site.recipe_claim:
                claim["claimName"] = site.claim
                found = True
    if not found:
        unused.append(f"dynamo_cache_claim: no component mounts a claim {site.recipe_claim}")


def _place_facts(components: list[dict[str, Any]], binding: Mapping[str, Any], unused: list[str]) -> None:
    for component in components:
        spec = component["podTemplate"]["spec"]
        if binding.get("pull_secrets"):
            spec["imagePullSecrets"] = [{"name": name} for name in binding["pull_secrets"]]
        _schedule(spec, binding.get("scheduling", {}))
    for _path, component, value in _selected(
        components, binding.get("scheduling", {}).get("components", {}), "scheduling.components"
    ):
        _schedule(component["podTemplate"]["spec"], value)
    workers = [component for component in components if component.get("type") in WORKER_TYPES]
    network, placement = binding.get("network", {}), binding.get("placement")
    if not workers:
        unused.extend(
            f"dynamo_binding.{key}: the recipe has no worker" for key in ("network", "placement") if binding.get(key)
        )
    for worker in workers:
        main = main_container(worker)
        if network.get("interface"):
            names = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
            main["env"] = [{"name": name, "value": network["interface"]} for name in names] + [
                entry for entry in main.get("env", []) if entry["name"] not in names
            ]
        if network.get("rdma_resource"):
            for kind in ("requests", "limits"):
                main.setdefault("resources", {}).setdefault(kind, {})[network["rdma_resource"]] = str(
                    network["rdma_count"]
                )
        if placement:
            worker["podTemplate"]["spec"].setdefault("affinity", {})["podAffinity"] = {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": placement["topology_key"],
                        "matchLabelKeys": ["nvidia.com/dynamo-graph-deployment-name"],
                        "labelSelector": {
                            "matchExpressions": [
                                {
                                    "key": "nvidia.com/dynamo-component-type",
                                    "operator": "In",
                                    "values": [kind for kind in WORKER_TYPES if kind in {w["type"] for w in workers}],
                                }
                            ]
                        },
                    }
                ]
            }


def _schedule(spec: dict[str, Any], scheduling: Mapping[str, Any]) -> None:
    for key, field in (
        ("node_selector", "nodeSelector"),
        ("tolerations", "tolerations"),
        ("affinity", "affinity"),
        ("scheduler_name", "schedulerName"),
        ("runtime_class", "runtimeClassName"),
        ("priority_class", "priorityClassName"),
    ):
        if scheduling.get(key):
            spec[field] = copy.deepcopy(scheduling[key])


def _worker_rules(worker: dict[str, Any], site: Site) -> None:
    main = main_container(worker)
    if site.liveness:
        main.setdefault("livenessProbe", copy.deepcopy(dict(site.liveness)))
    if not site.health_check and not any(entry["name"] == "DYN_HEALTH_CHECK_ENABLED" for entry in main.get("env", [])):
        main.setdefault("env", []).append({"name": "DYN_HEALTH_CHECK_ENABLED", "value": "false"})
    if not site.surge_room:
        worker["podTemplate"].setdefault("metadata", {}).setdefault("annotations", {}).update(NO_SURGE)


def _selected(
    components: list[dict[str, Any]], chosen: Mapping[str, Any], path: str
) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """(path, component, value), the general keys first: all, workers, a type, a component's name."""
    for rank in range(4):
        for key, value in chosen.items():
            fits = [
                [c for c in components if key == "all"],
                [c for c in components if key == "workers" and c.get("type") in WORKER_TYPES],
                [c for c in components if key == c.get("type")],
                [c for c in components if key == c["name"]],
            ]
            if not any(fits):
                there = ", ".join(f"{c['name']} (type {c.get('type', 'none')})" for c in components)
                raise refuse(f"{path}.{key}", f"no such component in this recipe; it has {there}, and all, workers")
            for component in fits[rank]:
                yield f"{path}.{key}", component, value


def _override(components: list[dict[str, Any]], binding: Mapping[str, Any]) -> None:
    if binding.get("image_registry"):
        for component in components:
            spec = component["podTemplate"]["spec"]
            for container in [*spec.get("initContainers", []), *spec["containers"]]:
                container["image"] = mirrored(container["image"], binding["image_registry"])
    for key in BY_COMPONENT:
        for path, component, value in _selected(components, binding.get(key, {}), key):
            _SETTERS[key](component, value, path)


def _set_env(component: dict[str, Any], value: Any, path: str) -> None:
    main = main_container(component)
    entries: list[dict[str, Any]] = main.setdefault("env", [])
    for entry in environment(value, path):
        for index, existing in enumerate(entries):
            if existing["name"] == entry["name"]:
                entries[index] = entry
                break
        else:
            entries.append(entry)


def _set_resources(component: dict[str, Any], value: Any, path: str) -> None:
    if not isinstance(value, Mapping) or not value.keys() <= {"requests", "limits"}:
        raise refuse(path, "must be a dictionary with requests and limits")
    resources = main_container(component).setdefault("resources", {})
    for kind, amounts in value.items():
        if not isinstance(amounts, Mapping):
            raise refuse(f"{path}.{kind}", "must be a dictionary of resource names and amounts")
        merged = {**resources.get(kind, {}), **amounts}
        resources[kind] = {
            name: text(amount, f"{path}.{kind}.{name}") for name, amount in merged.items() if amount is not None
        }


def _set_replicas(component: dict[str, Any], value: Any, path: str) -> None:
    component["replicas"] = _whole(value, path)


def _set_grace(component: dict[str, Any], value: Any, path: str) -> None:
    component["podTemplate"]["spec"]["terminationGracePeriodSeconds"] = _whole(value, path)


def _whole(value: Any, path: str) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d+", str(value)):
        raise refuse(path, f"must be a whole number, found {value!r}")
    return int(value)


def _set_image(component: dict[str, Any], value: Any, path: str) -> None:
    main_container(component)["image"] = text(value, path)


def _set_shared_memory(component: dict[str, Any], value: Any, path: str) -> None:
    component["sharedMemorySize"] = text(value, path)


def _set_pod_annotations(component: dict[str, Any], value: Any, path: str) -> None:
    component["podTemplate"].setdefault("metadata", {}).setdefault("annotations", {}).update(texts(value, path))


_SETTERS: dict[str, Callable[[dict[str, Any], Any, str], None]] = {
    "env": _set_env,
    "image": _set_image,
    "pod_annotations": _set_pod_annotations,
    "replicas": _set_replicas,
    "resources": _set_resources,
    "shared_memory": _set_shared_memory,
    "termination_grace": _set_grace,
}


def _containers(components: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for component in components:
        yield component["name"], main_container(component)


def _check_container(component: str, container: dict[str, Any]) -> None:
    """Extended resources (a name with a slash) need request = limit; the API says so only at the pod."""
    resources = container.get("resources", {})
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    for name in sorted({key for key in {**requests, **limits} if "/" in key}):
        if name in requests and requests[name] != limits.get(name):
            raise refuse(
                f"resources.{component}",
                f"{name} has request {requests[name]} and limit {limits.get(name, 'none')}; they must be equal",
            )


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
                    manifest[body] = replace_path(manifest.get(body, {}), path, model["path"])
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
