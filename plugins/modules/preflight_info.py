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
  - Codes about the model cache are C(CLAIM_ABSENT), C(CLAIM_ACCESS_MODE), C(CLAIM_LOST), C(STORAGE_CLASS_ABSENT),
    C(VOLUME_ABSENT), C(SECRET_FOREIGN), C(SECRET_KEY_ABSENT), C(TOKEN_MISSING), C(TOKEN_REFUSED), C(REPOSITORY_ABSENT),
    C(REVISION_ABSENT), C(HUB_RATE_LIMITED) and C(HUB_UNREACHABLE).
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
  hf_token:
    description: Token for the model hub. It goes before the value of a Secret of ours; a foreign Secret goes before it.
    type: str
  hub_endpoint:
    description: Address of the model hub. The default is E(HF_ENDPOINT), or the public hub without it.
    type: str
  allow_gap:
    description: An update may take the last ready worker away.
    type: bool
    default: false
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
      C(namespace_exists); C(proven), every repository has a record; C(record) with number and name of the next record;
      C(prune), objects to remove after the
      new ones are ready; C(workers_ready); C(gap); C(operator_version).
  returned: success
  type: dict
  sample: {steps: [deploy], reasons: {deploy: DynamoGraphDeployment x would be created}, workers_ready: 0, gap: false}
findings:
  description:
    - Each with C(code), C(level) (PASS, WARN, FAIL or UNKNOWN), C(message) and C(hint).
      On failure without those that pass.
  returned: always
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
  description: Code of the first finding of level FAIL.
  returned: failure
  type: str
"""

import copy
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ansible_collections.inferops.dynamo.plugins.module_utils import _bind, _capacity, _findings, _history, _hub, _plan
from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import AUTH_SPEC, Cluster
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._findings import finding
from ansible_collections.inferops.dynamo.plugins.module_utils._objects import (
    MANAGED_BY,
    MANAGER,
    adoption,
    comparable,
    ours,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, run_module

ARGUMENT_SPEC: dict[str, Any] = {
    **AUTH_SPEC,
    "release": {"type": "dict", "required": True},
    "strict": {"type": "bool", "default": True},
    "cluster_uid": {"type": "str"},
    "create_namespace": {"type": "bool", "default": True},
    "model_update": {"type": "bool", "default": False},
    "model_verify": {"type": "str", "choices": ["recorded", "headers", "sizes", "sha256"], "default": "recorded"},
    "model_source": {"type": "str", "choices": ["download", "populated"], "default": "download"},
    "hf_token": {"type": "str", "no_log": True},
    "hub_endpoint": {"type": "str"},
    "allow_gap": {"type": "bool", "default": False},
    "adopt": {"type": "bool", "default": False},
}

DGD = ("nvidia.com/v1beta1", "DynamoGraphDeployment")
T = TypeVar("T")


class _Preflight:
    """One look at one cluster: reads, hands what it read to the pure functions, and keeps their findings."""

    def __init__(self, cluster: Cluster, params: dict[str, Any], run: Run) -> None:
        self.cluster, self.params, self.run = cluster, params, run
        self.release: dict[str, Any] = copy.deepcopy(params["release"])
        self.name, self.namespace = self.release["name"], self.release["namespace"]
        self.findings: list[dict[str, str]] = []
        self.reasons: dict[str, list[str]] = {step: [] for step in _plan.STEPS}
        self.plan: dict[str, Any] = {
            "steps": [],
            "reasons": {},
            "findings": self.findings,
            "namespace_exists": False,
            "record": {"number": 1, "name": _history.record_name(self.name, 1)},
            "prune": [],
            "proven": False,
            "workers_ready": 0,
            "gap": False,
            "operator_version": "",
        }
        self.config_maps: list[dict[str, Any]] = []
        self.records: list[_history.Record] = []
        self.domain_uid: str | None = None

    def readable(self, call: Callable[[], T], otherwise: T) -> T:
        """What `call` reads, or `otherwise` and a finding when this user may not read it."""
        try:
            return call()
        except DynamoError as error:
            if error.code != "FORBIDDEN":
                raise
            self.findings.append(finding("UNKNOWN", error.code, error.message, error.hint))
            return otherwise

    def listed(self, api_version: str, kind: str, *where: str, **selectors: str) -> list[dict[str, Any]]:
        """Objects of a kind; none, and a finding, when this user may not list them."""
        nothing: list[dict[str, Any]] = []
        return self.readable(lambda: self.cluster.list(api_version, kind, *where, **selectors), nothing)

    def look(self) -> dict[str, Any]:
        where = f"{self.cluster.context or 'the cluster'} ({self.cluster.server})"
        system = self.readable(lambda: self.cluster.get("v1", "Namespace", "kube-system"), None)
        uid = str((system or {}).get("metadata", {}).get("uid", ""))
        self.findings.append(_findings.cluster_uid(uid, self.params["cluster_uid"], where))
        if self.findings[-1]["level"] != "FAIL":
            self.look_at_namespace()
            self.look_at_models()
            self.look_at_domain()
            self.look_at_deployment()
            self.plan["steps"], self.plan["reasons"] = _plan.steps(self.reasons)
        return {"context": self.cluster.context, "server": self.cluster.server, "uid": uid}

    def look_at_namespace(self) -> None:
        live: dict[str, Any] | None = {"metadata": {"name": self.namespace}}
        live = self.readable(lambda: self.cluster.get("v1", "Namespace", self.namespace), live)
        self.findings.append(_findings.namespace(live, self.namespace, self.params["create_namespace"]))
        self.plan["namespace_exists"] = live is not None
        if live is None:
            return
        selector = f"{MANAGED_BY}={MANAGER}"
        self.config_maps = self.listed("v1", "ConfigMap", self.namespace, selector)
        self.records = _history.records(self.config_maps, self.name)
        number = _history.next_number(self.records)
        self.plan["record"] = {"number": number, "name": _history.record_name(self.name, number)}

    def get(self, api_version: str, kind: str, name: str) -> dict[str, Any] | None:
        """An object of the release's namespace; nothing is asked when there is no namespace."""
        return self.cluster.get(api_version, kind, name, self.namespace) if self.plan["namespace_exists"] else None

    def look_at_models(self) -> None:
        wanted = self.release["claim"]
        unknown: dict[str, Any] | None = {"metadata": {}}
        live = self.readable(lambda: self.get("v1", "PersistentVolumeClaim", wanted["name"]), unknown)
        classes: list[dict[str, Any]] = []
        volumes: list[dict[str, Any]] = []
        if live is None and wanted.get("create"):
            classes = self.listed("storage.k8s.io/v1", "StorageClass")
            if wanted.get("volume_name") or wanted.get("storage_class"):
                volumes = self.listed("v1", "PersistentVolume")
        if live is not unknown:
            self.findings.append(_findings.claim(live, wanted, self.namespace, classes, volumes))
        token = self.look_at_secret()
        records = _plan.proven(self.config_maps, wanted, live["metadata"].get("uid") if live else None)
        answers = self.pin(records, token)
        for model in self.release["models"]:
            if model["commit"] and _plan.record_of(model, records):
                continue
            at = model["commit"][:12] or "an unknown commit"
            self.reasons["model_cache"].append(f"{model['id']} at {at} is not proven in claim {wanted['name']}")
            if self.params["model_source"] == "populated" or model.get("adopted"):
                continue
            answer = answers.get(model["id"]) or self.ask(model, token)
            for key in ("files", "bytes", "gated"):
                model[key] = answer[key] if model.get(key) is None else model[key]

        self.plan["proven"] = not self.reasons["model_cache"]
        if self.plan["proven"] and self.params["model_verify"] != "recorded":
            self.reasons["model_cache"].append(f"model_cache_verify asks for {self.params['model_verify']}")

    def look_at_secret(self) -> str | None:
        """The token for the hub: a foreign Secret's, else the inventory's, else that of a Secret of ours."""
        wanted, given = self.release["secret"], self.params["hf_token"] or None
        try:
            live = self.get("v1", "Secret", wanted["name"])
        except DynamoError as error:
            if error.code != "FORBIDDEN":
                raise
            self.findings.append(finding("UNKNOWN", error.code, error.message, error.hint))
            return given
        held = _plan.secret_value(live, wanted["key"])
        self.run.hide(held)
        required = _plan.refers_to_secret(self.release["manifest"], wanted["name"])
        self.findings.append(_findings.secret(live, wanted, self.namespace, bool(given), required))
        reason = _plan.secret_reason(live, wanted, given)
        if reason:
            self.reasons["hf_secret"].append(reason)
        return given if given and (live is None or ours(live)) else held or given

    def pin(self, records: list[Mapping[str, str]], token: str | None) -> dict[str, _hub.Access]:
        """Give every repository its commit; the hub's answers, where it was asked."""
        commits, answers = {}, {}
        for model in self.release["models"]:
            if model["commit"]:
                continue
            held = None if self.params["model_update"] else _plan.record_of(model, records)
            if not held:
                answers[model["id"]] = self.ask(model, token)
            commits[model["id"]] = held["commit"] if held else answers[model["id"]]["commit"]
        self.release = _bind.pin(self.release, {key: commit for key, commit in commits.items() if commit})
        return answers

    def ask(self, model: dict[str, Any], token: str | None) -> _hub.Access:
        job_env = self.release["job"].get("env") or {}
        endpoint = self.params["hub_endpoint"] or job_env.get("HF_ENDPOINT") or os.environ.get("HF_ENDPOINT")
        answer = _hub.shared_access(
            self.run.cache_dir, _hub.transport(), endpoint or _hub.DEFAULT_ENDPOINT, model["id"], model["commit"], token
        )
        wanted = bool(model.get("gated")) and not token
        secret = f"{self.namespace}/{self.release['secret']['name']}"
        self.findings.append(_findings.model_access(answer, bool(model["commit"]), secret, wanted))
        return answer

    def look_at_domain(self) -> None:
        wanted = self.release.get("compute_domain")
        if not wanted:
            return
        served = self.cluster.served(_plan.DOMAIN_API, "ComputeDomain")
        live, classes = None, []
        if served:
            live = self.readable(lambda: self.get(_plan.DOMAIN_API, "ComputeDomain", wanted["name"]), None)
            for version in ("v1", "v1beta2", "v1beta1"):
                api = f"resource.k8s.io/{version}"
                if self.cluster.served(api, "DeviceClass"):
                    classes = self.listed(api, "DeviceClass")
                    break
        self.findings.append(_findings.compute_domain(live, wanted, served, [c["metadata"]["name"] for c in classes]))
        self.domain_uid = live["metadata"]["uid"] if live else None
        if live is None:
            self.reasons["compute_domain"].append(f"ComputeDomain {wanted['name']} would be created")

    def look_at_deployment(self) -> None:
        if not self.cluster.served(*DGD):
            message = f"{self.cluster.context or self.cluster.server} doesn't serve {' '.join(DGD)}"
            hint = "install the Dynamo platform (its operator and CRDs)"
            self.findings.append(finding("FAIL", "DGD_API_ABSENT", message, hint))
            return
        exists = self.plan["namespace_exists"]
        dgds = self.listed(*DGD, self.namespace) if exists else []
        live = next((d for d in dgds if d["metadata"]["name"] == self.name), None)
        self.findings += _findings.names(dgds, self.release)
        self.findings += _findings.owner(live, self.release["manifest"])
        if live and live["metadata"].get("deletionTimestamp"):
            message = f"DynamoGraphDeployment {self.namespace}/{self.name} is being deleted"
            self.findings.append(finding("FAIL", "BEING_DELETED", message, "wait until it is gone"))
            live = None
        stored = self.dry_run(live)
        self.plan["workers_ready"] = _plan.ready_workers(live)
        annotations = ((stored or live or {}).get("metadata") or {}).get("annotations") or {}
        self.plan["operator_version"] = annotations.get(_plan.OPERATOR_VERSION, "")
        domains = []
        if live and self.cluster.served(_plan.DOMAIN_API, "ComputeDomain"):
            selector = f"{_plan.RELEASE_LABEL}={self.name}"
            domains = self.listed(_plan.DOMAIN_API, "ComputeDomain", self.namespace, selector)
        self.plan["prune"] = _plan.prune(self.config_maps, domains, self.release)
        known = {config_map["metadata"]["name"] for config_map in self.config_maps}
        self.reasons["deploy"] = _plan.deploy_reasons(live, stored, self.release, known, self.plan["prune"])
        wanted = stored or self.release["manifest"]
        change = _plan.rollout(live, wanted) if live else _plan.Rollout()
        self.plan["gap"] = bool(change.gap)
        self.findings += _findings.gap(change, self.release, self.params["allow_gap"])
        if live and stored and comparable(live) == comparable(stored):
            if self.records and self.records[0]["digest"] == self.release["digest"]:
                # Waiting once more for what is there is no new change.
                self.plan["record"] = {key: self.records[0][key] for key in ("number", "name")}
            self.findings.append(finding("PASS", "capacity", "the pods have their places already"))
        else:
            self.look_at_nodes(wanted, change)

    def dry_run(self, live: dict[str, Any] | None) -> dict[str, Any] | None:
        """What the API server would store. Without the namespace it is asked in `default`: admission is the same."""
        manifest, stored, problem = self.release["manifest"], None, None
        if not self.plan["namespace_exists"]:
            manifest = {**manifest, "metadata": {**manifest["metadata"], "namespace": "default"}}
        # In earnest the fields are taken over first; forcing the dry run gives the same result.
        force = bool(self.params["adopt"] and live and adoption(live))
        try:
            stored = self.cluster.apply(manifest, dry_run=True, force=force)
        except DynamoError as error:
            problem = error
        self.findings.append(_findings.operator(stored, problem, self.name))
        return stored

    def look_at_nodes(self, wanted: dict[str, Any], change: _plan.Rollout) -> None:
        nodes = self.listed("v1", "Node")
        running = "status.phase!=Succeeded,status.phase!=Failed"
        nothing: list[dict[str, Any]] | None = None
        pods = self.readable(lambda: self.cluster.list("v1", "Pod", field_selector=running), nothing) if nodes else None
        if pods is None:
            self.findings.append(finding("UNKNOWN", "CAPACITY", "nodes and pods of the cluster can't be read"))
            return
        demands = _capacity.demands(wanted)
        blocked = {}
        if self.release.get("compute_domain"):
            blocked = _plan.foreign_domains(nodes, self.domain_uid)
        others = [pod for pod in pods if not _capacity.own_pod(pod, self.namespace, self.name)]
        placement = _capacity.place(demands, nodes, others, blocked)
        self.findings.append(_findings.capacity(placement))
        allowed = self.release.get("gpu_products") or []
        if allowed:
            self.findings.append(_findings.gpu_products(_capacity.products(demands, nodes, allowed), allowed))
        if change.surge and not placement.missing:
            self.findings.append(_findings.surge_room(_capacity.place(change.surge, nodes, pods, blocked)))


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """Findings and plan. DynamoError with the FAIL findings, when `strict`."""
    started, release = time.time(), params["release"]
    if not release["applicable"]:
        reason = finding("PASS", "NOT_APPLICABLE", release["reason"] or f"{release['target']} doesn't fit this host")
        plan = {"steps": [], "reasons": {}, "findings": [reason], "namespace_exists": False, "record": {}, "prune": []}
        plan.update(workers_ready=0, gap=False, operator_version="")
        return {"release": release, "plan": plan, "findings": [reason], "cluster": {}, "started": started}
    preflight = _Preflight(Cluster.connect(params), params, run)
    cluster = preflight.look()
    failures = [f for f in preflight.findings if f["level"] == "FAIL"]
    if failures and params["strict"]:
        lines = "; ".join(_findings.text(item) for item in failures)
        noteworthy = [item for item in preflight.findings if item["level"] != "PASS"]
        raise DynamoError(lines, failures[0]["code"], findings=noteworthy, cluster=cluster, started=started)
    for item in preflight.findings:
        if not params["strict"] or item["level"] != "PASS":
            run.progress(f"{item['level']} {item['code']}: {_findings.text(item)}")
    return {
        "release": preflight.release,
        "plan": preflight.plan,
        "findings": preflight.findings,
        "cluster": cluster,
        "started": started,
    }


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
