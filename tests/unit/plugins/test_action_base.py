# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of our actions in a real ansible-playbook against a loopback API: both ways agree, no secret is shown.

It is one run for all tests, since most of the time goes into starting ansible and its modules.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from ansible.parsing.vault import VaultLib, VaultSecret

from ansible_collections.inferops.dynamo.plugins.module_utils import _run
from ansible_collections.inferops.dynamo.tests.unit.plugins.fake_api import FakeApi, kubeconfig, serve, status

pytestmark = [
    pytest.mark.playbook,
    pytest.mark.skipif(
        "ansible_forked" in sys.modules,
        reason="run by make coverage: ansible-test would make the one long run of ansible-playbook anew for each test",
    ),
    pytest.mark.xdist_group(__name__),  # one run of ansible-playbook is for all
]

COLLECTIONS = Path(_run.__file__).parents[5]
MARK = "hf_MARKED/t0ken+value"
MARKS = {MARK, quote(MARK, safe=""), base64.b64encode(MARK.encode()).decode(), "MARKED"}
LABELS = {"app.kubernetes.io/managed-by": "inferops.dynamo"}
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "greeting", "namespace": "llm", "labels": LABELS},
    "data": {"text": "hello"},
}
RAN_MODULE = "AnsiballZ_manifests.py"


def secret(name: str) -> dict[str, Any]:
    """A Secret whose value ansible puts in."""
    meta = {"name": name, "namespace": "llm", "labels": LABELS}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"HF_TOKEN": "{{ token | b64encode }}"}}


Tasks = list[dict[str, Any]]


def manifests(
    name: str, definitions: list[Any], keywords: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    return {"name": name, "inferops.dynamo.manifests": {"definitions": definitions, **options}, **(keywords or {})}


def in_role(name: str, **options: Any) -> dict[str, Any]:
    """Role hf_secret, whose failure is rescued and shown as playbooks do."""
    include = {"name": name, "ansible.builtin.include_role": {"name": "inferops.dynamo.hf_secret"}, "vars": options}
    rescue = {"name": "Rescue", "ansible.builtin.debug": {"var": "ansible_failed_result"}}
    return {"name": f"{name}, rescued", "block": [include], "rescue": [rescue]}


def both_ways(url: str) -> Tasks:
    options = {"kubeconfig": kubeconfig(url)}
    changed = {**CONFIG_MAP, "data": {"text": "bye"}}
    tasks: Tasks = []
    for way, keywords in (("action", {}), ("delegated", {"delegate_to": "other"})):
        tasks += [
            manifests(f"{way}: create", [CONFIG_MAP], keywords, **options),
            manifests(f"{way}: check", [changed], {**keywords, "check_mode": True}, **options),
            manifests(f"{way}: error", [{"kind": "x"}], keywords, **options),
            manifests(f"{way}: remove", [CONFIG_MAP], keywords, state="absent", **options),
        ]
    return [
        *tasks,
        manifests("async", [CONFIG_MAP], {"async": 60, "poll": 1}, **options),
        manifests("become", [CONFIG_MAP], {"become": True, "become_method": "ansible.builtin.su"}, **options),
    ]


def places_of_the_kubeconfig(url: str, folder: Path) -> Tasks:
    environment = {"environment": {"KUBECONFIG": str(folder / "files" / "kube.json")}}
    auth = {"environment": {"K8S_AUTH_HOST": url, "K8S_AUTH_API_KEY": f"{MARK}-env"}}
    module = {**environment, "delegate_to": "other"}
    tasks = [
        manifests("from files", [CONFIG_MAP]),
        manifests("vaulted", [CONFIG_MAP], kubeconfig="vaulted.json"),
        manifests("from KUBECONFIG", [CONFIG_MAP], environment, kubeconfig="{{ omit }}"),
        manifests("from KUBECONFIG as a module", [CONFIG_MAP], module, kubeconfig="{{ omit }}"),
        manifests("from K8S_AUTH", [CONFIG_MAP], auth, kubeconfig="{{ omit }}"),
        manifests("environment is gone", [CONFIG_MAP], kubeconfig="{{ omit }}"),
        manifests("no such file", [CONFIG_MAP], kubeconfig="absent.json"),
        manifests("no such context", [CONFIG_MAP], context="absent"),
    ]
    return [{**task, "check_mode": True} for task in tasks]


def with_the_marked_token(url: str) -> Tasks:
    release = {"namespace": "llm", "secret": {"name": "hf-token-secret", "key": "HF_TOKEN"}}
    elsewhere = {"delegate_to": "other"}
    auth: dict[str, Any] = {"kubeconfig": "{{ omit }}", "host": url, "api_key": "{{ token }}"}
    user = kubeconfig(url, "{{ token }}")
    return [
        manifests("create", [secret("s")]),
        manifests("in a label", [{**CONFIG_MAP, "data": {"text": "{{ token }}"}}, secret("u")]),
        manifests("echoed", [secret("echo")]),
        manifests("echoed to a module", [secret("echo")], elsewhere),
        manifests("foreign", [secret("foreign")]),
        manifests("key", [CONFIG_MAP], context="absent", **auth),
        manifests("wrong option", [CONFIG_MAP], wait="{{ token }}", **auth),
        manifests("wrong option of a module", [CONFIG_MAP], elsewhere, wait="soon", **auth),
        manifests("unknown option", [CONFIG_MAP], wibble="{{ token }}", **auth),
        manifests("wrong definitions", ["{{ token }}"], **auth),
        manifests("user of a kubeconfig", [CONFIG_MAP], kubeconfig=user, context="absent"),
        manifests("user for a module", [CONFIG_MAP], elsewhere, kubeconfig=user),
        in_role("role", hf_secret_release=release, dynamo_hf_token="{{ token }}"),
        in_role("role with a wrong release", hf_secret_release="{{ token }}x", dynamo_hf_token="{{ token }}"),
    ]


def write_files(folder: Path, url: str) -> None:
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"all": {"hosts": {"c1": {}, "other": {}}, "vars": local}}
    config = json.dumps(kubeconfig(url))
    (folder / "hosts.yml").write_text(yaml.safe_dump(hosts))
    (folder / "secrets.yml").write_text(yaml.safe_dump({"token": MARK}))
    (folder / "password").write_text("x")
    (folder / "files").mkdir()
    (folder / "files" / "kube.json").write_text(config)
    vault = VaultLib([("default", VaultSecret(b"x"))])
    (folder / "files" / "vaulted.json").write_bytes(vault.encrypt(config))


def write_play(folder: Path, tasks: Tasks) -> dict[int, str]:
    """Every failure is ignored, every result is kept in a file; {number: name} of the tasks that have one."""
    kept = {number: str(task["name"]) for number, task in enumerate(tasks) if "block" not in task}
    shown = [{**t, "ignore_errors": True, **({"register": f"r{n}"} if n in kept else {})} for n, t in enumerate(tasks)]
    found = ", ".join(f"'{number}': r{number}" for number in kept)
    target = {"dest": str(folder / "results.json"), "mode": "0600"}
    keep = {
        "name": "Keep the results",
        "ansible.builtin.copy": {"content": "{{ {" + found + "} | to_json }}", **target},
        "no_log": True,
    }
    defaults = {"group/inferops.dynamo.all": {"kubeconfig": "kube.json"}}
    play = {"hosts": "c1", "gather_facts": False, "module_defaults": defaults, "tasks": [*shown, keep]}
    (folder / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    return kept


@dataclass
class Ran:
    """output: all of it, at -vvvv --diff. parts: the output of each task by its name; results: likewise."""

    api: FakeApi
    output: str
    parts: dict[str, str]
    results: dict[str, dict[str, Any]]

    def codes(self, tasks: Tasks) -> dict[str, Any]:
        """Codes of those of these tasks that failed."""
        results = {task["name"]: self.results.get(task["name"], {}) for task in tasks}
        return {name: result.get("code") for name, result in results.items() if result.get("failed")}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("playbook")
    with serve(FakeApi()) as api:
        api.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "llm"}})
        api.answers["PATCH", "api/v1/namespaces/llm/secrets/echo"] = status(
            422, f"the value {MARK} ({base64.b64encode(MARK.encode()).decode()}, {quote(MARK, safe='')}) is refused"
        )
        foreign = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "foreign", "namespace": "llm"}}
        api.add({**foreign, "data": {"HF_TOKEN": base64.b64encode(MARK.encode()).decode()}})
        write_files(folder, api.url)
        tasks = [
            *both_ways(api.url),
            *places_of_the_kubeconfig(api.url, folder),
            *with_the_marked_token(api.url),
        ]
        kept = write_play(folder, tasks)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("K8S_AUTH_", "ANSIBLE_"))}
        environment |= {
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
            "ANSIBLE_NOCOLOR": "1",
            "KUBECONFIG": str(folder / "no-kubeconfig"),
        }
        command = [sys.executable, "-m", "ansible.cli.playbook", "-vvvv", "--diff", "--vault-password-file", "password"]
        command += ["-i", "hosts.yml", "-e", "@secrets.yml", "play.yml"]
        options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 300}
        done = subprocess.run(command, cwd=folder, env=environment, check=False, **options)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-4000:]
    parts = {part.split("]", 1)[0]: part for part in done.stdout.split("\nTASK [")[1:]}
    results = json.loads((folder / "results.json").read_text())
    return Ran(api, output, parts, {name: results[str(number)] for number, name in kept.items()})


def common(result: dict[str, Any]) -> dict[str, Any]:
    keys = ("changed", "failed", "objects", "diff", "msg", "code", "hint")
    return {key: result.get(key) for key in keys}


@pytest.mark.parametrize("step", ["create", "check", "error", "remove"])
def test_action_and_module_agree(ran: Ran, step: str) -> None:
    assert common(ran.results[f"action: {step}"]) == common(ran.results[f"delegated: {step}"])
    assert RAN_MODULE not in ran.parts[f"action: {step}"] and RAN_MODULE in ran.parts[f"delegated: {step}"]


def test_action_shows_what_it_does(ran: Ran) -> None:
    results = ran.results
    assert results["action: create"]["diff"] and results["action: check"]["changed"]
    assert results["action: error"]["code"] == "BAD_MANIFEST"
    assert "c1: ConfigMap llm/greeting created" in ran.parts["action: create"]


def test_what_only_a_module_can_do(ran: Ran) -> None:
    assert "async_wrapper" in ran.parts["async"] and ran.results["async"]["objects"][0]["action"] == "created"
    assert RAN_MODULE in ran.parts["become"]


@pytest.mark.parametrize(
    "name", ["from files", "vaulted", "from KUBECONFIG", "from KUBECONFIG as a module", "from K8S_AUTH"]
)
def test_kubeconfig_is_found(ran: Ran, name: str) -> None:
    assert ran.results[name].get("objects"), ran.results[name]


@pytest.mark.parametrize("name", ["environment is gone", "no such file", "no such context"])
def test_kubeconfig_is_not_found(ran: Ran, name: str) -> None:
    result = ran.results[name]
    assert result["code"] == "NO_CLUSTER" and "\n" not in result["msg"], result
    assert name != "no such file" or "absent.json" in result["msg"]


def test_environment_brings_the_key(ran: Ran) -> None:
    assert f"Bearer {MARK}-env" in [headers.get("authorization") for headers in ran.api.headers]


def test_marked_token_is_never_shown(ran: Ran) -> None:
    for mark in MARKS:
        assert mark not in ran.output, [name for name, part in ran.parts.items() if mark in part]
    objects = ran.api.objects
    assert objects["Secret", "llm", "s"]["data"] == objects["Secret", "llm", "hf-token-secret"]["data"]
    assert ran.codes(with_the_marked_token("")) == {
        "echoed": "REFUSED",
        "echoed to a module": "REFUSED",
        "foreign": "NOT_OURS",
        "wrong option": "BAD_OPTION",
        "wrong option of a module": None,
        "unknown option": "BAD_OPTION",
        "wrong definitions": "BAD_OPTION",
        "user of a kubeconfig": "NO_CLUSTER",
    }
    assert "Validating arguments" in ran.output and "echoed" in ran.parts
