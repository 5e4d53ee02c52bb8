# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows, table and summary of the closing report."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _report

RELEASE = {"applicable": True, "reason": "", "target": "m3.1/sglang/agg-gb300", "namespace": "llm"}
CLUSTER = {"context": "kind-lab", "server": "https://lab:6443", "uid": "u"}


def preflight(*steps: str, release: dict[str, Any] | None = None) -> dict[str, Any]:
    plan = {"steps": list(steps), "reasons": {step: f"{step} is needed" for step in steps}}
    return {"release": release or RELEASE, "plan": plan, "cluster": CLUSTER, "started": 1000.0}


SMOKE = {"answers": [{"name": "chat", "content": "2 + 2\n= 4"}]}


def torn(action: str) -> dict[str, Any]:
    removed = {"objects": [{"kind": "ConfigMap", "name": "x", "namespace": "llm", "action": action}]}
    return {"__target_result": {"release": RELEASE, "cluster": CLUSTER}, "__teardown_result": removed}


FAILURE = {"task": "deploy | Wait", "msg": "image can't be pulled", "code": "IMAGE_PULL"}
ELSEWHERE = {**RELEASE, "applicable": False, "reason": "dynamo_gpu is B200"}


@pytest.mark.parametrize(
    ("variables", "alive", "check", "result", "detail"),
    [
        (
            {"__preflight_result": preflight("deploy"), "__smoke_test_result": SMOKE},
            True,
            False,
            "deployed",
            "answer: 2 + 2 = 4",
        ),
        (
            {"__preflight_result": preflight(), "__smoke_test_result": SMOKE},
            True,
            False,
            "unchanged",
            "answer: 2 + 2 = 4",
        ),
        ({"__preflight_result": preflight("model_cache", "deploy")}, True, False, "prepared", ""),
        ({"__preflight_result": preflight("deploy")}, True, False, "unchanged", ""),
        ({"__preflight_result": preflight("deploy")}, True, True, "would change", "deploy is needed"),
        ({"__preflight_result": preflight()}, True, True, "would not change", ""),
        ({"__preflight_result": preflight(release=ELSEWHERE)}, True, False, "not applicable", "dynamo_gpu is B200"),
        (
            {"__preflight_result": preflight("deploy"), "deploy_state": "not started"},
            True,
            False,
            "not started",
            "another host failed before its turn",
        ),
        (
            {"__preflight_result": preflight("deploy"), "deploy_failure": FAILURE},
            True,
            False,
            "failed",
            "deploy | Wait: image can't be pulled",
        ),
        ({"deploy_failure": FAILURE}, True, True, "failed", "deploy | Wait: image can't be pulled"),
        (torn("deleted"), True, False, "removed", "deleted: ConfigMap/x"),
        (torn("deleted"), True, True, "would change", "would be deleted: ConfigMap/x"),
        (torn("absent"), True, False, "unchanged", ""),
        (torn("absent"), True, True, "would not change", ""),
        ({}, False, False, "failed", "it left the play, see above"),
        ({}, True, False, "not started", ""),
    ],
)
def test_row(variables: dict[str, Any], alive: bool, check: bool, result: str, detail: str) -> None:
    row = _report.row("c1", variables, alive, check, 1083.4)
    assert (row["result"], row["detail"]) == (result, detail)
    assert row["result"] in _report.RESULTS


def test_a_failed_preflight_still_says_where() -> None:
    failed = {"failed": True, "msg": "no", "cluster": CLUSTER}
    variables = {"__target_result": {"release": RELEASE}, "__preflight_result": failed, "deploy_failure": FAILURE}
    row = _report.row("c1", variables, True, False, 0)
    assert (row["cluster"], row["namespace"], row["target"], row["seconds"]) == (
        "kind-lab",
        "llm",
        RELEASE["target"],
        None,
    )
    assert row["code"] == "IMAGE_PULL"


def test_nothing_of_the_release_but_its_name_is_reported() -> None:
    variables = {"__preflight_result": preflight(release={**RELEASE, "manifest": {"env": "marked-token"}})}
    assert "marked-token" not in str(_report.row("c1", variables, True, False, 0))


def rows(*results: str, detail: str = "", host: str = "c") -> list[dict[str, Any]]:
    return [
        {
            "host": f"{host}{i}",
            "cluster": "a-rather-long-context-name-of-a-managed-cluster",
            "namespace": "llm-production",
            "target": "minimax-m3/vllm/disagg-gb200-agentic",
            "result": result,
            "detail": detail,
            "code": "",
            "seconds": 83 if result == "deployed" else None,
        }
        for i, result in enumerate(results)
    ]


def test_table_fits_the_screen() -> None:
    lines = _report.table(rows("deployed", "not applicable", detail="why it is so " * 60))
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("host  ")
    assert lines[2].startswith("c0  ") and lines[2].endswith("deployed        83")
    assert "disagg-gb200-agentic" in lines[2]
    assert lines[3].startswith("    why it is so")


def test_every_finding_of_a_failure_is_shown_in_full_with_its_code() -> None:
    first = "preflight | Compare: no storage class x: set dynamo_storage_class; take one that offers it"
    last = "Worker: room for 0 of 1 pods: " + "2 nodes lack GPUs, also memory " * 20 + "and no node has [this label]"
    failed = rows("failed", detail=f"{first}; also GPU_PRODUCT: no node; also CAPACITY: {last}")
    lines = _report.table([{**failed[0], "code": "STORAGE_CLASS_ABSENT"}])
    assert max(map(len, lines)) <= 100
    below = [line.strip() for line in lines[3:]]
    shown = [f"STORAGE_CLASS_ABSENT: {first}", "GPU_PRODUCT: no node", f"CAPACITY: {last}"]
    assert " ".join(below) == " ".join(shown)
    assert [word for line in below if (word := line.partition(":")[0]).isupper()] == [
        s.partition(":")[0] for s in shown
    ]


def test_a_small_table_is_not_padded() -> None:
    small = [{**rows("unchanged")[0], "cluster": "k", "target": "t"}]
    assert _report.table(small) == [
        "host  cluster / namespace  target  result     s",
        "-----------------------------------------------",
        "c0    k / llm-production   t       unchanged",
    ]


def test_long_host_names_stay_distinct() -> None:
    lines = _report.table(rows("failed", "failed", host="gpu-cluster-in-a-region-with-a-very-long-name-"))
    assert lines[2].split()[0] != lines[3].split()[0]
    assert max(map(len, lines)) <= 100


def test_summary() -> None:
    assert _report.summary(rows("failed", "deployed", "deployed")) == "2 deployed, 1 failed"


def test_document_holds_the_rows() -> None:
    document = _report.document(rows("failed"), "2026-11-30T15:00:00Z", False)
    assert document["hosts"][0]["result"] == "failed"
    assert sorted(document) == ["check_mode", "finished", "hosts"]


def test_the_checks_of_the_smoke_test_are_kept_for_the_file_also_when_one_failed() -> None:
    checks = [{"name": "chat", "result": "failed"}]
    variables = {"__preflight_result": preflight(), "__smoke_test_result": {"failed": True, "checks": checks}}
    found = _report.row("h1", {**variables, "deploy_failure": FAILURE}, True, False, 1012.0)
    assert found["result"] == "failed" and found["checks"] == checks


@pytest.mark.parametrize(
    ("existed", "message", "said"),
    [(False, "no", True), (True, "no", False), (False, "not allowed to patch Namespace llm", False)],
)
def test_a_namespace_that_a_failed_run_made_is_said(existed: bool, message: str, said: bool) -> None:
    found = preflight("deploy")
    found["plan"]["namespace_exists"] = existed
    variables = {"__preflight_result": found, "deploy_failure": {**FAILURE, "msg": message}}
    detail = _report.row("h1", variables, True, False, 0)["detail"]
    assert ("(this run made the namespace llm, which stays)" in detail) is said
    assert "stays" not in _report.row("h1", variables, True, True, 0)["detail"]
