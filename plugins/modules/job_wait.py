#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_wait
short_description: Wait for a Kubernetes Job, with progress and an explained end
version_added: 1.0.0
description:
  - Waits until a Job is complete. Says at least every 15 seconds how it goes; a C(progress {json}) line in the log of
    its pod becomes files, bytes, rate and time left.
  - Ends early with the cause when the Job cannot succeed, such as a Job that failed, an image that cannot be pulled, a
    Secret or claim that is missing, or a pod that no node can take.
  - A wait that runs out leaves the Job running.
  - In check mode nothing is waited for.
author:
  - inferops.dynamo contributors (@inferops)
options:
  name:
    description: Name of the Job.
    type: str
    required: true
  namespace:
    description: Namespace of the Job.
    type: str
    required: true
  label:
    description: How progress lines begin. The default is the name of the Job.
    type: str
    default: ""
  timeout:
    description: Seconds to wait.
    type: int
    default: 14400
  interval:
    description: Seconds between two looks.
    type: float
    default: 3
  budgets:
    description: Seconds that a cause may last before it ends the wait.
    type: dict
    default: {}
    suboptions:
      config:
        description: For what does not pass by itself, such as an image that does not exist or a missing Secret.
        type: float
        default: 20
      scheduling:
        description: For a pod that no node can take.
        type: float
        default: 120
      slow:
        description: For what may pass by itself, such as a registry that does not answer or a claim without volume.
        type: float
        default: 300
      stall:
        description: For a download that has not got a byte further; 0 waits for ever.
        type: float
        default: 900
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - inferops.dynamo._attributes
  - inferops.dynamo._attributes.cluster
"""

EXAMPLES = r"""
- name: Wait for the download
  inferops.dynamo.job_wait:
    namespace: llm
    name: minimax-m3-1-model-download
    label: model cache
"""

RETURN = r"""
verdict:
  description: How the wait ended.
  returned: always
  type: dict
  contains:
    state:
      description: READY, TERMINAL or TIMED_OUT; STARTING in check mode.
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
      description: How far the Job had come.
      type: str
records:
  description: The list C(records) of the JSON object that the Job's pod left as termination message.
  returned: success
  type: list
  elements: dict
claims:
  description: The uid of every claim that the Job mounts, by name.
  returned: success
  type: dict
seconds:
  description: How long the wait took.
  returned: success
  type: float
  sample: 512.4
log:
  description: The last lines of the pod's log, without what looks like a credential.
  returned: failure
  type: list
  elements: str
code:
  description: Code of the cause.
  returned: failure
  type: str
  sample: HUB_ACCESS
"""

from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import AUTH_SPEC, Cluster
from ansible_collections.inferops.dynamo.plugins.module_utils._job import Wait
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, run_module

BUDGETS = {"config": 20, "scheduling": 120, "slow": 300, "stall": 900}
ARGUMENT_SPEC: dict[str, Any] = {
    **AUTH_SPEC,
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str", "required": True},
    "label": {"type": "str", "default": ""},
    "timeout": {"type": "int", "default": 14400},
    "interval": {"type": "float", "default": 3},
    "budgets": {
        "type": "dict",
        "default": {},
        "options": {name: {"type": "float", "default": value} for name, value in BUDGETS.items()},
    },
}


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """Wait; DynamoError with the cause as its code when the Job doesn't get complete."""
    if run.check_mode:
        verdict = {"state": "STARTING", "evidence": "not waited for in check mode"}
        return {"changed": False, "verdict": verdict, "records": [], "claims": {}, "seconds": 0}
    cluster = Cluster.connect(params)
    wait = Wait(
        cluster,
        params["namespace"],
        params["name"],
        label=params["label"],
        budgets={**BUDGETS, **params["budgets"]},
        say=run.progress,
        reconnect=lambda: Cluster.connect(params),
    )
    return {"changed": False, **wait.run(params["timeout"], params["interval"])}


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
