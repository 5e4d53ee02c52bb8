# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the only file that touches the Kubernetes client.

Authentication is kubernetes.core's, so that every option and K8S_AUTH_ variable means here what it means there.
Requests go through the client's own HTTP layer by path: that costs one small discovery request per API version, leaves
no discovery cache on disk that a new CRD could outdate, and lets every request have a timeout.
"""

from __future__ import annotations

import copy
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ansible_collections.inferops.dynamo.plugins.module_utils import _kubeconfig
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Response, TransportError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import hide, hide_secret

try:
    import kubernetes.client
    import kubernetes.config
    import kubernetes.dynamic
    import urllib3
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s import client as core_client
    from kubernetes.dynamic.exceptions import DynamicApiError

    IMPORT_ERROR: ImportError | None = None
except ImportError as error:
    IMPORT_ERROR = error
try:
    from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
except ImportError:
    AUTH_ARG_SPEC = {}

AUTH_SPEC: dict[str, Any] = copy.deepcopy(AUTH_ARG_SPEC)
FIELD_MANAGER = "inferops.dynamo"
CONNECT_TIMEOUT = 10  # seconds
READ_TIMEOUT = 60  # seconds
PAGE = 500  # objects per list request
Query = list[tuple[str, Any]]
Operations = list[dict[str, Any]]  # of a JSON patch
CHECK_WHICH = "Check dynamo_kubeconfig and dynamo_context."


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
        context = _check_kubeconfig(spec)
        try:
            configuration = core_client._create_configuration(spec)
            headers = core_client._create_headers(None, **auth)
        except Exception as error:  # the loaders raise whatever a broken file, plugin or certificate makes them raise
            message = f"the Kubernetes client cannot be configured: {_line(error)}."
            raise DynamoError(message, "NO_CLUSTER", CHECK_WHICH) from error
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
            raise self._error(error, "get", _title(kind, name, namespace)) from error
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
                raise self._error(error, "list", _title(kind, "", namespace)) from error
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
        title = _title(kind, meta["name"], meta.get("namespace"))
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
            raise self._error(error, "patch", _title(kind, name, namespace)) from error
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
            raise self._error(error, "delete", _title(kind, name, namespace)) from error
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
        """Events `{type, object}` until `timeout` seconds are over or the watch is cut; the caller lists again.

        selectors: label_selector, field_selector, resource_version.
        """
        query = _query(
            watch="true",
            timeoutSeconds=max(1, int(timeout)),
            labelSelector=selectors.get("label_selector"),
            fieldSelector=selectors.get("field_selector"),
            resourceVersion=selectors.get("resource_version"),
        )
        path = self._path(api_version, kind, namespace)
        try:
            answer = self._request("GET", path, query, read_timeout=timeout + CONNECT_TIMEOUT)
        except DynamicApiError as error:
            if error.status == 410:
                return
            raise self._error(error, "watch", _title(kind, "", namespace)) from error
        try:
            for event in _lines(answer):
                if event.get("type") == "ERROR":
                    return
                hide_secret(event.get("object") or {})
                yield event
        except (urllib3.exceptions.HTTPError, ValueError):
            return  # cut off: what happened meanwhile is seen by the caller's next list
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
        try:
            answer = self._request(method, url, [], content, read_timeout=timeout, reraise=True)
            status, headers, data = answer.status, answer.headers, answer.data
        except DynamicApiError as error:
            status, headers = error.status, error.headers or {}
            data = error.body.encode() if isinstance(error.body, str) else (error.body or b"")
        except urllib3.exceptions.HTTPError as error:
            reason = _reason(error)
            kind = "timeout" if isinstance(reason, urllib3.exceptions.TimeoutError) else "reset"
            raise TransportError(kind, f"{service}.{namespace} through {self.server}: {_line(reason)}") from error
        own = _status(data) if status >= 400 else {}
        if own:
            raise DynamoError(
                f"the API server does not reach Service {namespace}/{service}:{port}: {status} {own.get('message')}.",
                "PATH_UNREACHABLE",
                "Is there a ready pod behind it, and may this user create services/proxy?",
                status=status,
            )
        return Response(status, {str(k).lower(): str(v) for k, v in dict(headers).items()}, data)

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
            raise DynamoError(message, "NO_CLUSTER", CHECK_WHICH) from error
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
        return DynamoError(
            f"no answer from the API server {self.server}{self._in_context()}: {_line(_reason(error))}.",
            "NO_CLUSTER",
            f"Is the cluster up and its address right? {CHECK_WHICH}",
        )

    def _in_context(self) -> str:
        return f" (context {self.context})" if self.context else ""

    def _error(self, error: Any, verb: str, title: str) -> DynamoError:
        """One line for an HTTP status that is not an answer to the question."""
        status = _status(error.body)
        message = _line(status.get("message") or error.body or error.reason or "")
        details = status.get("details") or {}
        code, hint, extra = "REFUSED", "", {"status": error.status}
        text = f"the API server refused to {verb} {title}: {message}"
        if error.status == 401:
            code, hint = "UNAUTHORIZED", "Renew the login of the kubeconfig that dynamo_kubeconfig names."
            text = f"the API server {self.server}{self._in_context()} does not accept the credentials (401)."
        elif error.status == 403 and "cannot" in message:
            code, hint = "FORBIDDEN", "Grant this user the verb and resource named."
            text = f"not allowed to {verb} {title}: {message}."
        elif error.status == 404 and details.get("kind") == "namespaces":
            code, hint = "NAMESPACE_ABSENT", "Create it, or check dynamo_namespace."
            text = f"{title}: the namespace {details.get('name')} does not exist."
        elif error.status == 409:
            code, hint = "CONFLICT", "Something else wrote it meanwhile; run again."
            text = f"cannot {verb} {title}: {message}."
        elif error.status in (429, 502, 503, 504):
            code, hint = "API_ERROR", "Try again later."
            text = f"cannot {verb} {title}: the API server cannot answer now ({error.status}): {message}."
        elif "failed calling webhook" in message:
            hint = "An admission webhook does not answer: look at the pods of the operator it belongs to."
        return DynamoError(text, code, hint, **extra)

    def _conflict(self, error: Any, obj: Mapping[str, Any], title: str) -> DynamoError:
        """Fields of other managers: who has what there, and what we want there."""
        causes = [c for c in (_status(error.body).get("details") or {}).get("causes") or [] if c.get("field")]
        if not causes:
            return self._error(error, "patch", title)
        meta = obj["metadata"]
        live = self.get(str(obj["apiVersion"]), str(obj["kind"]), meta["name"], meta.get("namespace")) or {}
        conflicts = []
        for cause in causes:
            field, manager = cause["field"], re.search(r'conflict with "([^"]+)"', cause.get("message", ""))
            entry = {"manager": manager.group(1) if manager else "unknown", "field": field}
            if obj["kind"] != "Secret":
                entry.update(live=_short(field_value(live, field)), wanted=_short(field_value(obj, field)))
            conflicts.append(entry)
        shown = "; ".join(
            f"{c['manager']} set {c['field']}" + (f" to {c['live']}, wanted is {c['wanted']}" if "live" in c else "")
            for c in conflicts[:3]
        )
        more = f"; and {len(conflicts) - 3} more" if len(conflicts) > 3 else ""
        return DynamoError(
            f"{title} has fields of another manager: {shown}{more}.",
            "CONFLICT",
            "Take the change over into the inventory or undo it in the cluster. "
            "If kubectl apply once wrote the object, set deploy_adopt: true.",
            conflicts=conflicts,
        )


def field_value(obj: Any, path: str) -> Any:
    """The value at a managedFields path such as `.spec.components[name="Worker"].replicas`; None when there is none.

    Names in a path are not escaped (`.metadata.labels.app.kubernetes.io/name`), so the longest key that fits is taken.
    """
    while path:
        if isinstance(obj, Mapping) and path.startswith("."):
            keys = [k for k in obj if path == f".{k}" or path.startswith((f".{k}.", f".{k}["))]
            if not keys:
                return None
            key = max(keys, key=len)
            obj, path = obj[key], path[len(key) + 1 :]
            continue
        step = re.match(r"\[([^\]]*)\]", path)
        if not isinstance(obj, (list, tuple)) or not step:
            return None
        obj, path = _element(obj, step.group(1)), path[step.end() :]
    return obj


def _element(items: Any, selector: str) -> Any:
    if selector.isdigit():
        return items[int(selector)] if int(selector) < len(items) else None
    if selector.startswith("="):
        return next((i for i in items if json.dumps(i) == selector[1:]), None)
    try:
        wanted = {k: json.loads(v) for k, v in re.findall(r'([^=,]+)=("[^"]*"|[^,]+)', selector)}
    except ValueError:
        return None
    return next((i for i in items if isinstance(i, Mapping) and all(i.get(k) == v for k, v in wanted.items())), None)


def _check_kubeconfig(spec: Mapping[str, Any]) -> str:
    """The context that will be used, '' without a kubeconfig. DynamoError NO_CLUSTER: no such file or context."""
    source, context = spec.get("kubeconfig"), spec.get("context")
    if spec.get("host") and (spec.get("api_key") or spec.get("username") or spec.get("cert_file")):
        return ""
    if not source and not context and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "in-cluster"
    variable = "dynamo_kubeconfig" if source else "the default kubeconfig"
    found = _kubeconfig.load(source or kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION, variable)
    return _kubeconfig.cluster_of(found, context, variable)["context"]


def _query(**values: Any) -> Query:
    return [(name, value) for name, value in values.items() if value is not None]


def _title(kind: str, name: str, namespace: str | None) -> str:
    return f"{kind} {namespace + '/' if namespace and name else ''}{name}".strip() + (
        f"s in {namespace}" if namespace and not name else ""
    )


def _status(body: Any) -> dict[str, Any]:
    """The Status object of an error answer, or an empty dictionary when the body is something else."""
    try:
        parsed = json.loads(body)
    except (TypeError, ValueError):
        return {}
    ours = isinstance(parsed, dict) and parsed.get("kind") == "Status" and parsed.get("apiVersion") == "v1"
    return parsed if ours else {}


def _reason(error: Any) -> Any:
    """What lies below the wrappers of urllib3."""
    while isinstance(getattr(error, "reason", None), Exception):
        error = error.reason
    return error


def _line(text: Any) -> str:
    """One line; urllib3 puts the object that failed in front of its reason."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    line = " ".join(str(text).split()).rstrip(".")
    line = re.sub(r"^<?[\w.]*(Connection|Pool)\b[^>]*?(>|\)): ", "", line)
    return line if len(line) <= 1000 else line[:997] + "..."


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _lines(answer: Any) -> Iterator[dict[str, Any]]:
    """The JSON documents of a watch, one a line, as they arrive."""
    rest = b""
    for chunk in answer.stream(amt=None, decode_content=True):
        *complete, rest = (rest + chunk).split(b"\n")
        for line in complete:
            if line.strip():
                yield json.loads(line)
