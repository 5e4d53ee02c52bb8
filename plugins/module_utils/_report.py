# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what happened on each host: rows from the hosts' results, the closing table, the file. Pure functions.

A row is {host, cluster, namespace, target, result, detail, code, seconds, checks}; result is one of RESULTS, checks are
those of the smoke test, for the file.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

RESULTS = (
    "deployed",
    "measured",
    "prepared",
    "removed",
    "unchanged",
    "would change",
    "would not change",
    "not applicable",
    "not started",
    "failed",
)
WIDTH = 100
PREPARING = {"hf_secret", "model_cache"}

Row = dict[str, Any]


def _part(value: Any, *keys: str) -> Any:
    """value[key][key]..., None where something is absent or of another kind."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def row(host: str, variables: Mapping[str, Any], alive: bool, check_mode: bool, now: float) -> Row:
    """One host's row.

    variables: untemplated variables of the host, of which only results and what the playbooks remember are looked at.
    alive: the host is still in the play.  now: seconds since 1970.
    """
    target, preflight = variables.get("__target_result"), variables.get("__preflight_result")
    smoke = variables.get("__smoke_test_result")
    benchmark = variables.get("__benchmark_result")
    removed = _part(variables.get("__teardown_result"), "objects")
    release = _part(preflight, "release") or _part(target, "release")
    cluster = _part(preflight, "cluster") or _part(target, "cluster")
    failure = variables.get("deploy_failure")
    steps = _part(preflight, "plan", "steps") or []
    reasons = _part(preflight, "plan", "reasons") or {}
    started = _part(preflight, "started")
    found: Row = {
        "host": host,
        "cluster": _part(cluster, "context") or _part(cluster, "server") or "",
        "namespace": _part(release, "namespace") or "",
        "target": _part(release, "target") or "",
        "result": "",
        "detail": "",
        "code": "",
        "seconds": round(now - started) if isinstance(started, (int, float)) else None,
        "checks": list(_part(smoke, "checks") or []),
    }
    if failure or not alive:
        task, message = _part(failure, "task"), _part(failure, "msg") or "it left the play, see above"
        message += _left_behind(preflight, message) if not check_mode else ""
        found.update(
            result="failed", detail=f"{task}: {message}" if task else message, code=_part(failure, "code") or ""
        )
    elif release and not release.get("applicable", True):
        found.update(result="not applicable", detail=_part(release, "reason") or "", seconds=None)
    elif variables.get("deploy_state") == "not started":
        found.update(result="not started", detail="another host failed before its turn", seconds=None)
    elif removed is not None:
        gone = [f"{o['kind']}/{o['name']}" for o in removed if o.get("action") == "deleted"]
        words = ("would change", "would not change") if check_mode else ("removed", "unchanged")
        verb = "would be deleted" if check_mode else "deleted"
        found.update(result=words[not gone], detail=f"{verb}: {', '.join(gone)}" if gone else "")
    elif check_mode:
        found.update(
            result="would change" if steps else "would not change", detail="; ".join(map(str, reasons.values()))
        )
    elif benchmark:
        found.update(result="measured", detail=_part(benchmark, "page") or "")
    elif smoke:
        found.update(result="deployed" if steps else "unchanged", detail=answer(smoke))
    elif preflight:
        found["result"] = "prepared" if PREPARING.intersection(steps) else "unchanged"
    else:
        found["result"] = "not started"
    found["detail"] = " ".join(str(found["detail"]).split())
    return found


def _left_behind(preflight: Any, message: str) -> str:
    """What a failed run leaves that nothing else would tell: the namespace that the first step makes."""
    namespace = _part(preflight, "release", "namespace")
    began = _part(preflight, "plan", "namespace_exists") is False and _part(preflight, "plan", "steps")
    if not began or f"Namespace {namespace}" in message or "Nothing was changed" in message:
        return ""
    return f" (this run made the namespace {namespace}, which stays)"


def answer(smoke: Any) -> str:
    """What the model said, or nothing."""
    answers = _part(smoke, "answers") or []
    text = _part(answers[0], "content") if answers else ""
    return f"answer: {text}" if text else ""


def table(rows: Iterable[Row], width: int = WIDTH) -> list[str]:
    """Lines of at most `width` characters: one per host, and its answer or all its causes, with codes, below it."""
    titles = ("host", "cluster / namespace", "target", "result", "s")
    cells = [
        (
            r["host"],
            " / ".join(part for part in (r["cluster"], r["namespace"]) if part),
            r["target"],
            r["result"],
            "" if r["seconds"] is None else str(r["seconds"]),
        )
        for r in rows
    ]
    sizes = [max(len(line[i]) for line in [titles, *cells]) for i in range(len(titles))]
    spare = width - 2 * (len(sizes) - 1) - sizes[3] - sizes[4]
    for index in (1, 2, 0):  # the widest give way first, none below what is needed to tell hosts apart
        excess = sizes[0] + sizes[1] + sizes[2] - spare
        if excess > 0:
            sizes[index] = max(min(sizes[index], 16), sizes[index] - excess)
    lines = [_line(titles, sizes), "-" * min(width, sum(sizes) + 2 * (len(sizes) - 1))]
    for cell, r in zip(cells, rows, strict=True):
        lines.append(_line(cell, sizes))
        for text, most in _paragraphs(r):
            lines += textwrap.wrap(
                text, width, initial_indent="    ", subsequent_indent="    ", max_lines=most, break_on_hyphens=False
            )
    return lines


def _paragraphs(row: Row) -> list[tuple[str, int | None]]:
    """What stands below a row, with the most lines it may have: a failure in full, each of its findings by itself."""
    if row["result"] != "failed":
        answered = row["result"] in ("deployed", "unchanged")  # by a model, at whatever length
        return [(row["detail"], 6 if answered else None)] if row["detail"] else []
    first, *others = re.split(r"; also (?=[A-Z][A-Z0-9_]*: )", row["detail"])
    return [(text, None) for text in (f"{row['code']}: {first}" if row["code"] else first, *others) if text]


def _line(cell: tuple[str, ...], sizes: list[int]) -> str:
    parts = [_cut(text, size).ljust(size) for text, size in zip(cell[:-1], sizes[:-1], strict=True)]
    return "  ".join([*parts, cell[-1].rjust(sizes[-1])]).rstrip()


def _cut(text: str, size: int) -> str:
    """The end of a target or cluster name tells more than its beginning."""
    return text if len(text) <= size else "~" + text[len(text) - size + 1 :]


def summary(rows: Iterable[Row]) -> str:
    """How many hosts ended how, the failures last."""
    counts = {result: sum(r["result"] == result for r in rows) for result in RESULTS}
    return ", ".join(f"{count} {result}" for result, count in counts.items() if count)


def document(rows: Iterable[Row], finished: str, check_mode: bool) -> dict[str, Any]:
    """What is written to the file. finished: UTC, ISO 8601."""
    return {"finished": finished, "check_mode": check_mode, "hosts": list(rows)}
