# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: one look at one cluster, which makes findings and plan. It only reads; pure functions elsewhere judge."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from ansible_collections.inferops.dynamo.plugins.module_utils import (
    _bind,
    _capacity,
    _facts,
    _findings,
    _history,
    _hub,
    _plan,
    _proof,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import Cluster
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._findings import finding
from ansible_collections.inferops.dynamo.plugins.module_utils._objects import (
    MANAGED_BY,
    MANAGER,
    adoption,
    comparable,
    ours,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run

DGD = ("nvidia.com/v1beta1", "DynamoGraphDeployment")
RUNNING = "status.phase!=Succeeded,status.phase!=Failed"
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
            "superseded": [],
            "doubted": "",
            "workers_ready": 0,
            "gap": False,
            "pulls": [],
            "synthetic": False,
            "operator_version": "",
        }
        self.config_maps: list[dict[str, Any]] = []
        self.records: list[_history.Record] = []
        self.domain_uid: str | None = None
        self.nodes: list[dict[str, Any]] | None = None
        self.pods: list[dict[str, Any]] | None = None

    def readable(self, call: Callable[[], T], otherwise: T) -> T:
        """What `call` reads, or `otherwise` and a finding when this user may not read it."""
        try:
            return call()
        except DynamoError as error:
            if error.code != "FORBIDDEN":
                raise
            self.findings.append(finding("UNKNOWN", error.code, error.message, error.hint))
            return otherwise

    def maybe(self, api_version: str, kind: str) -> list[dict[str, Any]] | None:
        """All objects of a kind; None, and a finding, when this user may not list them."""
        nothing: list[dict[str, Any]] | None = None
        return self.readable(lambda: self.cluster.list(api_version, kind), nothing)

    def listed(self, api_version: str, kind: str, *where: str, **selectors: str) -> list[dict[str, Any]]:
        """Objects of a kind; none, and a finding, when this user may not list them."""
        nothing: list[dict[str, Any]] = []
        return self.readable(lambda: self.cluster.list(api_version, kind, *where, **selectors), nothing)

    def look(self) -> dict[str, Any]:
        """Read everything; where it was read."""
        where = f"{self.cluster.context or 'the cluster'} ({self.cluster.server})"
        system = self.readable(lambda: self.cluster.get("v1", "Namespace", "kube-system"), None)
        uid = str((system or {}).get("metadata", {}).get("uid", ""))
        self.findings.append(_findings.cluster_uid(uid, self.params["cluster_uid"], where))
        if self.findings[-1]["level"] != "FAIL":
            self.look_at_namespace()
            if not any(item["code"] == "NAMESPACE_TERMINATING" for item in self.findings):  # it explains all others
                self.look_at_models()
                self.look_at_domain()
                self.look_at_deployment()
                self.look_at_job()
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
        live = self.look_at_cache()
        uid = str(wanted["name"]) if wanted.get("volume") else live["metadata"].get("uid") if live else None
        records = _plan.checkpoints(self.config_maps, wanted, uid)
        token = self.look_at_secret()
        answers, downloads = self.pin(records, token), False
        for model in self.release["models"]:
            record = _plan.record_of(model, records) if model["commit"] else None
            if record and not _plan.bad(record):
                continue
            at = model["commit"][:12] or "an unknown commit"
            self.reasons["model_cache"].append(f"{model['id']} at {at} is not proven in claim {wanted['name']}")
            if self.params["model_source"] == "populated" or model.get("adopted"):
                continue
            downloads = True
            answer = answers.get(model["id"]) or self.ask(model, token)
            for key in ("files", "bytes", "gated"):
                model[key] = answer[key] if model.get(key) is None else model[key]
        self.plan["doubted"] = _plan.doubted(self.release["models"], records)
        if self.plan["doubted"]:
            self.reasons["model_cache"].append(f"a verification by {self.plan['doubted']} found it bad")
        self.plan["proven"] = not self.reasons["model_cache"]
        if self.plan["proven"] and self.params["model_verify"] != "recorded":
            self.reasons["model_cache"].append(f"model_cache_verify asks for {self.params['model_verify']}")
        writers = _facts.cache_writers(self.release["manifest"], self.release["mount"])
        self.findings += _findings.read_only_cache(live, wanted, downloads, writers)
        if self.params["model_prune"] and records:
            self.look_at_superseded(records)

    def look_at_superseded(self, records: list[Mapping[str, str]]) -> None:
        """Old checkpoints that nothing needs. None, when what may need them can't be read."""
        unread: list[dict[str, Any]] | None = None
        users = [cm for cm in self.config_maps if _history.RECORD_LABEL in _plan.labels(cm)]
        for api_version, kind in (("v1", "Pod"), *([DGD] if self.cluster.served(*DGD) else [])):
            # A finished pod uses nothing: the download of the old commit may still be listed.
            running = RUNNING if kind == "Pod" else None
            found = self.readable(
                partial(self.cluster.list, api_version, kind, self.namespace, field_selector=running), unread
            )
            if found is None:
                return
            users += found
        self.plan["superseded"] = _plan.superseded(records, self.release, users)
        for model in self.plan["superseded"]:
            what = f"{model['id']} at {model['commit'][:12]}"
            self.reasons["model_cache"].append(f"model_cache_prune deletes {what}, which nothing names any more")

    def look_at_cache(self) -> dict[str, Any] | None:
        """The claim as it is; a volume of the binding has none."""
        wanted = self.release["claim"]
        if wanted.get("volume"):
            return None
        unknown: dict[str, Any] | None = {"metadata": {}}
        live = self.readable(lambda: self.get("v1", "PersistentVolumeClaim", wanted["name"]), unknown)
        classes: list[dict[str, Any]] | None = []
        volumes: list[dict[str, Any]] | None = []
        if live is None and wanted.get("create"):
            classes = self.maybe("storage.k8s.io/v1", "StorageClass")
            if wanted.get("volume_name") or wanted.get("storage_class"):
                volumes = self.maybe("v1", "PersistentVolume")
        # What can't be listed isn't absent: whether the claim can be created is then left to the API server.
        if live is not unknown and classes is not None and volumes is not None:
            self.findings.append(_findings.claim(live, wanted, self.namespace, classes, volumes))
        return live

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
        endpoint = self.params["hub_endpoint"] or job_env.get("HF_ENDPOINT")
        _hub.check_endpoint(endpoint or _hub.DEFAULT_ENDPOINT)
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
        live: dict[str, Any] | None = None
        classes: list[dict[str, Any]] | None = []
        if served:
            live = self.readable(lambda: self.get(_plan.DOMAIN_API, "ComputeDomain", wanted["name"]), None)
            for version in ("v1", "v1beta2", "v1beta1"):
                api = f"resource.k8s.io/{version}"
                if self.cluster.served(api, "DeviceClass"):
                    classes = self.maybe(api, "DeviceClass")
                    break
        names = None if classes is None else [c["metadata"]["name"] for c in classes]
        self.findings.append(_findings.compute_domain(live, wanted, served, names))
        self.domain_uid = live["metadata"]["uid"] if live else None
        if live is None and self.params["apply"]:
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
        self.findings += (
            _findings.owner(live, self.release["manifest"], self.params["adopt"]) if self.params["apply"] else []
        )
        if live and live["metadata"].get("deletionTimestamp"):
            message = f"DynamoGraphDeployment {self.namespace}/{self.name} is being deleted"
            self.findings.append(finding("FAIL", "BEING_DELETED", message, "wait until it is gone"))
            live = None
        stored = self.dry_run(live)
        self.plan["workers_ready"] = _plan.ready_workers(live)
        annotations = ((stored or live or {}).get("metadata") or {}).get("annotations") or {}
        live_annotations = (live or {"metadata": {}})["metadata"].get("annotations") or {}
        self.plan["synthetic"] = live_annotations.get(_bind.SYNTHETIC) == "true"
        self.plan["operator_version"] = annotations.get(_plan.OPERATOR_VERSION, "")
        domains = []
        if live and self.cluster.served(_plan.DOMAIN_API, "ComputeDomain"):
            selector = f"{_plan.RELEASE_LABEL}={self.name}"
            domains = self.listed(_plan.DOMAIN_API, "ComputeDomain", self.namespace, selector)
        self.plan["prune"] = _plan.prune(self.config_maps, domains, self.release) if self.params["apply"] else []
        known = {config_map["metadata"]["name"] for config_map in self.config_maps}
        self.reasons["deploy"] = _plan.deploy_reasons(live, stored, self.release, known, self.plan["prune"])
        wanted = stored or self.release["manifest"]
        if self.reasons["deploy"] and self.params["apply"] and exists:
            self.try_pods(wanted, live)
        change = _plan.rollout(live, wanted) if live else _plan.Rollout()
        self.plan["gap"] = bool(change.gap)
        # what accepts drafts synthetically serves nobody: putting it back is no gap
        allowed = self.params["allow_gap"] or self.plan["synthetic"] or not self.params["apply"]
        self.findings += _findings.gap(change, self.release, allowed)
        if live and stored and comparable(live) == comparable(stored):
            if self.records and self.records[0]["digest"] == self.release["digest"]:
                # Waiting once more for what is there is no new change.
                self.plan["record"] = {key: self.records[0][key] for key in ("number", "name")}
            self.findings.append(finding("PASS", "capacity", "the pods have their places already"))
        else:
            places = self.look_at_nodes(wanted, change)
            if live and change.gap and self.params["apply"]:
                self.plan["pulls"] = _proof.pulls(live, wanted, places)

    def try_pods(self, wanted: dict[str, Any], live: dict[str, Any] | None) -> None:
        """Dry runs of a pod of each component: what only pods are asked for, as quota, policies and Pod Security."""
        for component, pod in _proof.sample_pods(wanted).items():
            try:
                self.cluster.apply(pod, dry_run=True)
            except DynamoError as error:
                self.findings.append(_proof.judge_pod(component, error, live is not None))

    def dry_run(self, live: dict[str, Any] | None) -> dict[str, Any] | None:
        """What the API server would store. Without the namespace it is asked in `default`: admission is the same."""
        manifest, stored, problem = self.release["manifest"], None, None
        if not self.plan["namespace_exists"]:
            manifest = {**manifest, "metadata": {**manifest["metadata"], "namespace": "default"}}
        # In earnest the fields are taken over first; forcing the dry run gives the same result.
        # What another tool applies is compared with what that tool made of it.
        force = bool(live and (not self.params["apply"] or (self.params["adopt"] and adoption(live))))
        try:
            stored = self.cluster.apply(manifest, dry_run=True, force=force)
        except DynamoError as error:
            problem = error
        self.findings.append(_findings.operator(stored, problem, self.name))
        return stored

    def read_nodes(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
        """Nodes and the pods that hold resources on them, read once; no pods, and a finding, where that is refused."""
        if self.nodes is None:
            self.nodes = self.listed("v1", "Node")
            if self.nodes:
                self.pods = self.readable(lambda: self.cluster.list("v1", "Pod", field_selector=RUNNING), None)
            if self.pods is None:
                self.findings.append(finding("UNKNOWN", "CAPACITY", "nodes and pods of the cluster can't be read"))
        return self.nodes, self.pods

    def look_at_job(self) -> None:
        """A place for the download Job, if it will run: beside what runs now, since it ends before workers start."""
        if not self.reasons["model_cache"]:
            return
        nodes, pods = self.read_nodes()
        if pods is None:
            return
        demand = _capacity.job(self.release["job"], self.params["job_resources"])
        own = self.release["job"]["name"]
        others = [pod for pod in pods if not _capacity.job_pod(pod, self.namespace, own)]
        placement = _capacity.place([demand], nodes, others)
        if placement.missing:
            self.findings.append(_findings.capacity(placement, "free resources, or correct dynamo_binding.job"))

    def look_at_nodes(self, wanted: dict[str, Any], change: _plan.Rollout) -> dict[str, list[str]]:
        """The nodes where the pods would go, by component; none when this user may not read them."""
        nodes, pods = self.read_nodes()
        if pods is None:
            return {}
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
        return placement.nodes


def look(cluster: Cluster, params: dict[str, Any], run: Run) -> dict[str, Any]:
    """{release, plan, findings, cluster}, see module preflight_info, whose parameters these are."""
    preflight = _Preflight(cluster, params, run)
    where = preflight.look()
    return {
        "release": preflight.release,
        "plan": preflight.plan,
        "findings": preflight.findings,
        "cluster": where,
    }
