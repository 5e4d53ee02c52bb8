# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._dgdwait import Wait, holds
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Clock
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._dgd_objects import (
    NEW,
    NO_GPU,
    OLD,
    Object,
    counts,
    crashed,
    dcd,
    dgd,
    event,
    not_ready,
    pod,
    waiting,
)

STARTING = not_ready(workers=counts(1, 1, 0))
FRONT = pod("front-1", component="Frontend", ready=True)


class Fake:
    """A cluster and its clock: what is there by time in seconds, an exception instead of a DGD when it can't answer."""

    def __init__(self, *moments: tuple[float, Any, list[Object]], forbidden: tuple[str, ...] = ()) -> None:
        self.moments, self.time, self.forbidden = moments, 0.0, forbidden
        self.lists: list[str] = []
        self.clock = Clock(lambda: self.time, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def _now(self) -> tuple[float, Any, list[Object]]:
        return [m for m in self.moments if m[0] <= self.time][-1]

    def get(self, api_version: str, kind: str, name: str, namespace: str) -> Object | None:
        live = self._now()[1]
        if isinstance(live, Exception):
            raise live
        if live:
            live["metadata"]["resourceVersion"] = str(self.moments.index(self._now()))
        return live

    def list(self, api_version: str, kind: str, namespace: str, label_selector: str | None = None) -> list[Object]:
        self.lists.append(kind)
        if kind in self.forbidden:
            raise DynamoError("no", "FORBIDDEN")
        return self._now()[2] if kind == "Pod" else [dcd(OLD)] if kind == "DynamoComponentDeployment" else []

    def log(self, namespace: str, pod: str, container: str, tail: int, previous: bool) -> str:
        return "engine: error: unrecognized arguments: --wibble"


class FakeChanges:
    """Waits for the next change of a Fake, or sleeps when it is blind."""

    def __init__(self, fake: Fake, blind: bool = False) -> None:
        self.fake, self.blind, self.closed = fake, blind, False

    def wait(self, seconds: float) -> None:
        until = self.fake.time + seconds
        changes = [m[0] for m in self.fake.moments if self.fake.time < m[0] <= until]
        self.fake.time = changes[0] if changes and not self.blind else until

    def close(self) -> None:
        self.closed = True


def waits(fake: Fake, budgets: dict[str, float] | None = None, **options: Any) -> Wait:
    """A wait in the fake's time."""
    options.setdefault("changes", FakeChanges(fake))
    return Wait(fake, "llm", "lab-agg", budgets, clock=fake.clock, **options)  # type: ignore[arg-type]


def wait(fake: Fake, timeout: float = 600, **budgets: float) -> tuple[dict[str, Any], list[str]]:
    said: list[str] = []
    return waits(fake, budgets, say=said.append).run(timeout, 15), said


def failure(fake: Fake, timeout: float = 600, **budgets: float) -> DynamoError:
    with pytest.raises(DynamoError) as caught:
        wait(fake, timeout, **budgets)
    return caught.value


def test_ready_is_seen_at_once_and_progress_is_a_line_per_change() -> None:
    fake = Fake(
        (0, dgd(observed=None), []),
        (1, STARTING, [FRONT, pod(scheduled=False)]),
        (2.5, STARTING, [FRONT, pod(container={"started": False})]),
        (35.2, dgd(), [FRONT, pod(ready=True)]),
    )
    result, said = wait(fake)
    assert result["verdict"]["state"] == "READY"
    assert result["seconds"] == pytest.approx(35.2, abs=0.6)
    assert said == [
        "lab-agg: waiting for the operator",
        "lab-agg: Frontend 1/1, Worker 0/1 ready; scheduling",
        "lab-agg: Frontend 1/1, Worker 0/1 ready; loading",
        "lab-agg: Frontend 1/1, Worker 0/1 ready; loading",
        "lab-agg: Frontend 1/1, Worker 0/1 ready; loading",
        "lab-agg: ready, Frontend 1/1, Worker 1/1 ready",
    ]


def test_stale_ready_is_waited_out() -> None:
    fake = Fake((0, dgd(generation=2), []), (5, dgd(generation=2, observed=2), [FRONT, pod(ready=True)]))
    assert wait(fake)[0]["seconds"] >= 5


def test_a_crash_of_a_run_that_began_before_the_wait_decides_nothing() -> None:
    """The checkpoint may have come meanwhile: somebody else applies, and this command brought it."""
    before = pod(container=crashed(now="CrashLoopBackOff", lived=(5, 9), restarts=7))
    starts = pod(container=crashed(lived=(5, 9), restarts=7))
    fine = Fake(
        (0, STARTING, [FRONT, before]), (100, STARTING, [FRONT, starts]), (130, dgd(), [FRONT, pod(ready=True)])
    )
    assert wait(fine)[0]["seconds"] >= 130
    again = pod(container=crashed(now="CrashLoopBackOff", lived=(30, 40), restarts=8))
    worse = Fake((0, STARTING, [FRONT, before]), (100, STARTING, [FRONT, starts]), (110, STARTING, [FRONT, again]))
    assert failure(worse).code == "CRASH_LOOP"


def test_owners_are_read_while_an_update_has_not_made_its_pods() -> None:
    """The old pods are as many as wanted, and none of them is missing."""
    live = not_ready("rolling_update_in_progress", rollout="InProgress", workers=counts(1, 0, 1))
    fake = Fake((0, live, [FRONT, pod(ready=True)]), (5, dgd(), [FRONT, pod(ready=True)]))
    wait(fake)
    assert {"Deployment", "ReplicaSet"} <= set(fake.lists)


def test_a_quota_that_an_ending_pod_held_is_asked_again() -> None:
    """The ReplicaSet doubles its pauses meanwhile: its next try comes long after the old pod is gone."""
    refusal = {"type": "ReplicaFailure", "status": "True", "message": 'pods "w" is forbidden: exceeded quota: gpus'}
    labels = {"nvidia.com/dynamo-component": "Worker"}
    owner = {"kind": "ReplicaSet", "metadata": {"name": "w", "uid": "uid-w", "labels": labels}}
    owner["status"] = {"conditions": [refusal]}

    class Refused(Fake):
        def __init__(self, *moments: tuple[float, Any, list[Object]], room: bool = False) -> None:
            super().__init__(*moments)
            self.room = room

        def list(self, api_version: str, kind: str, namespace: str, label_selector: str | None = None) -> list[Object]:
            if kind == "Event":
                tries = [2, 55, *([59] if self.time >= 150 and not self.room else [])]
                return [event("FailedCreate", "x", about="w", kind="ReplicaSet", at=at) for at in tries]
            if kind == "ReplicaSet" and self.time:
                return [owner]
            return super().list(api_version, kind, namespace, label_selector)

    live = not_ready(workers=counts(0, 0, 0))
    ending = [FRONT, pod("old", worker_hash=NEW, leaving=True)]
    moments = [(0, live, ending), (1, live, ending), (60, live, [FRONT])]
    fine = Refused(*moments, (130, dgd(), [FRONT, pod(ready=True)]), room=True)
    assert wait(fine)[0]["seconds"] >= 130
    full = Refused(*moments, (200, live, [FRONT]))
    error = failure(full)
    assert error.code == "QUOTA_EXCEEDED" and full.time >= 150


def test_a_cause_ends_the_wait_with_its_evidence() -> None:
    bad = pod(container=waiting("ErrImagePull", "registry/engine:1: not found"))
    fake = Fake((0, STARTING, [FRONT]), (1, STARTING, [FRONT, bad]))
    error = failure(fake)
    assert error.code == "IMAGE_NOT_FOUND" and 30 <= fake.time < 40
    assert "lab-agg in llm: Pod/worker-1: registry/engine:1" in error.message and error.hint
    assert error.result["verdict"]["state"] == "TERMINAL"


def test_the_log_of_a_crash_is_read() -> None:
    error = failure(Fake((0, STARTING, [FRONT]), (1, STARTING, [FRONT, pod(container=crashed(restarts=2))])))
    assert error.code == "CRASH_LOOP" and "unrecognized arguments: --wibble" in error.message


@pytest.mark.parametrize(
    ("pods", "text"),
    [
        ([FRONT, pod(container={"started": False})], "timed out in phase loading, still waiting: some_resources"),
        ([FRONT, pod(container=crashed())], "last seen: CRASH_LOOP container main ended with exit code 1, 1 restart"),
    ],
)
def test_running_out_says_what_was_missing(pods: list[Object], text: str) -> None:
    fake = Fake((0, STARTING, pods))
    error = failure(fake, timeout=20)
    assert error.code == "TIMED_OUT" and text in error.message and fake.time == pytest.approx(20)
    assert error.result["verdict"]["state"] == "TIMED_OUT"


def test_an_api_server_that_is_away_is_waited_for() -> None:
    away = DynamoError("no answer", "NO_CLUSTER")
    fake = Fake((0, STARTING, [FRONT, pod()]), (4, away, []), (30, dgd(), [FRONT, pod(ready=True)]))
    result, said = wait(fake)
    assert result["verdict"]["state"] == "READY" and any("asking again (no answer)" in line for line in said)
    assert failure(Fake((0, away, [])), timeout=10).result["verdict"]["cause"] == "NO_CLUSTER"


def test_where_nothing_may_be_watched_it_looks_often() -> None:
    fake = Fake((0, STARTING, [FRONT, pod()]), (20.5, dgd(), [FRONT, pod(ready=True)]))
    changes = FakeChanges(fake, blind=True)
    result = waits(fake, changes=changes).run(600, 15)
    assert result["verdict"]["state"] == "READY" and result["seconds"] == 21
    assert fake.lists.count("Pod") == 8 and changes.closed


def test_a_budget_that_runs_out_between_two_looks_is_not_waited_over() -> None:
    bad = pod(container=waiting("ErrImagePull", "registry/engine:1: not found"))
    fake = Fake((0, STARTING, [FRONT]), (1, STARTING, [FRONT, bad]))
    assert failure(fake, config=14).code == "IMAGE_NOT_FOUND"
    assert fake.time == 15


def test_the_time_without_an_api_server_uses_up_no_budget() -> None:
    away = DynamoError("no answer", "NO_CLUSTER")
    waits_for_room = [FRONT, pod(scheduled=NO_GPU)]
    fake = Fake(
        (0, STARTING, waits_for_room),
        (1, away, []),
        (90, STARTING, waits_for_room),
        (100, dgd(), [FRONT, pod(ready=True)]),
    )
    assert wait(fake)[0]["verdict"]["state"] == "READY"


def test_a_failing_read_is_no_verdict() -> None:
    leader = DynamoError("etcdserver: leader changed", "REFUSED", status=500)
    fake = Fake((0, STARTING, [FRONT, pod()]), (4, leader, []), (9, dgd(), [FRONT, pod(ready=True)]))
    assert wait(fake)[0]["verdict"]["state"] == "READY"


def test_a_renewed_token_is_read_again() -> None:
    stale = DynamoError("401", "UNAUTHORIZED", status=401)
    old = Fake((0, STARTING, [FRONT, pod()]), (4, stale, []))
    new = Fake((0, dgd(), [FRONT, pod(ready=True)]))
    renewed = waits(old, reconnect=lambda: new)
    assert renewed.run(600, 3)["verdict"]["state"] == "READY"
    wrong = waits(old, reconnect=lambda: old)
    with pytest.raises(DynamoError) as caught:
        wrong.run(600, 3)
    assert caught.value.code == "UNAUTHORIZED" and old.time < 30


def test_a_healthy_but_slow_start_ends_ready() -> None:
    """A pull of minutes, one restart, a long load: none of it ends the wait, whatever the budgets."""
    pulling = pod(container={"state": {"waiting": {"reason": "ContainerCreating"}}})
    fake = Fake(
        (0, dgd(observed=None), []),
        (2, STARTING, [FRONT, pod(scheduled=False)]),
        (5, STARTING, [FRONT, pulling]),
        (400, STARTING, [FRONT, pod(container={"started": False})]),
        (900, STARTING, [FRONT, pod(container=crashed(restarts=1))]),
        (930, STARTING, [FRONT, pod(container={"started": False, "restartCount": 1})]),
        (2000, not_ready(state="failed", workers=counts(1, 1, 0)), [FRONT, pod(container={"started": False})]),
        (2000.3, STARTING, [FRONT, pod(container={"started": False, "restartCount": 1})]),
        (3000.5, dgd(), [FRONT, pod(ready=True)]),
    )
    result, _said = wait(fake, timeout=3600, config=10, scheduling=15, slow=30)
    assert result["verdict"]["state"] == "READY" and result["seconds"] == pytest.approx(3000.5, abs=0.6)


def test_other_errors_end_the_wait() -> None:
    assert failure(Fake((0, DynamoError("no", "FORBIDDEN"), []))).code == "FORBIDDEN"
    assert failure(Fake((0, None, []))).code == "DGD_ABSENT"
    leaving = dgd()
    leaving["metadata"]["deletionTimestamp"] = "2026-11-30T10:10:00Z"
    assert failure(Fake((0, leaving, []))).code == "DGD_DELETED"


def test_what_only_explains_may_be_forbidden() -> None:
    fake = Fake(
        (0, STARTING, [FRONT, pod()]),
        (9, dgd(), [FRONT, pod(ready=True)]),
        forbidden=("Event", "DynamoComponentDeployment"),
    )
    assert wait(fake)[0]["verdict"]["state"] == "READY"
    assert fake.lists.count("Event") == 1


def test_a_ready_deployment_costs_three_requests() -> None:
    fake = Fake((0, dgd(), [FRONT, pod(ready=True)]))
    wait(fake)
    assert fake.lists == ["Pod", "DynamoComponentDeployment"]


def test_what_somebody_else_applies() -> None:
    wanted = dgd()
    other = dgd()
    other["spec"] = {**other["spec"], "components": other["spec"]["components"][:1]}
    fake = Fake((0, None, []), (30, other, [FRONT]), (60, dgd(), [FRONT, pod("w-1", ready=True)]))
    said: list[str] = []
    result = waits(fake, manifest=wanted, say=said.append).run(600, 15)
    assert result["verdict"]["state"] == "READY"
    assert "waiting for somebody else to apply it" in said[0]
    assert 60 <= result["seconds"] < 70


def test_nobody_applies_it() -> None:
    fake = Fake((0, None, []))
    with pytest.raises(DynamoError) as error:
        waits(fake, manifest=dgd()).run(60, 15)
    assert error.value.code == "TIMED_OUT"
    assert error.value.result["verdict"]["cause"] == "NOT_APPLIED"
    assert "nobody has applied it yet" in str(error.value)


@pytest.mark.parametrize(
    ("live", "wanted", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": [{"x": 1, "y": 2}]}, {"a": [{"x": 1}]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": 1}, {"a": {"b": 1}}, False),
        ({}, {"a": None}, False),
    ],
)
def test_holds(live: Any, wanted: Any, expected: bool) -> None:
    assert holds(live, wanted) is expected
