# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the two ways to change a manifest by hand: strategic merge, and JSON 6902 with tests. Pure functions.

A merge gives what standalone kustomize v5.8.1 gives with the vendor's dynamo-openapi: new list entries come first. Two
differences are on purpose: an entry that is there keeps its place (kustomize moves it to the front, where patches by
index don't find it), and a variable that gets a value loses its old source.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._binding import refuse

# Lists that merge by a key, as in the vendor's OpenAPI schema of the kind; any other list is replaced.
MERGE_KEYS = {
    "components": "name",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "claims": "name",
    "resourceClaims": "name",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "extraClientPods": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
}
_INDEX = re.compile(r"0|[1-9][0-9]*").fullmatch
OPERATIONS = ("test", "add", "replace", "remove")


def merge(target: dict[str, Any], patch: Mapping[str, Any], path: str) -> None:
    """Merge `patch` into `target`: null removes a key, lists of MERGE_KEYS merge by their key.

    :param path: of the patch in dynamo_binding, for messages.
    :raises DynamoError: BINDING for a directive ($patch and the like) or a list entry without its key.
    """
    for key, value in patch.items():
        where = f"{path}.{key}"
        if str(key).startswith("$"):
            raise refuse(where, "directives are not supported; null removes a key")
        if value is None:
            target.pop(key, None)
        elif isinstance(value, Mapping):
            if not isinstance(target.get(key), dict):
                target[key] = {}
            merge(target[key], value, where)
        elif isinstance(value, list) and key in MERGE_KEYS:
            target[key] = _merge_list(target.get(key) or [], value, MERGE_KEYS[key], where)
        else:
            target[key] = copy.deepcopy(value)


def _merge_list(old: list[Any], patch: list[Any], by: str, path: str) -> list[Any]:
    kept = list(old)
    first: list[Any] = []
    for index, entry in enumerate(patch):
        if not isinstance(entry, Mapping) or by not in entry:
            raise refuse(f"{path}[{index}]", f"needs {by}, by which the list is merged")
        same = next((item for item in kept if item.get(by) == entry[by]), None)
        if same is None:
            first.append({})
            merge(first[-1], entry, f"{path}[{index}]")
            continue
        source = {"value", "valueFrom"}
        if by == "name" and source & same.keys() and source & entry.keys():
            for key in source - entry.keys():
                same.pop(key, None)  # a variable has one source; both are refused by the API
        merge(same, entry, f"{path}[{index}]")
    return first + kept


def json6902(document: dict[str, Any], operations: list[Any], path: str) -> None:
    """Apply JSON 6902 operations in place, all or none.

    :raises DynamoError: BINDING when one doesn't apply, a test fails, or a place in a list is changed without a
        test of it: of what is there, below it, or of the whole list. A place to add at needs none.
    """
    changed = copy.deepcopy(document)
    tested: list[list[str]] = []
    for index, operation in enumerate(operations):
        where = f"{path}[{index}]"
        if not isinstance(operation, Mapping) or operation.get("op") not in OPERATIONS:
            raise refuse(where, f"op must be one of {', '.join(OPERATIONS)}")
        pointer = operation.get("path")
        if not isinstance(pointer, str) or not pointer.startswith("/"):
            raise refuse(where, "path must begin with /")
        if operation["op"] != "remove" and "value" not in operation:
            raise refuse(where, f"{operation['op']} needs a value")
        words = [word.replace("~1", "/").replace("~0", "~") for word in pointer[1:].split("/")]
        if operation["op"] == "test":
            tested.append(words)
        else:
            last = len(words) - (operation["op"] == "add")
            for end in (number for number, word in enumerate(words[:last], 1) if _INDEX(word)):
                if not any(test[:end] == words[: min(end, len(test))] for test in tested):
                    place = "/".join(pointer.split("/")[: end + 1])
                    raise refuse(where, f"{place} is a place in a list: test before it what is there, for lists change")
        _operate(changed, operation, words, where)
        if operation["op"] in ("add", "remove") and _INDEX(words[-1]):  # what comes after it has moved
            end = len(words)
            tested = [t for t in tested if t[: end - 1] != words[:-1] or len(t) < end or _before(t[end - 1], words[-1])]
    document.clear()
    document.update(changed)


def _before(word: str, index: str) -> bool:
    return bool(_INDEX(word)) and int(word) < int(index)


def _operate(document: dict[str, Any], operation: Mapping[str, Any], words: list[str], where: str) -> None:
    op, pointer = operation["op"], operation["path"]
    holder: Any = document
    for word in words[:-1]:
        holder = _child(holder, word, pointer, where)
    last = words[-1]
    if op == "test":
        found = _child(holder, last, pointer, where)
        if found != operation["value"]:
            raise refuse(where, f"{pointer} is {found!r}, not {operation['value']!r}")
        return
    value = copy.deepcopy(operation.get("value"))
    if op != "add":
        _child(holder, last, pointer, where)
    if isinstance(holder, list):
        if op == "add":
            if last != "-" and not (_INDEX(last) and int(last) <= len(holder)):
                raise refuse(where, f"{pointer} is no place in the list")
            holder.insert(len(holder) if last == "-" else int(last), value)
        elif op == "replace":
            holder[int(last)] = value
        else:
            del holder[int(last)]
    elif not isinstance(holder, dict):
        raise refuse(where, f"{pointer} doesn't exist")
    elif op == "remove":
        del holder[last]
    else:
        holder[last] = value


def _child(holder: Any, word: str, pointer: str, where: str) -> Any:
    if isinstance(holder, dict) and word in holder:
        return holder[word]
    if isinstance(holder, list) and _INDEX(word) and int(word) < len(holder):
        return holder[int(word)]
    raise refuse(where, f"{pointer} doesn't exist")
