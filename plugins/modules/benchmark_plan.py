#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_plan
short_description: What a benchmark of a release will do
version_added: 1.0.0
description:
  - Checks the load, reads a trace that comes from the controller, finds the earlier run to compare with, and makes the
    objects of the run. Asks no cluster and changes nothing.
  - What would make the comparison refused afterwards is refused here, before anything is measured.
author:
  - inferops.dynamo contributors (@inferops)
extends_documentation_fragment:
  - inferops.dynamo._attributes
options:
  release:
    description: The release, as RV(inferops.dynamo.preflight_info#module:release).
    type: dict
    required: true
  host:
    description: Name of the inventory host.
    type: str
    required: true
  preset:
    description: Name of a load that the recipe brings; O(load) wins over its keys.
    type: str
    default: ""
  load:
    description: The load. C(docs/benchmark.md) has its keys.
    type: dict
    default: {}
  script:
    description: The program that the Job runs, C(roles/benchmark/files/sweep.py).
    type: str
    required: true
  job:
    description: What the Job runs with.
    type: dict
    required: true
    suboptions:
      image:
        description: Image with AIPerf and Python.
        type: str
        default: ''
      env:
        description: Environment variables.
        type: dict
        default: {}
      resources:
        description: Requests and limits.
        type: dict
        default: {}
      tolerations:
        description: Tolerations of the pod.
        type: list
        elements: dict
        default: []
      node_selector:
        description: Labels of the nodes that it may run on.
        type: dict
        default: {}
      pull_secrets:
        description: Secrets for the image's registry, by name or as C({name}).
        type: list
        elements: raw
        default: []
      run_as:
        description: User id.
        type: int
        default: 1000
      beside_frontend:
        description: Run on the frontend's node.
        type: bool
        default: true
      deadline:
        description: Seconds after which the Job is stopped.
        type: int
        default: 10800
  synthetic_acceptance:
    description: Measure also a release that accepts drafts at a fixed rate.
    type: bool
    default: false
  output:
    description: Directory of all runs.
    type: path
    required: true
  baseline:
    description: The run to compare with, V(last), the name of a run below O(output), or a path. Empty for none.
    type: str
    default: ""
  max_regression:
    description: Percent by which the run may be worse than the baseline; the plan only refuses it without one.
    type: float
    default: 0
  claim_uid:
    description: The uid of the model cache's claim; without it a trace is staged anew.
    type: str
    default: ""
  staged:
    description: The records of traces that the model cache holds.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Plan the run
  inferops.dynamo.benchmark_plan:
    release: "{{ preflight_release }}"
    host: "{{ inventory_hostname }}"
    load: {input_tokens: 1000, output_tokens: 200, concurrency: [1, 16, 64]}
    script: "{{ lookup('ansible.builtin.file', 'sweep.py') }}"
    job: {image: example.com/aiperf, deadline: 3600}
    output: ~/benchmarks
    baseline: last
"""

RETURN = r"""
run:
  description: Name of the run.
  returned: success
  type: str
  sample: 20261130T180000Z-fra1
started:
  description: When the plan was made, UTC.
  returned: success
  type: str
folder:
  description: Where the results of the run go. It isn't made yet.
  returned: success
  type: str
load:
  description: The load with its defaults, its points, and the checksum of a trace from the controller.
  returned: success
  type: dict
deployment:
  description: What is measured, such as target, images, commits and number of GPUs.
  returned: success
  type: dict
definitions:
  description: ConfigMaps and Job.
  returned: success
  type: list
  elements: dict
record:
  description: The record of the trace that this run stages; empty when it stages none.
  returned: success
  type: dict
baseline:
  description: The summary file to compare with, or an empty string.
  returned: success
  type: str
"""

import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.common.validation import check_type_path

from ansible_collections.inferops.dynamo.plugins.module_utils import _benchjob, _benchload, _benchsummary, _secrets
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, run_module

ARGUMENT_SPEC: dict[str, Any] = {
    "release": {"type": "dict", "required": True},
    "host": {"type": "str", "required": True},
    "preset": {"type": "str", "default": ""},
    "load": {"type": "dict", "default": {}},
    "script": {"type": "str", "required": True},
    "job": {
        "type": "dict",
        "required": True,
        "options": {
            "image": {"type": "str", "default": ""},
            "env": {"type": "dict", "default": {}},
            "resources": {"type": "dict", "default": {}},
            "tolerations": {"type": "list", "elements": "dict", "default": []},
            "node_selector": {"type": "dict", "default": {}},
            "pull_secrets": {"type": "list", "elements": "raw", "default": [], "no_log": False},
            "run_as": {"type": "int", "default": 1000},
            "beside_frontend": {"type": "bool", "default": True},
            "deadline": {"type": "int", "default": 10800},
        },
    },
    "synthetic_acceptance": {"type": "bool", "default": False},
    "output": {"type": "path", "required": True},
    "baseline": {"type": "str", "default": ""},
    "max_regression": {"type": "float", "default": 0},
    "claim_uid": {"type": "str", "default": ""},
    "staged": {"type": "list", "elements": "dict", "default": []},
}


def read_trace(path: str, wanted: str) -> tuple[bytes, str]:
    """Content and sha256 of a trace on this machine; DynamoError BENCHMARK_LOAD with the line that isn't a request."""
    try:
        content = Path(check_type_path(path)).read_bytes()
    except OSError as error:
        raise _benchload.refuse("trace.file", f"{path} can't be read: {error.strerror}") from error
    rows = [(number, line) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
    if not rows:
        raise _benchload.refuse("trace.file", f"{path} has no request")
    for number, line in rows:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _benchload.refuse("trace.file", f"{path}:{number} is no JSON: {error}") from error
        if not isinstance(request, dict):
            raise _benchload.refuse("trace.file", f"{path}:{number} is no request, but {type(request).__name__}")
    found = hashlib.sha256(content).hexdigest()
    if wanted and wanted != found:
        raise _benchload.refuse("trace.sha256", f"{path} has {found}")
    return content, found


def read_summary(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def find_baseline(params: dict[str, Any], name: str, run: Run) -> str:
    """The summary file of the run to compare with; empty when there is none."""
    wanted, output = params["baseline"], Path(params["output"])
    if not wanted:
        return ""
    if wanted == "last":
        files = {str(path): read_summary(path) for path in output.glob("*/summary.json")}
        last = _benchsummary.newest(files.values(), params["host"], name, params["synthetic_acceptance"])
        if last is None:
            run.progress(
                f"benchmark_baseline: {output} has no whole run of {name} on this host yet: nothing to compare"
            )
        return next((path for path, summary in files.items() if summary is last), "")
    for path in (output / wanted, Path(check_type_path(wanted))):
        file = path / "summary.json" if path.is_dir() else path
        if {"schema", "run", "load"} <= read_summary(file).keys():
            return str(file)
    raise DynamoError(
        f"benchmark_baseline: {wanted} is neither a run below {output} nor a path to one.", "BENCHMARK_DIFFERS"
    )


def check_output(path: Path) -> None:
    """DynamoError REPORT_DIRECTORY before anything is measured whose numbers could not be kept."""
    there = next(place for place in (path, *path.parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        wrong = "can't be written to" if there.is_dir() else "is no directory"
        raise DynamoError(f"benchmark_output is {path}, and {there} {wrong}.", "REPORT_DIRECTORY")


def find_load(params: dict[str, Any]) -> _benchload.Load:
    presets = params["release"]["benchmark"]["presets"]
    if params["preset"] and params["preset"] not in presets:
        there = f"it has {', '.join(presets)}" if presets else "it has none"
        raise DynamoError(
            f"benchmark_preset: {params['release']['target']} has no preset {params['preset']}; {there}.",
            "BENCHMARK_LOAD",
        )
    return _benchload.normalise({**presets.get(params["preset"], {}), **params["load"]})


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """Everything that is decided before the cluster is asked."""
    release, job = params["release"], {**params["job"]}
    load = find_load(params)
    check_output(Path(params["output"]).absolute())
    if params["max_regression"] and not params["baseline"]:
        raise DynamoError(
            f"benchmark_max_regression is {params['max_regression']:g}, and benchmark_baseline names nothing to compare"
            " with; it must be last, a run or a path.",
            "BAD_OPTION",
        )
    if bool(release.get("synthetic_acceptance")) != params["synthetic_acceptance"]:
        raise DynamoError(
            f"benchmark_synthetic_acceptance is {params['synthetic_acceptance']}, and the release is the other one.",
            "BENCHMARK_SYNTHETIC",
            "Run playbook benchmark, which deploys the one that is asked for.",
        )
    if not job.get("image"):
        raise DynamoError(
            "benchmark_image: the recipe names no image; set one that has aiperf and Python.", "BENCHMARK_IMAGE"
        )
    for name, value in (job.get("env") or {}).items():
        if wrong := _secrets.problem(str(name), str(value)):
            raise DynamoError(f"benchmark_env.{name}: {wrong}", "BAD_OPTION")
    job["trust_remote_code"] = release["benchmark"]["trust_remote_code"]
    parts, record = [], {}
    if load["kind"] == "trace" and load["trace"]["source"] == "file":
        content, load["trace"]["sha256"] = read_trace(load["trace"]["name"], load["trace"]["sha256"])
        sha256, claim = load["trace"]["sha256"], params["claim_uid"]
        if not _benchjob.staged(params["staged"], sha256, claim):
            parts = _benchjob.parts_of(content)
            record = _benchjob.record(release, sha256, claim) if claim else {}
    now = time.gmtime()
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', now)}-{re.sub(r'[^A-Za-z0-9._-]', '_', params['host'])}"
    baseline = find_baseline(params, release["name"], run)
    if baseline:
        planned = {"run": name, "load": load, "deployment": _benchjob.identity(release)}
        _benchsummary.comparable(planned, read_summary(Path(baseline)))
    return {
        "run": name,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", now),
        "folder": os.path.join(params["output"], name),
        "load": load,
        "deployment": _benchjob.identity(release),
        "definitions": _benchjob.objects(release, load, params["script"], job, parts, name),
        "record": record,
        "baseline": baseline,
    }


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
