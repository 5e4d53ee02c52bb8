# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: bringing objects into a cluster and out of it; what plugin `manifests` does. The cluster is handed in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from ansible_collections.inferops.dynamo.plugins.module_utils import _objects
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Clock
from ansible_collections.inferops.dynamo.plugins.module_utils._objects import Object, key_of, name_of
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run

REPLACE_TIMEOUT = 180  # seconds for a Job of ours and its pod to go before the new one is made
SERVED_TIMEOUT = 30  # seconds for a new CustomResourceDefinition to be served
CLAIM_TEMPLATE_APIS = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1")
CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"
POLL = 1.0  # seconds
SPEAK = 15.0  # seconds between two lines about the same wait


class Api(Protocol):
    """The part of Cluster that is used here."""

    def served(self, api_version: str, kind: str) -> bool:
        """As Cluster.served."""

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """As Cluster.get."""

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, label_selector: str | None = None
    ) -> list[Object]:
        """As Cluster.list."""

    def apply(self, obj: Object, dry_run: bool = False, force: bool = False) -> Object:
        """As Cluster.apply."""

    def patch(self, api_version: str, kind: str, name: str, namespace: str | None, operations: Any) -> Object:
        """As Cluster.patch."""

    def delete(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str | None = None,
        foreground: bool = False,
        dry_run: bool = False,
    ) -> bool:
        """As Cluster.delete."""


class Change(NamedTuple):
    """What happens to one object. action: created, configured, unchanged, deleted, absent or kept."""

    wanted: Object
    action: str
    before: Object | None = None
    after: Object | None = None
    replace: bool = False


def outcome(changes: list[Change]) -> dict[str, Any]:
    """The result of plugin `manifests`."""
    written = [c for c in changes if c.action not in ("unchanged", "absent", "kept")]
    objects = [
        {
            "kind": c.wanted["kind"],
            "name": c.wanted["metadata"]["name"],
            "namespace": c.wanted["metadata"].get("namespace"),
            "action": c.action,
        }
        for c in changes
    ]
    diffs = [_objects.diff(c.before, c.after) for c in written]
    return {"changed": bool(written), "objects": objects, "diff": diffs}


class Applier:
    """Brings objects into the cluster: all are tried first, then those that differ are written stage by stage."""

    def __init__(
        self, cluster: Api, run: Run, adopt: bool = False, keep_foreign: bool = False, clock: Clock | None = None
    ) -> None:
        self.cluster = cluster
        self.run = run
        self.adopt = adopt
        self.keep_foreign = keep_foreign
        self.clock = clock or Clock()

    def present(self, definitions: list[Object], create_namespace: bool = False) -> list[Change]:
        """Create what is absent and configure what differs."""
        needed = _objects.namespaces(definitions) if create_namespace else []
        missing = [name for name in needed if self._lacks(name)]
        for wanted in definitions if missing else []:
            self._try_elsewhere(wanted, missing)
        made = [Change(_objects.namespace(n), "created", None, _objects.namespace(n)) for n in missing]
        if not self.run.check_mode:
            made = [self._write(change) for change in made]
        # What cannot be tried yet, because its namespace or kind comes with this very run.
        future = {*missing, *(d["metadata"]["name"] for d in definitions if d["kind"] == "Namespace")}
        brought = _objects.defined_kinds(definitions)
        planned = [self._plan(d, future, brought) for stage in _objects.stages(definitions) for d in stage]
        if self.run.check_mode:
            return [*made, *planned]
        return [*made, *(self._write(change) for change in planned)]

    def _try_elsewhere(self, wanted: Object, missing: list[str]) -> None:
        """Let the server look at an object whose namespace is still to be made: a refused one must not leave it behind.

        It is asked in `default`, under another name; what depends on the namespace (rights, quotas) isn't told there.
        Of a deployment preflight has done it.
        """
        api_version, kind, name, namespace = key_of(wanted)
        if namespace not in missing or kind == _objects.DGD or not self.cluster.served(api_version, kind):
            return
        probe = {**wanted, "metadata": {**wanted["metadata"], "namespace": "default", "name": f"{name[:50]}-dry-run"}}
        try:
            self.cluster.apply(probe, dry_run=True)
        except DynamoError as error:
            if error.code != "REFUSED" or error.result.get("status") == 403:
                return
            message = error.message.replace(name_of(probe), name_of(wanted)).replace(f"{name[:50]}-dry-run", name)
            raise DynamoError(
                f"{message.rstrip('.')}.", error.code, f"{error.hint} Nothing was changed.", **error.result
            ) from error

    def _lacks(self, namespace: str) -> bool:
        """Whether the Namespace is absent; who may not look may not create it either."""
        try:
            return self.cluster.get("v1", "Namespace", namespace) is None
        except DynamoError as error:
            if error.code != "FORBIDDEN":
                raise
            return False

    def _plan(self, wanted: Object, future: set[str], brought: set[tuple[str, str]]) -> Change:
        """What the server would do with the object, by a dry run."""
        api_version, kind, name, namespace = key_of(wanted)
        if (api_version, kind) in brought and not self.cluster.served(api_version, kind):
            return Change(wanted, "created", None, wanted)
        live = self.cluster.get(api_version, kind, name, namespace)
        if live is None:
            untried = namespace in future and self._lacks(namespace)
            after = wanted if untried else self.cluster.apply(wanted, dry_run=True)
            return Change(wanted, "created", None, after)
        try:
            _objects.refuse(wanted, live, self.adopt)
        except DynamoError as error:
            if self.keep_foreign and error.code in ("NOT_OURS", "FOREIGN"):
                return Change(wanted, "kept", live, live)
            raise
        if _objects.replaces(wanted, live):
            # Under its own name the changed template would be refused; this still shows whether it is a valid Job.
            probe = {**wanted, "metadata": {**wanted["metadata"], "name": f"{name[:50]}-dry-run"}}
            self.cluster.apply(probe, dry_run=True)
            before = {**_objects.project(live, wanted), "metadata": live["metadata"]}
            return Change(wanted, "configured", before, wanted, replace=True)
        if kind == "Job":
            return Change(wanted, "unchanged", live, live)
        return self._differing(wanted, live)

    def _differing(self, wanted: Object, live: Object) -> Change:
        operations = _objects.adoption(live) if self.adopt else None
        if operations and not self.run.check_mode:
            api_version, kind, name, namespace = key_of(wanted)
            self.cluster.patch(api_version, kind, name, namespace, operations)
            self.run.progress(f"took over the fields of {name_of(wanted)} from kubectl")
        # In check mode nothing can be taken over; forcing the dry run shows the same values.
        after = self.cluster.apply(wanted, dry_run=True, force=bool(operations) and self.run.check_mode)
        same = _objects.comparable(live) == _objects.comparable(after) and not operations
        return Change(wanted, "unchanged" if same else "configured", live, after)

    def _write(self, change: Change) -> Change:
        """Carry out a change; `after` becomes what the server stored."""
        if change.action not in ("created", "configured"):
            return change
        if change.replace:
            self.cluster.delete(*key_of(change.wanted), foreground=True)
            self._wait(partial(self._remaining, [change.wanted]), REPLACE_TIMEOUT, "to be gone")
        # The kind may come with a CustomResourceDefinition that was written a moment ago.
        self._wait(partial(self._unserved, change.wanted), SERVED_TIMEOUT, "to be served")
        stored = self.cluster.apply(change.wanted)
        self.run.progress(f"{name_of(change.wanted)} {change.action}")
        return change._replace(after=change.after if change.replace else stored)

    def absent(self, definitions: list[Object], foreground: bool = False, wait: float = 0) -> list[Change]:
        """Delete what is there and ours, in reverse order; wait: seconds for each stage to be gone."""
        order = _objects.stages(definitions, reverse=True)
        live = {key_of(d): self._live(d) for stage in order for d in stage}
        for found in live.values():
            if found is not None and not _objects.ours(found):
                raise DynamoError(
                    f"{name_of(found)} was not made by inferops.dynamo "
                    f"(no label {_objects.MANAGED_BY}={_objects.MANAGER}); it is not deleted.",
                    "NOT_OURS",
                    "Delete it by hand if it has to go.",
                    object=name_of(found),
                )
        changes = []
        for stage in order:
            for wanted in stage:
                before = live[key_of(wanted)]
                changes.append(Change(wanted, "deleted" if before else "absent", before))
                if before and not self.run.check_mode and self.cluster.delete(*key_of(wanted), foreground=foreground):
                    self.run.progress(f"{name_of(wanted)} deleted")
            if wait and not self.run.check_mode:
                self._wait(partial(self._remaining, stage), wait, "to be gone")
        return changes

    def select(self, selections: list[dict[str, str]], known: list[Object]) -> list[Object]:
        """Our objects that match a selection (api_version, kind, namespace, label_selector), without `known`."""
        found: dict[tuple[str, str, str, str | None], Object] = {}
        for s in selections:
            if self.cluster.served(s["api_version"], s["kind"]):
                for obj in self.cluster.list(s["api_version"], s["kind"], s["namespace"], s["label_selector"]):
                    if _objects.ours(obj):
                        found.setdefault(key_of(obj), obj)
        for obj in known:
            found.pop(key_of(obj), None)
        return list(found.values())

    def _live(self, wanted: Object) -> Object | None:
        api_version, kind, name, namespace = key_of(wanted)
        return self.cluster.get(api_version, kind, name, namespace) if self.cluster.served(api_version, kind) else None

    def _unserved(self, wanted: Object) -> list[str]:
        api_version, kind, _name, _namespace = key_of(wanted)
        return [] if self.cluster.served(api_version, kind) else [f"{kind} {api_version}"]

    def _remaining(self, objects: list[Object]) -> list[str]:
        """Names of the objects that are still there, and of the pods of DynamoGraphDeployments."""
        left = []
        for wanted in objects:
            found = self._live(wanted)
            if found is not None:
                finalizers = ", ".join(found["metadata"].get("finalizers") or [])
                left.append(name_of(wanted) + (f" (finalizers: {finalizers})" if finalizers else ""))
            if wanted["kind"] == _objects.DGD:
                meta = wanted["metadata"]
                selector = f"{_objects.DGD_POD_LABEL}={meta['name']}"
                pods = self.cluster.list("v1", "Pod", meta.get("namespace"), label_selector=selector)
                left += [name_of(pod) for pod in pods]
        return left

    def _wait(self, missing: Callable[[], list[str]], timeout: float, what: str) -> None:
        """Poll until `missing` is empty. DynamoError STILL_WAITING naming what is left after `timeout` seconds."""
        start = spoken = self.clock.now()
        while left := missing():
            now = self.clock.now()
            names = ", ".join(left[:3]) + (f" and {len(left) - 3} more" if len(left) > 3 else "")
            if now - start >= timeout:
                raise DynamoError(
                    f"waited {timeout:.0f} s for {names} {what}.",
                    "STILL_WAITING",
                    "Look at its events and finalizers; the run can be repeated.",
                    remaining=left,
                )
            if now - spoken >= SPEAK:
                self.run.progress(f"waiting for {names} {what} ({now - start:.0f} s)")
                spoken = now
            self.clock.sleep(POLL)

    def claim_templates(self, definitions: list[Object], wait: float) -> None:
        """Wait until the controller has made the ResourceClaimTemplate of every ComputeDomain.

        DynamoError CLAIM_TEMPLATE_MISSING, with what can be said about the cause, after `wait` seconds;
        CLAIM_TEMPLATE_FOREIGN when a template of that name belongs to something else.
        """
        domains = [d for d in definitions if d["kind"] == "ComputeDomain"]
        if not domains or self.run.check_mode:
            return
        api = next((a for a in CLAIM_TEMPLATE_APIS if self.cluster.served(a, "ResourceClaimTemplate")), None)
        if api is None:
            raise DynamoError(
                "the cluster serves no ResourceClaimTemplate (resource.k8s.io), which ComputeDomains need.",
                "API_ABSENT",
                "Dynamic resource allocation is on by default from Kubernetes 1.34.",
            )
        for domain in domains:
            try:
                self._wait(partial(self._template, api, domain), wait, "to be made")
            except DynamoError as error:
                if error.code != "STILL_WAITING":
                    raise
                raise DynamoError(
                    error.message, "CLAIM_TEMPLATE_MISSING", self._template_cause(api), object=name_of(domain)
                ) from error

    def _template(self, api: str, domain: Object) -> list[str]:
        """The template that is still missing; DynamoError when the name is taken."""
        namespace, name = domain["metadata"]["namespace"], domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
        template = self.cluster.get(api, "ResourceClaimTemplate", name, namespace)
        live = self.cluster.get(*key_of(domain))
        if template is None or live is None:
            return [f"ResourceClaimTemplate {namespace}/{name}"]
        owner = (template["metadata"].get("labels") or {}).get("resource.nvidia.com/computeDomain")
        if owner != live["metadata"]["uid"]:
            raise DynamoError(
                f"ResourceClaimTemplate {namespace}/{name} exists and does not belong to {name_of(domain)}.",
                "CLAIM_TEMPLATE_FOREIGN",
                "Only the controller of ComputeDomains may make it: delete it, and it is made again.",
                object=f"ResourceClaimTemplate {namespace}/{name}",
            )
        return []

    def _template_cause(self, api: str) -> str:
        if self.cluster.get(api, "DeviceClass", CHANNEL_CLASS) is None:
            return (
                f"There is no DeviceClass {CHANNEL_CLASS}: the NVIDIA DRA driver is not installed with ComputeDomains."
            )
        return "The controller of the NVIDIA DRA driver has not acted: look at its Deployment (<release>-controller)."
