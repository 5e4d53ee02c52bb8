# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Against a loopback server that misbehaves by path."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run
from ansible_collections.inferops.dynamo.plugins.modules import http_ready
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._loopback import Handler, serve

STOP = threading.Event()
JSON = b'{"ready": true, "count": 2}'


class Server(Handler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self.path.strip("/")
        self.close_connection = True
        if name == "reset":
            self.connection.close()
            return
        self.send_response({"loop": 302, "down": 503, "forbidden": 403}.get(name, 200))
        self.send_header("Content-Type", "text/html" if name == "html" else "application/json")
        self.send_header("X-Token", str(self.headers.get("X-Token")))
        self.send_header("Location", "/loop")
        body = {"empty": b"", "html": b"<p>", "drip": b"{"}.get(name, JSON)
        self.send_header("Content-Length", str(len(body) + (name in ("partial", "drip"))))
        self.end_headers()
        self.wfile.write(body)
        if name == "drip":
            self.wfile.flush()
            STOP.wait(60)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve(Server) as port:
        yield f"http://127.0.0.1:{port}"
        STOP.set()


def ask(*urls: str, **options: Any) -> dict[str, Any]:
    params = {name: spec.get("default") for name, spec in http_ready.ARGUMENT_SPEC.items()}
    check = {"path": "ready", "operator": "eq", "value": True}
    wanted = {"urls": list(urls), "json": [check], "timeout": 0, "use_proxy": False, "request_timeout": 20}
    return http_ready.run({**params, **wanted, **options}, Run())


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(DynamoError, match=r"urls\[1\] holds a user name or password") as caught:
        ask("http://a/", "http://user:s3cr3tpw@b/")
    assert caught.value.code == "BAD_OPTION" and "s3cr3tpw" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"urls": []}, "urls is empty"),
        ({"urls": ["frontend"]}, r"urls\[0\] is no http or https address: frontend"),
        ({"successes": 0}, "successes is 0; it must be 1 or more"),
        ({"interval": -1.0}, "interval is -1.0"),
        ({"request_timeout": 0.0}, "request_timeout is 0.0"),
        ({"headers": {"Authorization": "Bearer S3CRET\u20ac"}}, "headers: Authorization"),
        ({"headers": {"Authorization": "S3CRET\nX: y"}}, "headers: Authorization"),
        ({"ca_path": "/nowhere/ca.pem"}, "ca_path /nowhere/ca.pem is no file of certificates: No such file"),
        ({"json": [{"path": "x", "operator": "ge", "value": "many"}]}, r"json\[0\].value is 'many'; operator ge"),
        ({"json": [{"path": "x", "operator": "le", "value": None}]}, r"json\[0\].value is None; operator le"),
        ({"json": [{"path": "x", "operator": "le", "value": True}]}, r"json\[0\].value is True; operator le"),
        ({"json": [{"path": "x", "operator": "le", "value": "nan"}]}, r"json\[0\].value is 'nan'; operator le"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(DynamoError, match=text) as caught:
        ask(*options.pop("urls", ["http://127.0.0.1:1"]), **options)
    assert caught.value.code == "BAD_OPTION" and "S3CRET" not in str(caught.value)


@pytest.mark.parametrize("value", [1, 1.0, "1", " 1 "])
def test_a_number_of_a_template_may_be_text(url: str, value: Any) -> None:
    """What ansible-core 2.18 makes of value: "{{ wanted }}"."""
    assert ask(url, json=[{"path": "count", "operator": "ge", "value": value}])["attempts"] == 1


def test_a_token_from_a_file_ends_with_a_line_break(url: str) -> None:
    assert ask(url, headers={"X-Token": "abc\n"}, expected_headers={"x-token": "abc"})["attempts"] == 1


def test_ready(url: str) -> None:
    result = ask(url, f"{url}/other", successes=2, interval=0, timeout=60, headers={"X-Token": "a"})
    assert result["attempts"] == 2 and [a["problem"] for a in result["answers"]] == ["", ""]
    assert ask(url, headers={"X-Token": "abc"}, expected_headers={"x-token": "ab"})["attempts"] == 1


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("reset", "reset"),
        ("empty", "empty"),
        ("partial", "partial"),
        ("html", "json"),
        ("loop", "redirect"),
        ("drip", "timeout"),
        ("down", "status"),
    ],
)
def test_what_is_wrong_is_named(url: str, path: str, problem: str) -> None:
    with pytest.raises(DynamoError) as caught:
        ask(f"{url}/{path}", request_timeout=0.2 if path == "drip" else 20)
    assert caught.value.code == "URL_NOT_READY" and caught.value.result["answers"][0]["problem"] == problem


@pytest.mark.parametrize(
    ("address", "options", "problem"),
    [
        ("http://127.0.0.1:1", {}, "refused"),
        ("https", {}, "tls"),
        ("http", {"content_type": "text/html"}, "content_type"),
        ("http", {"expected_headers": {"X-Token": "b"}}, "header"),
    ],
)
def test_addresses_and_headers(url: str, address: str, options: dict[str, Any], problem: str) -> None:
    target = address if ":" in address else url.replace("http", address, 1)
    with pytest.raises(DynamoError) as caught:
        ask(target, **options)
    assert caught.value.result["answers"][0]["problem"] == problem


def test_a_final_status_ends_at_once(url: str) -> None:
    with pytest.raises(DynamoError) as caught:
        ask(f"{url}/forbidden", final_status=[403], timeout=60)
    assert caught.value.code == "URL_FINAL" and caught.value.result["attempts"] == 1
