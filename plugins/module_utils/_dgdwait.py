# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the loop of dgd_wait: observe, judge, wait for a change. Cluster and clock are injected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _dgd
from ansible_collections.inferops.dynamo.plugins.module_utils._causes import Finding, Snapshot
from ansible_collections.inferops.dynamo.plugins.module_utils._changes import Changes
from ansible_collections.inferops.dynamo.plugins.module_utils._dgd import Object, Verdict, View
from ansible_collections.inferops.dynamo.plugins.module_utils._diagnose import (
    Patience,
    at_first,
    diagnose,
    pulling,
    refused_so_far,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError, Passing, paragraph
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Clock, Narrator
from ansible_collections.inferops.dynamo.plugins.module_utils._scheduling import claims_in_doubt, tainted

if TYPE_CHECKING:
    from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import Cluster

DGD = ("nvidia.com/v1beta1", "DynamoGraphDeployment")
CLAIM = ("v1", "PersistentVolumeClaim")
DCD = ("nvidia.com/v1beta1", "DynamoComponentDeployment")
NOT_APPLIED = "NOT_APPLIED"
# Seconds between two looks when nothing tells of changes.
POLL = 3.0
LOG_LINES = 200  # an engine's cause stands before the traceback of the process that started it


class Wait:
    """One wait for one DynamoGraphDeployment."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        budgets: Mapping[str, float] | None = None,
        *,
        manifest: Object | None = None,
        clock: Clock = Clock(),
        say: Callable[[str], None] = lambda _: None,
        reconnect: Callable[[], Cluster] | None = None,
        changes: Changes | None = None,
    ) -> None:
        self.passing, self.changes = Passing(reconnect), changes
        self.cluster, self.namespace, self.name, self.clock = cluster, namespace, name, clock
        self.manifest = manifest  # what somebody else applies; until then nothing is judged
        self.patience, self.say = Patience(budgets), Narrator(say, clock)
        self.optional: dict[str, bool] = {}
        self.known: dict[str, tuple[str, int]] | None = None  # what doesn't count: found at first, or meanwhile

    def run(self, timeout: float, interval: float) -> dict[str, Any]:
        """verdict and seconds. DynamoError with the cause as code: terminal, or TIMED_OUT after `timeout` seconds.

        interval: seconds between two looks while no change is told of.
        """
        try:
            return self._run(timeout, interval)
        finally:
            if self.changes:
                self.changes.close()

    def _run(self, timeout: float, interval: float) -> dict[str, Any]:
        began = looked = self.clock.now()
        trouble: DynamoError | None = None
        snapshot, verdict = None, Verdict("STARTING")
        findings: list[Finding] = []
        while True:
            try:
                self.cluster = self.passing.renewed(self.cluster)
                snapshot = self.observe()
                if trouble:
                    self.patience.away(self.clock.now() - looked)
                trouble, looked, self.passing.refused = None, self.clock.now(), 0
                verdict, findings = assess(snapshot, self.patience, self.clock.now())
            except DynamoError as error:
                if error.code != NOT_APPLIED and not self.passing(error):
                    raise
                snapshot, trouble = None, error
            passed = self.clock.now() - began
            if not trouble:
                if verdict.state == "READY":
                    self.say(f"{self.name}: ready, {verdict.evidence}")
                    return {"verdict": verdict._asdict(), "seconds": round(passed, 1)}
                if verdict.state == "TERMINAL":
                    raise self._failure(verdict, passed)
            lasting = [] if trouble else self.patience.lasting(self.clock.now(), findings)
            self.say(f"{self.name}: {self._line(snapshot, verdict, lasting, trouble)}")
            if passed >= timeout:
                raise self._failure(timed_out(verdict, findings, trouble), passed)
            self.changes = self.changes or Changes(lambda: self.cluster, self.namespace, self.name)
            due = max(0.1, self.patience.due(self.clock.now(), findings))
            soon = POLL if trouble or self.changes.blind else due
            self.changes.wait(min(interval, soon, timeout - passed))

    def observe(self) -> Snapshot:
        """Everything that a verdict needs. Events, owners and logs are read only while something is missing."""
        dgd = self.cluster.get(*DGD, self.name, self.namespace)
        title = f"DynamoGraphDeployment/{self.name} in {self.namespace}"
        if self.manifest and not (dgd and holds(dgd["spec"], self.manifest["spec"])):
            state = "is another one than the release" if dgd else "does not exist"
            hint = "Has what target.yml rendered been merged and synchronised? This run applies nothing."
            raise DynamoError(f"{title} {state}: nobody has applied it yet.", NOT_APPLIED, hint)
        if dgd is None:
            raise DynamoError(f"{title} does not exist.", "DGD_ABSENT", "Was it deleted meanwhile? Deploy it again.")
        if _dgd.leaving(dgd):
            raise DynamoError(
                f"{title} is being deleted.", "DGD_DELETED", "Wait until it is gone, then deploy it again."
            )
        selector = f"{_dgd.GRAPH}={self.name}"
        pods = self.cluster.list("v1", "Pod", self.namespace, label_selector=selector)
        component_path = _dgd.pathway(dgd) == "component"
        dcds = self._list(*DCD, label_selector=selector) if component_path else []
        view = View(dgd, dcds, pods)
        if _dgd.judge(view).state == "READY":
            return Snapshot(view)
        short = bool(_dgd.unmade(view)) and component_path
        snapshot = Snapshot(
            view,
            self._list("v1", "Event"),
            self._list("apps/v1", "Deployment", label_selector=selector) if short else [],
            self._list("apps/v1", "ReplicaSet", label_selector=selector) if short else [],
            self._logs(pods),
            self._list("v1", "Node") if any(map(tainted, pods)) else [],
            claims_in_doubt(pods, lambda name: self.cluster.get(*CLAIM, name, self.namespace)),
        )
        self.known = at_first(snapshot) if self.known is None else self.known
        if any(map(_dgd.leaving, pods)):  # they may hold the quota; a ReplicaSet tries again long after they are gone
            self.known = {**self.known, **refused_so_far(snapshot)}
        return snapshot._replace(known=self.known)

    def _list(self, api_version: str, kind: str, label_selector: str | None = None) -> list[Object]:
        """Objects that only help to explain: a user who may not read them still gets a verdict."""
        if not self.optional.get(kind, True):
            return []
        try:
            return self.cluster.list(api_version, kind, self.namespace, label_selector=label_selector)
        except DynamoError as error:
            if error.code not in ("FORBIDDEN", "API_ABSENT"):
                raise
            self.optional[kind] = False
            return []

    def _logs(self, pods: list[Object]) -> dict[str, str]:
        """The last lines of containers that ended, by <pod>/<container>."""
        logs = {}
        for pod in _dgd.alive(pods):
            for container in (pod.get("status") or {}).get("containerStatuses") or []:
                if container.get("restartCount") and not container.get("ready") and self.optional.get("log", True):
                    key, name = f"{pod['metadata']['name']}/{container['name']}", container["name"]
                    previous = "terminated" not in (container.get("state") or {})
                    try:
                        logs[key] = self.cluster.log(
                            self.namespace, pod["metadata"]["name"], name, tail=LOG_LINES, previous=previous
                        )
                    except DynamoError as error:
                        if self.passing(error):
                            raise
                        self.optional["log"] = error.code != "FORBIDDEN"
        return logs

    def _line(
        self, snapshot: Snapshot | None, verdict: Verdict, findings: list[Finding], trouble: DynamoError | None
    ) -> str:
        if trouble and trouble.code == NOT_APPLIED:
            return "waiting for somebody else to apply it"
        if trouble or snapshot is None:
            return f"no answer from the API server, asking again ({trouble.message if trouble else ''})"
        if not _dgd.settled(snapshot.view.dgd):
            return "waiting for the operator"
        line = f"{_dgd.counts_text(snapshot.view.dgd)}; {verdict.phase}"
        if findings:
            line += f"; {findings[0].code} {findings[0].object}: {findings[0].evidence}"
        return line

    def _failure(self, verdict: Verdict, seconds: float) -> DynamoError:
        at = f"{verdict.object}: " if verdict.object else ""
        text = f"{self.name} in {self.namespace}: {at}{verdict.evidence.rstrip('.')}."
        code = "TIMED_OUT" if verdict.state == "TIMED_OUT" else verdict.cause
        facts = {"verdict": verdict._asdict(), "seconds": round(seconds, 1), "see": paragraph(verdict.cause or code)}
        return DynamoError(text, code, verdict.hint, **facts)


def holds(live: Any, wanted: Any) -> bool:
    """Whether `live` has everything of `wanted`; fields that the server or others added don't count."""
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(key in live and holds(live[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        same = isinstance(live, list) and len(live) == len(wanted)
        return same and all(holds(there, item) for there, item in zip(live, wanted, strict=True))
    return bool(live == wanted)


def assess(snapshot: Snapshot, patience: Patience, now: float) -> tuple[Verdict, list[Finding]]:
    """The verdict on one observation after those before it, TERMINAL when a cause is final, and all causes in it."""
    findings = diagnose(snapshot)
    verdict = _dgd.judge(snapshot.view, pulling(snapshot))
    final = patience.judge(now, findings) if verdict.state != "READY" else None
    if final:
        verdict = Verdict("TERMINAL", final.code, final.object, final.evidence, final.hint, verdict.phase)
    return verdict, findings


def timed_out(verdict: Verdict, findings: list[Finding], trouble: DynamoError | None) -> Verdict:
    """The end of a wait by its time: what it was still waiting for. Not a failure of the release."""
    hint = "Nothing says that it cannot succeed: run again to go on waiting, or raise dynamo_ready_timeout."
    if trouble:
        return Verdict("TIMED_OUT", trouble.code, "", f"timed out; {trouble.message}", trouble.hint, verdict.phase)
    if findings:
        found = findings[0]
        evidence = f"timed out in phase {verdict.phase}; last seen: {found.code} {found.evidence}"
        more = f"{found.hint} Run again to go on waiting, or raise dynamo_ready_timeout.".strip()
        return Verdict("TIMED_OUT", found.code, found.object, evidence, more, verdict.phase)
    evidence = f"timed out in phase {verdict.phase}, still waiting: {verdict.evidence}"
    return Verdict("TIMED_OUT", "", verdict.object, evidence, hint, verdict.phase)
