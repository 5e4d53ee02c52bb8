# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what a component tells its engine: arguments, variables, and the configuration files that they name."""

from __future__ import annotations

import io
import json
import posixpath
import re
import shlex
from collections.abc import Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _yaml
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import GPU, Manifest, main_container

VARIABLE = re.compile(r"(?<!\$)\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
SHELL_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
# Spellings of the three engines (facts: engine-args). Keys of their YAML files are the same words, with _ or -.
FLAGS = {
    "model": ("--model", "--model-path"),
    "served_model": ("--served-model-name",),
    "revision": ("--revision",),
    "context": ("--max-model-len", "--context-length", "--max-seq-len"),
    "tensor": ("--tensor-parallel-size", "--tp-size", "--tp", "-tp"),
    "pipeline": ("--pipeline-parallel-size", "--pp-size", "--pp", "-pp"),
    "data": ("--data-parallel-size", "--dp-size", "--dp", "-dp"),
    "rank": ("--data-parallel-rank",),
    "data_local": ("--data-parallel-size-local",),
    "shared_data": ("--enable-dp-attention", "--enable-attention-dp"),
}
FILES = ("--config", "--extra-engine-args")
DRAFT_WORDS = ("path", "revision")
_USER_CACHE = re.compile(r"(/root|/home/[^/]+)/\.cache(/huggingface(/hub)?)?")


def expanded_arguments(component: Mapping[str, Any], manifests: list[Manifest]) -> dict[str, str]:
    """{flag: value} of the container main, with $(VAR) resolved from its env and the ConfigMaps; a bare flag has "".

    Of a flag that comes twice the last counts, as for the engines."""
    main = main_container(component)
    env = variables(component, manifests)
    words = [*(main.get("command") or []), *(main.get("args") or [])]
    if len(words) > 2 and words[0].rsplit("/", 1)[-1] in ("sh", "bash"):
        words = [SHELL_VARIABLE.sub(lambda m: env.get(m[1], m[0]), word) for word in _engine_command(words[-1])]
    words = [VARIABLE.sub(lambda match: env.get(match[1], match[0]), word) for word in words]
    found: dict[str, str] = {}
    for index, word in enumerate(words):
        if word.startswith("-"):
            flag, equals, value = word.partition("=")
            following = words[index + 1] if index + 1 < len(words) else ""
            found[flag] = value if equals else "" if following.startswith("--") else following
    return found


def _engine_command(script: str) -> list[str]:
    """The words of the command in a shell script that starts a Dynamo module."""
    for line in script.replace("\\\n", " ").splitlines():
        if "-m dynamo." in line:
            try:
                return shlex.split(line)
            except ValueError:
                return line.split()
    return []


def variables(component: Mapping[str, Any], manifests: list[Manifest]) -> dict[str, str]:
    """{name: text} of the container main, as far as the manifests tell."""
    data = {m["metadata"]["name"]: m.get("data", {}) for m in manifests if m["kind"] == "ConfigMap"}
    env: dict[str, str] = {}
    shared = [entry for m in manifests if m["kind"] == "DynamoGraphDeployment" for entry in m["spec"].get("env") or []]
    for entry in [*shared, *(main_container(component).get("env") or [])]:
        reference = (entry.get("valueFrom") or {}).get("configMapKeyRef") or {}
        text = entry.get("value") or data.get(reference.get("name"), {}).get(reference.get("key"), "")
        env[entry["name"]] = VARIABLE.sub(lambda match: env.get(match[1], match[0]), text)
    return env


def settings(component: Mapping[str, Any], manifests: list[Manifest]) -> dict[str, str]:
    """What of FLAGS a component sets, by arguments or in the files that they name; arguments win."""
    given = expanded_arguments(component, manifests)
    for flag in FILES:
        if flag in given:
            content = _file(component, given[flag], manifests)
            for key, value in content.items():
                if isinstance(value, (str, int)):
                    given.setdefault("--" + str(key).replace("_", "-"), "" if value is True else str(value))
    return {
        name: next(given[flag] for flag in flags if flag in given)
        for name, flags in FLAGS.items()
        if any(flag in given for flag in flags)
    }


def reads(component: Mapping[str, Any], manifests: list[Manifest]) -> list[tuple[str, str]]:
    """(repository or path, revision) of the model and the draft that a component's engine loads."""
    given, arguments = settings(component, manifests), expanded_arguments(component, manifests)
    found = [(given.get("model", ""), given.get("revision", ""))]
    try:
        draft = json.loads(arguments.get("--speculative-config", "{}"))
        found.append((str(draft.get("model") or ""), str(draft.get("revision") or "")))
    except (ValueError, AttributeError):
        pass
    draft_model, draft_revision = (arguments.get(f"--speculative-draft-model-{what}", "") for what in DRAFT_WORDS)
    return [pair for pair in [*found, (draft_model, draft_revision)] if pair[0]]


def hub_of(component: Mapping[str, Any], manifests: list[Manifest]) -> str:
    """The directory where a component's engine looks for models of the hub."""
    env = variables(component, manifests)
    explicit = expanded_arguments(component, manifests).get("--download-dir")
    explicit = explicit or env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE")
    if explicit:
        return posixpath.normpath(explicit)
    mounts = [str(mount["mountPath"]) for mount in main_container(component).get("volumeMounts") or []]
    users = [match[1] for match in map(_USER_CACHE.fullmatch, mounts) if match]
    cache = env.get("XDG_CACHE_HOME") or f"{env.get('HOME') or next(iter(users), '/root')}/.cache"
    return posixpath.normpath(f"{env.get('HF_HOME') or f'{cache}/huggingface'}/hub")


def place_of(component: Mapping[str, Any], path: str) -> tuple[dict[str, Any], str]:
    """The source of the volume of a path of the container main, and the path within it; ({}, "") if none has it."""
    spec = component["podTemplate"]["spec"]
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or []}
    mounts = [
        (mount, str(mount["mountPath"]).rstrip("/")) for mount in main_container(component).get("volumeMounts") or []
    ]
    fitting = [(mount, top) for mount, top in mounts if f"{path}/".startswith(f"{top}/")]
    if not fitting:
        return {}, ""
    mount, top = max(fitting, key=lambda pair: len(pair[1]))
    inside = posixpath.normpath(posixpath.join(mount.get("subPath") or "", path[len(top) :].strip("/")))
    source = {key: item for key, item in volumes.get(mount["name"], {}).items() if key != "name"}
    return source, inside


def _file(component: Mapping[str, Any], path: str, manifests: list[Manifest]) -> dict[str, Any]:
    """A YAML file of a ConfigMap that the container main mounts; empty when it is anything else."""
    maps = {m["metadata"]["name"]: m.get("data", {}) for m in manifests if m["kind"] == "ConfigMap"}
    volumes = {v["name"]: v.get("configMap") for v in component["podTemplate"]["spec"].get("volumes", [])}
    for mount in main_container(component).get("volumeMounts", []):
        source = volumes.get(mount["name"])
        if source and posixpath.dirname(path) == str(mount["mountPath"]).rstrip("/"):
            name = posixpath.basename(path)
            keys = {item["path"]: item["key"] for item in source.get("items") or []}
            try:
                content = _yaml.load_all(io.StringIO(maps.get(source.get("name"), {}).get(keys.get(name, name), "")))
            except _yaml.NotYaml:
                return {}
            return content[0] if len(content) == 1 and isinstance(content[0], dict) else {}
    return {}


def tokens(text: str) -> int | None:
    """A number of tokens as vLLM reads it: 4096, 256k (thousands), 256K (times 1024)."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgG]?)", text)
    if not match:
        return None
    base = 1000 if match[2].islower() else 1024
    return int(float(match[1]) * base ** " kmg".index(match[2].lower() or " "))


def gpus_of(component: Mapping[str, Any]) -> int:
    """GPUs of one pod of a component."""
    resources = main_container(component).get("resources", {})
    return int(resources.get("limits", {}).get(GPU) or resources.get("requests", {}).get(GPU) or 0)


def gpus_wanted(given: Mapping[str, str], nodes: int) -> int | None:
    """GPUs of one pod that the engine's parallelism needs, None when the arguments don't tell.

    :param given: as `settings` returns them.
    :param nodes: pods of one worker.
    """
    numbers = {
        name: int(given.get(name, "1")) for name in ("tensor", "pipeline", "data") if given.get(name, "1").isdecimal()
    }
    if not numbers.keys() & given.keys() or len(numbers) < 3:
        return None
    data = 1 if given.keys() & {"shared_data", "rank"} else numbers["data"]
    if given.get("data_local", "").isdecimal():
        return numbers["tensor"] * numbers["pipeline"] * int(given["data_local"])
    return -(-numbers["tensor"] * numbers["pipeline"] * data // nodes)
