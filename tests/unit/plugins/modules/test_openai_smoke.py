# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Response
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run
from ansible_collections.inferops.dynamo.plugins.modules import openai_smoke

MODELS = b'{"data": [{"id": "m", "context_window": 1048576}]}'
CHAT = (
    b'{"choices": [{"message": {"content": "2 + 2\\n= 4"}, "finish_reason": "stop"}],'
    b' "usage": {"completion_tokens": 9}}'
)
PARAMS: dict[str, Any] = {
    "via": "auto",
    "url": None,
    "namespace": "llm",
    "service": "x-frontend",
    "port": 8000,
    "model": "m",
    "context_length": None,
    "requests": [{"name": "chat", "body": {"max_tokens": 4}}],
    "successes": 1,
    "timeout": 5,
    "request_timeout": 5,
    "checks": ["models", "chat"],
    "images": False,
    "junit": None,
    "job": None,
}


class FakeCluster:
    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def service_proxy(self, method: str, *asked: Any) -> Response:
        self.asked.append((method, *asked[:4]))
        return Response(200, {}, CHAT if method == "POST" else MODELS)


def test_through_the_api_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster, run = FakeCluster(), Run()
    monkeypatch.setattr(openai_smoke.Cluster, "connect", lambda _params: cluster)
    result = openai_smoke.run({**PARAMS, "junit": str(tmp_path / "smoke.xml")}, run)
    (answer,) = result["answers"]
    assert [row["result"] for row in result["checks"]] == ["passed", "passed"] and result["via"] == "service_proxy"
    assert b'tests="2"' in (tmp_path / "smoke.xml").read_bytes()
    assert answer["content"] == "2 + 2\n= 4"
    assert cluster.asked == [
        ("GET", "llm", "x-frontend", 8000, "/v1/models"),
        ("POST", "llm", "x-frontend", 8000, "/v1/chat/completions"),
    ]
    assert run.lines == [f'm answered "2 + 2 = 4" in {answer["latency_ms"]} ms']


@pytest.mark.parametrize(
    ("options", "missing"), [({"via": "url"}, "via url needs url"), ({"service": None}, "auto needs service")]
)
def test_a_way_needs_its_options(options: dict[str, Any], missing: str) -> None:
    with pytest.raises(DynamoError, match=missing) as caught:
        openai_smoke.run({**PARAMS, **options}, Run())
    assert caught.value.code == "BAD_OPTION"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"requests": []}, "is empty; check chat needs at least one"),
        ({"successes": 0}, "successes is 0; it must be 1 or more"),
        ({"request_timeout": 0}, "request_timeout is 0"),
        ({"url": "frontend:8000"}, "url is no http or https address"),
        ({"url": "http://svc:S3CRET@127.0.0.1:1"}, "url holds a user name or password"),
        ({"url": "http://127.0.0.1:1", "ca_cert": "/nowhere/ca.pem"}, "ca_cert /nowhere/ca.pem is no file"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(DynamoError, match=text) as caught:
        openai_smoke.run({**PARAMS, **options}, Run())
    assert caught.value.code == "BAD_OPTION" and "S3CRET" not in str(caught.value)


def test_check_mode_asks_nothing() -> None:
    assert openai_smoke.run(PARAMS, Run(check_mode=True))["answers"] == []
