#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: manifests
short_description: Apply or remove Kubernetes objects as inferops.dynamo does it
description:
  - Brings a list of objects into a cluster by server-side apply, or takes them out.
  - With O(state=present) every object is tried by a server-side dry run first. Then those that differ are written stage
    by stage, Namespaces first and DynamoGraphDeployments last. What does not differ is not written at all.
  - Objects that Argo CD, Flux or Helm manage are refused, and so are Secrets and Jobs that this collection did not
    make. A field that another manager has set is never taken away from it.
  - A Job of ours whose annotation C(inferops.dynamo/content) differs is deleted and made again.
  - With O(state=absent) objects are deleted in reverse order, and only those that carry the label
    C(app.kubernetes.io/managed-by=inferops.dynamo).
author:
  - inferops.dynamo contributors (@inferops)
version_added: 1.0.0
options:
  state:
    description: Whether the objects are to be there.
    type: str
    choices: [present, absent]
    default: present
  definitions:
    description:
      - The objects. For O(state=absent) apiVersion, kind, metadata.name and metadata.namespace are enough.
    type: list
    elements: dict
    default: []
  select:
    description:
      - More objects to remove, found by their labels, where they are ours. Only for O(state=absent).
      - A kind that the cluster does not serve is skipped.
    type: list
    elements: dict
    default: []
    suboptions:
      api_version:
        description: For example V(v1).
        type: str
        required: true
      kind:
        description: For example V(ConfigMap).
        type: str
        required: true
      namespace:
        description: Where to look.
        type: str
        required: true
      label_selector:
        description: For example V(inferops.dynamo/release=minimax-m3-1-sglang-agg-gb300,!inferops.dynamo/record).
        type: str
        required: true
  adopt:
    description:
      - First take over the fields that C(kubectl apply) or C(kubectl create) own, so that what the definitions have no
        longer is removed. In check mode such removals are not shown.
    type: bool
    default: false
  create_namespace:
    description: Create the Namespaces that the objects name where they are absent. Only for O(state=present).
    type: bool
    default: false
  keep_foreign:
    description:
      - Leave an object that another tool manages, or a Secret or Job that this collection did not make, as it is,
        instead of failing.
    type: bool
    default: false
  foreground:
    description: Delete dependents before the objects. Only for O(state=absent).
    type: bool
    default: false
  wait:
    description:
      - Seconds to wait; 0 does not wait.
      - With O(state=absent), for the objects of one stage to be gone before the next stage is deleted; for a
        DynamoGraphDeployment also for its pods.
      - With O(state=present), for what a controller makes of a ComputeDomain, which is its ResourceClaimTemplate.
    type: int
    default: 0
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - inferops.dynamo._attributes
  - inferops.dynamo._attributes.cluster
"""

EXAMPLES = r"""
- name: Create a ConfigMap
  inferops.dynamo.manifests:
    kubeconfig: ~/.kube/gpu-cluster
    create_namespace: true
    definitions:
      - apiVersion: v1
        kind: ConfigMap
        metadata:
          name: greeting
          namespace: llm
          labels:
            app.kubernetes.io/managed-by: inferops.dynamo
        data:
          text: hello

- name: Remove a deployment and wait until its pods are gone
  inferops.dynamo.manifests:
    state: absent
    foreground: true
    wait: 600
    definitions:
      - apiVersion: nvidia.com/v1beta1
        kind: DynamoGraphDeployment
        metadata:
          name: minimax-m3-1-sglang-agg-gb300
          namespace: llm
"""

RETURN = r"""
objects:
  description: What happened to each object, or in check mode would happen.
  type: list
  elements: dict
  returned: success
  contains:
    kind:
      description: Kind of the object.
      type: str
    name:
      description: Name of the object.
      type: str
    namespace:
      description: Namespace of the object, or null.
      type: str
    action:
      description: One of created, configured, unchanged, deleted, absent, kept.
      type: str
  sample:
    - {kind: ConfigMap, name: greeting, namespace: llm, action: created}
code:
  description: Cause of a failure, for programs, such as CONFLICT, FOREIGN, NOT_OURS or NO_CLUSTER.
  type: str
  returned: failure
hint:
  description: What to do about a failure.
  type: str
  returned: failure
"""

from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _objects
from ansible_collections.inferops.dynamo.plugins.module_utils._apply import Applier, outcome
from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import AUTH_SPEC, Cluster
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, hide_secret, run_module

ARGUMENT_SPEC: dict[str, Any] = {
    **AUTH_SPEC,
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "definitions": {"type": "list", "elements": "dict", "default": []},
    "select": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            name: {"type": "str", "required": True} for name in ("api_version", "kind", "namespace", "label_selector")
        },
    },
    "adopt": {"type": "bool", "default": False},
    "create_namespace": {"type": "bool", "default": False},
    "keep_foreign": {"type": "bool", "default": False},
    "foreground": {"type": "bool", "default": False},
    "wait": {"type": "int", "default": 0},
}


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """The plugin, as module and as action."""
    definitions = params["definitions"]
    for definition in definitions:
        hide_secret(definition)
    _objects.check(definitions)
    applier = Applier(Cluster.connect(params), run, params["adopt"], params["keep_foreign"])
    if params["state"] == "absent":
        definitions = [*definitions, *applier.select(params["select"], definitions)]
        return outcome(applier.absent(definitions, params["foreground"], params["wait"]))
    changes = applier.present(definitions, params["create_namespace"])
    if params["wait"]:
        applier.claim_templates(definitions, params["wait"])
    return outcome(changes)


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
