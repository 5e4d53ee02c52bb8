# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the numbered records of a release, one ConfigMap `<dgd>-r<number>` for each change. Pure functions."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from ansible_collections.inferops.dynamo.plugins.module_utils._objects import LABELS

RECORD_LABEL = "inferops.dynamo/record"


class Record(TypedDict):
    """One change of a release. when: UTC, ISO 8601; models: {id, commit, path}; outcome: a word, e.g. applied."""

    name: str
    number: int
    target: str
    digest: str
    operator_version: str
    models: list[dict[str, str]]
    who: str
    when: str
    outcome: str


def manifests(release: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Everything that a release applies, in the order of application."""
    domain = release.get("compute_domain")
    return [*release["config_maps"], *([domain["manifest"]] if domain else []), release["manifest"]]


def pack(objects: list[dict[str, Any]]) -> str:
    """Compressed JSON as base64; the same objects give the same text."""
    text = json.dumps(objects, sort_keys=True, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def unpack(text: str) -> list[dict[str, Any]]:
    """The reverse of `pack`."""
    objects: list[dict[str, Any]] = json.loads(gzip.decompress(base64.b64decode(text)))
    return objects


def record_name(release_name: str, number: int) -> str:
    return f"{release_name}-r{number}"


def build(
    release: Mapping[str, Any], number: int, *, who: str, when: str, outcome: str, operator_version: str = ""
) -> dict[str, Any]:
    """The ConfigMap of one record."""
    models = [{key: model.get(key) or "" for key in ("id", "commit", "path")} for model in release["models"]]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": record_name(release["name"], number),
            "namespace": release["namespace"],
            "labels": {**LABELS, "inferops.dynamo/release": release["name"], RECORD_LABEL: release["name"]},
        },
        "data": {
            "number": str(number),
            "target": release["target"],
            "digest": release["digest"],
            "manifests": pack(manifests(release)),
            "operator_version": operator_version,
            "models": json.dumps(models, sort_keys=True),
            "who": who,
            "when": when,
            "outcome": outcome,
            **({"synthetic_acceptance": "true"} if release.get("synthetic_acceptance") else {}),
        },
    }


def parse(config_map: Mapping[str, Any]) -> Record:
    """A record from its ConfigMap; what an older or damaged one lacks is empty."""
    data = config_map.get("data") or {}
    name = config_map["metadata"]["name"]
    number = data.get("number") or (re.search(r"-r([0-9]+)\Z", name) or ["", "0"])[1]
    return Record(
        name=name,
        number=int(number) if str(number).isdecimal() else 0,
        target=data.get("target", ""),
        digest=data.get("digest", ""),
        operator_version=data.get("operator_version", ""),
        models=json.loads(data.get("models") or "[]"),
        who=data.get("who", ""),
        when=data.get("when", ""),
        outcome=data.get("outcome", ""),
    )


def records(config_maps: Iterable[Mapping[str, Any]], release_name: str) -> list[Record]:
    """The records of one release, newest first."""
    ours = (c for c in config_maps if (c["metadata"].get("labels") or {}).get(RECORD_LABEL) == release_name)
    return sorted((parse(c) for c in ours), key=lambda record: record["number"], reverse=True)


def next_number(found: Iterable[Record]) -> int:
    """Numbers are never used twice as long as the newest record stays."""
    return max((record["number"] for record in found), default=0) + 1
