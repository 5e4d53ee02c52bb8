# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of our actions in real ansible-playbook runs against a loopback API: both ways agree, no secret is shown."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils import _run
from ansible_collections.inferops.dynamo.tests.unit.plugins.fake_api import FakeApi, kubeconfig, serve, status

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


class Playbook:
    """Runs tasks on host `c1` at -vvvv --diff; results are read back from files."""

    def __init__(self, folder: Path, api: FakeApi) -> None:
        self.folder = folder
        self.api = api
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        hosts = {"all": {"hosts": {"c1": {}, "other": {}}, "vars": local}}
        (folder / "hosts.yml").write_text(yaml.safe_dump(hosts))
        (folder / "secrets.yml").write_text(yaml.safe_dump({"token": MARK}))
        (folder / "files").mkdir()
        (folder / "files" / "kube.json").write_text(json.dumps(kubeconfig(api.url)))

    def run(self, tasks: list[dict[str, Any]], *options: str) -> tuple[str, dict[str, str], dict[str, Any]]:
        """(all output, output of each task by name, result of each task by name)"""
        kept = {number: task for number, task in enumerate(tasks) if "block" not in task}
        plays = [
            {**t, "ignore_errors": True, **({"register": f"r{n}"} if n in kept else {})} for n, t in enumerate(tasks)
        ]
        found = ", ".join(f"'{number}': r{number}" for number in kept)
        target = {"dest": str(self.folder / "results.json"), "mode": "0600"}
        keep = {
            "name": "Keep the results",
            "ansible.builtin.copy": {"content": "{{ {" + found + "} | to_json }}", **target},
            "check_mode": False,
            "no_log": True,
        }
        defaults = {"group/inferops.dynamo.all": {"kubeconfig": "kube.json"}}
        play = {"hosts": "c1", "gather_facts": False, "module_defaults": defaults, "tasks": [*plays, keep]}
        (self.folder / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("K8S_AUTH_", "ANSIBLE_"))}
        environment |= {
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_NOCOLOR": "1",
            "KUBECONFIG": str(self.folder / "no-kubeconfig"),
        }
        done = subprocess.run(
            [
                *(sys.executable, "-m", "ansible", "playbook", "-vvvv", "--diff", *options),
                *("-i", "hosts.yml", "-e", "@secrets.yml", "play.yml"),
            ],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, output[-4000:]
        parts = {part.split("]", 1)[0]: part for part in done.stdout.split("\nTASK [")[1:]}
        results = json.loads((self.folder / "results.json").read_text())
        results = {task["name"]: results[str(number)] for number, task in kept.items()}
        return output, parts, results


@pytest.fixture
def playbook(tmp_path: Path) -> Iterator[Playbook]:
    with serve(FakeApi()) as api:
        api.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "llm"}})
        yield Playbook(tmp_path, api)


def manifests(
    name: str, definitions: list[Any], keywords: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    return {"name": name, "inferops.dynamo.manifests": {"definitions": definitions, **options}, **(keywords or {})}


def in_role(name: str, **options: Any) -> dict[str, Any]:
    """Role hf_secret, whose failure is rescued and shown as playbooks do."""
    include = {"name": name, "ansible.builtin.include_role": {"name": "inferops.dynamo.hf_secret"}, "vars": options}
    rescue = {"name": "Rescue", "ansible.builtin.debug": {"var": "ansible_failed_result"}}
    return {"name": f"{name}, rescued", "block": [include], "rescue": [rescue]}


def common(result: dict[str, Any]) -> dict[str, Any]:
    keys = ("changed", "failed", "objects", "diff", "msg", "code", "hint")
    return {key: result.get(key) for key in keys}


def test_action_and_module_agree(playbook: Playbook) -> None:
    url = kubeconfig(playbook.api.url)
    changed = {**CONFIG_MAP, "data": {"text": "bye"}}
    tasks = []
    for way, keywords in (("action", {}), ("delegated", {"delegate_to": "other"})):
        options = {"kubeconfig": url}
        tasks += [
            manifests(f"{way}: create", [CONFIG_MAP], keywords, **options),
            manifests(f"{way}: check", [changed], {**keywords, "check_mode": True}, **options),
            manifests(f"{way}: error", [{"kind": "x"}], keywords, **options),
            manifests(f"{way}: remove", [CONFIG_MAP], keywords, state="absent", **options),
        ]
    tasks += [
        manifests("async", [CONFIG_MAP], {"async": 60, "poll": 1}, kubeconfig=url),
        manifests("become", [CONFIG_MAP], {"become": True, "become_method": "ansible.builtin.su"}, kubeconfig=url),
    ]
    _output, parts, results = playbook.run(tasks)
    for step in ("create", "check", "error", "remove"):
        assert common(results[f"action: {step}"]) == common(results[f"delegated: {step}"]), step
        assert RAN_MODULE not in parts[f"action: {step}"] and RAN_MODULE in parts[f"delegated: {step}"]
    assert results["action: create"]["diff"] and results["action: check"]["changed"]
    assert results["action: error"]["code"] == "BAD_MANIFEST"
    assert "async_wrapper" in parts["async"] and results["async"]["objects"][0]["action"] == "created"
    assert RAN_MODULE in parts["become"]
    assert "c1: ConfigMap llm/greeting created" in parts["action: create"]


def test_environment_and_kubeconfig_lookup(playbook: Playbook) -> None:
    environment = {"environment": {"KUBECONFIG": str(playbook.folder / "files" / "kube.json")}}
    auth = {"environment": {"K8S_AUTH_HOST": playbook.api.url, "K8S_AUTH_API_KEY": MARK}}
    output, _parts, results = playbook.run(
        [
            manifests("from files", [CONFIG_MAP]),
            manifests("from KUBECONFIG", [CONFIG_MAP], environment, kubeconfig="{{ omit }}"),
            manifests(
                "from KUBECONFIG as a module",
                [CONFIG_MAP],
                {**environment, "delegate_to": "other"},
                kubeconfig="{{ omit }}",
            ),
            manifests("from K8S_AUTH", [CONFIG_MAP], auth, kubeconfig="{{ omit }}"),
            manifests("environment is gone", [CONFIG_MAP], kubeconfig="{{ omit }}"),
            manifests("no such file", [CONFIG_MAP], kubeconfig="absent.json"),
            manifests("no such context", [CONFIG_MAP], context="absent"),
        ],
        "--check",
    )
    for name in ("from files", "from KUBECONFIG", "from KUBECONFIG as a module", "from K8S_AUTH"):
        assert results[name].get("objects"), results[name]
    for name in ("environment is gone", "no such file", "no such context"):
        assert results[name]["code"] == "NO_CLUSTER" and "\n" not in results[name]["msg"], results[name]
    assert "absent.json" in results["no such file"]["msg"]
    assert f"Bearer {MARK}" in [h.get("authorization") for h in playbook.api.headers]
    assert MARK not in output


def test_vaulted_kubeconfig(playbook: Playbook) -> None:
    (playbook.folder / "password").write_text("x")
    encrypt = ["encrypt", "--vault-password-file", "password", "files/kube.json"]
    command = [sys.executable, "-m", "ansible", "vault", *encrypt]
    subprocess.run(command, cwd=playbook.folder, check=True, capture_output=True)
    results = playbook.run([manifests("vaulted", [CONFIG_MAP])], "--vault-password-file", "password")[2]
    assert results["vaulted"]["objects"][0]["action"] == "created"


def test_marked_token_is_never_shown(playbook: Playbook) -> None:
    api = playbook.api
    api.answers["PATCH", "api/v1/namespaces/llm/secrets/echo"] = status(
        422, f"the value {MARK} ({base64.b64encode(MARK.encode()).decode()}, {quote(MARK, safe='')}) is refused"
    )
    foreign = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "foreign", "namespace": "llm"}}
    api.add({**foreign, "data": {"HF_TOKEN": base64.b64encode(MARK.encode()).decode()}})
    release = {"namespace": "llm", "secret": {"name": "hf-token-secret", "key": "HF_TOKEN"}}
    elsewhere = {"delegate_to": "other"}
    auth: dict[str, Any] = {"kubeconfig": "{{ omit }}", "host": api.url, "api_key": "{{ token }}"}
    user = kubeconfig(api.url, "{{ token }}")
    output, parts, results = playbook.run(
        [
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
    )
    for mark in MARKS:
        assert mark not in output, [name for name, part in parts.items() if mark in part]
    assert api.objects["Secret", "llm", "s"]["data"] == api.objects["Secret", "llm", "hf-token-secret"]["data"]
    codes = {name: result.get("code") for name, result in results.items() if result.get("failed")}
    assert codes == {
        "echoed": "REFUSED",
        "echoed to a module": "REFUSED",
        "foreign": "NOT_OURS",
        "wrong option": "BAD_OPTION",
        "wrong option of a module": None,
        "unknown option": "BAD_OPTION",
        "wrong definitions": "BAD_OPTION",
        "user of a kubeconfig": "NO_CLUSTER",
    }
    assert "Validating arguments" in output and "echoed" in parts
