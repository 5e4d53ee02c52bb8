# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the numbers of a benchmark: from AIPerf's files to a summary, its table, and its comparison. Pure.

Metrics are AIPerf's (profile_export_aiperf.json, schema 1.4); times are milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _benchload
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

SCHEMA = 1
EXPORT = "profile_export_aiperf.json"
METRICS = "server_metrics_export.json"
PERCENTILES = ("p50", "p90", "p99")
LATENCIES = {"ttft_ms": "time_to_first_token", "itl_ms": "inter_token_latency", "latency_ms": "request_latency"}
# histograms of the frontend, without their prefix
CACHED = "frontend_cached_tokens"
INPUT = "frontend_input_sequence_tokens"
# What the gate looks at: (path in a point, title, is more better?). Medians: the tail of few requests jumps.
JUDGED = (
    ("output_tokens_per_s", "output tokens/s", True),
    ("ttft_ms.p50", "time to first token p50", False),
    ("itl_ms.p50", "inter-token latency p50", False),
)
COLUMNS = (
    ("requests/s", "requests_per_s", 2),
    ("tokens/s", "output_tokens_per_s", 1),
    ("per GPU", "output_tokens_per_s_per_gpu", 1),
    ("per user", "output_tokens_per_s_per_user.p50", 1),
    ("TTFT p50", "ttft_ms.p50", 1),
    ("p90", "ttft_ms.p90", 1),
    ("p99", "ttft_ms.p99", 1),
    ("ITL p50", "itl_ms.p50", 2),
    ("p90", "itl_ms.p90", 2),
    ("p99", "itl_ms.p99", 2),
    ("cache", "cache_hit", 2),
    ("failed", "failed", 0),
)


def at(point: Mapping[str, Any], path: str) -> Any:
    """The value behind a dotted path, None where there is none."""
    value: Any = point
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _parsed(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    try:
        found = json.loads(files.get(name) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _value(export: Mapping[str, Any], metric: str, key: str = "avg") -> float | None:
    value = at(export, f"{metric}.{key}")
    return round(float(value), 4) if isinstance(value, (int, float)) else None


def _sum(metrics: Mapping[str, Any], name: str) -> float:
    series = at(metrics, f"metrics.dynamo_{name}.series")
    return sum(float(at(entry, "stats.sum") or 0) for entry in series) if isinstance(series, list) else 0.0


def point(given: Mapping[str, Any], files: Mapping[str, bytes], gpus: int) -> dict[str, Any]:
    """The numbers of one point of the load; whole is false when requests failed, or AIPerf didn't finish."""
    export, metrics = _parsed(files, EXPORT), _parsed(files, METRICS)
    phases = _parsed(files, "phase_manifest.json").get("phases") or []
    measured = [phase for phase in phases if phase.get("phase_kind") == "profiling"]
    cancelled = bool(export.get("was_cancelled")) or any(phase.get("was_cancelled") for phase in measured)
    done = int(_value(export, "request_count") or 0)
    # AIPerf writes the manifest only when it can: what the export says of errors counts as well.
    counted = sum(int(entry.get("count") or 0) for entry in export.get("error_summary") or [])
    failed = max(counted, sum(int(phase.get("error_request_count") or 0) for phase in measured))
    lost = bool(_value(export, "request_error_rate")) or done + failed < int(given.get("requests") or 0)
    throughput = _value(export, "output_token_throughput")
    read = _sum(metrics, INPUT)
    return {
        **given,
        "whole": bool(export.get("is_complete", bool(export))) and bool(done) and not (failed or cancelled or lost),
        "cancelled": cancelled,
        "done": done,
        "failed": failed,
        "errors": _errors(export),
        "seconds": _value(export, "benchmark_duration"),
        "requests_per_s": _value(export, "request_throughput"),
        "output_tokens_per_s": throughput,
        "output_tokens_per_s_per_gpu": round(throughput / gpus, 4) if throughput and gpus else None,
        "output_tokens_per_s_per_user": {
            key: _value(export, "output_token_throughput_per_user", key) for key in ("avg", *PERCENTILES)
        },
        **{name: {p: _value(export, metric, p) for p in PERCENTILES} for name, metric in LATENCIES.items()},
        "input_tokens": _value(export, "input_sequence_length"),
        "output_tokens": _value(export, "output_sequence_length"),
        # None where the engine doesn't report cached tokens: then the frontend has counted nothing
        "cache_hit": round(_sum(metrics, CACHED) / read, 4) if read and _sum(metrics, CACHED) else None,
    }


def _errors(export: Mapping[str, Any]) -> list[str]:
    found = []
    for entry in export.get("error_summary") or []:
        details = entry.get("error_details") or {}
        said = f"{entry.get('count')} x {details.get('code') or ''} {details.get('message') or details.get('type')}"
        found.append(" ".join(said.split())[:300])
    return found[:5]


def build(
    identity: Mapping[str, Any],
    load: Mapping[str, Any],
    files: Mapping[str, Mapping[str, bytes]],
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """The summary of a run.

    :param identity: as _benchjob.identity.
    :param files: {point: {file: content}}; a point without files was not measured.
    :param about: run, host, started, finished, trace (what the pod said of it), failure ({code, message} or empty).
    """
    load = json.loads(json.dumps(load))
    if load.get("trace") and at(about, "trace.trace_sha256"):
        load["trace"]["sha256"] = about["trace"]["trace_sha256"]
    points = [point(p, files[p["name"]], identity["gpus"]) for p in load["points"] if files.get(p["name"])]
    failure = about.get("failure") or {}
    missing = [p["name"] for p in load["points"] if not files.get(p["name"])]
    exports = [_parsed(found, EXPORT) for found in files.values()]
    summary = {
        "schema": SCHEMA,
        **{key: about[key] for key in ("run", "host", "started", "finished")},
        "aiperf": next((str(e["aiperf_version"]) for e in exports if e.get("aiperf_version")), ""),
        "deployment": dict(identity),
        "load": load,
        "whole": not failure and not missing and bool(points) and all(p["whole"] for p in points),
        "failure": dict(failure),
        "missing": missing,
        "points": points,
    }
    return {**summary, "warnings": warnings(summary)}


def warnings(summary: Mapping[str, Any]) -> list[str]:
    """What a reader has to know before any number."""
    found = []
    if summary["deployment"]["synthetic_acceptance"]:
        found.append(
            "SYNTHETIC ACCEPTANCE: drafts were accepted at a fixed rate. No deployment that serves people gives these"
            " answers or this speed."
        )
    if summary["failure"]:
        found.append(f"NOT WHOLE: the run ended with {summary['failure']['code']}: {summary['failure']['message']}")
    if summary["missing"]:
        found.append(f"NOT WHOLE: not measured: {', '.join(summary['missing'])}")
    for p in summary["points"]:
        if p["cancelled"]:
            found.append(f"NOT WHOLE: {p['name']} was cancelled")
        if p["failed"]:
            why = f": {p['errors'][0]}" if p["errors"] else ""
            found.append(f"NOT WHOLE: {p['failed']} of {p['failed'] + p['done']} requests of {p['name']} failed{why}")
        if not (p["whole"] or p["cancelled"] or p["failed"]):
            asked = int(p.get("requests") or 0)
            short = f"{p['done']} of {asked} requests were measured" if p["done"] < asked else "AIPerf's export says so"
            found.append(f"NOT WHOLE: {p['name']} is not complete: {short}")
    if summary["load"]["kind"] == "trace" and len(summary["points"]) > 1:
        found.append("every point replays the same trace: from the second on, the cache is warm")
    return found


def table(summary: Mapping[str, Any]) -> list[str]:
    """Lines for the screen: what was measured, warnings, a row for each point."""
    deployment = summary["deployment"]
    lines = [
        f"{deployment['target']} on {deployment['gpus']} x {deployment['gpu'] or 'unknown'}:"
        f" {_benchload.describe(summary['load'])}"
    ]
    lines += [f"! {warning}" for warning in summary["warnings"]]
    rows = [["point", *(title for title, _path, _digits in COLUMNS)], *map(cells, summary["points"])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows if summary["points"] else []:
        first, *others = (text.rjust(width) for text, width in zip(row, widths, strict=True))
        lines.append("  ".join([row[0].ljust(len(first)), *others]).rstrip())
    return lines


def cells(point: Mapping[str, Any]) -> list[str]:
    """A point as texts, in the order of COLUMNS."""
    return [point["name"], *(number(at(point, path), digits) for _title, path, digits in COLUMNS)]


def number(value: Any, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


# --- comparison -------------------------------------------------------------------------------------------------------


def comparable(summary: Mapping[str, Any], baseline: Mapping[str, Any]) -> None:
    """DynamoError BENCHMARK_DIFFERS or BENCHMARK_INCOMPLETE unless the two may stand side by side."""
    if baseline.get("schema") != SCHEMA:
        raise DynamoError(
            f"benchmark_baseline: {baseline.get('run')} was written by another version of this collection.",
            "BENCHMARK_DIFFERS",
            "Measure it again.",
        )
    different = _benchload.differences(summary["load"], baseline["load"])
    if different:
        raise DynamoError(
            f"benchmark_baseline: {baseline['run']} had another load (this run's, then its): {'; '.join(different)}.",
            "BENCHMARK_DIFFERS",
            "Give both runs the same benchmark_load, or compare with another run.",
        )
    if bool(at(summary, "deployment.synthetic_acceptance")) != bool(at(baseline, "deployment.synthetic_acceptance")):
        raise DynamoError(
            f"benchmark_baseline: only one of this run and {baseline['run']} accepted drafts synthetically.",
            "BENCHMARK_DIFFERS",
            "Compare synthetic runs with each other, and real ones.",
        )
    for run in (baseline, summary):
        if not run.get("whole", True):
            raise DynamoError(
                f"benchmark_baseline: {run['run']} is not whole, so it is not compared: {_why(run)}",
                "BENCHMARK_INCOMPLETE",
                "Measure it again.",
            )


def _why(run: Mapping[str, Any]) -> str:
    return next((w for w in run.get("warnings") or [] if w.startswith("NOT WHOLE")), "its numbers are not complete")


def compare(summary: Mapping[str, Any], baseline: Mapping[str, Any]) -> dict[str, Any]:
    """{baseline, notes, rows: [{point, metric, title, now, before, change, worse}]}; change and worse in percent.

    worse is positive where this run is the worse one.
    """
    before = {p["name"]: p for p in baseline["points"]}
    rows = []
    for now in summary["points"]:
        for path, title, more_is_better in JUDGED:
            new, old = at(now, path), at(before[now["name"]], path)
            change = round(100 * (new - old) / old, 2) if new is not None and old else None
            worse = None if change is None else -change if more_is_better else change
            rows.append(
                {"point": now["name"], "metric": path, "title": title, "now": new, "before": old}
                | {"change": change, "worse": worse}
            )
    one, other = summary["deployment"], baseline["deployment"]
    notes = [f"{key}: {one[key]}, before {other.get(key)}" for key in one if one[key] != other.get(key)]
    return {"baseline": baseline["run"], "notes": notes, "rows": rows}


def regressions(comparison: Mapping[str, Any], limit: float) -> list[str]:
    """What is worse by more than `limit` percent, or not known any more; none where the limit is 0."""
    missing = [
        f"{row['title']} of {row['point']} is not known ({row['before']:g} before)"
        for row in comparison["rows"]
        if limit and row["before"] is not None and row["now"] is None
    ]
    return missing + [
        f"{row['title']} of {row['point']} is {row['worse']:.1f}% worse ({row['before']:g} -> {row['now']:g})"
        for row in comparison["rows"]
        if limit and row["worse"] is not None and row["worse"] > limit
    ]


def comparison_table(comparison: Mapping[str, Any]) -> list[str]:
    """Lines for the screen."""
    lines = [f"against {comparison['baseline']}:", *(f"  differs in {note}" for note in comparison["notes"])]
    rows = comparison["rows"]
    widths = [max((len(row[key]) for row in rows), default=0) for key in ("point", "title")]
    for row in rows:
        change = "-" if row["change"] is None else f"{row['change']:+.1f}%"
        names = f"{row['point'].ljust(widths[0])}  {row['title'].ljust(widths[1])}"
        lines.append(f"  {names}  {number(row['before'], 2):>10} -> {number(row['now'], 2):>10}  {change:>8}")
    return lines


def newest(
    summaries: Iterable[Mapping[str, Any]], host: str, deployment: str, synthetic: bool = False
) -> Mapping[str, Any] | None:
    """The last whole run of this host and this release, with the same acceptance of drafts: what `last` means."""
    mine = [
        s
        for s in summaries
        if s.get("whole") and s.get("host") == host and at(s, "deployment.name") == deployment and s.get("finished")
        if bool(at(s, "deployment.synthetic_acceptance")) is synthetic
    ]
    return max(mine, key=lambda s: str(s["finished"]), default=None)
