#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dgd_wait
short_description: Wait until a DynamoGraphDeployment serves, or until it is clear that it won't
description:
  - Waits until the operator has processed the present generation of a DynamoGraphDeployment, no rollout is going on,
    every component has as many updated, ready and available replicas as it wants, and no worker pod of an older
    generation is left.
  - Ends early, with a cause and its evidence, when something is wrong that waiting doesn't change. What may pass by
    itself never ends the wait; it is named when the time runs out.
  - Changes nothing.
author:
  - inferops.dynamo contributors (@inferops)
version_added: 1.0.0
options:
  name:
    description: Name of the DynamoGraphDeployment.
    type: str
    required: true
  namespace:
    description: Its namespace.
    type: str
    required: true
  manifest:
    description:
      - The deployment that somebody else applies, such as a GitOps controller. Until the live one has all of its
        C(spec), it is waited for that.
    type: dict
  timeout:
    description: Seconds to wait at most.
    type: int
    default: 3600
  interval:
    description:
      - Seconds between two looks while nothing changes. A change of the deployment, its pods or their events is seen at
        once, where this user has the verb C(watch) on them; where not, it is looked every 3 seconds.
    type: float
    default: 15
  budgets:
    description: How long what is wrong may stay so before it ends the wait.
    type: dict
    default: {}
    suboptions:
      config:
        description:
          - Seconds for what only a change of inventory, registry or namespace can repair, as a wrong image name.
        type: float
        default: 30
      scheduling:
        description: Seconds for pods that no node takes, and for what is missing in the cluster.
        type: float
        default: 60
      operator:
        description: Seconds in which the operator must have reacted, and may report that it failed.
        type: float
        default: 120
      slow:
        description: Seconds for volumes, registries and ending pods, on top of a pod's own grace period.
        type: float
        default: 300
      restarts:
        description:
          - Restarts of one container until its crash is final. An error that no restart can change, as an unknown
            argument of the engine, is final after two.
        type: int
        default: 5
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - inferops.dynamo._attributes
  - inferops.dynamo._attributes.cluster
"""

EXAMPLES = r"""
- name: Wait until the deployment is ready
  inferops.dynamo.dgd_wait:
    namespace: llm
    name: minimax-m3-1-sglang-agg-gb300
    timeout: 3600
"""

RETURN = r"""
verdict:
  description: What the wait ended with. A failed wait returns the same, with RV(code) as its cause.
  returned: always
  type: dict
  contains:
    state:
      description: V(READY), V(TERMINAL), V(TIMED_OUT), or V(STARTING) in check mode.
      type: str
    cause:
      description: Code of the cause, or an empty string.
      type: str
    object:
      description: The object that shows the cause, kind/name.
      type: str
    evidence:
      description: What was seen there.
      type: str
    hint:
      description: What to do.
      type: str
    phase:
      description: How far the start had come.
      type: str
  sample:
    state: READY
    cause: ""
    object: DynamoGraphDeployment/minimax-m3-1-sglang-agg-gb300
    evidence: Frontend 1/1, Worker 1/1 ready
    hint: ""
    phase: ""
seconds:
  description: How long the wait took.
  returned: success
  type: float
  sample: 512.4
code:
  description: Code of the cause.
  returned: failure
  type: str
  sample: IMAGE_NOT_FOUND
see:
  description: Where the documentation of the collection says more about it.
  returned: failure
  type: str
  sample: docs/troubleshooting.md#image_not_found
"""

from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import AUTH_SPEC, Cluster
from ansible_collections.inferops.dynamo.plugins.module_utils._dgdwait import Wait
from ansible_collections.inferops.dynamo.plugins.module_utils._diagnose import BUDGETS
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, run_module

ARGUMENT_SPEC: dict[str, Any] = {
    **AUTH_SPEC,
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str", "required": True},
    "manifest": {"type": "dict"},
    "timeout": {"type": "int", "default": 3600},
    "interval": {"type": "float", "default": 15},
    "budgets": {
        "type": "dict",
        "default": {},
        "options": {
            name: {"type": "int" if name == "restarts" else "float", "default": value}
            for name, value in BUDGETS.items()
        },
    },
}


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """Wait; DynamoError with the cause as its code when the deployment doesn't get ready."""
    if run.check_mode:
        return {"changed": False, "verdict": {"state": "STARTING", "evidence": "not waited for in check mode"}}
    wait = Wait(
        Cluster.connect(params),
        params["namespace"],
        params["name"],
        params["budgets"],
        manifest=params["manifest"],
        say=run.progress,
        reconnect=lambda: Cluster.connect(params),
    )
    return {"changed": False, **wait.run(params["timeout"], params["interval"])}


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
