#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_wait
short_description: Wait for a benchmark's Job and fetch its results
version_added: 1.0.0
description:
  - Waits as M(inferops.dynamo.job_wait) does, says which point is measured, and ends early with the cause, such as a
    worker of the release that died or was replaced, or requests that fail.
  - Takes AIPerf's files out of the log of the Job's pod and writes them, also those of the points that were measured
    before a failure. Needs get on jobs, list on pods and events, and get on pods/log, nothing else.
  - In check mode nothing is waited for.
author:
  - inferops.dynamo contributors (@inferops)
options:
  name:
    description: Name of the Job.
    type: str
    required: true
  namespace:
    description: Namespace of Job and release.
    type: str
    required: true
  release:
    description: Name of the release whose workers are watched.
    type: str
    required: true
  folder:
    description: Where to write the results, one directory for each point. It is made.
    type: path
    required: true
  timeout:
    description: Seconds to wait.
    type: int
    required: true
  interval:
    description: Seconds between two looks.
    type: float
    default: 3
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - inferops.dynamo._attributes
  - inferops.dynamo._attributes.cluster
"""

EXAMPLES = r"""
- name: Measure
  inferops.dynamo.benchmark_wait:
    namespace: llm
    name: minimax-m3-1-sglang-agg-gb300-benchmark
    release: minimax-m3-1-sglang-agg-gb300
    folder: ~/benchmarks/20261130T180000Z-fra1
    timeout: 10800
"""

RETURN = r"""
verdict:
  description: How the wait ended, as RV(inferops.dynamo.job_wait#module:verdict).
  returned: always
  type: dict
points:
  description: The points that were measured.
  returned: always
  type: list
  elements: str
trace:
  description: C(trace_sha256) and C(rows) of the trace that was replayed.
  returned: always
  type: dict
seconds:
  description: How long the wait took.
  returned: success
  type: float
log:
  description: The last lines of the pod's log, without what looks like a credential.
  returned: failure
  type: list
  elements: str
code:
  description: Code of the cause.
  returned: failure
  type: str
  sample: WORKER_LOST
"""

from pathlib import Path
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._benchwait import Wait
from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import AUTH_SPEC, Cluster
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, run_module

ARGUMENT_SPEC: dict[str, Any] = {
    **AUTH_SPEC,
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str", "required": True},
    "release": {"type": "str", "required": True},
    "folder": {"type": "path", "required": True},
    "timeout": {"type": "int", "required": True},
    "interval": {"type": "float", "default": 3},
}


def kept(result: dict[str, Any], folder: str) -> dict[str, Any]:
    """The result with the files written, and only the names of their points left in it."""
    files = result.pop("files", {})
    try:
        for point, found in files.items():
            place = Path(folder, Path(point).name)
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            place.mkdir(exist_ok=True)
            for name, content in found.items():
                (place / name).write_bytes(content)
    except OSError as error:
        raise DynamoError(
            f"the results can't be written to {folder}: {error.strerror}", "REPORT_DIRECTORY", "Set benchmark_output."
        ) from error
    return {**result, "points": list(files)}


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """Wait; DynamoError with the cause as its code when not all points were measured."""
    if run.check_mode:
        verdict = {"state": "STARTING", "evidence": "not waited for in check mode"}
        return {"changed": False, "verdict": verdict, "points": [], "trace": {}, "seconds": 0}
    wait = Wait(
        Cluster.connect(params),
        params["namespace"],
        params["name"],
        label="benchmark",
        say=run.progress,
        reconnect=lambda: Cluster.connect(params),
    )
    wait.release = params["release"]
    try:
        result = wait.run(params["timeout"], params["interval"])
    except DynamoError as error:
        error.result = kept(error.result, params["folder"])
        raise
    return {"changed": False, **kept(result, params["folder"])}


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
