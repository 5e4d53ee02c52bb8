# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the catalog: directories laid out like a vendor's recipes/, target names, what a recipe says of itself."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _secrets, _yaml
from ansible_collections.inferops.dynamo.plugins.module_utils._derive import GPU_NAME, claim_of, derive
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import (
    CONTAINER,
    GRAPH,
    METADATA,
    SUPPORT,
    WORKER_TYPES,
    Manifest,
    check_component,
    graph,
    without_nulls,
    workers_of,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._options import NAME, QUANTITY
from ansible_collections.inferops.dynamo.plugins.module_utils._shape import (
    AMOUNT,
    ANYTHING,
    COUNT,
    FLAG,
    NUMBER,
    TEXT,
    problem,
)

MANIFESTS = "deploy.yaml"
FRAMEWORKS = ("vllm", "sglang", "trtllm")
SUPPORTING = {"ConfigMap": "v1", "ComputeDomain": "resource.nvidia.com/v1beta1"}
# What server and tools write into an object that is exported.
_WRITTEN = {
    *("uid", "resourceVersion", "generation", "selfLink", "creationTimestamp", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "managedFields", "finalizers", "ownerReferences"),
}
_WRITTEN_ANNOTATIONS = {"kubectl.kubernetes.io/last-applied-configuration", "nvidia.com/current-worker-hash-v2"}
_NAME = (NAME, "a Kubernetes name")
# What model.yml, recipe.yml and dynamo_recipe may say.
META: dict[str, Any] = {
    "gpu": TEXT,
    "gpu_products": [TEXT],
    "framework": TEXT,
    "topology": TEXT,
    "served_model": TEXT,
    "context_length": COUNT,
    "repositories": [
        {
            "id!": (re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?"), "a repository of the hub, owner/name"),
            "commit": (re.compile(r"([0-9a-f]{40})?"), "a commit of 40 hexadecimal digits"),
            "layout": ("folder", "hub"),
            "files": COUNT,
            "bytes": NUMBER,
            "gated": FLAG,
            "path": (re.compile(r"/\S+"), "an absolute path"),
        }
    ],
    "job": {"name": _NAME, "deadline": COUNT},
    "claim": {"name": _NAME, "size": (QUANTITY, "a size above zero, such as 500Gi")},
    "smoke": {
        "images": FLAG,
        "requests": [{"name!": TEXT, "body!": {"messages!": [{"...": ANYTHING}], "...": ANYTHING}}],
    },
    "benchmark": {
        "image": TEXT,
        "trust_remote_code": FLAG,
        "deadline": COUNT,
        "presets": {"...": {"...": ANYTHING}},  # each a load; _benchload says what is wrong with one
    },
    "timeouts": {"ready": COUNT},
    "worker_liveness": {
        **{key: {"...": ANYTHING} for key in ("httpGet", "exec", "tcpSocket", "grpc")},
        **{f"{key}Seconds": COUNT for key in ("initialDelay", "period", "timeout", "terminationGracePeriod")},
        **{f"{key}Threshold": COUNT for key in ("success", "failure")},
    },
    "health_check": FLAG,
    "provenance": {"...": TEXT},
    "notes": [TEXT],
}
# Sections of which a more exact layer may say a part.
_MERGED = ("claim", "job", "timeouts", "smoke", "benchmark")
# What is read of the documents of a vendor's model-cache directory.
BESIDE: dict[str, Any] = {
    "Job": {
        "metadata!": METADATA,
        "spec!": {
            "template!": {"spec!": {"containers!": [CONTAINER], "...": ANYTHING}, "...": ANYTHING},
            "...": ANYTHING,
        },
        "...": ANYTHING,
    },
    "PersistentVolumeClaim": {
        "metadata!": METADATA,
        "spec!": {"resources!": {"requests!": {"storage!": AMOUNT, "...": ANYTHING}, "...": ANYTHING}, "...": ANYTHING},
        "...": ANYTHING,
    },
}


@dataclass
class Recipe:
    """A target with its portable manifests (support objects first) and its metadata.

    meta: model.yml and recipe.yml as one dictionary, the recipe's own words win. notes: what people should know.
    """

    target: str
    directory: str
    manifests: list[Manifest]
    meta: dict[str, Any]
    notes: list[str] = field(default_factory=list)


def find(directories: Iterable[str]) -> dict[str, str]:
    """{canonical target: directory of its deploy.yaml}; of two with the same name the first directory's counts.

    :raises DynamoError: RECIPE_PATH when a directory is missing.
    """
    found: dict[str, str] = {}
    for root in directories:
        if not os.path.isdir(root):
            raise DynamoError(f"dynamo_recipe_paths: {root} is not a directory", "RECIPE_PATH")
        above = {root: {os.path.realpath(root)}}  # of each directory, itself and what leads to it
        for directory, folders, files in os.walk(root, followlinks=True):
            real = {folder: os.path.realpath(os.path.join(directory, folder)) for folder in folders}
            folders[:] = sorted(folder for folder in folders if real[folder] not in above[directory])
            above |= {os.path.join(directory, folder): above[directory] | {real[folder]} for folder in folders}
            target = os.path.relpath(directory, root).replace(os.sep, "/")
            if MANIFESTS in files and target != ".":
                found.setdefault(target, directory)
    return found


def short_names(target: str) -> set[str]:
    """The short forms of a canonical name: framework-gpu, framework-topology-gpu, framework-directory."""
    parts = target.lower().split("/")
    framework = next((part for part in parts if part in FRAMEWORKS), "")
    words = parts[-1].split("-")
    gpu = next((word for word in words if GPU_NAME.match(word)), "")
    if not framework or not gpu:
        return set()
    topology = words[0] if words[0] in ("agg", "disagg") else ""
    names = {f"{framework}-{gpu}", f"{framework}-{parts[-1]}"}
    return names | ({f"{framework}-{topology}-{gpu}"} if topology else set())


def resolve(name: str, catalog: Mapping[str, str]) -> str:
    """The canonical target that `name` means.

    :raises DynamoError: TARGET_UNKNOWN (also for no name), TARGET_AMBIGUOUS; both list what there is.
    """
    wanted = (name or "").strip().strip("/").lower()
    listing = f"There is: {', '.join(catalog)}." if catalog else "The catalog is empty."
    if not wanted:
        raise DynamoError(
            "no target is given (-e target=..., or dynamo_target in the inventory).", "TARGET_UNKNOWN", listing
        )
    fits = [target for target in catalog if target.lower() == wanted]
    fits = fits or [target for target in catalog if wanted in short_names(target)]
    fits = fits or [target for target, directory in catalog.items() if wanted in deployment_names(directory)]
    if len(fits) == 1:
        return fits[0]
    words = set(re.split("[-/]", wanted))
    parts = [target for target in catalog if words <= set(re.split("[-/]", target.lower()))]
    fits = fits or (parts if len(parts) > 1 else [])
    if fits:
        raise DynamoError(
            f"target {name} fits {len(fits)} targets: {', '.join(fits)}.", "TARGET_AMBIGUOUS", "Name one of them."
        )
    forms = {form: target for target in catalog for form in {target.lower(), *short_names(target)}}
    close = parts or difflib.get_close_matches(wanted, forms, 1)
    guess = f"Did you mean {close[0]}? " if close else ""
    raise DynamoError(f"target {name} is not in the catalog.", "TARGET_UNKNOWN", guess + listing)


def check_gpu(gpu: str, catalog: Mapping[str, str]) -> None:
    """DynamoError BAD_OPTION for a GPU that no target is for: the inventory means another one, nearly always.

    A target counts by its metadata, else by its name; one that names no GPU at all may be for any.
    """
    known: set[str] = set()
    for target, directory in catalog.items():
        meta: dict[str, Any] = {}
        model = os.path.join(directory[: -len(target)], target.split("/")[0])
        for path in (os.path.join(model, "model.yml"), os.path.join(directory, "recipe.yml")):
            try:
                meta |= _metadata(path)
            except DynamoError:
                continue  # it is explained when that target is asked for
        named = [meta.get("gpu"), *(meta.get("gpu_products") or [])]
        names = {str(name).upper() for name in named if name}
        names = names or {word.upper() for word in re.split("[-/]", target.lower()) if GPU_NAME.match(word)}
        if not names:
            return
        known |= names
    if gpu.upper() in known or f"NVIDIA-{gpu.upper()}" in known:
        return
    close = difflib.get_close_matches(gpu.upper(), sorted(known), 1)
    raise DynamoError(
        f"dynamo_gpu is {gpu!r}: the catalog has no target for it, only for {', '.join(sorted(known))}.",
        "BAD_OPTION",
        f"Did you mean {close[0]}?" if close else "",
    )


def deployment_names(directory: str) -> set[str]:
    """Names of the deployments in a directory's deploy.yaml, in lower case."""
    try:
        with open(os.path.join(directory, MANIFESTS), encoding="utf-8") as stream:
            documents = _yaml.load_all(stream)
    except (OSError, UnicodeDecodeError, _yaml.NotYaml):
        return set()  # a broken recipe must not spoil the name of another one; it is explained when it is asked for
    return {
        str(document["metadata"].get("name", "")).lower()
        for document in documents
        if isinstance(document, dict)
        and document.get("kind") == "DynamoGraphDeployment"
        and isinstance(document.get("metadata"), dict)
    }


def load_yaml(path: str) -> list[Any]:
    """The documents of a YAML file that aren't empty.

    :raises DynamoError: RECIPE, with file and line.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            return [document for document in _yaml.load_all(stream) if document is not None]
    except _yaml.NotYaml as error:
        where = f"{path}:{error.line}" if error.line else path
        raise DynamoError(f"{where}: not readable as YAML: {error.problem}", "RECIPE") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DynamoError(f"{path}: not readable: {error}", "RECIPE") from error


def read(target: str, catalog: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe of a canonical target.

    :param overrides: dynamo_recipe of the inventory: metadata that wins over the recipe's own.
    :raises DynamoError: RECIPE when the files are not a usable recipe, RECIPE_INCOMPLETE when metadata is missing.
    """
    directory = catalog[target]
    path = os.path.join(directory, MANIFESTS)
    manifests = checked(load_yaml(path), path)
    root = directory[: -len(target)]
    model = _metadata(os.path.join(root, target.split("/")[0], "model.yml"))
    recipe = _metadata(os.path.join(directory, "recipe.yml"))
    wrong = problem(overrides or {}, META, "dynamo_recipe")
    if wrong:
        raise DynamoError(f"{wrong}.", "BAD_OPTION")
    notes: list[str] = list(recipe.get("notes") or [])
    origins = {**(model.get("provenance") or {}), **(recipe.get("provenance") or {})}
    own = {**model, **recipe, "provenance": origins}
    derived: dict[str, Any] = {}
    if not recipe:
        derived, found = derive(manifests, target, _beside(os.path.join(root, target.split("/")[0])))
        notes += found
    meta = {**derived, **own, **(overrides or {})}
    for key in _MERGED:
        layers = [layer.get(key) or {} for layer in (derived, model, recipe, overrides or {})]
        if any(layers):
            meta[key] = {name: value for layer in layers for name, value in layer.items()}
    if str(meta.get("reads", "")).startswith("/") and meta.get("repositories"):
        first, *others = meta["repositories"]  # the first is the model's
        if first.get("layout") != "hub":
            meta["repositories"] = [{"layout": "folder", "path": meta["reads"], **first}, *others]
    for key in ("served_model", "repositories"):
        if not meta.get(key):
            reads = f"; the workers read {meta['reads']}" if meta.get("reads") else ""
            raise DynamoError(
                f"{path}: {key} can't be told from the manifests{reads}.",
                "RECIPE_INCOMPLETE",
                f"Set dynamo_recipe.{key}.",
            )
    return Recipe(target, directory, manifests, meta, notes)


def kustomized(recipe: Recipe, documents: list[Any], directory: str) -> Recipe:
    """The recipe with the manifests that a Kustomization made of it, and the claim that they mount.

    :raises DynamoError: RECIPE when they are not a portable deployment, or not of this recipe.
    """
    manifests = checked(documents, directory)
    before, after = graph(recipe.manifests)["metadata"]["name"], graph(manifests)["metadata"]["name"]
    if before != after:
        raise DynamoError(
            f"dynamo_kustomization: {directory} builds {after}, the target {recipe.target} is {before}.", "RECIPE"
        )
    claim = claim_of(manifests)
    meta = {**recipe.meta, "claim": {**(recipe.meta.get("claim") or {}), **({"name": claim} if claim else {})}}
    return replace(recipe, manifests=manifests, meta=meta)


def _beside(model: str) -> list[Any]:
    """The documents of a vendor's model-cache directory; a file that can't be read says nothing."""
    directory = os.path.join(model, "model-cache")
    found: list[Any] = []
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
        if name.endswith((".yaml", ".yml")):
            try:
                found += [without_nulls(document) for document in load_yaml(os.path.join(directory, name))]
            except DynamoError:
                continue
    return [
        d for d in found if isinstance(d, dict) and not problem(d, BESIDE.get(str(d.get("kind")), {"...": ANYTHING}))
    ]


def _metadata(path: str) -> dict[str, Any]:
    if not os.path.exists(path):
        return {}
    documents = load_yaml(path)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise DynamoError(f"{path}: must be one dictionary", "RECIPE")
    wrong = problem(documents[0], META)
    if wrong:
        raise DynamoError(f"{path}: {wrong}", "RECIPE")
    return documents[0]


def _unwritten(manifest: Manifest) -> Manifest:
    """The manifest without what only a cluster knows."""
    made = {key: value for key, value in manifest.items() if key != "status"}
    made["metadata"] = {key: value for key, value in manifest["metadata"].items() if key not in _WRITTEN}
    notes = made["metadata"].get("annotations")
    if isinstance(notes, dict):
        made["metadata"]["annotations"] = {k: v for k, v in notes.items() if k not in _WRITTEN_ANNOTATIONS}
    return made


def checked(documents: list[Any], path: str) -> list[Manifest]:
    """The manifests of a deploy.yaml, support objects first.

    :raises DynamoError: RECIPE for anything that isn't a portable v1beta1 recipe.
    """

    def wrong(problem: str) -> DynamoError:
        return DynamoError(f"{path}: {problem}", "RECIPE")

    graphs, support = [], []
    for document in documents:
        metadata = document.get("metadata") if isinstance(document, dict) else None
        if not isinstance(metadata, dict) or not metadata.get("name"):
            raise wrong("a document is not a Kubernetes object with a name")
        document = _unwritten(without_nulls(document))
        kind, version = document.get("kind"), document.get("apiVersion")
        if kind == "DynamoGraphDeployment":
            if version != "nvidia.com/v1beta1":
                raise wrong(
                    f"{version} is not supported: only nvidia.com/v1beta1 names its components and pod templates"
                )
            graphs.append(document)
        elif isinstance(kind, str) and kind in SUPPORTING and version == SUPPORTING[kind]:
            support.append(document)
        else:
            raise wrong(
                f"{kind} {version} has no place in a portable recipe; it holds ConfigMap, ComputeDomain and one graph"
            )
        odd = problem(document, SUPPORT.get(kind, GRAPH), null=False)
        odd = odd or next((f"{where}: {secret}" for where, secret in _secrets.found(document)), "")
        if odd:
            raise wrong(f"{kind} {metadata['name']}: {odd}")
    if len(graphs) != 1:
        raise wrong(f"holds {len(graphs)} DynamoGraphDeployments, must be one")
    components = graphs[0]["spec"].get("components")
    if not isinstance(components, list) or not components:
        raise wrong("spec.components must be a list with at least one component")
    for component in components:
        check_component(component, wrong)
    names = [component["name"].lower() for component in components]
    if len(set(names)) != len(names):
        raise wrong(f"two components have the same name: {', '.join(c['name'] for c in components)}")
    if not workers_of(graphs[0]):
        raise wrong(f"has no component of type {', '.join(WORKER_TYPES)}: nothing would hold the model")
    return [*sorted(support, key=lambda manifest: manifest["kind"] != "ConfigMap"), graphs[0]]
