# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for the Dynamo operator: admission, and one loop that brings DGDs and DCDs to what render.py says.

  STATUS_DELAY   seconds between a new generation and the first look at it (default 0.1)
  LAB_IMAGE      image put in place of a known runtime image; KNOWN_IMAGES: JSON list of regular expressions for those
Annotations of a DGD that change the operator's manners, set before the update they are meant for:
  lab.inferops/stale-seconds    the old status, Ready or not, stays that much longer after a new generation
  lab.inferops/failed-seconds   the status is `failed` for that long first
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import admission
import render
import rollout
import status
from kube import JSON_PATCH, Api, ApiError, Object, follow, log

VERSION = os.environ.get("OPERATOR_VERSION", "1.6.0")
GRAPHS, DCDS, DEPLOYMENTS, SERVICES = (
    "apis/nvidia.com/v1beta1/dynamographdeployments",
    "apis/nvidia.com/v1beta1/dynamocomponentdeployments",
    "apis/apps/v1/deployments",
    "api/v1/services",
)
FINALIZER = "nvidia.com/finalizer"
CONFLICT = (
    "failed to reconcile Dynamo components deployments: failed to sync the DynamoComponentDeployment: the object has "
    "been modified; please apply your changes to the latest version and try again"
)
Key = tuple[str, str, str]  # "dgd" or "dcd", namespace, name


def path(resource: str, namespace: str, name: str = "") -> str:
    prefix, plural = resource.rsplit("/", 1)
    return f"/{prefix}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Queue:
    """Keys to look at, each at most once at a time, optionally later."""

    def __init__(self) -> None:
        self.ready: dict[Key, None] = {}
        self.changed = threading.Condition()

    def add(self, key: Key, delay: float = 0.0) -> None:
        if delay > 0:
            timer = threading.Timer(delay, self.add, [key])
            timer.daemon = True
            timer.start()
            return
        with self.changed:
            self.ready[key] = None
            self.changed.notify()

    def take(self) -> Key:
        with self.changed:
            self.changed.wait_for(lambda: self.ready)
            key = next(iter(self.ready))
            del self.ready[key]
            return key


class Controller:
    """Everything it knows comes from watches, kept at the newest version it has seen or written."""

    def __init__(self, api: Api, image: str, known: list[str], delay: float) -> None:
        self.api, self.image, self.known, self.delay = api, image, known, delay
        self.queue = Queue()
        self.cache: dict[str, dict[tuple[str, str], Object]] = {r: {} for r in (GRAPHS, DCDS, DEPLOYMENTS, SERVICES)}
        self.seen: dict[tuple[str, int], float] = {}  # (uid, generation) -> when it was first seen

    # ---- cache -------------------------------------------------------------------------------------------------------
    def keep(self, resource: str, obj: Object) -> Object:
        meta = obj["metadata"]
        place = (meta["namespace"], meta["name"])
        held = self.cache[resource].get(place)
        if not held or int(held["metadata"]["resourceVersion"]) <= int(meta["resourceVersion"]):
            self.cache[resource][place] = obj
        return obj

    def on_event(self, resource: str, kind: str, obj: Object) -> None:
        meta = obj["metadata"]
        place = (meta["namespace"], meta["name"])
        if kind == "DELETED":
            if self.cache[resource].get(place, obj)["metadata"]["uid"] == meta["uid"]:
                self.cache[resource].pop(place, None)
        else:
            self.keep(resource, obj)
        if resource == GRAPHS:
            self.seen.setdefault((meta["uid"], meta["generation"]), time.monotonic())
            self.queue.add(("dgd", *place))
        elif resource == DCDS:
            self.queue.add(("dcd", *place))
            self.queue.add(("dgd", meta["namespace"], meta["labels"][render.OF_GRAPH]))
        else:
            self.queue.add(("dcd", *place))

    def find(self, resource: str, namespace: str, name: str) -> Object | None:
        return self.cache[resource].get((namespace, name))

    def write(self, resource: str, rendered: Object) -> Object:
        """Applies what differs from what was applied last, or was changed by somebody else since."""
        meta = rendered["metadata"]
        live = self.find(resource, meta["namespace"], meta["name"])
        body = render.stamped(rendered, live)
        if body is None:
            assert live is not None
            return live
        target = path(resource, meta["namespace"], meta["name"])
        result = self.api.apply(target, body)
        generation = result["metadata"].get("generation", 1)
        if body["metadata"]["annotations"][render.APPLIED_GENERATION] != str(generation):
            result = self.api.apply(target, render.with_generation(rendered, render.digest(rendered), generation))
        return self.keep(resource, result)

    # ---- loop --------------------------------------------------------------------------------------------------------
    def run(self) -> None:
        of_graph = render.OF_GRAPH
        for resource, selector in ((GRAPHS, ""), (DCDS, ""), (DEPLOYMENTS, of_graph), (SERVICES, of_graph)):

            def listener(kind: str, obj: Object, resource: str = resource) -> None:
                self.on_event(resource, kind, obj)

            threading.Thread(target=follow, args=(self.api, f"/{resource}", selector, listener), daemon=True).start()
        while True:
            kind, namespace, name = key = self.queue.take()
            try:
                (self.reconcile_dgd if kind == "dgd" else self.reconcile_dcd)(namespace, name)
            except (ApiError, OSError) as error:
                if getattr(error, "status", 0) != 404:
                    log(f"{kind} {namespace}/{name}: {error}")
                self.queue.add(key, 0.5)
            except Exception as error:  # one odd object must not end the operator
                log(f"{kind} {namespace}/{name}: {error!r}")

    # ---- DCD ---------------------------------------------------------------------------------------------------------
    def reconcile_dcd(self, namespace: str, name: str) -> None:
        dcd = self.find(DCDS, namespace, name)
        if not dcd or dcd["metadata"].get("deletionTimestamp"):
            return
        dcd = {"apiVersion": render.GROUP, "kind": "DynamoComponentDeployment", **dcd}
        try:
            deployment = self.write(DEPLOYMENTS, render.deployment(dcd, self.image, self.known))
            self.write(SERVICES, render.service(dcd))
            new = status.dcd_status(dcd, deployment, now())
        except ApiError as error:
            if error.status not in (400, 422):
                raise
            new = status.dcd_failed(dcd, str(error), now())
            self.queue.add(("dcd", namespace, name), 10)
        if new != dcd.get("status"):
            self.keep(DCDS, self.api.set_status(path(DCDS, namespace, name), new))

    # ---- DGD ---------------------------------------------------------------------------------------------------------
    def reconcile_dgd(self, namespace: str, name: str) -> None:
        dgd = self.find(GRAPHS, namespace, name)
        if not dgd:
            return
        dgd = {"apiVersion": render.GROUP, "kind": "DynamoGraphDeployment", **dgd}
        meta = dgd["metadata"]
        finalizers = meta.get("finalizers", [])
        if meta.get("deletionTimestamp"):
            if FINALIZER in finalizers:
                self.patch_dgd(dgd, {"finalizers": [f for f in finalizers if f != FINALIZER]})
            return
        generation = render.worker_hash(dgd)
        if FINALIZER not in finalizers:
            dgd = self.patch_dgd(dgd, {"finalizers": [*finalizers, FINALIZER]})
        if render.CURRENT_HASH not in meta.get("annotations", {}):
            dgd = self.patch_dgd(dgd, {"annotations": {render.CURRENT_HASH: generation}})
        if self.too_early(dgd):
            return
        self.accounts(dgd)
        self.bring_up(dgd, generation)

    def patch_dgd(self, dgd: Object, metadata: Object) -> Object:
        meta = dgd["metadata"]
        result = self.api.merge(path(GRAPHS, meta["namespace"], meta["name"]), {"metadata": metadata})
        return self.keep(GRAPHS, {**result, "kind": dgd["kind"], "apiVersion": dgd["apiVersion"]})

    def too_early(self, dgd: Object) -> bool:
        """Holds a generation back that isn't in the status yet: the operator's own delay, and the tests' levers."""
        meta, notes = dgd["metadata"], dgd["metadata"].get("annotations", {})
        if dgd.get("status", {}).get("observedGeneration") == meta["generation"]:
            return False
        since = time.monotonic() - self.seen.setdefault((meta["uid"], meta["generation"]), time.monotonic())
        stale = self.delay + float(notes.get("lab.inferops/stale-seconds", "0"))
        failed = float(notes.get("lab.inferops/failed-seconds", "0"))
        key = ("dgd", meta["namespace"], meta["name"])
        if since < stale:
            self.queue.add(key, stale - since)
        elif since < stale + failed:
            self.set_dgd_status(dgd, status.dgd_failed(dgd, CONFLICT, now()))
            self.queue.add(key, stale + failed - since)
        else:
            return False
        return True

    def set_dgd_status(self, dgd: Object, new: Object) -> None:
        if new != dgd.get("status"):
            meta = dgd["metadata"]
            self.keep(GRAPHS, self.api.set_status(path(GRAPHS, meta["namespace"], meta["name"]), new))

    def accounts(self, dgd: Object) -> None:
        """The discovery account, once per generation; and the planner's, which the real operator leaves behind too."""
        meta = dgd["metadata"]
        if dgd.get("status", {}).get("observedGeneration") == meta["generation"]:
            return
        for resource, obj in render.discovery(dgd):
            self.api.apply(path(resource, meta["namespace"], obj["metadata"]["name"]), obj)
        planner = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "planner-serviceaccount"}}
        self.api.apply(path("api/v1/serviceaccounts", meta["namespace"], "planner-serviceaccount"), planner)

    def bring_up(self, dgd: Object, generation: str) -> None:
        """DCDs of this generation at the replicas that the rollout allows; old ones on their way out; status."""
        meta = dgd["metadata"]
        components = dgd["spec"]["components"]
        workers = [c for c in components if c.get("type") in render.WORKERS]
        base = meta["annotations"][render.CURRENT_HASH]
        old = self.old_workers(dgd, generation)
        phase = dgd.get("status", {}).get("rollingUpdate", {}).get("phase")
        rolling = base != generation and any(old.values())
        reverted = base == generation and phase in ("Pending", "InProgress")

        current = {}
        for component in components:
            rendered = render.dcd(dgd, component, generation)
            if rolling and component in workers:
                rendered["spec"]["replicas"] = self.roll(rendered, component, old[component["name"]])
            current[component["name"]] = self.write(DCDS, rendered)

        if (rolling and phase in ("Pending", "InProgress") and self.rolled(workers, current, old)) or reverted:
            self.finish(dgd, generation, old)
            started = dgd["status"]["rollingUpdate"].get("startTime", now())
            names = [c["name"] for c in workers]
            update = {"phase": "Completed", "startTime": started, "endTime": now(), "updatedComponents": names}
            self.set_dgd_status(dgd, status.dgd_status(dgd, current, {}, update, now()))
        elif rolling:
            self.set_dgd_status(dgd, status.dgd_status(dgd, current, old, self.progress(dgd, generation), now()))
        else:
            if base != generation:
                self.patch_dgd(dgd, {"annotations": {render.CURRENT_HASH: generation}})
            self.set_dgd_status(dgd, status.dgd_status(dgd, current, {}, None, now()))

    def old_workers(self, dgd: Object, generation: str) -> dict[str, list[Object]]:
        """Component -> DCDs of other generations, oldest first."""
        meta = dgd["metadata"]
        found: dict[str, list[Object]] = {c["name"]: [] for c in dgd["spec"]["components"]}
        for dcd in list(self.cache[DCDS].values()):
            labels = dcd["metadata"]["labels"]
            if (dcd["metadata"]["namespace"], labels[render.OF_GRAPH]) != (meta["namespace"], meta["name"]):
                continue
            other = labels.get(render.WORKER_HASH, generation) != generation
            if other and not dcd["metadata"].get("deletionTimestamp"):
                found.setdefault(labels[render.COMPONENT], []).append(dcd)
        for dcds in found.values():
            dcds.sort(key=lambda d: d["metadata"]["creationTimestamp"])
        return found

    def roll(self, rendered: Object, component: Object, old: list[Object]) -> int:
        """Scales the old generations of a component, and says how many replicas the new one gets now."""
        desired = component.get("replicas", 1)
        meta = rendered["metadata"]
        live = self.find(DCDS, meta["namespace"], meta["name"])
        counts = [self.counts(d) for d in old]
        notes = rendered["spec"]["podTemplate"].get("metadata", {}).get("annotations", {})
        if rollout.is_recreate(notes):
            left = any(self.pods_left(d) for d in old)
            if left:
                self.queue.add(("dgd", meta["namespace"], meta["labels"][render.OF_GRAPH]), 0.5)
            target, targets = rollout.recreate(desired, counts, left)
        else:
            new = self.counts(live) if live else rollout.Counts(0, 0)
            target, targets = rollout.roll(desired, new, counts, *rollout.room(notes, desired))
        for i, dcd in enumerate(old):
            if dcd["spec"].get("replicas") != targets[i]:
                where = path(DCDS, meta["namespace"], dcd["metadata"]["name"])
                old[i] = self.keep(DCDS, self.api.merge(where, {"spec": {"replicas": targets[i]}}))
        return target

    @staticmethod
    def counts(dcd: Object) -> rollout.Counts:
        available = dcd.get("status", {}).get("component", {}).get("availableReplicas", 0)
        return rollout.Counts(dcd["spec"].get("replicas", 0), available)

    def pods_left(self, dcd: Object) -> bool:
        meta = dcd["metadata"]
        pods = self.api.call(
            "GET", path("api/v1/pods", meta["namespace"]), labelSelector=f"nvidia.com/selector={meta['name']}"
        )
        return any(p["status"].get("phase") not in ("Succeeded", "Failed") for p in pods["items"])

    @staticmethod
    def rolled(workers: list[Object], current: dict[str, Object], old: dict[str, list[Object]]) -> bool:
        for component in workers:
            dcd = current[component["name"]]
            if dcd["spec"].get("replicas") != component.get("replicas", 1) or not status.dcd_ready(dcd):
                return False
        return all(status.dcd_gone(d) for dcds in old.values() for d in dcds)

    def progress(self, dgd: Object, generation: str) -> Object:
        """status.rollingUpdate while one runs: Pending at first, then InProgress; a second change keeps its start."""
        before = dgd.get("status", {}).get("rollingUpdate", {})
        meta = dgd["metadata"]
        if before.get("phase") in ("Pending", "InProgress"):
            return {**before, "phase": "InProgress"}
        self.event(dgd, "RollingUpdateStarted", f"Starting rolling update to worker hash {generation}")
        self.queue.add(("dgd", meta["namespace"], meta["name"]), 0.1)
        return {"phase": "Pending", "startTime": now()}

    def finish(self, dgd: Object, generation: str, old: dict[str, list[Object]]) -> None:
        for dcds in old.values():
            for dcd in dcds:
                self.api.delete(path(DCDS, dcd["metadata"]["namespace"], dcd["metadata"]["name"]))
        self.patch_dgd(dgd, {"annotations": {render.CURRENT_HASH: generation}})
        self.event(dgd, "RollingUpdateCompleted", f"Rolling update completed, worker hash {generation}")

    def event(self, dgd: Object, reason: str, message: str) -> None:
        meta = dgd["metadata"]
        involved = {"apiVersion": dgd["apiVersion"], "kind": dgd["kind"], "namespace": meta["namespace"]}
        body = {
            "metadata": {"generateName": f"{meta['name']}."},
            "involvedObject": {**involved, "name": meta["name"], "uid": meta["uid"]},
            "reason": reason,
            "message": message,
            "type": "Normal",
            "count": 1,
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "source": {"component": "dynamographdeployment"},
        }
        self.api.call("POST", path("api/v1/events", meta["namespace"]), body)


def certificate(api: Api, service: str, configurations: list[tuple[str, str]]) -> tuple[str, str]:
    """A fresh certificate for the webhook's service, told to the API server. Returns the two files."""
    folder = Path(tempfile.mkdtemp())
    certificate_file, key_file = folder / "tls.crt", folder / "tls.key"
    # A common name may have 64 characters, which the service's name exceeds.
    subject = ["-subj", "/CN=webhook", "-addext", f"subjectAltName=DNS:{service}"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650", *subject]
    subprocess.run([*command, "-keyout", str(key_file), "-out", str(certificate_file)], check=True, capture_output=True)
    bundle = base64.b64encode(certificate_file.read_bytes()).decode()
    patch: list[dict[str, Any]] = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
    for plural, name in configurations:
        where = f"/apis/admissionregistration.k8s.io/v1/{plural}/{name}"
        api.call("PATCH", where, patch, JSON_PATCH, fieldManager="manager")
    return str(certificate_file), str(key_file)


def main() -> None:
    api = Api()
    name = os.environ["OPERATOR_NAME"]
    service = f"{name}-webhook-service.{os.environ['POD_NAMESPACE']}.svc"
    configurations = [
        ("mutatingwebhookconfigurations", f"{name}-mutating"),
        ("validatingwebhookconfigurations", f"{name}-validating"),
    ]
    admission.serve(9443, *certificate(api, service, configurations), VERSION)
    log(f"operator {VERSION} serves")
    known = json.loads(os.environ["KNOWN_IMAGES"])
    Controller(api, os.environ["LAB_IMAGE"], known, float(os.environ.get("STATUS_DELAY", "0.1"))).run()


if __name__ == "__main__":
    main()
