# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""model_access_info: which hub is asked, with what."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _hub
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run
from ansible_collections.inferops.dynamo.plugins.modules import model_access_info


@pytest.mark.parametrize(
    ("option", "environment", "asked"),
    [("http://a", "http://b", "http://a"), (None, "http://b", "http://b"), (None, "", _hub.DEFAULT_ENDPOINT)],
)
def test_endpoint(monkeypatch: pytest.MonkeyPatch, option: str | None, environment: str, asked: str) -> None:
    calls: list[tuple[Any, ...]] = []

    def access(_send: Any, *call: Any) -> dict[str, str]:
        calls.append(call)
        return {"status": "ok"}

    monkeypatch.setattr(_hub, "access", access)
    monkeypatch.setenv("HF_ENDPOINT", environment)
    params = {"repositories": [{"id": "acme/tiny", "commit": ""}], "hf_token": "", "hub_endpoint": option}
    assert model_access_info.run(params, Run()) == {"repositories": [{"status": "ok"}]}
    assert calls == [(asked, "acme/tiny", "", None)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"hub_endpoint": "http://bob:S3CRET99@127.0.0.1:1"}, "holds a user name or password"),
        ({"hub_endpoint": "hub.example"}, "is no http or https address: hub.example"),
        ({"hf_token": "S3CRET99 x"}, "hf_token has blanks"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], text: str) -> None:
    params = {"repositories": [{"id": "acme/tiny", "commit": ""}], "hf_token": "", "hub_endpoint": None}
    with pytest.raises(DynamoError, match=text) as caught:
        model_access_info.run({**params, **options}, Run())
    assert caught.value.code == "BAD_OPTION" and "S3CRET99" not in str(caught.value)
