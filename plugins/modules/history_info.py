#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: history_info
short_description: Lists the records of a release
version_added: 1.0.0
description:
  - Every change of a release leaves a numbered record, a ConfigMap C(NAME-rNUMBER) in its namespace.
  - This lists them, newest first.
author:
  - inferops.dynamo contributors (@inferops)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - inferops.dynamo._attributes
  - inferops.dynamo._attributes.cluster
options:
  name:
    description: Name of the release, that is, of its DynamoGraphDeployment.
    type: str
    required: true
  namespace:
    description: Namespace of the release.
    type: str
    required: true
  manifests:
    description: Return the manifests of each record too.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: What was deployed here, and when?
  inferops.dynamo.history_info:
    context: c1
    name: minimax-m3-1-sglang-agg-gb300
    namespace: llm
  register: history
"""

RETURN = r"""
records:
  description:
    - Newest first. C(number), C(name) of the ConfigMap, C(target), C(digest) of the manifests, C(operator_version),
      C(models), C(who), C(when) and C(outcome); C(manifests) when asked for.
  returned: success
  type: list
  elements: dict
"""

from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _history
from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import AUTH_SPEC, Cluster
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, run_module

ARGUMENT_SPEC: dict[str, Any] = {
    **AUTH_SPEC,
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str", "required": True},
    "manifests": {"type": "bool", "default": False},
}


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """The records of a release; none is no error."""
    selector = f"{_history.RECORD_LABEL}={params['name']}"
    config_maps = Cluster.connect(params).list("v1", "ConfigMap", params["namespace"], selector)
    packed = {c["metadata"]["name"]: (c.get("data") or {}).get("manifests") for c in config_maps}
    records: list[dict[str, Any]] = [dict(record) for record in _history.records(config_maps, params["name"])]
    for record in records if params["manifests"] else []:
        text = packed[record["name"]]
        record["manifests"] = _history.unpack(text) if text else []
    return {"records": records}


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
