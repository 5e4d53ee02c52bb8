#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Shows what happened on all hosts, once
version_added: 1.0.0
description:
  - As an action, which is what the role P(inferops.dynamo.report#role) uses, it collects what target, preflight, smoke
    test and the playbooks left in the variables of all hosts of the play. The first host of the play shows one closing
    table of all hosts and writes one JSON file. A host that failed fails here, with one line.
  - The module itself only formats and writes the rows that it is given.
  - Neither table nor file holds secrets or manifests. Nothing is written in check mode. A written file is no change.
author:
  - inferops.dynamo contributors (@inferops)
extends_documentation_fragment:
  - inferops.dynamo._attributes
options:
  directory:
    description: Where to write the file; nothing is written if empty.
    type: path
  host:
    description: The host that fails when its row says so. The action sets it.
    type: str
  rows:
    description:
      - One for each host. The action sets them, all for the host that reports, its own for every other host.
    type: list
    elements: dict
    default: []
    suboptions:
      host:
        description: Name of the host.
        type: str
        required: true
      cluster:
        description: Context or address of its cluster.
        type: str
        default: ""
      namespace:
        description: Namespace of the release.
        type: str
        default: ""
      target:
        description: The target.
        type: str
        default: ""
      result:
        description: What happened.
        type: str
        required: true
        choices:
          - deployed
          - measured
          - prepared
          - removed
          - unchanged
          - would change
          - would not change
          - not applicable
          - not started
          - failed
      detail:
        description: The model's answer, the page of a benchmark, what was deleted, or the cause.
        type: str
        default: ""
      code:
        description: Code of the failure.
        type: str
        default: ""
      seconds:
        description: How long it took.
        type: int
      checks:
        description: The checks of the smoke test, as M(inferops.dynamo.openai_smoke) returns them.
        type: list
        elements: dict
        default: []
  show:
    description: Make the table and write the file. The action sets it for the host that reports.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Say what happened
  inferops.dynamo.report:
    directory: ~/reports
"""

RETURN = r"""
table:
  description: The lines of the closing table. The action shows them instead.
  returned: when O(show) and not run as an action
  type: list
  elements: str
path:
  description: The file, empty if none was written.
  returned: when O(show)
  type: str
code:
  description: Code of the failure of this host.
  returned: failure
  type: str
"""

import json
import os
import tempfile
import time
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _report
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, run_module, scrub

ARGUMENT_SPEC: dict[str, Any] = {
    "directory": {"type": "path"},
    "host": {"type": "str"},
    "rows": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "host": {"type": "str", "required": True},
            "cluster": {"type": "str", "default": ""},
            "namespace": {"type": "str", "default": ""},
            "target": {"type": "str", "default": ""},
            "result": {"type": "str", "required": True, "choices": list(_report.RESULTS)},
            "detail": {"type": "str", "default": ""},
            "code": {"type": "str", "default": ""},
            "seconds": {"type": "int"},
            "checks": {"type": "list", "elements": "dict", "default": []},
        },
    },
    "show": {"type": "bool", "default": True},
}


DIRECTORY = "REPORT_DIRECTORY"


def _write(directory: str, document: dict[str, Any], stamp: str) -> str:
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        # Two runs may end in the same second.
        handle, path = tempfile.mkstemp(prefix=f"{stamp}-", suffix=".json", dir=directory)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(document, stream, indent=2)
            stream.write("\n")
    except OSError as error:
        raise DynamoError(
            f"the report can't be written to {directory}: {error.strerror}", DIRECTORY, "set dynamo_report_dir"
        ) from error
    return path


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """Table and file, if this host reports; DynamoError when this host's own row says that it failed."""
    rows: list[dict[str, Any]] = scrub(params["rows"])
    result: dict[str, Any] = {}
    if params["show"]:
        finished = time.gmtime()
        result = {"table": [*_report.table(rows), _report.summary(rows)], "path": ""}
        if params["directory"] and not run.check_mode:
            document = _report.document(rows, time.strftime("%Y-%m-%dT%H:%M:%SZ", finished), run.check_mode)
            try:
                result["path"] = _write(params["directory"], document, time.strftime("%Y%m%dT%H%M%SZ", finished))
            except DynamoError as error:
                error.result.update(result)
                raise
    own = next((row for row in rows if row["host"] == params["host"]), None)
    if own and own["result"] == "failed":
        raise DynamoError(own["detail"], own["code"], **result)
    return {"changed": False, **result}


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
