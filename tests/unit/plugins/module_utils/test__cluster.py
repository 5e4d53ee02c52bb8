# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _run
from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import Cluster
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.tests.unit.plugins.fake_api import FakeApi, kubeconfig, serve, status

CONFIG_MAP: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "greeting", "namespace": "llm"},
    "data": {"text": "hello"},
}
PATH = "api/v1/namespaces/llm/configmaps/greeting"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run, "_hidden", set())
    for name in [n for n in os.environ if n.startswith("K8S_AUTH_")] + ["KUBECONFIG", "KUBERNETES_SERVICE_HOST"]:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with serve(FakeApi()) as fake:
        fake.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "llm"}})
        yield fake


@pytest.fixture
def cluster(api: FakeApi) -> Cluster:
    return Cluster.connect({"kubeconfig": kubeconfig(api.url)})


def fails(code: str, action: Any, *args: Any, **kwargs: Any) -> DynamoError:
    with pytest.raises(DynamoError) as caught:
        action(*args, **kwargs)
    assert caught.value.code == code, caught.value
    assert "\n" not in str(caught.value)
    return caught.value


def test_connect_knows_server_and_context(api: FakeApi, cluster: Cluster) -> None:
    assert (cluster.server, cluster.context) == (api.url, "lab")


def test_connect_uses_the_token(api: FakeApi) -> None:
    Cluster.connect({"kubeconfig": kubeconfig(api.url, "tok-123456")})
    assert api.headers[-1]["authorization"] == "Bearer tok-123456"
    assert _run.scrub("it was tok-123456") == "it was ********"


def test_connect_reads_kubeconfig_of_the_environment_now(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(json.dumps(kubeconfig(api.url)))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert Cluster.connect({}).server == api.url


def test_connect_takes_host_and_key(api: FakeApi) -> None:
    cluster = Cluster.connect({"host": api.url, "api_key": "key-123456"})
    assert (cluster.server, cluster.context) == (api.url, "")
    assert api.headers[-1]["authorization"] == "Bearer key-123456"


@pytest.mark.parametrize("token", ["", "tok-123456"])
def test_nothing_is_left_of_the_cluster_before(api: FakeApi, token: str) -> None:
    """The client keeps what it loaded as its default, with a hook that loads it again."""
    with serve(FakeApi()) as before:
        Cluster.connect({"kubeconfig": kubeconfig(before.url, token)})
    Cluster.connect({"host": api.url, "api_key": "key-123456"})
    assert api.headers[-1]["authorization"] == "Bearer key-123456"


def test_wrong_kubeconfig_path(tmp_path: Path) -> None:
    error = fails("NO_CLUSTER", Cluster.connect, {"kubeconfig": str(tmp_path / "nothing")})
    assert str(tmp_path / "nothing") in str(error)


def test_context_that_is_not_there(api: FakeApi) -> None:
    error = fails("NO_CLUSTER", Cluster.connect, {"kubeconfig": kubeconfig(api.url), "context": "prod"})
    assert "prod" in str(error) and "lab" in str(error)


def test_broken_kubeconfig_does_not_show_its_content(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("users: [{token: tok-123456")
    assert "tok-123456" not in str(fails("NO_CLUSTER", Cluster.connect, {"kubeconfig": str(tmp_path / "config")}))


def test_refused_connection_ends_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    error = fails("NO_CLUSTER", Cluster.connect, {"kubeconfig": kubeconfig(url)})
    assert url in str(error) and "Connection refused" in str(error) and "object at" not in str(error)


def test_retries_are_bounded(cluster: Cluster) -> None:
    retries = cluster._api_client.configuration.retries
    assert (retries.connect, retries.read) == (1, 1)


def test_something_else_listens_there(api: FakeApi) -> None:
    api.answers["GET", "version"] = (200, b"<html>")
    fails("NO_CLUSTER", Cluster.connect, {"kubeconfig": kubeconfig(api.url)})


def test_credentials_not_accepted(api: FakeApi) -> None:
    api.answers["GET", "version"] = status(401, "Unauthorized")
    fails("UNAUTHORIZED", Cluster.connect, {"kubeconfig": kubeconfig(api.url)})


def test_version_may_be_forbidden(api: FakeApi) -> None:
    api.answers["GET", "version"] = status(403, "forbidden: User cannot get path /version")
    assert Cluster.connect({"kubeconfig": kubeconfig(api.url)}).server == api.url


def test_served(cluster: Cluster) -> None:
    assert cluster.served("batch/v1", "Job")
    assert not cluster.served("batch/v1", "Nothing")
    assert not cluster.served("nothing.example/v1", "Nothing")


def test_get(api: FakeApi, cluster: Cluster) -> None:
    assert cluster.get("v1", "ConfigMap", "greeting", "llm") is None
    assert cluster.get("v1", "ConfigMap", "greeting", "absent") is None
    api.add(CONFIG_MAP)
    found = cluster.get("v1", "ConfigMap", "greeting", "llm")
    assert found is not None and found["data"] == {"text": "hello"} and found.__class__ is dict
    error = fails("API_ABSENT", cluster.get, "resource.nvidia.com/v1beta1", "ComputeDomain", "x", "llm")
    assert "ComputeDomain resource.nvidia.com/v1beta1" in str(error)
    fails("BAD_MANIFEST", cluster.get, "v1", "ConfigMap", "greeting")


def test_forbidden_names_verb_and_resource(api: FakeApi, cluster: Cluster) -> None:
    api.answers["GET", PATH] = status(403, 'configmaps is forbidden: User "me" cannot get resource "configmaps"')
    error = fails("FORBIDDEN", cluster.get, "v1", "ConfigMap", "greeting", "llm")
    assert "get ConfigMap llm/greeting" in str(error) and 'resource "configmaps"' in str(error)


def test_list(api: FakeApi, cluster: Cluster) -> None:
    api.add(CONFIG_MAP)
    item = cluster.list("v1", "ConfigMap", "llm")[0]
    assert (item["apiVersion"], item["kind"], item["metadata"]["name"]) == ("v1", "ConfigMap", "greeting")
    assert cluster.list("v1", "ConfigMap", "llm", label_selector="a=b") == []
    assert cluster.list("v1", "ConfigMap")


def test_list_reads_all_pages(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {
        None: {"metadata": {"continue": "next"}, "items": [{"metadata": {"name": "a"}}]},
        "next": {"metadata": {}, "items": [{"metadata": {"name": "b"}}]},
    }
    cluster.served("v1", "Pod")
    monkeypatch.setattr(cluster, "_json", lambda _method, _path, query: pages[dict(query).get("continue")])
    assert [o["metadata"]["name"] for o in cluster.list("v1", "Pod", "llm")] == ["a", "b"]


@pytest.mark.parametrize("how", ["get", "list", "apply"])
def test_values_of_secrets_are_hidden(api: FakeApi, cluster: Cluster, how: str) -> None:
    data = {"HF_TOKEN": base64.b64encode(b"hf_secret_value").decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "llm"}, "data": data}
    if how == "apply":
        cluster.apply(secret)
    else:
        api.add(secret)
        assert cluster.get("v1", "Secret", "s", "llm") if how == "get" else cluster.list("v1", "Secret", "llm")
    assert _run.scrub(f"hf_secret_value {data['HF_TOKEN']}") == "******** ********"


def test_apply(api: FakeApi, cluster: Cluster) -> None:
    assert cluster.apply(CONFIG_MAP, dry_run=True)["data"] == {"text": "hello"}
    assert cluster.get("v1", "ConfigMap", "greeting", "llm") is None
    cluster.apply(CONFIG_MAP)
    assert api.requests[-1][2] == {"fieldManager": "inferops.dynamo"}
    assert cluster.apply({**CONFIG_MAP, "data": {"other": "x"}})["data"] == {"other": "x"}


def test_apply_in_an_absent_namespace(cluster: Cluster) -> None:
    obj = {**CONFIG_MAP, "metadata": {"name": "greeting", "namespace": "absent"}}
    assert "the namespace absent does not exist" in str(fails("NAMESPACE_ABSENT", cluster.apply, obj, dry_run=True))


def test_conflict_names_manager_field_and_both_values(api: FakeApi, cluster: Cluster) -> None:
    api.add({**CONFIG_MAP, "data": {"text": "theirs"}}, manager="kubectl-patch")
    error = fails("CONFLICT", cluster.apply, CONFIG_MAP)
    for word in ("kubectl-patch", ".data.text", '"theirs"', '"hello"', "ConfigMap llm/greeting"):
        assert word in str(error)
    assert error.result["conflicts"][0]["manager"] == "kubectl-patch"
    assert cluster.apply(CONFIG_MAP, force=True)["data"] == {"text": "hello"}


def test_conflict_over_a_secret_shows_no_value(api: FakeApi, cluster: Cluster) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "llm"}}
    api.add({**secret, "data": {"k": "b2xkLXZhbHVl"}}, manager="kubectl-edit")
    text = str(fails("CONFLICT", cluster.apply, {**secret, "data": {"k": "bmV3LXZhbHVl"}}))
    assert "kubectl-edit" in text and "b2xkLXZhbHVl" not in text and "bmV3LXZhbHVl" not in text


SCHEMA = "failed to create typed patch object (llm/x; v1, Kind=ConfigMap): .wibble:\n field not declared in schema"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (500, SCHEMA),
        (422, 'The DynamoGraphDeployment "x" is invalid: spec.components: Required value'),
        (400, "strict decoding error"),
        (403, 'admission webhook "x" denied the request: no'),
    ],
)
def test_refusals_are_one_line_and_not_tried_again(api: FakeApi, cluster: Cluster, code: int, message: str) -> None:
    api.answers["PATCH", PATH] = status(code, message)
    error = fails("REFUSED", cluster.apply, CONFIG_MAP)
    assert " ".join(message.split()) in str(error)
    assert api.writes == [f"PATCH {PATH}"]


def test_webhook_that_does_not_answer_has_a_hint(api: FakeApi, cluster: Cluster) -> None:
    api.answers["PATCH", PATH] = status(500, 'Internal error occurred: failed calling webhook "m": connection refused')
    assert "webhook" in fails("REFUSED", cluster.apply, CONFIG_MAP).hint


def test_delete(api: FakeApi, cluster: Cluster) -> None:
    api.add(CONFIG_MAP)
    assert cluster.delete("v1", "ConfigMap", "greeting", "llm", dry_run=True)
    assert cluster.delete("v1", "ConfigMap", "greeting", "llm", foreground=True)
    assert not cluster.delete("v1", "ConfigMap", "greeting", "llm")


def test_log(api: FakeApi, cluster: Cluster) -> None:
    path = "api/v1/namespaces/llm/pods/p/log"
    api.answers["GET", path] = (200, b"one\ntwo \xff")
    assert cluster.log("llm", "p", "main", tail=5, previous=True) == "one\ntwo �"
    assert api.requests[-1][2] == {"container": "main", "tailLines": "5", "previous": "true"}
    api.answers["GET", path] = status(400, "container is waiting to start")
    assert cluster.log("llm", "p") == ""


def test_watch(api: FakeApi, cluster: Cluster) -> None:
    path = "api/v1/namespaces/llm/configmaps"
    event = {"type": "ADDED", "object": CONFIG_MAP}
    api.answers["GET", path] = (200, json.dumps(event).encode() + b"\n")
    assert list(cluster.watch("v1", "ConfigMap", "llm", 5, label_selector="a=b")) == [event]
    asked = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "5", "labelSelector": "a=b"}
    assert api.requests[-1][2] == asked
    api.answers["GET", path] = (200, json.dumps(event).encode() + b'\n{"type": "MODI\n')
    assert list(cluster.watch("v1", "ConfigMap", "llm", 5)) == [event]


def test_a_watch_that_is_refused(api: FakeApi, cluster: Cluster) -> None:
    path = "api/v1/namespaces/llm/configmaps"
    api.answers["GET", path] = status(410, "too old resource version")
    error = fails("REFUSED", lambda: list(cluster.watch("v1", "ConfigMap", "llm", 5, resource_version="1")))
    assert error.result["status"] == 410
    late = {"type": "ERROR", "object": status(410, "too old resource version: 1 (9)")[1]}
    api.answers["GET", path] = (200, json.dumps(late).encode() + b"\n")
    error = fails("API_ERROR", lambda: list(cluster.watch("v1", "ConfigMap", "llm", 5, resource_version="1")))
    assert error.result["status"] == 410 and "too old" in str(error)
    api.answers["GET", path] = status(429, "too many requests")
    waited: list[float] = []
    cluster._sleep = waited.append  # type: ignore[assignment]
    fails("API_ERROR", lambda: list(cluster.watch("v1", "ConfigMap", "llm", 5)))
    assert waited == [1, 2, 4]


def test_the_proxy_tells_when_pieces_came(api: FakeApi, cluster: Cluster) -> None:
    api.answers["GET", "api/v1/namespaces/llm/services/http:front:8000/proxy/v1/models"] = (200, b"hello")
    answer = cluster.service_proxy("GET", "llm", "front", 8000, "/v1/models", None, 5)
    assert answer.body == b"hello" and answer.arrivals[-1][0] == 5


def test_a_port_forward_that_is_refused(api: FakeApi, cluster: Cluster) -> None:
    fails("PATH_UNREACHABLE", cluster.open_port, "llm", "front-1", 8000)


def test_service_proxy(api: FakeApi, cluster: Cluster) -> None:
    path = "api/v1/namespaces/llm/services/http:web:8000/proxy/v1/models"
    for code in (200, 404, 503):
        api.answers["GET", path] = (code, {"message": "from the service"})
        answer = cluster.service_proxy("GET", "llm", "web", 8000, "/v1/models", None, 5)
        assert (answer.status, answer.headers["content-type"]) == (code, "application/json")
        assert json.loads(answer.body) == {"message": "from the service"}
    api.answers["POST", path] = (200, b"pong")
    assert cluster.service_proxy("POST", "llm", "web", 8000, "v1/models", b'{"a": 1}', 5).body == b"pong"
    api.answers["GET", path] = status(503, "no endpoints available for service")
    error = fails("PATH_UNREACHABLE", cluster.service_proxy, "GET", "llm", "web", 8000, "v1/models", None, 5)
    assert "Service llm/web" in str(error) and "no endpoints" in str(error)
