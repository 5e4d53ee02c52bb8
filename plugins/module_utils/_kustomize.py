# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: a user's private Kustomization directory -> manifests, by standalone kustomize and the vendor's validator.

Nothing outside the directories that are allowed is read, and nothing is fetched: kustomize itself would do both.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _secrets, _yaml
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._shape import ANYTHING, TEXT, problem

VERSION = "v5.8.1"
VALIDATOR = "scripts/validate-recipe-kustomization.py"
NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
SECONDS = 120
# Keys of a Kustomization: lists of paths, lists of objects with a path, generators with files.
_PATHS = (
    "resources",
    "components",
    "bases",
    "crds",
    "configurations",
    "patchesStrategicMerge",
)
_WITH_PATH = ("patches", "patchesJson6902", "replacements")
_GENERATORS = ("configMapGenerator", "secretGenerator")
_REFUSED = {
    **dict.fromkeys(("helmCharts", "helmChartInflationGenerator", "helmGlobals"), "would be fetched"),
    **dict.fromkeys(("generators", "transformers", "validators"), "may read any file; use configMapGenerator, patches"),
}
_PATCH = {"path": TEXT, **dict.fromkeys(("patch", "target", "options", "source", "targets"), ANYTHING)}
_GENERATOR = {
    **dict.fromkeys(("name", "namespace", "behavior", "type", "env"), TEXT),
    **{key: [TEXT] for key in ("files", "envs", "literals")},
    "options": ANYTHING,
}
# All keys that kustomize takes: upper and lower case are the same to it, and what is spelt otherwise isn't looked into.
_SHAPE: dict[str, Any] = {
    **dict.fromkeys(("apiVersion", "kind", "namePrefix", "nameSuffix", "namespace"), TEXT),
    **{key: [TEXT] for key in _PATHS},
    **{key: [_PATCH] for key in _WITH_PATH},
    **{key: [_GENERATOR] for key in _GENERATORS},
    "openapi": {"path": TEXT, "version": TEXT},
    **dict.fromkeys(("metadata", "commonLabels", "commonAnnotations", "labels", "generatorOptions"), ANYTHING),
    **dict.fromkeys(("images", "imageTags", "replicas", "vars", "sortOptions", "buildMetadata"), ANYTHING),
}


def build(directory: str, roots: Sequence[str], binary: str) -> list[Any]:
    """The documents that kustomize makes of a directory.

    :param roots: directories that may be read besides: recipes, and what the inventory allows.
    :raises DynamoError: KUSTOMIZATION_PATH, KUSTOMIZE_VERSION, KUSTOMIZE_BUILD.
    """
    check_paths(directory, roots)
    executable = find(binary)
    command = [executable, "build", "--load-restrictor", "LoadRestrictionsNone", directory]
    done = _run(command, "KUSTOMIZE_BUILD")
    if done.returncode:
        raise DynamoError(f"kustomize build {directory}: {_line(done.stderr)}", "KUSTOMIZE_BUILD")
    try:
        return [document for document in _yaml.load_all(io.StringIO(done.stdout)) if document is not None]
    except _yaml.NotYaml as error:
        raise DynamoError(
            f"kustomize build {directory}: its output is no YAML: {_line(str(error))}", "KUSTOMIZE_BUILD"
        ) from error


def find(binary: str) -> str:
    """The path of kustomize, which must have exactly VERSION: other versions merge differently.

    :raises DynamoError: KUSTOMIZE_VERSION.
    """
    hint = f"Install standalone kustomize {VERSION} (kubectl's own is another one) and set dynamo_kustomize to it."
    executable = shutil.which(binary)
    if not executable:
        raise DynamoError(f"there is no program {binary}.", "KUSTOMIZE_VERSION", hint)
    found = _run([executable, "version"], "KUSTOMIZE_VERSION").stdout.split()
    if found[-1:] != [VERSION]:
        raise DynamoError(f"{executable} is {' '.join(found) or 'no kustomize'}.", "KUSTOMIZE_VERSION", hint)
    return executable


def validate(validator: str, base: str, directory: str, binary: str) -> None:
    """Run the vendor's validator.

    :raises DynamoError: KUSTOMIZATION_REFUSED with its first error and all of its codes.
    """
    command = [sys.executable, validator, base, _file_of(directory), "--kustomize-bin", find(binary)]
    done = _run(command, "KUSTOMIZATION_REFUSED")
    if done.returncode:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR [")]
        codes = [line.partition("[")[2].partition("]")[0] for line in errors]
        raise DynamoError(
            f"the vendor's validator refuses {directory} (exit {done.returncode}): {_line(' '.join(errors or lines))}",
            "KUSTOMIZATION_REFUSED",
            "Its codes are explained beside the vendor's starter.",
            validator_codes=codes,
        )


def validator_of(recipe_paths: Iterable[str]) -> str:
    """The validator of the first vendor checkout among the directories (its recipes/), or nothing."""
    for path in recipe_paths:
        candidate = os.path.join(os.path.dirname(os.path.abspath(path)), VALIDATOR)
        if os.path.isfile(candidate):
            return candidate
    return ""


def check_paths(directory: str, roots: Sequence[str]) -> None:
    """Refuse what lies outside and what would be fetched, also in the directories that are referred to.

    :raises DynamoError: KUSTOMIZATION_PATH naming file and entry.
    """
    allowed = [os.path.realpath(root) for root in [directory, *roots]]
    todo, seen = [os.path.realpath(directory)], set()
    while todo:
        place = todo.pop()
        if place in seen:
            continue
        seen.add(place)
        file = _file_of(place)
        for entry in _entries(_load(file)):
            target = os.path.realpath(os.path.join(place, entry))
            wrong = ""
            if "://" in entry or "?ref=" in entry or entry.startswith(("git@", "github.com/")):
                wrong = "would be fetched"
            elif not any(target == root or target.startswith(root + os.sep) for root in allowed):
                wrong = "lies outside of the directory, the recipes and dynamo_kustomization_roots"
            elif not os.path.exists(target):
                wrong = "doesn't exist"
            if wrong:
                raise DynamoError(f"{file}: {entry} {wrong}.", "KUSTOMIZATION_PATH")
            if os.path.isdir(target):
                todo.append(target)


def _file_of(directory: str) -> str:
    for name in NAMES:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            return path
    raise DynamoError(f"dynamo_kustomization: {directory} holds no kustomization.yaml.", "KUSTOMIZATION_PATH")


def _load(file: str) -> Mapping[str, Any]:
    try:
        with open(file, encoding="utf-8") as stream:
            documents = _yaml.load_all(stream)
    except (OSError, UnicodeDecodeError, _yaml.NotYaml) as error:
        raise DynamoError(f"{file}: not readable as YAML: {_line(str(error))}", "KUSTOMIZATION_PATH") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise DynamoError(f"{file}: must be one dictionary.", "KUSTOMIZATION_PATH")
    refused = [key for key in documents[0] if key in _REFUSED]
    wrong = f"{refused[0]} {_REFUSED[refused[0]]}" if refused else problem(documents[0], _SHAPE)
    if wrong:
        raise DynamoError(f"{file}: {wrong}.", "KUSTOMIZATION_PATH")
    return documents[0]


def _entries(content: Mapping[str, Any]) -> Iterator[str]:
    """Every path that a Kustomization reads; entries of several lines are manifests, not paths."""
    for key in _PATHS:
        yield from (str(item) for item in content.get(key) or [] if "\n" not in str(item))
    for key in _WITH_PATH:
        yield from (str(item["path"]) for item in content.get(key) or [] if item.get("path"))
    if (content.get("openapi") or {}).get("path"):
        yield str(content["openapi"]["path"])
    for key in _GENERATORS:
        for item in content.get(key) or []:
            yield from (str(name).partition("=")[2] or str(name) for name in item.get("files") or [])
            yield from (str(name) for name in [*(item.get("envs") or []), item.get("env")] if name)


def _run(command: list[str], code: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DynamoError(f"{command[0]}: {_line(str(error))}", code) from error


def _line(text: str) -> str:
    """The words of another program, which may quote a whole patch, without the secrets in it."""
    text = re.sub(r'`.*`|\[patch: ".*"\]', "...", text, flags=re.S)
    return " ".join(_secrets.mask(text).split())[:600]
