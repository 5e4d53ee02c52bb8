# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _progress


def numbers(files: int, count: float, total: float, **more: Any) -> dict[str, Any]:
    return {"files": files, "files_total": 72, "bytes": count, "bytes_total": total, **more}


DESCRIBED: list[tuple[dict[str, Any], float, str]] = [
    (numbers(38, 131e9, 252e9), 412e6, "38/72 files, 131/252 GB, 412 MB/s, about 5 min left"),
    (numbers(1, 1.2e6, 20e6), 1.5e6, "1/72 files, 1/20 MB, 1.5 MB/s, about 13 s left"),
    (numbers(72, 9, 9, stage="verify"), 0, "verify 72/72 files, 9/9 bytes"),
    ({}, 0, "0/0 files"),
]


@pytest.mark.parametrize(("progress", "rate", "text"), DESCRIBED)
def test_describe(progress: dict[str, Any], rate: float, text: str) -> None:
    assert _progress.describe(progress, rate) == text


def test_rate_starts_anew_when_bytes_go_back() -> None:
    rate = _progress.Rate()
    points = [(0, 0), (10, 100), (20, 200), (30, 50), (40, 60)]
    assert [rate(now, count) for now, count in points] == [0, 10, 10, 0, 1]


@pytest.mark.parametrize("log", ["", "progress {", "progress []", "x progress {}", "progress {} y"])
def test_odd_logs(log: str) -> None:
    assert _progress.progress_of(log) == {}
