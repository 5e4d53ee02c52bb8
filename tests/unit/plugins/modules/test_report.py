# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module report: what it writes, and whom it fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _run
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run
from ansible_collections.inferops.dynamo.plugins.modules import report


def row(host: str, result: str, detail: str = "", code: str = "") -> dict[str, Any]:
    place = {"cluster": "c", "namespace": "llm", "target": "t", "seconds": None}
    return {"host": host, "result": result, "detail": detail, "code": code, **place}


def params(directory: Path | None, *rows: dict[str, Any], host: str = "h1", show: bool = True) -> dict[str, Any]:
    return {"directory": str(directory) if directory else None, "rows": list(rows), "host": host, "show": show}


def test_one_file_per_run_for_the_owner_only(tmp_path: Path) -> None:
    result = report.run(params(tmp_path / "a/b", row("h1", "deployed"), row("h2", "failed")), Run())
    assert result["changed"] is False
    written = Path(result["path"])
    assert [h["host"] for h in json.loads(written.read_text())["hosts"]] == ["h1", "h2"]
    assert written.stat().st_mode & 0o077 == 0
    assert result["table"][-1] == "1 deployed, 1 failed"


@pytest.mark.parametrize(
    ("directory", "check", "show"), [(True, True, True), (False, False, True), (True, False, False)]
)
def test_when_nothing_is_written(tmp_path: Path, directory: bool, check: bool, show: bool) -> None:
    given = params(tmp_path if directory else None, row("h1", "unchanged"), show=show)
    result = report.run(given, Run(check_mode=check))
    assert list(tmp_path.iterdir()) == []
    assert ("table" in result) is show


def test_a_host_fails_for_itself_alone(tmp_path: Path) -> None:
    rows = (row("h1", "deployed"), row("h2", "failed", "image can't be pulled", "IMAGE_PULL"))
    report.run(params(None, *rows), Run())
    with pytest.raises(DynamoError, match="image can't be pulled") as raised:
        report.run(params(None, rows[1], host="h2", show=False), Run())
    assert raised.value.code == "IMAGE_PULL"


def test_the_reporting_host_reports_before_it_fails(tmp_path: Path) -> None:
    with pytest.raises(DynamoError) as raised:
        report.run(params(tmp_path, row("h1", "failed", "why")), Run())
    assert raised.value.result["table"][-1] == "1 failed"
    assert Path(raised.value.result["path"]).exists()


def test_a_directory_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DynamoError, match=r"dynamo_report_dir") as raised:
        report.run(params(tmp_path / "file", row("h1", "unchanged")), Run())
    assert raised.value.result["table"][-1] == "1 unchanged"


def test_secrets_are_scrubbed_in_the_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run, "_hidden", set())
    _run.hide("marked-token")
    result = report.run(params(tmp_path, row("h1", "deployed", "answer: marked-token")), Run())
    assert "marked-token" not in Path(result["path"]).read_text()
    assert "marked-token" not in str(result["table"])
