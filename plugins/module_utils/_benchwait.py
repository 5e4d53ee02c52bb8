# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the wait for a benchmark's Job: its progress, the workers that it loads, and the files that its log carries.

A worker that dies makes requests fail, so its end, and not the Job's, is the cause that people need.
"""

from __future__ import annotations

import base64
import contextlib
import io
import re
import tarfile
from collections.abc import Iterable
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _dgd, _job
from ansible_collections.inferops.dynamo.plugins.module_utils._causes import Finding, classify_log, mask
from ansible_collections.inferops.dynamo.plugins.module_utils._dgd import Object
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

# Exit codes of roles/benchmark/files/sweep.py.
EXITS = {
    2: ("BENCHMARK_INPUT", "the sweep can't start"),
    3: ("REQUESTS_FAILED", "requests failed"),
    4: ("AIPERF_FAILED", "AIPerf failed"),
    5: ("DEADLINE_EXCEEDED", "the sweep took longer than its deadline"),
}
HINTS = {
    "BENCHMARK_INPUT": "Look at benchmark_load.trace, and at rights on the model cache (benchmark_run_as).",
    "REQUESTS_FAILED": "The log of frontend and workers says why; what was measured before is kept.",
    "AIPERF_FAILED": "aiperf.log in the run's folder says more.",
    "OOM_KILLED": "Raise the memory limit in benchmark_resources.",
    "DEADLINE_EXCEEDED": "Raise benchmark_deadline, or measure less.",
}
ARTIFACT = re.compile(r"^artifact (\S+) (\d+)/(\d+) ([A-Za-z0-9+/=]+)$", re.M)
WHOLE_LOG = 100_000  # lines; the kubelet keeps 10 MB
MAX_FILE = 20_000_000  # bytes of an unpacked file: what comes out of a log isn't trusted
LOOKS = 4  # at workers after the Job failed: the kubelet reports an end some seconds late


def workers(pods: Iterable[Object]) -> dict[str, Object]:
    """The pods of a release that hold a model, by uid."""
    return {p["metadata"]["uid"]: p for p in pods if _dgd.label(p, "nvidia.com/dynamo-component-type") in _dgd.WORKERS}


def restarts(pod: Object) -> int:
    return sum(int(c.get("restartCount") or 0) for c in (pod.get("status") or {}).get("containerStatuses") or [])


def lost(before: dict[str, Object], now: dict[str, Object]) -> tuple[Object, Object] | None:
    """The first worker that isn't any more what it was: (pod, its container's end; empty when the pod left)."""
    for uid, old in before.items():
        pod = now.get(uid)
        if pod is None or _dgd.leaving(pod):
            return pod or old, {}
        for container in (pod.get("status") or {}).get("containerStatuses") or []:
            ended: Object = (container.get("state") or {}).get("terminated") or {}
            if not ended and restarts(pod) > restarts(old):
                ended = (container.get("lastState") or {}).get("terminated") or {}
            if ended:
                return pod, {**ended, "container": container.get("name")}
    return None


def loss(pod: Object, ended: Object, log: str) -> Finding:
    """The cause that a worker's end is."""
    title = f"Pod/{pod['metadata']['name']}"
    if not ended:
        text, hint = f"{title} was deleted or evicted during the measurement", "Was there an update, or a full node?"
        return Finding("WORKER_LOST", title, text, hint, "", "lost")
    name = ended["container"]
    if ended.get("reason") == "OOMKilled":
        hint = "Give the component more memory; /dev/shm (sharedMemorySize) counts towards its limit."
        text = f"container {name} of {title} was killed for lack of memory during the measurement"
        return Finding("OOM_KILLED", title, text, hint, "", "lost")
    known, lines = classify_log(log or str(ended.get("message") or ""))
    text = f"container {name} of {title} ended with exit code {ended.get('exitCode')} during the measurement"
    hint = known.hint if known else f"Read the log of {title}, container {name}, of its previous start."
    return Finding("WORKER_LOST", title, mask(f"{text}: {lines}" if lines else text), hint, "", "lost")


def unpack(log: str) -> dict[str, dict[str, bytes]]:
    """{point: {file: content}} of the artifact lines of a log; a point whose lines aren't all there is left out."""
    texts: dict[str, dict[int, str]] = {}
    totals: dict[str, int] = {}
    for name, number, total, text in ARTIFACT.findall(log):
        texts.setdefault(name, {})[int(number)] = text
        totals[name] = int(total)
    found = {}
    for name, parts in texts.items():
        if len(parts) == totals[name]:
            # a pod that ends while it prints leaves its last line cut
            with contextlib.suppress(ValueError, EOFError, OSError, tarfile.TarError):
                found[name] = _files(base64.b64decode("".join(parts[number] for number in sorted(parts))))
    return found


def _files(packed: bytes) -> dict[str, bytes]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
        for member in tar:
            content = tar.extractfile(member)
            if content and member.size <= MAX_FILE and "/" not in member.name and not member.name.startswith("."):
                found[member.name] = content.read()
    return found


class Wait(_job.Wait):
    """Ends early when a worker of the release does; keeps what was measured until then."""

    exits, hints, longer = EXITS, HINTS, "A longer wait: benchmark_deadline."
    release = ""
    before: dict[str, Object] | None = None

    def observe(self) -> _job.Seen:
        seen = super().observe()
        if not _job.finished(seen.job)[0]:
            self.look_at_workers(seen)
        return seen

    def look_at_workers(self, seen: _job.Seen | None) -> None:
        """DynamoError when a worker that was there at the first look has ended or gone."""
        pods = workers(self.cluster.list("v1", "Pod", self.namespace, label_selector=f"{_dgd.GRAPH}={self.release}"))
        if self.before is None:
            self.before = pods
        found = lost(self.before, pods)
        if found:
            pod, ended = found
            name = pod["metadata"]["name"]
            again = bool(ended) and restarts(pod) > restarts(self.before[pod["metadata"]["uid"]])
            log = self.cluster.log(self.namespace, name, ended["container"], tail=40, previous=again) if ended else ""
            raise self._failure(loss(pod, ended, log), "TERMINAL", seen, self.clock.now() - self.began)

    def run(self, timeout: float, interval: float) -> dict[str, Any]:
        """As in _job, and also files and trace, of what was measured; on a failure they are in the error's result."""
        self.began = self.clock.now()
        try:
            return {**super().run(timeout, interval), **self.fetched()}
        except DynamoError as error:
            error.result |= self.fetched()
            if error.code in ("REQUESTS_FAILED", "AIPERF_FAILED"):
                self.blame_workers(interval, error.result)
            raise

    def blame_workers(self, interval: float, kept: dict[str, Any]) -> None:
        for _look in range(LOOKS):
            try:
                self.look_at_workers(None)
            except DynamoError as cause:
                cause.result |= {key: kept[key] for key in ("files", "trace")}
                raise cause from None
            self.clock.sleep(interval)

    def fetched(self) -> dict[str, Any]:
        """{files: {point: {name: bytes}}, trace: {trace_sha256, rows}} of the Job's newest pod."""
        pods = self.pods() if self.uid else []
        log = self.log_of(pods[-1], WHOLE_LOG) if pods else ""
        told = _job.result_of(pods)
        return {"files": unpack(log), "trace": {k: told[k] for k in ("trace_sha256", "rows") if k in told}}

    def claims_of(self, job: Object) -> dict[str, str]:
        """Nobody asks for them, so no right to read them is needed."""
        return {}

    def told(self, progress: Object, now: float) -> tuple[str, str]:
        """`point 2/3 concurrency-8: 30/64 requests, 812 tokens/s, 1 failed`; what is not known is left out."""
        where = f"point {progress.get('point')}/{progress.get('points')} {progress.get('name')}"
        stage, total = progress.get("stage"), progress.get("total")
        parts = [
            f"{progress.get('done')}{f'/{total}' if total else ''} requests" if stage == "measuring" else str(stage)
        ]
        if progress.get("tokens_per_s"):
            parts.append(f"{progress['tokens_per_s']:.0f} tokens/s")
        if progress.get("errors"):
            parts.append(f"{progress['errors']} failed")
        return f"{where} {stage}", f"{where}: {', '.join(parts)}"
