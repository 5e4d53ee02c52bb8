# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: overrides of a binding, by component: what names something that isn't there fails. Pure functions."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _patch, _rules, _secrets
from ansible_collections.inferops.dynamo.plugins.module_utils._binding import (
    BY_COMPONENT,
    environment,
    fits,
    refuse,
    text,
    texts,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._facts import place_compile_cache, selected
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import (
    GRAPH,
    WORKER_TYPES,
    Manifest,
    check_component,
    main_container,
    mirrored,
    workers_of,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._options import QUANTITY
from ansible_collections.inferops.dynamo.plugins.module_utils._shape import ANYTHING, problem

Setter = Callable[[dict[str, Any], Any, str], None]


def override(dgd: Manifest, binding: Mapping[str, Any]) -> None:
    """Apply image, compile cache, options by component and patches of a normalised binding, in this order.

    :raises DynamoError: BINDING.
    """
    components: list[dict[str, Any]] = dgd["spec"]["components"]
    if binding.get("image_registry"):
        for _path, container in _containers(components):
            container["image"] = mirrored(container["image"], binding["image_registry"])
    for key in ("image", "image_tag"):
        _by_component(components, binding, key)
    if binding.get("compile_cache"):
        place_compile_cache(
            workers_of(dgd), binding["compile_cache"]["host_path"], dgd["spec"].get("backendFramework", "")
        )
    for key in BY_COMPONENT:
        if key not in ("image", "image_tag"):
            _by_component(components, binding, key)
    for index, entry in enumerate(binding.get("patches", [])):
        _patch_one(dgd, entry, f"patches[{index}]")
    for component in components:
        _check_resources(component["name"], main_container(component))
        _whole(component.get("replicas", 1), f"replicas.{component['name']}", _least(component))
    for name, container in _containers(components):
        if not _rules.IMAGE[0].fullmatch(container.get("image", "")):
            raise refuse(f"image.{name}", f"{container.get('image')!r} of container {container['name']} is no image")


def _by_component(components: list[dict[str, Any]], binding: Mapping[str, Any], key: str) -> None:
    for path, component, value in selected(components, binding.get(key, {}), key):
        _SETTERS[key](component, value, path)


def _containers(components: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for component in components:
        spec = component["podTemplate"]["spec"]
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            yield component["name"], container


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
        fits(amounts, {"...keys": _rules.KEY, "...": ANYTHING}, f"{path}.{kind}")
        resources[kind] = {
            name: _amount(str(name), amount, f"{path}.{kind}.{name}")
            for name, amount in merged.items()
            if amount is not None
        }


def _amount(resource: str, value: Any, path: str) -> str:
    """An amount of a resource; of devices, whose names have a slash, only whole ones exist."""
    amount = text(value, path)
    if not (re.fullmatch(r"\d+", amount) if "/" in resource else amount == "0" or QUANTITY.fullmatch(amount)):
        raise refuse(
            path, f"{amount!r} must be {'a whole number' if '/' in resource else 'an amount such as 500m or 8Gi'}"
        )
    return amount


def _set_replicas(component: dict[str, Any], value: Any, path: str) -> None:
    component["replicas"] = _whole(value, path, _least(component))


def _least(component: Mapping[str, Any]) -> int:
    """Without frontend or workers nothing answers: teardown removes a release, 0 doesn't."""
    return 1 if component.get("type") in (*WORKER_TYPES, "frontend") else 0


def _set_grace(component: dict[str, Any], value: Any, path: str) -> None:
    component["podTemplate"]["spec"]["terminationGracePeriodSeconds"] = _whole(value, path)


def _whole(value: Any, path: str, least: int = 0) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d+", str(value)) or int(value) < least:
        raise refuse(path, f"must be a whole number{f' from {least}' if least else ''}, found {value!r}")
    return int(value)


def _set_startup_failures(component: dict[str, Any], value: Any, path: str) -> None:
    """The starter's startup probe (10 s between tries); of a probe that the recipe brings only the number changes."""
    if component.get("type") not in WORKER_TYPES:
        if path.endswith(".all"):
            return
        raise refuse(path, "only workers have a startup probe")
    probe = {"httpGet": {"path": "/live", "port": "system"}, "periodSeconds": 10, "timeoutSeconds": 5}
    main_container(component).setdefault("startupProbe", probe)["failureThreshold"] = _whole(value, path, 1)


def _set_image(component: dict[str, Any], value: Any, path: str) -> None:
    image = text(value, path)
    fits(image, _rules.IMAGE, path)
    main_container(component)["image"] = image


def _set_image_tag(component: dict[str, Any], value: Any, path: str) -> None:
    tag = text(value, path)
    if not re.fullmatch(r"\w[\w.-]{0,127}(@sha256:[0-9a-f]{64})?", tag):
        raise refuse(path, f"{tag!r} is no tag; a digest may follow it as @sha256:...")
    main = main_container(component)
    folder, slash, name = main["image"].partition("@")[0].rpartition("/")
    main["image"] = f"{folder}{slash}{name.partition(':')[0]}:{tag}"


def _set_shared_memory(component: dict[str, Any], value: Any, path: str) -> None:
    component["sharedMemorySize"] = _amount("memory", value, path)


def _set_pod_annotations(component: dict[str, Any], value: Any, path: str) -> None:
    _metadata(component, "annotations").update(texts(value, path, _rules.ANNOTATIONS))


def _set_pod_labels(component: dict[str, Any], value: Any, path: str) -> None:
    _metadata(component, "labels").update(texts(value, path, _rules.LABELS))


def _metadata(component: dict[str, Any], key: str) -> dict[str, Any]:
    found: dict[str, Any] = component["podTemplate"].setdefault("metadata", {}).setdefault(key, {})
    return found


_SETTERS: dict[str, Setter] = {
    "env": _set_env,
    "image": _set_image,
    "image_tag": _set_image_tag,
    "pod_annotations": _set_pod_annotations,
    "pod_labels": _set_pod_labels,
    "replicas": _set_replicas,
    "resources": _set_resources,
    "shared_memory": _set_shared_memory,
    "startup_failures": _set_startup_failures,
    "termination_grace": _set_grace,
}


def _patch_one(dgd: Manifest, entry: Mapping[str, Any], path: str) -> None:
    components: list[dict[str, Any]] = dgd["spec"]["components"]
    before = [(component["name"], component.get("type")) for component in components]
    which = entry.get("component")
    chosen = [component for _path, component, _value in selected(components, {which: None} if which else {}, path)]
    for document in chosen if which else [dgd]:
        if entry.get("merge"):
            if not which and entry["merge"].keys() != {"spec"}:
                raise refuse(f"{path}.merge", "without component only spec may be merged")
            changed = copy.deepcopy(entry["merge"])
            _patch.merge(document, changed, f"{path}.merge")
        for index, operation in enumerate(entry.get("json6902") or []):
            if not which and not str(operation.get("path", "")).startswith("/spec/"):
                raise refuse(f"{path}.json6902[{index}]", "without component every path begins with /spec/")
        if entry.get("json6902"):
            _patch.json6902(document, entry["json6902"], f"{path}.json6902")
    wrong = problem(dgd, GRAPH, null=False)
    if wrong:
        raise refuse(path, wrong)
    components = dgd["spec"].get("components") or []
    if not isinstance(components, list) or before != [
        (c.get("name"), c.get("type")) for c in components if isinstance(c, dict)
    ]:
        raise refuse(path, "a patch may not add, remove, rename or move components")
    for component in components:
        check_component(component, lambda found: refuse(path, found))
    for where, wrong in _secrets.found(dgd):  # together two harmless operations may make one
        raise refuse(path, f"{where}: {wrong}")


def _check_resources(component: str, container: dict[str, Any]) -> None:
    """Extended resources (a name with a slash) need request = limit, others no more; the API says so at the pod."""
    resources = container.get("resources", {})
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    for name in sorted({*requests, *limits}):
        asked, limit = requests.get(name), limits.get(name)
        more = None if None in (asked, limit) else _rules.quantity(str(asked)) - _rules.quantity(str(limit))
        if "/" in name and asked is not None and more != 0:
            wrong = f"has request {asked} and limit {'none' if limit is None else limit}; they must be equal"
        elif more is not None and more > 0:
            wrong = f"has request {asked} and limit {limit}; a request may not be above its limit"
        else:
            continue
        raise refuse(f"resources.{component}", f"{name} {wrong}")
