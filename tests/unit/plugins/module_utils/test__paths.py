# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Clock, Response, TransportError
from ansible_collections.inferops.dynamo.plugins.module_utils._paths import Endpoint, job_answer, job_manifest
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._loopback import Handler, serve

SERVICE = {"spec": {"selector": {"a": "b"}, "ports": [{"port": 8000, "targetPort": "http"}]}}
OK = Response(200, {}, b"proxy")
FORBIDDEN = DynamoError("may not", "PATH_UNREACHABLE", status=403)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serve(Handler) as port:
        yield port


class FakeCluster:
    """A Service with one ready pod whose port is the loopback server's; proxy: an answer, or what is raised."""

    def __init__(self, proxy: Any = OK, port: int = 1, ready: bool = True, job: Any = None, phase: str = "Succeeded"):
        self.proxy, self.port, self.ready, self.job, self.phase = proxy, port, ready, job, phase
        self.asked: list[str] = []
        self.opened: list[tuple[str, str, int]] = []

    def service_proxy(self, *_args: Any) -> Response:
        self.asked.append("service_proxy")
        if isinstance(self.proxy, Exception):
            raise self.proxy
        return self.proxy

    def get(self, *_args: Any) -> Any:
        self.asked.append("port_forward")
        return SERVICE if self.port else None

    def list(self, _version: str, _kind: str, _namespace: str, label_selector: str) -> list[dict[str, Any]]:
        if label_selector != "a=b":
            return [{"metadata": {"name": "job-pod"}, "status": {"phase": self.phase}}]
        conditions = [{"type": "Ready", "status": str(self.ready)}]
        ports = [{"name": "http", "containerPort": self.port}]
        return [
            {
                "metadata": {"name": "p"},
                "status": {"conditions": conditions},
                "spec": {"containers": [{"ports": ports}]},
            }
        ]

    def open_port(self, namespace: str, pod: str, port: int) -> socket.socket:
        self.opened.append((namespace, pod, port))
        return socket.create_connection(("127.0.0.1", port))

    def apply(self, _manifest: dict[str, Any]) -> None:
        self.asked.append("job")
        if isinstance(self.job, Exception):
            raise self.job

    def log(self, *_args: Any, **_more: Any) -> str:
        return str(self.job)

    def delete(self, *_args: Any) -> None:
        self.asked.append("deleted")


def endpoint(cluster: FakeCluster, **options: Any) -> Endpoint:
    time = [0.0]

    def sleep(seconds: float) -> None:
        time[0] += seconds

    options = {"job": {"image": "python"}, "clock": Clock(lambda: time[0], sleep), **options}
    return Endpoint(cluster, "llm", "front", 8000, **options)  # type: ignore[arg-type]


def ask(way: Endpoint) -> Response:
    return way("POST", "/v1/chat/completions", b'{"a": 1}', 5.0)


def test_the_first_way_that_works_is_kept(port: int) -> None:
    cluster = FakeCluster(FORBIDDEN, port)
    way = endpoint(cluster)
    answer = ask(way)
    assert (answer.status, answer.body, way.used) == (201, b'{"a": 1}', "port_forward") and answer.arrivals
    assert cluster.opened == [("llm", "p", port)]
    ask(way)
    assert cluster.asked == ["service_proxy", "port_forward", "port_forward"]


def test_the_last_way_is_a_job() -> None:
    said = {"status": 200, "headers": {"x": "y"}, "arrivals": [[2, 0.1]], "body": base64.b64encode(b"hi").decode()}
    cluster = FakeCluster(FORBIDDEN, 1, job=f"noise\nANSWER {json.dumps(said)}\n")
    way = endpoint(cluster)
    assert ask(way) == Response(200, {"x": "y"}, b"hi", ((2, 0.1),)) and way.used == "job"
    assert cluster.asked[-1] == "deleted"


@pytest.mark.parametrize(
    ("cluster", "status", "words"),
    [
        (
            FakeCluster(FORBIDDEN, job=DynamoError("no jobs", "FORBIDDEN")),
            None,
            "service_proxy: may not; port_forward: ",
        ),
        (FakeCluster(FORBIDDEN, job="Traceback: no python"), None, "ended without an answer, its log: Traceback"),
        (FakeCluster(FORBIDDEN, job="", phase="Pending"), None, "did not start within 5 s"),
        (FakeCluster(FORBIDDEN, ready=False), 503, "Service llm/front has no ready pod"),
        (FakeCluster(FORBIDDEN, port=0), 404, "Service llm/front does not exist"),
        (FakeCluster(DynamoError("no endpoints available", "PATH_UNREACHABLE", status=503)), 503, "no endpoints"),
        (FakeCluster(DynamoError("dial: connection refused", "PATH_UNREACHABLE", status=503)), 503, "refused"),
        (FakeCluster(DynamoError("no Service", "PATH_UNREACHABLE", status=404)), 404, "no Service"),
    ],
)
def test_no_way_is_never_the_models_fault(cluster: FakeCluster, status: int | None, words: str) -> None:
    with pytest.raises(DynamoError) as caught:
        ask(endpoint(cluster))
    assert caught.value.code == "PATH_UNREACHABLE" and words in caught.value.message
    assert caught.value.result["status"] == status


def test_forbidden_everywhere_is_final() -> None:
    with pytest.raises(DynamoError) as caught:
        ask(endpoint(FakeCluster(FORBIDDEN), ways=("service_proxy",)))
    assert caught.value.result["status"] == 403


def test_a_way_that_works_and_gets_no_answer_is_not_left() -> None:
    cluster = FakeCluster(TransportError("timeout", "no answer"))
    with pytest.raises(TransportError):
        ask(endpoint(cluster))
    assert cluster.asked == ["service_proxy"]
    with pytest.raises(TransportError) as caught:
        ask(endpoint(FakeCluster(job="", phase="Running"), ways=("job",)))
    assert caught.value.kind == "timeout"


def test_a_job_needs_an_image() -> None:
    with pytest.raises(DynamoError, match="no image"):
        ask(endpoint(FakeCluster(), ways=("job",), job=None))


def run_job(url: str) -> Response:
    manifest = job_manifest("j", "llm", {"image": "python"}, "POST", url, b'{"a": 1}', 5.0)
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    env = {**os.environ, container["env"][0]["name"]: container["env"][0]["value"]}
    command = [sys.executable, *container["command"][1:]]
    return job_answer(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)


def test_what_the_job_runs(port: int) -> None:
    answer = run_job(f"http://127.0.0.1:{port}/")
    assert (answer.status, answer.body) == (201, b'{"a": 1}')
    with pytest.raises(TransportError) as caught:
        run_job("http://127.0.0.1:1/")
    assert caught.value.kind == "refused"
