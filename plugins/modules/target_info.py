#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Over 400 lines: two thirds are the documentation of options that the inventory sets one by one.
from __future__ import annotations

DOCUMENTATION = r"""
module: target_info
version_added: 1.0.0
short_description: Describe what a target becomes on a cluster
description:
  - Reads a recipe, the binding of the inventory and the kubeconfig, and returns the release that the roles of this
    collection take, with every manifest rendered.
  - No cluster is contacted and nothing is changed.
author:
  - inferops.dynamo contributors (@inferops)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
options:
  name:
    description:
      - >-
        The target: its path in the catalog, V(minimax-m3.1/sglang/agg-gb300), or a short form that fits only one,
        V(sglang-gb300).
    type: str
    default: ""
  host_target:
    description:
      - The target that the inventory gives this host, if O(name) may differ from it.
    type: str
    default: ""
  add_target:
    description:
      - Allow O(name) beside the target that the inventory gives this host.
    type: bool
    default: false
  catalog:
    description:
      - Directory of the built-in recipes.
    type: path
    required: true
  recipe_paths:
    description:
      - More directories of recipes. They are searched first, in this order.
    type: list
    elements: path
    default: []
  recipe:
    description:
      - Metadata that wins over the recipe's own, or says what its manifests don't.
    type: dict
    default: {}
  namespace:
    description:
      - Namespace of the release, by default that of the context.
    type: str
    default: ""
  kustomization:
    description:
      - >-
        Directory of a private Kustomization of the target's recipe, in place of O(binding), of which only C(job) may be
        given beside it.
    type: path
  kustomization_roots:
    description:
      - Directories that the Kustomization may read besides its own and the recipes.
    type: list
    elements: path
    default: []
  kustomize:
    description:
      - Standalone kustomize v5.8.1, a path or a name on PATH.
    type: str
    default: kustomize
  lint:
    description:
      - Look for what is wrong with recipe and release. It takes half a second, to load the Kubernetes client's models.
    type: bool
    default: true
  need_cluster:
    description:
      - >-
        V(false) where only files are wanted: with O(namespace) no kubeconfig is looked at.
    type: bool
    default: true
  render:
    description:
      - Return the manifests as YAML as well. As an action, with diff mode on, print them.
    type: bool
    default: false
  sync_waves:
    description:
      - Annotate the rendered objects for Argo CD, so that the deployment is applied last.
    type: bool
    default: false
  implicit:
    description:
      - >-
        There is no inventory: the namespace may be V(default). The action sets it.
    type: bool
    default: false
  gpu:
    description:
      - GPU of the cluster, such as V(GB300). A target for another one is not applicable.
    type: str
    default: ""
  gpu_products:
    description:
      - Values of the node label nvidia.com/gpu.product, by default the recipe's.
    type: list
    elements: str
    default: []
  binding:
    description:
      - What is true of this cluster, a dictionary. The inventory page of the documentation lists the keys.
    type: raw
    default: {}
  commits:
    description:
      - Commit of the checkpoint, or a dictionary from repository to commit.
    type: raw
  model_path:
    description:
      - Folder on the cache's mount that somebody filled, or a dictionary from repository to folder. It is used in place
        of a folder of its own for each commit.
    type: raw
  cache_claim:
    description:
      - Claim of the model cache, by default the recipe's.
    type: str
    default: ""
  cache_claim_create:
    description:
      - Create the claim if it is absent.
    type: bool
    default: true
  storage_class:
    description:
      - Storage class of a new claim.
    type: str
    default: ""
  cache_size:
    description:
      - Size of a new claim, by default the recipe's.
    type: str
    default: ""
  cache_volume:
    description:
      - Volume that a new claim binds to.
    type: str
    default: ""
  secret_name:
    description:
      - Name of the Secret with the hub's token.
    type: str
    default: hf-token-secret
  secret_key:
    description:
      - Key in that Secret.
    type: str
    default: HF_TOKEN
  download_image:
    description:
      - Image of the download Job, by default that of the workers. It needs python3 and huggingface_hub.
    type: str
    default: ""
  download_env:
    description:
      - Environment of the download Job.
    type: dict
    default: {}
  worker_liveness:
    description:
      - >-
        Whose liveness probe workers get: V(recipe) for the catalog's, V(vendor) for the operator's default.
    type: str
    choices: [recipe, vendor]
    default: recipe
  trtllm_health_check:
    description:
      - Leave canary health checks on where the recipe turns them off.
    type: bool
    default: false
  pathway:
    description:
      - V(component) keeps single-node workers off Grove at create, V(grove) leaves it to the operator.
    type: str
    choices: [component, grove]
    default: component
  release_name:
    description:
      - Name of the deployment, in place of the recipe's.
    type: str
    default: ""
  synthetic_acceptance:
    description:
      - Accept drafts at a fixed rate, for benchmarks only.
    type: bool
    default: false
  surge_room:
    description:
      - The cluster has free GPUs for a second worker during an update.
    type: bool
    default: false
  ready_timeout:
    description:
      - Seconds to wait for readiness, V(0) for the recipe's number.
    type: int
    default: 0
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed when in diff mode.
    support: none
notes:
  - Of the kubeconfig only context, server and namespace are used; no credential is looked at.
  - As an action it also refuses, where there are several hosts, a host that doesn't name its own cluster and namespace
    and two hosts that name the same ones.
"""

EXAMPLES = r"""
- name: Describe a target
  inferops.dynamo.target_info:
    name: sglang-gb300
    catalog: roles/target/files/recipes
    kubeconfig: ~/.kube/config
    namespace: llm
    binding:
      pull_secrets: [nvcr]
  register: __result
"""

RETURN = r"""
release:
  description: The release, as the other roles take it. V(applicable) is false where the GPU doesn't fit.
  returned: success
  type: dict
  contains:
    target:
      description: Canonical name of the target.
      type: str
      returned: always
      sample: minimax-m3.1/sglang/agg-gb300
    name:
      description: Name of the DynamoGraphDeployment.
      type: str
      returned: always
      sample: minimax-m3-1-sglang-agg-gb300
    manifest:
      description: The DynamoGraphDeployment, bound.
      type: dict
      returned: always
    inferred:
      description: What is not the vendor's word.
      type: list
      elements: str
      returned: always
findings:
  description: What is wrong with the recipe or the release, failures first. Empty without O(lint).
  returned: success
  type: list
  elements: dict
  contains:
    code:
      description: A code of the troubleshooting page.
      type: str
      returned: always
      sample: LIVENESS_DEFAULT
    severity:
      description: V(FAIL) for what can't work, V(WARN) for what works until it doesn't.
      type: str
      returned: always
    path:
      description: Where, with components and containers by their names.
      type: str
      returned: always
    message:
      description: What is wrong.
      type: str
      returned: always
    fix:
      description: What to do about it.
      type: str
      returned: always
rendered:
  description: The manifests as YAML, or an empty text without O(render).
  returned: success
  type: str
cluster:
  description: The cluster that is meant.
  returned: success
  type: dict
  sample: {context: prod, server: "https://192.0.2.10:6443", namespace: llm, source: inventory}
"""

import os
import re
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import (
    _binding,
    _catalog,
    _kubeconfig,
    _kustomize,
    _lint,
    _release,
    _render,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import AUTH_SPEC
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, run_module

ARGUMENT_SPEC: dict[str, Any] = {
    **AUTH_SPEC,
    "name": {"type": "str", "default": ""},
    "host_target": {"type": "str", "default": ""},
    "add_target": {"type": "bool", "default": False},
    "catalog": {"type": "path", "required": True},
    "recipe_paths": {"type": "list", "elements": "path", "default": []},
    "recipe": {"type": "dict", "default": {}},
    "namespace": {"type": "str", "default": ""},
    "kustomization": {"type": "path"},
    "kustomization_roots": {"type": "list", "elements": "path", "default": []},
    "kustomize": {"type": "str", "default": "kustomize"},
    "lint": {"type": "bool", "default": True},
    "need_cluster": {"type": "bool", "default": True},
    "render": {"type": "bool", "default": False},
    "sync_waves": {"type": "bool", "default": False},
    "implicit": {"type": "bool", "default": False},
    "gpu": {"type": "str", "default": ""},
    "gpu_products": {"type": "list", "elements": "str", "default": []},
    "binding": {"type": "raw", "default": {}},
    "commits": {"type": "raw"},
    "model_path": {"type": "raw"},
    "cache_claim": {"type": "str", "default": ""},
    "cache_claim_create": {"type": "bool", "default": True},
    "storage_class": {"type": "str", "default": ""},
    "cache_size": {"type": "str", "default": ""},
    "cache_volume": {"type": "str", "default": ""},
    "secret_name": {"type": "str", "default": "hf-token-secret", "no_log": False},
    "secret_key": {"type": "str", "default": "HF_TOKEN", "no_log": False},
    "download_image": {"type": "str", "default": ""},
    "download_env": {"type": "dict", "default": {}},
    "worker_liveness": {"type": "str", "choices": ["recipe", "vendor"], "default": "recipe"},
    "trtllm_health_check": {"type": "bool", "default": False},
    "pathway": {"type": "str", "choices": ["component", "grove"], "default": "component"},
    "release_name": {"type": "str", "default": ""},
    "synthetic_acceptance": {"type": "bool", "default": False},
    "surge_room": {"type": "bool", "default": False},
    "ready_timeout": {"type": "int", "default": 0},
}


NO_CLUSTER = "no cluster is asked"


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """The release of a target and the cluster that it is for."""
    catalog = _catalog.find([*params["recipe_paths"], params["catalog"]])
    target = _catalog.resolve(params["name"], catalog)
    recipe = _catalog.read(target, catalog, params["recipe"])
    base = recipe.manifests
    if _release.mismatch(recipe.meta, params["gpu"]):
        _catalog.check_gpu(params["gpu"], catalog)
    elif params["kustomization"]:
        recipe = _kustomized(recipe, params)
    try:
        cluster = which_cluster(params)
    except DynamoError:
        _release.build(recipe, {**params, "namespace": "default"})  # wrong values are said first
        raise
    release = _release.build(recipe, {**params, "namespace": cluster["namespace"]})
    release["replaces_target"] = _replaced(params, target, catalog)
    if cluster["source"] not in ("inventory", NO_CLUSTER):
        run.progress(
            f"using {cluster['source']}: context {cluster['context'] or '-'}, server {cluster['server']}, "
            f"namespace {cluster['namespace']}"
        )
    said = [
        f"{label}: {', '.join(item.partition(':')[0] for item in items)}"
        for label, items in (("inferred", release["inferred"]), ("without a place here", release["unused"]))
        if items and release["applicable"]
    ]
    if said:
        run.progress(f"{target}: {'; '.join(said)}")
    findings = _findings(params, recipe, base, release, catalog) if params["lint"] and release["applicable"] else []
    rendered = _render.render(release, params["sync_waves"]) if params["render"] and release["applicable"] else ""
    return {"changed": False, "release": release, "cluster": cluster, "findings": findings, "rendered": rendered}


def _kustomized(recipe: _catalog.Recipe, params: dict[str, Any]) -> _catalog.Recipe:
    """The recipe with what kustomize makes of it. The claim is the one that is in there."""
    directory = params["kustomization"]
    _binding.fits(params["binding"], _binding.SPEC, "")
    beside = sorted({*(params["binding"] or {})} - {"job"})
    if beside:
        raise DynamoError(
            f"dynamo_binding.{beside[0]}: dynamo_kustomization says everything of a release.",
            "BINDING",
            "Give one of the two; only dynamo_binding.job may stand beside it.",
        )
    roots = [*params["recipe_paths"], params["catalog"], *params["kustomization_roots"]]
    _kustomize.check_paths(directory, roots)  # first, for the validator builds it as well
    validator = _kustomize.validator_of(params["recipe_paths"])
    if validator:
        base = os.path.join(recipe.directory, _catalog.MANIFESTS)
        _kustomize.validate(validator, base, directory, params["kustomize"])
    built = _kustomize.build(directory, roots, params["kustomize"])
    return _catalog.kustomized(recipe, built, directory)


def _findings(
    params: dict[str, Any], recipe: _catalog.Recipe, base: list[Any], release: dict[str, Any], catalog: dict[str, str]
) -> list[dict[str, str]]:
    """What is wrong with recipe and release. Beside this target the inventory's own may be in the namespace."""
    others: list[str] = []
    try:
        own = _catalog.resolve(params["host_target"], catalog)
        others = [] if own == recipe.target else sorted(_catalog.deployment_names(catalog[own]))
    except DynamoError:
        pass  # no other target, or one that is not in the catalog
    return _lint.lint(base, release, recipe.meta.get("context_length"), others)


def default_kubeconfig() -> str:
    """The kubeconfig that is used when nobody names one."""
    return os.environ.get("K8S_AUTH_KUBECONFIG") or os.environ.get("KUBECONFIG") or "~/.kube/config"


def which_cluster(params: dict[str, Any]) -> dict[str, str]:
    """{context, server, namespace, source}, found as kubectl and kubernetes.core do.

    :raises DynamoError: NO_CLUSTER, CLUSTER_UNSET when there is no namespace.
    """
    if not params["need_cluster"] and params["namespace"]:
        return {"context": "", "server": "", "namespace": _namespace(params["namespace"]), "source": NO_CLUSTER}
    kubeconfig = params["kubeconfig"] or os.environ.get("K8S_AUTH_KUBECONFIG")
    context = params["context"] or os.environ.get("K8S_AUTH_CONTEXT")
    host = params.get("host") or os.environ.get("K8S_AUTH_HOST")
    if not kubeconfig and host:
        cluster, source = {"context": "", "server": host.rstrip("/"), "namespace": ""}, "K8S_AUTH_HOST"
    else:
        variable = (
            "dynamo_kubeconfig"
            if params["kubeconfig"]
            else "the environment's kubeconfig (dynamo_kubeconfig is not set)"
        )
        config = _kubeconfig.load(kubeconfig or default_kubeconfig(), variable)
        cluster = _kubeconfig.cluster_of(config, context, variable)
        source = "inventory" if params["kubeconfig"] or params["context"] else "the current context"
    namespace = params["namespace"] or cluster["namespace"] or ("default" if params["implicit"] else "")
    if not namespace:
        raise DynamoError("dynamo_namespace is not set, and the context has no namespace.", "CLUSTER_UNSET")
    return {**cluster, "namespace": _namespace(namespace), "source": source}


def _namespace(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name):
        raise DynamoError(f"dynamo_namespace: {name!r} is no name of a namespace.", "BINDING")
    return name


def _replaced(params: dict[str, Any], target: str, catalog: dict[str, str]) -> str:
    """The target that the inventory gives this host, if this run is about another one without having said so."""
    if not params["host_target"] or params["add_target"]:
        return ""
    try:
        own = _catalog.resolve(params["host_target"], catalog)
    except DynamoError:
        own = params["host_target"]
    return "" if own == target else own


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
