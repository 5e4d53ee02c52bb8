#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_summary
short_description: Sum up a benchmark, draw it and compare it
version_added: 1.0.0
description:
  - Makes of AIPerf's files in a run's folder C(summary.json), and C(index.html), one page that needs no network. Its
    plots need matplotlib; without it the page has tables only.
  - As an action, which is what the role P(inferops.dynamo.benchmark#role) uses, it shows the table on the screen.
  - A run that is not whole, because it failed or requests failed, says so first, and is not compared.
  - Nothing is written in check mode. Written files are no change.
author:
  - inferops.dynamo contributors (@inferops)
extends_documentation_fragment:
  - inferops.dynamo._attributes
options:
  plan:
    description: What M(inferops.dynamo.benchmark_plan) returned.
    type: dict
    required: true
  host:
    description: Name of the inventory host.
    type: str
    required: true
  trace:
    description: RV(inferops.dynamo.benchmark_wait#module:trace).
    type: dict
    default: {}
  failure:
    description: C(code) and C(message) of what ended the run early; empty if nothing did.
    type: dict
    default: {}
  max_regression:
    description:
      - Fail when output tokens/s, or the median of time to first token or inter-token latency, of any point is worse
        than in the run compared with by more than this percentage. 0 does not judge.
    type: float
    default: 0
"""

EXAMPLES = r"""
- name: Sum up
  inferops.dynamo.benchmark_summary:
    plan: "{{ plan }}"
    host: "{{ inventory_hostname }}"
    max_regression: 5
"""

RETURN = r"""
summary:
  description: The content of C(summary.json).
  returned: always
  type: dict
page:
  description: Path of the page, empty in check mode.
  returned: always
  type: str
table:
  description: Lines for people. The action shows them instead.
  returned: when not run as an action
  type: list
  elements: str
code:
  description: BENCHMARK_REGRESSION, BENCHMARK_INCOMPLETE or BENCHMARK_DIFFERS.
  returned: failure
  type: str
"""

import json
import time
from pathlib import Path
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _benchpage, _benchsummary
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, run_module

ARGUMENT_SPEC: dict[str, Any] = {
    "plan": {"type": "dict", "required": True},
    "host": {"type": "str", "required": True},
    "trace": {"type": "dict", "default": {}},
    "failure": {"type": "dict", "default": {}},
    "max_regression": {"type": "float", "default": 0},
}


def read(folder: Path) -> dict[str, dict[str, bytes]]:
    """{point: {file: content}} of a run's folder."""
    return {
        place.name: {file.name: file.read_bytes() for file in place.iterdir() if file.is_file()}
        for place in (folder.iterdir() if folder.is_dir() else [])
        if place.is_dir()
    }


def write(folder: Path, summary: dict[str, Any], page: str) -> str:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", "utf-8")
        (folder / "index.html").write_text(page, "utf-8")
    except OSError as error:
        raise DynamoError(
            f"the results can't be written to {folder}: {error.strerror}", "REPORT_DIRECTORY", "Set benchmark_output."
        ) from error
    return str(folder / "index.html")


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """Files and table; DynamoError afterwards when the run is not comparable, or worse than allowed."""
    plan, folder = params["plan"], Path(params["plan"]["folder"])
    about = {
        **{key: plan[key] for key in ("run", "started")},
        "host": params["host"],
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "trace": params["trace"],
        "failure": params["failure"],
    }
    summary = _benchsummary.build(plan["deployment"], plan["load"], read(folder), about)
    table = _benchsummary.table(summary)
    baseline, problem = None, None
    if plan["baseline"] and not summary["failure"]:
        baseline = json.loads(Path(plan["baseline"]).read_text("utf-8"))
        try:
            _benchsummary.comparable(summary, baseline)
            limit = params["max_regression"]
            summary["comparison"] = {**_benchsummary.compare(summary, baseline), "limit": limit}
            table += _benchsummary.comparison_table(summary["comparison"])
            worse = _benchsummary.regressions(summary["comparison"], limit)
            if worse:
                problem = DynamoError(
                    f"worse than {baseline['run']} by more than {limit:g}%: {'; '.join(worse)}.",
                    "BENCHMARK_REGRESSION",
                    "Measure again before you believe it; the page shows both.",
                )
        except DynamoError as error:
            baseline, problem = None, error
    page = _benchpage.page(summary, baseline, summary.get("comparison"))
    path = "" if run.check_mode else write(folder, summary, page)
    result = {"summary": summary, "table": table, "page": path}
    if problem:
        raise DynamoError(problem.message, problem.code, problem.hint, **result)
    return {"changed": False, **result}


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
