#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Over 400 lines: half of it is the documentation.

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_info
short_description: Compares a release with what a cluster holds
version_added: 1.0.0
description:
  - Reads everything once, changes nothing, and returns findings and the plan, that is, which steps of a deployment
    are needed.
  - A repository without a commit gets one here, from the newest valid checkpoint record of the claim, otherwise from
    the hub. The hub is asked once per run for all hosts, and only when bytes are missing or O(model_update) is set.
  - A release that is not applicable to this host is not looked at.
notes:
  - Codes of findings about the cluster are C(CLUSTER_UID), C(NAMESPACE_ABSENT), C(NAMESPACE_TERMINATING) and
    C(FORBIDDEN), something could not be read.
  - Codes about the platform are C(DGD_API_ABSENT), C(OPERATOR_SILENT), C(DGD_REFUSED), C(CONFLICT), C(FOREIGN),
    C(COMPUTE_DOMAIN_API_ABSENT), C(DEVICE_CLASS_ABSENT) and C(COMPUTE_DOMAIN_CHANGED).
  - Codes about the model cache are C(CLAIM_ABSENT), C(CLAIM_ACCESS_MODE), C(CLAIM_LOST), C(CACHE_READ_ONLY),
    C(STORAGE_CLASS_ABSENT), C(VOLUME_ABSENT), C(SECRET_FOREIGN), C(SECRET_KEY_ABSENT), C(TOKEN_MISSING),
    C(TOKEN_REFUSED), C(REPOSITORY_ABSENT), C(REVISION_ABSENT), C(HUB_RATE_LIMITED) and C(HUB_UNREACHABLE).
  - Codes about the deployment are C(CAPACITY), C(GPU_PRODUCT), C(NAME_CLASH), C(OTHER_TARGET), C(BEING_DELETED),
    C(UPDATE_NEEDS_GAP), C(NO_SURGE_ROOM) and C(NOT_APPLICABLE).
  - A finding of level PASS has the matter as its code, in lower case.
  - Capacity counts nodeSelector, required node affinity, taints, cordons and requests. It does not count pod
    affinity, topology spread or priorities.
author:
  - inferops.dynamo contributors (@inferops)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - inferops.dynamo._attributes
  - inferops.dynamo._attributes.cluster
options:
  release:
    description: The release that M(inferops.dynamo.target_info) made.
    type: dict
    required: true
  strict:
    description: Fail with one line when there is a finding of level FAIL.
    type: bool
    default: true
  cluster_uid:
    description: The uid of the namespace kube-system that the cluster must have.
    type: str
  create_namespace:
    description: An absent namespace is created by the deployment.
    type: bool
    default: true
  model_update:
    description: Ask the hub for the newest commit of repositories that have none in recipe or inventory.
    type: bool
    default: false
  model_verify:
    description: As C(model_cache_verify) of role model_cache; all but V(recorded) look again at what has a record.
    type: str
    choices: [recorded, headers, sizes, sha256]
    default: recorded
  model_source:
    description: As C(model_cache_source) of role model_cache; with V(populated) the hub is asked for commits only.
    type: str
    choices: [download, populated]
    default: download
  model_prune:
    description: As C(model_cache_prune) of role model_cache; the plan then names what it deletes.
    type: bool
    default: false
  hf_token:
    description: Token for the model hub. It goes before the value of a Secret of ours; a foreign Secret goes before it.
    type: str
  hub_endpoint:
    description: Address of the model hub. The default is E(HF_ENDPOINT) of the download Job, then the public hub.
    type: str
  allow_gap:
    description: An update may take the last ready worker away.
    type: bool
    default: false
  apply:
    description:
      - >-
        V(false) where somebody else applies the release, such as a GitOps controller: then other owners and gaps are no
        findings, and the plan has no ComputeDomain to make and nothing to remove.
    type: bool
    default: true
  job_resources:
    description: Requests and limits of the download Job, for which a node needs room where it will run.
    type: dict
    default:
      requests:
        cpu: 500m
        memory: 2Gi
  adopt:
    description: Fields that C(kubectl apply) owns are taken over by the deployment, so they are no conflict.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Compare
  inferops.dynamo.preflight_info:
    context: c1
    release: "{{ target_release }}"
  register: preflight

- name: Show all findings, good or bad
  inferops.dynamo.preflight_info:
    context: c1
    release: "{{ target_release }}"
    strict: false
"""

RETURN = r"""
release:
  description: The release with the commit of every repository filled in.
  returned: success
  type: dict
plan:
  description:
    - What is needed. C(steps) out of hf_secret, model_cache, compute_domain, deploy; C(reasons) by step; C(findings);
      C(namespace_exists); C(proven), every repository has a record; C(doubted), the level of a verification that found
      something bad; C(superseded), checkpoints to delete; C(record), number and name of the next record; C(prune),
      objects to remove after the new ones are ready; C(workers_ready); C(gap); C(pulls), images to try before a gap,
      with their nodes; C(synthetic), whether what is deployed accepts drafts synthetically; C(operator_version).
  returned: success
  type: dict
  sample: {steps: [deploy], reasons: {deploy: DynamoGraphDeployment x would be created}, workers_ready: 0, gap: false}
findings:
  description:
    - Each with C(code), C(level) (PASS, WARN, FAIL or UNKNOWN), C(message) and C(hint).
      A failure has them in its message and hint instead, only those of level FAIL, the root cause first.
  returned: success
  type: list
  elements: dict
cluster:
  description: Where it was read; C(context), C(server) and C(uid).
  returned: always
  type: dict
started:
  description: When the reading started, seconds since 1970.
  returned: always
  type: float
code:
  description: Code of the finding of level FAIL that comes first, since it may explain the others.
  returned: failure
  type: str
"""

import time
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _findings, _preflight
from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import AUTH_SPEC, Cluster
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._findings import finding
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import RESOURCES
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, run_module
from ansible_collections.inferops.dynamo.plugins.module_utils._shape import problem

ARGUMENT_SPEC: dict[str, Any] = {
    **AUTH_SPEC,
    "release": {"type": "dict", "required": True},
    "strict": {"type": "bool", "default": True},
    "cluster_uid": {"type": "str"},
    "create_namespace": {"type": "bool", "default": True},
    "model_update": {"type": "bool", "default": False},
    "model_verify": {"type": "str", "choices": ["recorded", "headers", "sizes", "sha256"], "default": "recorded"},
    "model_source": {"type": "str", "choices": ["download", "populated"], "default": "download"},
    "model_prune": {"type": "bool", "default": False},
    "hf_token": {"type": "str", "no_log": True},
    "hub_endpoint": {"type": "str"},
    "allow_gap": {"type": "bool", "default": False},
    "apply": {"type": "bool", "default": True},
    "job_resources": {"type": "dict", "default": {"requests": {"cpu": "500m", "memory": "2Gi"}}},
    "adopt": {"type": "bool", "default": False},
}


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """Findings and plan. DynamoError with all FAIL findings in its one line, when `strict`."""
    started, release = time.time(), params["release"]
    if not release["applicable"]:
        reason = finding("PASS", "NOT_APPLICABLE", release["reason"] or f"{release['target']} doesn't fit this host")
        plan = {"steps": [], "reasons": {}, "findings": [reason], "namespace_exists": False, "record": {}, "prune": []}
        plan.update(workers_ready=0, gap=False, pulls=[], synthetic=False, operator_version="")
        return {"release": release, "plan": plan, "findings": [reason], "cluster": {}, "started": started}
    wrong = problem(params["job_resources"], RESOURCES, "model_cache_resources")
    if wrong:
        raise DynamoError(f"{wrong}.", "BAD_OPTION")
    result = _preflight.look(Cluster.connect(params), params, run)
    failures = _findings.failures(result["findings"])
    if failures and params["strict"]:
        raise _findings.error(failures, cluster=result["cluster"], started=started)
    for item in result["findings"]:
        if not params["strict"] or item["level"] != "PASS":
            run.progress(f"{item['level']} {item['code']}: {_findings.text(item)}")
    return {**result, "started": started}


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
