# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What real runs of AIPerf 0.13.0 against the real frontend left, cut down to what is read: three points that are
whole, and one whose worker was killed midway (AIPerf ended with 0, is_complete true, was_cancelled false)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _benchload, _benchsummary

RUNS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("aiperf.json").read_text("utf-8"))
NAMES = ("concurrency-1", "concurrency-2", "concurrency-4")
LOAD = _benchload.normalise(
    {"input_tokens": 200, "output_tokens": 20, "shared_prefix": 0.5, "concurrency": [1, 2, 4], "requests": 40}
)
IDENTITY: dict[str, Any] = {
    "target": "minimax-m3.1/sglang/agg-gb300",
    "name": "minimax-m3-1-sglang-agg-gb300",
    "namespace": "llm",
    "framework": "sglang",
    "topology": "agg",
    "served_model": "minimax-m3.1",
    "images": ["example.com/sglang:1"],
    "models": [{"id": "acme/tiny", "commit": "c" * 40}],
    "gpu": "GB300",
    "gpus": 4,
    "workers": {"Worker": 1},
    "arguments": "0123456789ab",
    "release": "r" * 64,
    "synthetic_acceptance": False,
}
ABOUT: dict[str, Any] = {"run": "one", "host": "fra1", "started": "2026-11-30T18:00:00Z", "trace": {}, "failure": {}}
ABOUT["finished"] = "2026-11-30T18:05:00Z"


def files(name: str, **changes: Any) -> dict[str, bytes]:
    """A point's files; changes: keys of the export."""
    found = copy.deepcopy(RUNS[name])
    found["profile_export_aiperf.json"].update(changes)
    return {file: json.dumps(content).encode() for file, content in found.items()}


def measured(**points: dict[str, bytes]) -> dict[str, dict[str, bytes]]:
    """The files of all three points; keyword c4: those of another one in place of concurrency-4."""
    found = {name: files(name) for name in NAMES}
    return {**found, **{name.replace("c", "concurrency-"): content for name, content in points.items()}}


def summary(found: dict[str, dict[str, bytes]] | None = None, **about: Any) -> dict[str, Any]:
    identity = {**IDENTITY, **about.pop("identity", {})}
    load = about.pop("load", LOAD)
    return _benchsummary.build(identity, load, measured() if found is None else found, {**ABOUT, **about})
