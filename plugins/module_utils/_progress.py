# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what a pod says of its progress, and how it is told. Pure."""

from __future__ import annotations

import json
from collections import deque

from ansible_collections.inferops.dynamo.plugins.module_utils._dgd import Object

EVERY = 15.0  # seconds between two lines while only numbers change
WINDOW = 60.0  # seconds over which the rate is taken


def parsed_object(text: str) -> Object:
    """The JSON object, or an empty one for everything else."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def progress_of(log: str) -> Object:
    """The last `progress {json}` line of a log."""
    for line in reversed(log.splitlines()):
        if line.startswith("progress {") and (found := parsed_object(line.removeprefix("progress "))):
            return found
    return {}


class Rate:
    """Bytes per second over the last minute."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque()

    def __call__(self, now: float, count: float) -> float:
        if self._points and count < self._points[-1][1]:
            self._points.clear()  # another pod, or another repository
        if not self._points or count > self._points[-1][1] or now - self._points[-1][0] > EVERY:
            self._points.append((now, count))
        while len(self._points) > 2 and now - self._points[0][0] > WINDOW:
            self._points.popleft()
        (start, first), (_last, last) = self._points[0], self._points[-1]
        return (last - first) / (now - start) if now > start else 0.0


UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def describe(progress: Object, rate: float) -> str:
    """`38/72 files, 131/252 GB, 412 MB/s, about 5 min left`; what is not known is left out."""
    total, count = float(progress.get("bytes_total") or 0), float(progress.get("bytes") or 0)
    parts = [f"{progress.get('files', 0)}/{progress.get('files_total', 0)} files"]
    if total:
        size, unit = next(((s, u) for s, u in UNITS if total >= s * 10), (1.0, "bytes"))
        parts.append(f"{count / size:.0f}/{total / size:.0f} {unit}")
    if rate >= 1e4 and count < total:
        parts.append(f"{rate / 1e6:.{0 if rate >= 1e7 else 1}f} MB/s")
        left = (total - count) / rate
        parts.append(f"about {left / 60:.0f} min left" if left >= 90 else f"about {left:.0f} s left")
    stage_of = progress.get("stage")
    return (f"{stage_of} " if stage_of and stage_of != "download" else "") + ", ".join(parts)
