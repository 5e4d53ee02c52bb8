# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the ways to a frontend inside a cluster. A way that fails is PATH_UNREACHABLE: it says nothing of a model.

service_proxy: through the API server; verbs get and create on services/proxy.
port_forward: to a ready pod of the Service; verbs get on services, list on pods, get and create on pods/portforward.
job: from a Job in the namespace; verbs patch, create and delete on jobs, list on pods, get on pods/log.
"""

from __future__ import annotations

import base64
import http.client
import inspect
import json
import urllib.request
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _http
from ansible_collections.inferops.dynamo.plugins.module_utils._dgd import condition
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import (
    Clock,
    Response,
    TransportError,
    fetch,
    poll,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._objects import HARMLESS

if TYPE_CHECKING:
    from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import Cluster

WAYS = ("service_proxy", "port_forward", "job")
JSON = {"Content-Type": "application/json"}


class Endpoint:
    """One frontend's Service, asked by the first of `ways` that works; that one is kept."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        service: str,
        port: int,
        ways: tuple[str, ...] = WAYS,
        job: Mapping[str, Any] | None = None,
        clock: Clock = Clock(),
    ) -> None:
        self.cluster, self.namespace, self.service, self.port = cluster, namespace, service, port
        self.ways, self.job, self.clock = ways, dict(job or {}), clock
        self.used = ""

    def __call__(self, method: str, path: str, body: bytes | None, timeout: float) -> Response:
        """The answer. TransportError of kind timeout: the way works, nothing answers.

        DynamoError PATH_UNREACHABLE with what each way said; its `status` is that of the API server if all agree.
        """
        failures: list[tuple[str, DynamoError]] = []
        for way in sorted(self.ways, key=lambda name: name != self.used):
            try:
                answer: Response = getattr(self, f"by_{way}")(method, path, body, timeout)
            except TransportError as error:
                if error.kind == "timeout":
                    raise
                failures.append((way, DynamoError(str(error), "PATH_UNREACHABLE")))
            except DynamoError as error:
                failures.append((way, error))
                if absent(error):
                    break
            else:
                self.used = way
                return answer
        text = "; ".join(f"{way}: {error.message.rstrip('.')}" for way, error in failures)
        statuses = {error.result.get("status") for _way, error in failures}
        if all(error.code == "FORBIDDEN" or error.result.get("status") == 403 for _way, error in failures):
            statuses = {403}
        status = statuses.pop() if len(statuses) == 1 else None
        if absent(failures[-1][1]):
            status = failures[-1][1].result.get("status")
        raise DynamoError(f"{text}.", "PATH_UNREACHABLE", failures[-1][1].hint, status=status)

    def by_service_proxy(self, method: str, path: str, body: bytes | None, timeout: float) -> Response:
        return self.cluster.service_proxy(method, self.namespace, self.service, self.port, path, body, timeout)

    def by_port_forward(self, method: str, path: str, body: bytes | None, timeout: float) -> Response:
        """Each request has a connection of its own, since the pod may be replaced between two."""
        pod, port = self._pod()

        def send(request: urllib.request.Request, seconds: float) -> http.client.HTTPResponse:
            connection = http.client.HTTPConnection(self.service, port)
            connection.sock = self.cluster.open_port(self.namespace, pod, port)
            connection.sock.settimeout(seconds)
            headers = {**dict(request.header_items()), "Connection": "close"}
            connection.request(request.get_method(), request.selector, request.data, headers)
            return connection.getresponse()

        url = f"http://{self.service}:{port}{path}"
        return fetch(method, url, headers=JSON if body else {}, body=body, timeout=timeout, send=send)

    def _pod(self) -> tuple[str, int]:
        """A ready pod of the Service, and the port that its target port is there."""
        where = f"{self.namespace}/{self.service}"
        service = self.cluster.get("v1", "Service", self.service, self.namespace)
        if service is None:
            raise DynamoError(f"Service {where} does not exist.", "PATH_UNREACHABLE", status=404)
        spec = service.get("spec") or {}
        selector = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items()))
        pods = self.cluster.list("v1", "Pod", self.namespace, label_selector=selector) if selector else []
        ready = [p for p in pods if condition(p, "Ready").get("status") == "True"]
        if not ready:
            raise DynamoError(f"Service {where} has no ready pod.", "PATH_UNREACHABLE", status=503)
        target = next((p.get("targetPort") for p in spec.get("ports") or [] if p.get("port") == self.port), self.port)
        ports = [p for c in ready[0]["spec"]["containers"] for p in c.get("ports") or []]
        named = next((p["containerPort"] for p in ports if p.get("name") == target), self.port)
        return str(ready[0]["metadata"]["name"]), int(target if isinstance(target, int) else named)

    def by_job(self, method: str, path: str, body: bytes | None, timeout: float) -> Response:
        """A Job for each request; what it prints is the answer."""
        if not self.job.get("image"):
            raise DynamoError("no image for the Job.", "PATH_UNREACHABLE", "Set smoke_test_job.")
        name = f"smoke-test-{uuid.uuid4().hex[:8]}"
        url = f"http://{self.service}.{self.namespace}:{self.port}{path}"
        self.cluster.apply(job_manifest(name, self.namespace, self.job, method, url, body, timeout))
        try:
            log = poll(lambda _left: self._job_log(name), timeout=timeout + 5, interval=1, clock=self.clock)
            if log is None:
                started = any((p.get("status") or {}).get("phase") == "Running" for p in self._job_pods(name))
                if started:
                    raise TransportError("timeout", f"{url}: no answer within {timeout:.0f} s")
                raise DynamoError(
                    f"the pod of Job {self.namespace}/{name} did not start within {timeout:.0f} s.", "PATH_UNREACHABLE"
                )
            return job_answer(log)
        finally:
            self.cluster.delete("batch/v1", "Job", name, self.namespace)

    def _job_pods(self, name: str) -> list[dict[str, Any]]:
        return self.cluster.list("v1", "Pod", self.namespace, label_selector=f"batch.kubernetes.io/job-name={name}")

    def _job_log(self, name: str) -> str | None:
        """The log once the Job's pod has ended."""
        ended = [p for p in self._job_pods(name) if (p.get("status") or {}).get("phase") in ("Succeeded", "Failed")]
        return self.cluster.log(self.namespace, ended[0]["metadata"]["name"], "ask", tail=20) if ended else None


def transport(
    addresses: Mapping[str, str], ca: tuple[str, str | None], validate_certs: bool = True, proxies: bool = True
) -> _http.Opener:
    """A transport to addresses anywhere. addresses, ca: by the names of their options. DynamoError BAD_OPTION."""
    for option, url in addresses.items():
        problem = _http.address_problem(url)
        if problem:
            raise DynamoError(f"{option} {problem}.", "BAD_OPTION")
    try:
        return _http.opener(validate_certs, ca[1], proxies)
    except OSError as error:
        text = f"{ca[0]} {ca[1]} is no file of certificates: {error.strerror or error}."
        raise DynamoError(text, "BAD_OPTION") from error


NOBODY = ("no endpoints", "no ready pod", "connection refused")


def absent(error: DynamoError) -> bool:
    """Is there nothing at the end of the way? Then another way leads to the same nothing."""
    status = error.result.get("status")
    return status == 404 or (status in (502, 503) and any(text in error.message for text in NOBODY))


# Behind the source of `_http`, in the pod.
JOB_MAIN = """
import base64, os
ask = json.loads(os.environ["ASK"])
try:
    body = ask["body"].encode() if ask["body"] is not None else None
    headers = {"Content-Type": "application/json"} if body else {}
    a = fetch(ask["method"], ask["url"], headers=headers, body=body, timeout=ask["timeout"], send=opener(proxies=False))
    said = {"status": a.status, "headers": a.headers, "arrivals": a.arrivals, "body": base64.b64encode(a.body).decode()}
except TransportError as error:
    said = {"kind": error.kind, "message": str(error)}
print("ANSWER " + json.dumps(said))
"""


def job_manifest(
    name: str, namespace: str, job: Mapping[str, Any], method: str, url: str, body: bytes | None, timeout: float
) -> dict[str, Any]:
    """The Job of one request; it goes by itself. job: image, pull_secrets, tolerations, node_selector."""
    ask = {"method": method, "url": url, "body": body.decode() if body is not None else None, "timeout": timeout}
    container = {
        "name": "ask",
        "image": job["image"],
        "command": ["python3", "-c", inspect.getsource(_http) + JOB_MAIN],
        "env": [{"name": "ASK", "value": json.dumps(ask)}],
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            "limits": {"cpu": "500m", "memory": "128Mi"},
        },
        "securityContext": HARMLESS,
    }
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
        "tolerations": list(job.get("tolerations") or []),
        "nodeSelector": dict(job.get("node_selector") or {}),
        "imagePullSecrets": [{"name": s} if isinstance(s, str) else s for s in job.get("pull_secrets") or []],
    }
    spec = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": int(timeout) + 60,
        "ttlSecondsAfterFinished": 300,
        "template": {"spec": pod},
    }
    labels = {"app.kubernetes.io/managed-by": "inferops.dynamo"}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def job_answer(log: str) -> Response:
    """What JOB_MAIN printed. TransportError as `fetch` raised it in the pod."""
    lines = [line for line in log.splitlines() if line.startswith("ANSWER ")]
    try:
        said = json.loads(lines[-1].removeprefix("ANSWER "))
    except (IndexError, ValueError):
        text = " ".join(log.split())[-200:] or "nothing"
        raise DynamoError(f"the Job's pod ended without an answer, its log: {text}.", "PATH_UNREACHABLE") from None
    if "kind" in said:
        raise TransportError(said["kind"], said["message"])
    arrivals = tuple((size, at) for size, at in said["arrivals"])
    return Response(said["status"], said["headers"], base64.b64decode(said["body"]), arrivals)
