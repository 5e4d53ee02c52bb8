# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of target_info that need the whole inventory: which cluster is never a guess."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible import constants as C
from ansible.parsing.dataloader import DataLoader

from ansible_collections.inferops.dynamo.plugins.action.target_info import ActionModule
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(C, "DEFAULT_LOCAL_TMP", str(tmp_path))
    content = {
        "contexts": [{"name": name, "context": {"cluster": name}} for name in ("a", "b", "a-admin")]
        + [{"name": "a2", "context": {"cluster": "a"}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443"}} for name in ("a", "b")],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(content), "utf-8")
    return str(path)


def add(hosts: dict[str, dict[str, Any]], host: str, **more: Any) -> dict[str, Any]:
    """The parameters after add_params, for `host` of a play over `hosts`."""
    action = ActionModule(
        task=SimpleNamespace(_uuid="u", async_val=0, get_search_path=list),
        connection=SimpleNamespace(transport="local", become=None),
        play_context=None,
        loader=DataLoader(),
        templar=None,
        shared_loader_obj=None,
    )
    own = hosts.get(host, {})
    params = {key: own.get(f"dynamo_{key}") for key in ("kubeconfig", "context", "namespace")}
    action.add_params(
        params,
        {
            "inventory_hostname": host,
            "groups": {"all": list(hosts)},
            "ansible_play_hosts_all": list(hosts) or [host],
            "hostvars": hosts,
            **more,
        },
    )
    return params


def cluster(path: str, context: str, namespace: str = "llm") -> dict[str, Any]:
    return {"dynamo_kubeconfig": path, "dynamo_context": context, "dynamo_namespace": namespace}


def test_no_inventory_uses_the_current_context() -> None:
    assert add({}, "localhost", ansible_inventory_sources=["/etc/ansible/hosts"])["implicit"] is True
    assert add({"one": {}}, "one")["implicit"] is False


@pytest.mark.parametrize("sources", [["nope"], ["/etc/ansible/hosts", "x"]])
def test_an_inventory_without_hosts_is_no_invitation(sources: list[str]) -> None:
    with pytest.raises(DynamoError, match=r"-i (nope|x) doesn't exist") as error:
        add({}, "localhost", ansible_inventory_sources=sources)
    assert error.value.code == "INVENTORY_EMPTY"


@pytest.mark.parametrize(
    ("content", "words"),
    [("all: {hosts: }", "has no hosts"), ("all:\n  hosts:\n    a: {x: [1\n", "can't be read: .*did not find expected")],
)
@pytest.mark.parametrize("folder", [False, True])
def test_a_broken_inventory_is_said_as_such(tmp_path: Path, content: str, words: str, folder: bool) -> None:
    (tmp_path / "hosts.yml").write_text(content, "utf-8")
    source = tmp_path if folder else tmp_path / "hosts.yml"
    with pytest.raises(DynamoError, match=words) as error:
        add({}, "localhost", ansible_inventory_sources=[str(source)])
    assert error.value.code == "INVENTORY_EMPTY"
    assert "context" not in str(error.value), "no advice that ends on another cluster"


def test_a_second_inventory_that_is_not_there_is_no_warning_only(tmp_path: Path) -> None:
    with pytest.raises(DynamoError, match=r"-i \S*nope doesn't exist"):
        add({"one": {}}, "one", ansible_inventory_sources=["one,", str(tmp_path / "nope")])


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({}, "host one: dynamo_kubeconfig or dynamo_context and dynamo_namespace not set"),
        ({"dynamo_context": "a"}, "host one: dynamo_namespace not set"),
        ({"dynamo_namespace": "x"}, "host one: dynamo_kubeconfig or dynamo_context not set"),
    ],
)
def test_each_of_several_hosts_names_its_cluster(own: dict[str, Any], words: str) -> None:
    with pytest.raises(DynamoError, match=words) as error:
        add({"one": own, "two": {}}, "one")
    assert error.value.code == "CLUSTER_UNSET"


def test_a_limit_makes_no_single_host(kubeconfig: str) -> None:
    with pytest.raises(DynamoError):
        add({"one": {}, "two": {}}, "one", ansible_play_hosts_all=["one"])


def test_two_hosts_of_one_cluster_and_namespace_stop_every_host(kubeconfig: str) -> None:
    hosts = {
        "one": cluster(kubeconfig, "a"),
        "two": cluster(kubeconfig, "b"),
        "three": cluster(kubeconfig, "a2"),
        "four": cluster(kubeconfig, "a", "other"),
    }
    for host in hosts:
        with pytest.raises(DynamoError, match="hosts one and three both are namespace llm of https://a:6443") as error:
            add(hosts, host)
        assert error.value.code == "SAME_CLUSTER"


@pytest.mark.parametrize("third", ["absent", "a-admin"])
def test_different_clusters_pass_and_a_broken_one_explains_itself(kubeconfig: str, third: str) -> None:
    hosts = {"one": cluster(kubeconfig, "a"), "two": cluster(kubeconfig, "b"), "three": cluster(kubeconfig, third)}
    assert add(hosts, "one")["implicit"] is False
