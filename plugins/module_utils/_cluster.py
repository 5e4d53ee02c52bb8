# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Over 400 lines: the only file that touches the Kubernetes client.
"""PRIVATE: the only file that touches the Kubernetes client.

Authentication is kubernetes.core's, so that every option and K8S_AUTH_ variable means here what it means there.
Requests go through the client's own HTTP layer by path: that costs one small discovery request per API version, leaves
no discovery cache on disk that a new CRD could outdate, and lets every request have a timeout.
"""

from __future__ import annotations

import copy
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ansible_collections.inferops.dynamo.plugins.module_utils import _apierrors, _kubeconfig
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Response, TransportError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import hide, hide_secret

try:
    import kubernetes.client
    import kubernetes.config
    import kubernetes.dynamic
    import kubernetes.stream
    import urllib3
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s import client as core_client
    from kubernetes.dynamic.exceptions import DynamicApiError

    IMPORT_ERROR: ImportError | None = None
except ImportError as error:
    IMPORT_ERROR = error
try:
    from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
except ImportError:  # connect() says so; without these two the playbooks' own options would be refused before that
    AUTH_ARG_SPEC = {"kubeconfig": {"type": "raw"}, "context": {"type": "str"}}

AUTH_SPEC: dict[str, Any] = copy.deepcopy(AUTH_ARG_SPEC)
FIELD_MANAGER = "inferops.dynamo"
CONNECT_TIMEOUT = 10  # seconds
READ_TIMEOUT = 60  # seconds
PAGE = 500  # objects per list request
Query = list[tuple[str, Any]]
Operations = list[dict[str, Any]]  # of a JSON patch


class Cluster:
    """One Kubernetes API server, as one user. Objects are plain dictionaries; errors are DynamoErrors of one line."""

    def __init__(self, api_client: Any, server: str, context: str) -> None:
        self.server = server
        self.context = context
        self._api_client = api_client
        # The dynamic client is used for its request() alone.
        self._client = kubernetes.dynamic.DynamicClient(api_client, discoverer=lambda client, cache_file: None)
        self._resources: dict[str, dict[str, dict[str, Any]]] = {}
        self._sleep = time.sleep

    @classmethod
    def connect(cls, params: Mapping[str, Any]) -> Cluster:
        """A cluster that has answered.

        DynamoError NO_CLUSTER: wrong kubeconfig, context or server. UNAUTHORIZED: 401.
        """
        if IMPORT_ERROR is not None:
            raise DynamoError(
                f"a Python library for Kubernetes is missing: {IMPORT_ERROR}.",
                "NO_LIBRARY",
                "Install the Python package kubernetes and the collection kubernetes.core for this interpreter.",
            )
        auth = {name: params[name] for name in AUTH_SPEC if params.get(name) is not None}
        named = any(auth.get(n) or os.environ.get(f"K8S_AUTH_{n.upper()}") for n in ("kubeconfig", "host"))
        if not named and os.environ.get("KUBECONFIG"):
            # The client looks at KUBECONFIG only when it is imported, before a task's environment is applied.
            auth["kubeconfig"] = os.environ["KUBECONFIG"]
        spec = core_client._create_auth_spec(None, **auth)
        context = _kubeconfig.context_of(spec, kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION)
        kubernetes.client.Configuration.set_default(None)  # else settings of the cluster before stay below ours
        try:
            configuration = core_client._create_configuration(spec)
            headers = core_client._create_headers(None, **auth)
        except Exception as error:  # the loaders raise whatever a broken file, plugin or certificate makes them raise
            message = f"the Kubernetes client cannot be configured: {_apierrors.one_line(error)}."
            raise DynamoError(message, "NO_CLUSTER", _apierrors.CHECK_WHICH) from error
        # A dead server is told within seconds. No status is tried again here: services behind the proxy answer, too.
        configuration.retries = urllib3.Retry(
            total=2, connect=1, read=1, status=0, respect_retry_after_header=False, backoff_factor=0.2
        )
        for secret in (*(configuration.api_key or {}).values(), configuration.password):
            hide(str(secret or "").removeprefix("Bearer "))
        api_client = kubernetes.client.ApiClient(configuration)
        for name, value in headers.items():
            core_client._set_header(api_client, name, value)
        cluster = cls(api_client, configuration.host, context)
        try:
            cluster._json("GET", "/version")
        except DynamicApiError as error:
            if error.status != 403:
                raise cluster._error(error, "read", "the version of the API server") from error
        return cluster

    def served(self, api_version: str, kind: str) -> bool:
        """Whether the API server serves this kind in this version."""
        return self._discover(api_version, kind) is not None

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """The object, or None when it (or its namespace) is absent. DynamoError API_ABSENT: the kind isn't served."""
        path = self._path(api_version, kind, namespace, name)
        try:
            obj = self._json("GET", path)
        except DynamicApiError as error:
            if error.status == 404:
                return None
            raise self._error(error, "get", _apierrors.title_of(kind, name, namespace)) from error
        hide_secret(obj)
        return obj

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[dict[str, Any]]:
        """Every object that matches, of one namespace or of all. DynamoError API_ABSENT when the kind isn't served."""
        path = self._path(api_version, kind, namespace)
        query = _query(labelSelector=label_selector, fieldSelector=field_selector, limit=PAGE)
        items: list[dict[str, Any]] = []
        token: str | None = ""
        while token is not None:
            try:
                page = self._json("GET", path, query=query + _query(**{"continue": token or None}))
            except DynamicApiError as error:
                raise self._error(error, "list", _apierrors.title_of(kind, "", namespace)) from error
            items += [{"apiVersion": api_version, "kind": kind, **item} for item in page.get("items") or []]
            token = (page.get("metadata") or {}).get("continue") or None
        for item in items:
            hide_secret(item)
        return items

    def apply(self, obj: Mapping[str, Any], dry_run: bool = False, force: bool = False) -> dict[str, Any]:
        """Server-side apply; what the server stores (or, in a dry run, would store).

        DynamoError CONFLICT (fields of other managers), REFUSED (schema, admission), FORBIDDEN, NAMESPACE_ABSENT,
        API_ABSENT. Nothing is tried again: a manifest that doesn't fit its schema is answered with status 500.
        """
        hide_secret(obj)
        kind, meta = str(obj["kind"]), obj["metadata"]
        title = _apierrors.title_of(kind, meta["name"], meta.get("namespace"))
        query = _query(fieldManager=FIELD_MANAGER, dryRun="All" if dry_run else None, force="true" if force else None)
        path = self._path(str(obj["apiVersion"]), kind, meta.get("namespace"), meta["name"])
        try:
            stored = self._json("PATCH", path, query, json.dumps(obj), "application/apply-patch+yaml")
        except DynamicApiError as error:
            if error.status == 409:
                raise self._conflict(error, obj, title) from error
            raise self._error(error, "patch", title) from error
        hide_secret(stored)
        return stored

    def patch(
        self, api_version: str, kind: str, name: str, namespace: str | None, operations: Operations
    ) -> dict[str, Any]:
        """Apply a JSON patch. DynamoError CONFLICT when one of its tests doesn't hold."""
        path = self._path(api_version, kind, namespace, name)
        try:
            stored = self._json("PATCH", path, [], operations, "application/json-patch+json")
        except DynamicApiError as error:
            raise self._error(error, "patch", _apierrors.title_of(kind, name, namespace)) from error
        hide_secret(stored)
        return stored

    def delete(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str | None = None,
        foreground: bool = False,
        dry_run: bool = False,
    ) -> bool:
        """Ask for deletion; False: there was nothing. foreground: the object stays until its dependents are gone."""
        options: dict[str, Any] = {"propagationPolicy": "Foreground" if foreground else "Background"}
        if dry_run:
            options["dryRun"] = ["All"]
        try:
            self._json("DELETE", self._path(api_version, kind, namespace, name), [], options)
        except DynamicApiError as error:
            if error.status == 404:
                return False
            raise self._error(error, "delete", _apierrors.title_of(kind, name, namespace)) from error
        return True

    def log(
        self, namespace: str, pod: str, container: str | None = None, tail: int = 50, previous: bool = False
    ) -> str:
        """The last lines of a container's log; empty when there is no log (yet, or any more)."""
        query = _query(container=container, tailLines=tail, previous="true" if previous else None)
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/log"
        try:
            return self._request("GET", path, query).data.decode("utf-8", "replace")
        except DynamicApiError as error:
            if error.status in (400, 404):
                return ""
            raise self._error(error, "get", f"the log of Pod {namespace}/{pod}") from error

    def watch(
        self, api_version: str, kind: str, namespace: str | None, timeout: float, **selectors: str | None
    ) -> Iterator[dict[str, Any]]:
        """Events `{type, object}` until `timeout` seconds are over or the watch is cut; the caller takes it up again.

        selectors: label_selector, field_selector, resource_version. Type BOOKMARK: only the version moved.
        DynamoError with status 410: that version is too old.
        """
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            timeoutSeconds=max(1, int(timeout)),
            labelSelector=selectors.get("label_selector"),
            fieldSelector=selectors.get("field_selector"),
            resourceVersion=selectors.get("resource_version"),
        )
        path, title = self._path(api_version, kind, namespace), _apierrors.title_of(kind, "", namespace)
        try:
            answer = self._request("GET", path, query, read_timeout=timeout + CONNECT_TIMEOUT)
        except DynamicApiError as error:
            raise self._error(error, "watch", title) from error
        try:
            for event in _lines(answer):
                if event.get("type") == "ERROR":
                    status = event.get("object") or {}
                    text = f"the watch of {title} ended: {_apierrors.one_line(status.get('message') or 'no reason')}."
                    raise DynamoError(text, "API_ERROR", status=status.get("code"))
                hide_secret(event.get("object") or {})
                yield event
        except (urllib3.exceptions.HTTPError, ValueError):
            return  # cut off
        finally:
            answer.close()

    def service_proxy(
        self, method: str, namespace: str, service: str, port: int | str, path: str, body: bytes | None, timeout: float
    ) -> Response:
        """A request to a Service through the API server; any HTTP status of the service is an answer. body: JSON.

        DynamoError PATH_UNREACHABLE: the API server answered in its place (no such Service or endpoint, not allowed).
        TransportError: no complete answer within `timeout` seconds.
        """
        url = f"/api/v1/namespaces/{quote(namespace)}/services/http:{quote(service)}:{port}/proxy/{path.lstrip('/')}"
        content = None if body is None else json.loads(body)
        began = time.monotonic()
        pieces: list[bytes] = []
        arrivals: list[tuple[int, float]] = []
        try:
            answer = self._request(method, url, [], content, read_timeout=timeout, reraise=True)
            status, headers = answer.status, answer.headers
            for piece in answer.stream(amt=None, decode_content=True):
                pieces.append(piece)
                arrivals.append((len(piece) + (arrivals[-1][0] if arrivals else 0), time.monotonic() - began))
                if arrivals[-1][1] > timeout:
                    answer.close()  # so that the engine stops, too
                    message = f"{service}.{namespace}: answer not complete after {timeout:.0f} s"
                    raise TransportError("timeout", message)
            data = b"".join(pieces)
        except DynamicApiError as error:
            status, headers = error.status, error.headers or {}
            data = error.body.encode() if isinstance(error.body, str) else (error.body or b"")
        except urllib3.exceptions.HTTPError as error:
            reason = _apierrors.reason_of(error)
            kind = "timeout" if isinstance(reason, urllib3.exceptions.TimeoutError) else "reset"
            message = f"{service}.{namespace} through {self.server}: {_apierrors.one_line(reason)}"
            raise TransportError(kind, message) from error
        own = _apierrors.status_of(data) if status >= 400 else {}
        if own:
            raise DynamoError(
                f"the API server does not reach Service {namespace}/{service}:{port}: {status} {own.get('message')}.",
                "PATH_UNREACHABLE",
                "Is there a ready pod behind it, and may this user create services/proxy?",
                status=status,
            )
        return Response(status, {str(k).lower(): str(v) for k, v in dict(headers).items()}, data, tuple(arrivals))

    def open_port(self, namespace: str, pod: str, port: int) -> Any:
        """A socket to a port of a pod, with the verbs get and create on pods/portforward. DynamoError as for others."""
        api = kubernetes.client.CoreV1Api(self._api_client)
        try:
            forward = kubernetes.stream.portforward(
                api.connect_get_namespaced_pod_portforward, pod, namespace, ports=str(port)
            )
        except kubernetes.client.ApiException as error:
            raise DynamoError(
                f"no port-forward to Pod {namespace}/{pod}: {_apierrors.one_line(error.reason)}.", "PATH_UNREACHABLE"
            ) from error
        return forward.socket(port)

    def _request(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        content_type: str = "application/json",
        read_timeout: float = READ_TIMEOUT,
        reraise: bool = False,
    ) -> Any:
        """The urllib3 response of a 2xx answer. DynamicApiError for any other status; NO_CLUSTER when none came.

        A server that has too much to do (429) has not looked at the request, so it is asked again for some seconds.
        reraise: every answer and failure is the caller's.
        """
        for wait in (1, 2, 4, None):
            try:
                return self._client.request(
                    method,
                    path,
                    body=body,
                    query_params=list(query or []),
                    header_params={"Accept": "application/json, */*"},
                    content_type=content_type,
                    serialize=False,
                    _request_timeout=(CONNECT_TIMEOUT, read_timeout),
                )
            except urllib3.exceptions.HTTPError as error:
                if reraise:
                    raise
                raise self._unreachable(error) from error
            except DynamicApiError as error:
                if not error.status:  # the client's way to report a TLS failure
                    raise self._unreachable(error) from error
                if error.status != 429 or reraise or wait is None:
                    raise
                self._sleep(wait)
        return None  # never reached: the last round returns or raises

    def _json(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        answer = self._request(method, path, query, body, content_type)
        try:
            parsed = json.loads(answer.data)
        except urllib3.exceptions.HTTPError as error:
            raise self._unreachable(error) from error
        except ValueError as error:
            message = f"{self.server} does not answer as a Kubernetes API server."
            raise DynamoError(message, "NO_CLUSTER", _apierrors.CHECK_WHICH) from error
        return parsed if isinstance(parsed, dict) else {}

    def _discover(self, api_version: str, kind: str) -> dict[str, Any] | None:
        """The entry of the API's resource list; an absent kind is asked for again the next time."""
        known = self._resources.get(api_version, {})
        if kind not in known:
            prefix = "/apis" if "/" in api_version else "/api"
            try:
                found = self._json("GET", f"{prefix}/{api_version}").get("resources") or []
            except DynamicApiError as error:
                if error.status != 404:
                    raise self._error(error, "discover", api_version) from error
                found = []
            known = {r["kind"]: r for r in reversed(found) if "/" not in r["name"]}
            self._resources[api_version] = known
        return known.get(kind)

    def _path(self, api_version: str, kind: str, namespace: str | None, name: str | None = None) -> str:
        resource = self._discover(api_version, kind)
        if resource is None:
            raise DynamoError(
                f"the cluster does not serve {kind} {api_version}.",
                "API_ABSENT",
                f"Install what brings this API, or check that {self.server} is the right cluster.",
                api_version=api_version,
                kind=kind,
            )
        parts = ["/apis" if "/" in api_version else "/api", api_version]
        if resource.get("namespaced") and namespace:
            parts += ["namespaces", quote(namespace)]
        elif resource.get("namespaced") and name:
            raise DynamoError(f"{kind} {name} names no namespace.", "BAD_MANIFEST")
        return "/".join([*parts, resource["name"], *([quote(name)] if name else [])])

    def _unreachable(self, error: Exception) -> DynamoError:
        return _apierrors.unreachable(error, self._where())

    def _where(self) -> str:
        return f"{self.server} (context {self.context})" if self.context else self.server

    def _error(self, error: Any, verb: str, title: str) -> DynamoError:
        return _apierrors.refusal(error, verb, title, self._where())

    def _conflict(self, error: Any, obj: Mapping[str, Any], title: str) -> DynamoError:
        causes, meta = _apierrors.causes_of(error), obj["metadata"]
        if not causes:
            return self._error(error, "patch", title)
        live = self.get(str(obj["apiVersion"]), str(obj["kind"]), meta["name"], meta.get("namespace")) or {}
        return _apierrors.conflict(causes, obj, live, title)


def _query(**values: Any) -> Query:
    return [(name, value) for name, value in values.items() if value is not None]


def _lines(answer: Any) -> Iterator[dict[str, Any]]:
    """The JSON documents of a watch, one a line, as they arrive."""
    rest = b""
    for chunk in answer.stream(amt=None, decode_content=True):
        *complete, rest = (rest + chunk).split(b"\n")
        for line in complete:
            if line.strip():
                yield json.loads(line)
