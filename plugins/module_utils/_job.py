# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: how a Job is doing, and why it ends badly. Pure but for `Wait`, whose cluster and clock are injected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.inferops.dynamo.plugins.module_utils import _dgd
from ansible_collections.inferops.dynamo.plugins.module_utils._causes import Finding, Snapshot, event_time, mask
from ansible_collections.inferops.dynamo.plugins.module_utils._dgd import Object, View
from ansible_collections.inferops.dynamo.plugins.module_utils._diagnose import Patience, read_refusal, stuck
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError, Passing
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Clock
from ansible_collections.inferops.dynamo.plugins.module_utils._podcauses import pod_causes
from ansible_collections.inferops.dynamo.plugins.module_utils._progress import (
    EVERY,
    Rate,
    describe,
    parsed_object,
    progress_of,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._scheduling import (
    claims_in_doubt,
    mounted_claims,
    tainted,
)

if TYPE_CHECKING:
    from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import Cluster

LOG_LINES = 40  # read from the pod; a failure shows the last ten
SILENT = ("record ", "artifact ")  # lines of the log that are for programs
# Exit codes of roles/model_cache/files/download.py.
EXITS = {
    2: ("USAGE", "the container does not accept what it was told"),
    3: ("CHECKPOINT_INCOMPLETE", "the checkpoint is not complete"),
    4: ("CHECKPOINT_CORRUPT", "the checkpoint is corrupt"),
    5: ("HUB_ACCESS", "the hub refuses the repository"),
    6: ("NO_SPACE", "the volume is too small"),
    7: ("CACHE_NOT_WRITABLE", "the volume cannot be written"),
    8: ("CHECKPOINT_UNVERIFIED", "the checkpoint cannot be verified so deeply"),
}
HINTS = {
    "USAGE": "Look at the claim's permissions and at the options of role model_cache.",
    "CHECKPOINT_INCOMPLETE": "Can pods reach the hub (dynamo_hub_endpoint, proxies in dynamo_download_env)?"
    " Running again goes on where it stopped.",
    "CHECKPOINT_CORRUPT": "The bad files were fetched twice: suspect a proxy, a mirror or the storage.",
    "CHECKPOINT_UNVERIFIED": "The published hashes come with the hub's listing, which huggingface_hub 2 leaves in"
    " .cache/huggingface/trees: model_cache_source: download fetches it. Or model_cache_verify: headers.",
    "HUB_ACCESS": "Check dynamo_hf_token, the licence on the hub and dynamo_model_commit.",
    "NO_SPACE": "Delete old commits (-e model_cache_prune=true), expand the claim, or take another (dynamo_cache_claim)"
    "; dynamo_cache_size is only for a claim that isn't there yet.",
    "CACHE_NOT_WRITABLE": "Let that uid write there, set model_cache_run_as to one that can (0 is root), take"
    " another claim (dynamo_cache_claim), or set model_cache_source: populated when somebody else fills it.",
    "OOM_KILLED": "Raise the memory limit in model_cache_resources, or switch Xet's high performance off:"
    " dynamo_download_env: {HF_XET_HIGH_PERFORMANCE: '0'}.",
    "DEADLINE_EXCEEDED": "What is downloaded stays: run again, it goes on. A slow hub needs a longer deadline.",
}


class Seen(NamedTuple):
    """One observation of a Job."""

    job: Object
    pods: list[Object] = []  # oldest first
    events: list[Object] = []
    log: str = ""
    nodes: list[Object] = []  # while the scheduler speaks of taints
    claims: list[Object] = []  # while it speaks of claims without a volume


def finished(job: Object) -> tuple[str, str, str]:
    """(Complete or Failed, reason, message) of a Job that is over, else three empty texts."""
    for condition in (job.get("status") or {}).get("conditions") or []:
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return condition["type"], str(condition.get("reason") or ""), str(condition.get("message") or "")
    return "", "", ""


def ending(pod: Object) -> Object:
    """How the pod's first container ended: exitCode, reason, message; empty while it hasn't."""
    first: Object = next(iter((pod.get("status") or {}).get("containerStatuses") or []), {})
    return (first.get("state") or {}).get("terminated") or {}


def _held(pod: Object) -> list[Finding]:
    """A pod whose work is done ends when its last container does; that of a mesh may run for ever."""
    running = [c["name"] for c in pod["status"]["containerStatuses"][1:] if "running" in (c.get("state") or {})]
    if not running:
        return []
    text = f"its work has ended, and container {', '.join(running)}, which something in the cluster added, still runs"
    hint = "Exclude the namespace's Jobs from injection, or let it be a native sidecar (an init container)."
    return [Finding("SIDECAR_RUNNING", f"Pod/{pod['metadata']['name']}", text, hint, "slow", "sidecar")]


def result_of(pods: list[Object]) -> Object:
    """What the newest ended pod left as its termination message, if that is a JSON object."""
    for pod in reversed(pods):
        text = str(ending(pod).get("message") or "").strip()
        if text:
            return parsed_object(text.splitlines()[-1].removeprefix("record "))
    return {}


def failure(
    seen: Seen,
    reason: str,
    message: str,
    exits: Mapping[int, tuple[str, str]],
    hints: Mapping[str, str],
) -> Finding:
    """Why a failed Job failed: the last pod's own words first, then the Job's. exits: what its program's codes mean."""
    name = seen.job["metadata"]["name"]
    ended = next((e for e in map(ending, reversed(seen.pods)) if e and e.get("exitCode") != 0), {})
    last = (seen.pods[-1].get("status") or {}) if seen.pods else {}
    refused = last if last.get("phase") == "Failed" and last.get("reason") else {}
    result = result_of(seen.pods)
    exit_code = ended.get("exitCode")
    code, meaning = exits.get(int(exit_code or 0), ("JOB_FAILED", f"the container ended with exit code {exit_code}"))
    if reason == "DeadlineExceeded":
        code, meaning = "DEADLINE_EXCEEDED", "the Job was active longer than its deadline"
    elif ended.get("reason") == "OOMKilled":
        code, meaning = "OOM_KILLED", "the container was killed for lack of memory"
    elif refused:
        code, meaning = "EVICTED" if refused["reason"] == "Evicted" else "POD_REFUSED", str(refused["reason"])
        meaning += f": {refused.get('message') or 'the node did not keep the pod'}"
    elif not ended:
        meaning = f"{reason}: {message}".strip(": ") or "no reason given"
    said = str(result.get("message") or "")
    hint = hints.get(code, "The last lines of the log say more.")
    return Finding(code, f"Job/{name}", mask(f"{meaning}: {said}" if said else meaning), hint, "now", "failed")


def causes(seen: Seen) -> list[Finding]:
    """What keeps the newest pod from running, or the Job from having one."""
    title = f"Job/{seen.job['metadata']['name']}"
    view = View({"metadata": {}}, [], seen.pods)  # a Job belongs to no deployment
    snapshot = Snapshot(view, seen.events, nodes=seen.nodes, claims=seen.claims)
    if stage(seen) == "suspended":
        hint = "A queue such as Kueue, or somebody, has suspended it: it starts when spec.suspend is false."
        return [Finding("JOB_SUSPENDED", title, "spec.suspend is true", hint, "", "suspended")]
    alive = _dgd.alive(seen.pods)
    if alive:
        return _held(alive[-1]) if ending(alive[-1]) else pod_causes(alive[-1], snapshot)
    if any(map(_dgd.leaving, seen.pods)):  # a Job makes the next pod when this one is gone
        return stuck(snapshot)
    uid = seen.job["metadata"].get("uid")
    mine = [e for e in seen.events if (e.get("involvedObject") or {}).get("uid") == uid]
    refused = [e for e in sorted(mine, key=event_time) if e.get("reason") == "FailedCreate"]
    newest = str(seen.pods[-1]["metadata"].get("creationTimestamp") or "") if seen.pods else ""
    if not refused or event_time(refused[-1]) < newest:
        return []
    text = str(refused[-1].get("message") or "")
    code, hint, budget = read_refusal(text)
    return [Finding(code, title, mask(text), hint, budget, "pods")]


def stage(seen: Seen) -> str:
    """Where a Job is that isn't over, in words without numbers that change."""
    if (seen.job.get("spec") or {}).get("suspend"):
        return "suspended"
    pods = _dgd.alive(seen.pods)
    if not pods:
        return "waiting for a pod"
    pod = pods[-1]
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    if any("running" in (c.get("state") or {}) for c in statuses[:1]):
        return "running"
    if _dgd.condition(pod, "PodScheduled").get("status") != "True":
        return "waiting for a node"
    if ending(pod):
        return "ending"
    waiting = next(((c.get("state") or {}).get("waiting") or {} for c in statuses), {})
    return f"starting the pod ({waiting.get('reason') or 'volumes and image'})"


class Wait:
    """One wait for one Job. A Job of another program has a subclass that knows its exit codes and its progress."""

    exits: Mapping[int, tuple[str, str]] = EXITS
    hints: Mapping[str, str] = HINTS
    longer = "A longer wait: model_cache_timeout."

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        *,
        label: str = "",
        budgets: Mapping[str, float] | None = None,
        clock: Clock = Clock(),
        say: Callable[[str], None] = lambda _: None,
        reconnect: Callable[[], Cluster] | None = None,
    ) -> None:
        self.passing = Passing(reconnect)
        self.cluster, self.namespace, self.name, self.clock = cluster, namespace, name, clock
        self.label, self.patience, self._say = label or f"Job {name}", Patience(budgets), say
        self.rate = Rate()
        self.stall = float((budgets or {}).get("stall") or 0)
        self._bytes, self._moved = -1.0, self.clock.now()
        self.uid, self.main, self.log = "", "", ""
        self._key, self._said = "", float("-inf")

    def run(self, timeout: float, interval: float) -> dict[str, Any]:
        """verdict, records, claims, seconds. DynamoError with the cause as code; TIMED_OUT after `timeout` seconds."""
        began = looked = self.clock.now()
        seen, trouble, found = None, "", []
        while True:
            try:
                self.cluster = self.passing.renewed(self.cluster)
                seen = self.observe()
                if trouble:
                    self.patience.away(self.clock.now() - looked)
                trouble, looked, self.passing.refused = "", self.clock.now(), 0
                if finished(seen.job)[0] == "Complete":
                    return self._success(seen, looked - began)
            except DynamoError as error:
                if not self.passing(error):
                    raise
                trouble = f"no answer from the cluster: {error.message}"
            passed = self.clock.now() - began
            if seen and not trouble:
                state, reason, message = finished(seen.job)
                found = causes(seen)
                now = self.clock.now()
                final = self.patience.judge(now, found)
                if state:
                    final = failure(seen, reason, message, self.exits, self.hints)
                final = final or self.stalled(seen, now)
                if final:
                    raise self._failure(final, "TERMINAL", seen, passed)
            self._speak(seen, trouble, found)
            if passed >= timeout:
                raise self._timed_out(seen, trouble, found, passed)
            self.clock.sleep(min(interval, max(0.0, timeout - passed)))

    def stalled(self, seen: Seen, now: float) -> Finding | None:
        """A running download that has not got a byte further for `stall` seconds. Hashing moves no bytes."""
        progress = progress_of(seen.log) if stage(seen) == "running" else {}
        count = float(progress.get("bytes") or 0)
        over = 0 < float(progress.get("bytes_total") or 0) <= count  # all is there, and is hashed
        if not progress or progress.get("stage") != "download" or count != self._bytes or over:
            self._bytes, self._moved = count if progress else -1.0, now
        if not self.stall or now - self._moved < self.stall:
            return None
        evidence = f"no byte for {self.stall / 60:.0f} min: {describe(progress, 0)}"
        hint = (
            "The Job goes on by itself, and the same command waits for it again. Is the hub or mirror reachable from"
            " pods (dynamo_hub_endpoint, proxies in dynamo_download_env), and does the volume take writes?"
        )
        return Finding("STALLED", f"Job/{self.name}", evidence, hint, "now", "stalled")

    def observe(self) -> Seen:
        """Everything that a verdict needs; events only while nothing runs, the log only while something does."""
        job = self.cluster.get("batch/v1", "Job", self.name, self.namespace)
        title = f"Job {self.namespace}/{self.name}"
        hint = "Somebody or something deleted it: run the same command again." if self.uid else "Create it first."
        if job is None or job["metadata"].get("deletionTimestamp"):
            raise DynamoError(f"{title} {'is gone' if self.uid else 'does not exist'}.", "JOB_ABSENT", hint)
        if self.uid and job["metadata"].get("uid") != self.uid:
            raise DynamoError(f"{title} was replaced by another one while it was waited for.", "JOB_ABSENT", hint)
        self.uid = str(job["metadata"].get("uid") or "")
        self.main = str(job["spec"]["template"]["spec"]["containers"][0]["name"])
        pods = self.pods()
        seen = Seen(job, pods)
        over = finished(job)[0]
        if over != "Complete" and pods and (over or stage(seen) in ("running", "ending")):
            self.log = self.log_of(pods[-1], LOG_LINES) or self.log
        elif not over:
            seen = seen._replace(events=self._listed("Event"))
        if any(map(tainted, pods)):
            seen = seen._replace(nodes=self._listed("Node"))
        claims = claims_in_doubt(pods, self._claim)
        return seen._replace(log=self.log, claims=claims)

    def pods(self) -> list[Object]:
        """The Job's pods, oldest first. The Job's own container comes first, whatever a mesh has put before it."""
        selector = f"batch.kubernetes.io/controller-uid={self.uid}"
        pods = self.cluster.list("v1", "Pod", self.namespace, label_selector=selector)
        pods.sort(key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))
        for pod in pods:
            ((pod.get("status") or {}).get("containerStatuses") or []).sort(key=lambda c: c["name"] != self.main)
        return pods

    def log_of(self, pod: Object, lines: int) -> str:
        return self.cluster.log(self.namespace, pod["metadata"]["name"], self.main, tail=lines)

    def _claim(self, name: str) -> Object | None:
        return self.cluster.get("v1", "PersistentVolumeClaim", name, self.namespace)

    def _listed(self, kind: str) -> list[Object]:
        try:
            return self.cluster.list("v1", kind, self.namespace)
        except DynamoError as error:
            if error.code != "FORBIDDEN":
                raise
            return []  # they only help to explain

    def _speak(self, seen: Seen | None, trouble: str, found: list[Finding]) -> None:
        key = text = trouble or (stage(seen) if seen else "")
        progress = progress_of(seen.log) if seen and text == "running" else {}
        now = self.clock.now()
        if found and not trouble:
            key = found[0].key
            text = f"{text}: {found[0].evidence}"
        elif progress:
            key, text = self.told(progress, now)
        failed = int((seen.job.get("status") or {}).get("failed") or 0) if seen else 0
        if failed:
            ended = mask(str(result_of(seen.pods if seen else []).get("message") or ""))
            key, text = f"{key} {failed}", f"{text} (attempt {failed + 1}{f' after: {ended}' if ended else ''})"
        if key != self._key or now - self._said >= EVERY:
            self._say(f"{self.label} {text}")
            self._key, self._said = key, now

    def told(self, progress: Object, now: float) -> tuple[str, str]:
        """(what makes another line worth saying at once, the line) of a progress."""
        key = f"running {progress.get('stage')} {progress.get('files_total')}"
        return key, describe(progress, self.rate(now, float(progress.get("bytes") or 0)))

    def claims_of(self, job: Object) -> dict[str, str]:
        """The uid of every claim that the Job mounts, by name."""
        claims = {name: self._claim(name) for name in mounted_claims(job["spec"]["template"]["spec"])}
        return {name: str(claim["metadata"]["uid"]) if claim else "" for name, claim in claims.items()}

    def _success(self, seen: Seen, passed: float) -> dict[str, Any]:
        claims = self.claims_of(seen.job)
        result = result_of(seen.pods)
        self._say(f"{self.label} done after {passed:.0f} s")
        verdict = self._verdict("READY", Finding("", f"Job/{self.name}", "complete", "", "", ""), "complete")
        records = result.get("records") or []
        return {"verdict": verdict, "records": records, "claims": claims, "seconds": round(passed, 1)}

    def _verdict(self, state: str, finding: Finding, phase: str) -> dict[str, str]:
        return {
            "state": state,
            "cause": finding.code,
            "object": finding.object,
            "evidence": finding.evidence,
            "hint": finding.hint,
            "phase": phase,
        }

    def _failure(self, finding: Finding, state: str, seen: Seen | None, passed: float) -> DynamoError:
        lines = [mask(line) for line in self.log.splitlines() if line.strip() and not line.startswith(SILENT)][-10:]
        phase = stage(seen) if seen and not finished(seen.job)[0] else "failed"
        told = finding.budget != "now" or (seen and result_of(seen.pods).get("message"))
        tail = f" Last lines of its log: {' | '.join(lines[-3:])}." if lines and not told else ""
        return DynamoError(
            f"{self.label}, Job {self.namespace}/{self.name}, after {passed:.0f} s ({phase}):"
            f" {finding.evidence.rstrip('.')}.{tail}",
            finding.code,
            finding.hint,
            verdict=self._verdict(state, finding, phase),
            log=lines,
        )

    def _timed_out(self, seen: Seen | None, trouble: str, found: list[Finding], passed: float) -> DynamoError:
        hint = f"The Job goes on by itself: the same command waits for it again. {self.longer}"
        evidence = trouble or f"still {stage(seen) if seen else 'unknown'}"
        if found and not trouble:
            evidence, hint = f"{evidence}: {found[0].evidence}", f"{found[0].hint} {hint}"
        return self._failure(
            Finding("TIMED_OUT", f"Job/{self.name}", evidence, hint, "", ""), "TIMED_OUT", seen, passed
        )
