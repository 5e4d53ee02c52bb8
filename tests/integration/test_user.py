# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole path by ansible-runner, by a user of least rights, with marked tokens and all the output that there is.

One deployment for two questions: is docs/rbac.yaml what a run asks for, and is a secret anywhere but in its Secret?
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from lab import CONTEXT, DGD, KUBECONFIG, ROOT, Lab, binding, inventory
from recorder import Recorder, Right, recorder
from user import User, rights

NAMESPACE = "mol-user"
TARGET = "minimax-m3/vllm/agg-gb200-agentic"  # the shortest one with a ComputeDomain
NAME = "minimax-m3-agg-gb200-agentic"
FIRST, SECOND, THIRD = ("hf_Mark/er+first?=1", "hf_Mark/er+second?=2", "hf_Mark/er+third?=3")
# What the main Role has for changes that this deployment doesn't see: a ConfigMap or ComputeDomain that a later release
# hasn't any more, a Job with another template.
LATER = {
    Right("delete", "", "configmaps", True),
    Right("delete", "resource.nvidia.com", "computedomains", True),
    Right("delete", "batch", "jobs", True),
}


class Run(NamedTuple):
    rc: int
    output: str
    used: set[Right]
    denied: set[Right]


class Site:
    """A private data directory of ansible-runner. What may hold secrets is `outside` and isn't searched."""

    def __init__(self, folder: Path, user: User, proxy: Recorder) -> None:
        self.private, self.outside, self.temporary = folder / "private", folder / "outside", folder / "tmp"
        for place in (self.private / "env", self.private / "project", self.outside, self.temporary):
            place.mkdir(parents=True)
        self.proxy = proxy
        self.token = self.outside / "token"
        self.kubeconfig = user.kubeconfig(self.outside / "kubeconfig", proxy.url)
        self.seen: set[str] = set()
        environment = {
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_HOME": str(folder / "home"),
            "ANSIBLE_LOCAL_TEMP": str(self.temporary),
            "ANSIBLE_REMOTE_TEMP": str(self.temporary / "modules"),
            "ANSIBLE_KEEP_REMOTE_FILES": "1",
            "TMPDIR": str(self.temporary),
        }
        (self.private / "env/envvars").write_text(json.dumps(environment))

    def run(self, playbook: str, token: str, **variables: Any) -> Run:
        """ansible-runner as people call it, at the highest verbosity and with diff."""
        self.token.write_text(token)
        host = {
            "dynamo_kubeconfig": self.kubeconfig,
            "dynamo_context": "c",
            "dynamo_hf_token": f"{{{{ lookup('ansible.builtin.file', '{self.token}') }}}}",
            **variables,
        }
        inventory(self.private / "inventory", {NAMESPACE: host})
        extra = {"target": TARGET, "dynamo_report_dir": str(self.private / "reports")}
        (self.private / "env/extravars").write_text(json.dumps(extra))
        self.proxy.used, self.proxy.denied = set(), set()
        command = [str(Path(sys.executable).with_name("ansible-runner")), "run", str(self.private)]
        command += ["-p", f"inferops.dynamo.{playbook}", "-vvvv", "--cmdline=--diff"]
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watcher.start()
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "K8S_AUTH_", "KUBECONFIG"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command, env={**clean, "PATH": path}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        over.set()
        watcher.join()
        print(f"$ {' '.join(command)}\n{done.stdout[-6000:]}{done.stderr}")
        return Run(done.returncode, done.stdout + done.stderr, set(self.proxy.used), set(self.proxy.denied))

    def _watch(self, over: threading.Event) -> None:
        """Temporary files go when the run ends, so they are looked at while it lasts."""
        while not over.wait(0.5):
            self.seen |= leaks(self.temporary)


def forms(mark: str) -> list[bytes]:
    encoded = [base64.b64encode(mark.encode()).decode(), base64.urlsafe_b64encode(mark.encode()).decode()]
    return [form.encode() for form in (mark, *encoded, quote(mark, safe=""), quote(mark), json.dumps(mark)[1:-1])]


MARKS = [form for mark in (FIRST, SECOND, THIRD) for form in forms(mark)]


def marked(data: bytes) -> bool:
    return any(form in data for form in MARKS)


def leaks(folder: Path) -> set[str]:
    """Files below a directory that hold a mark."""
    found = set()
    for path in folder.rglob("*"):
        try:
            if path.is_file() and marked(path.read_bytes()):
                found.add(str(path.relative_to(folder)))
        except OSError:  # gone meanwhile, or a fifo of ansible-runner
            continue
    return found


def live(lab: Lab) -> dict[str, str]:
    """Everything in the namespace but Secrets, as JSON by kind and name, and the logs of its pods."""
    found = {}
    for resource in lab.dynamic.resources.search():
        listable = "list" in (getattr(resource, "verbs", None) or []) and getattr(resource, "namespaced", False)
        if listable and resource.kind != "Secret" and not resource.kind.endswith("List"):
            for item in resource.get(namespace=NAMESPACE).items:
                found[f"{resource.kind} {item.metadata.name}"] = json.dumps(item.to_dict(), default=str)
    for pod in lab.pods(NAMESPACE):
        for container in pod.spec.containers:
            try:
                log = lab.core.read_namespaced_pod_log(pod.metadata.name, NAMESPACE, container=container.name)
            except Exception:  # a container that waits has no log
                continue
            found[f"log {pod.metadata.name} {container.name}"] = log
    return found


@pytest.fixture(scope="module")
def site(cluster: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, User]]:
    cluster.remove([NAMESPACE, f"{NAMESPACE}-ci"])
    user = User(cluster, NAMESPACE)
    with recorder(str(KUBECONFIG), CONTEXT) as proxy:
        yield Site(tmp_path_factory.mktemp("user"), user, proxy), user
    user.remove()


@pytest.fixture(scope="module")
def runs(site: tuple[Site, User]) -> dict[str, Run]:
    """The path, with three tokens, and with failures of the deployment, of the hub and of the permissions."""
    place, user = site
    done = {"no rights": place.run("deploy", FIRST)}
    user.allow("inferops-dynamo")
    done["namespace only"] = place.run("preflight", FIRST)
    user.allow("inferops-dynamo-preflight")
    # The log of a download is read while it lasts, so it has to last longer than the pause between two looks.
    done["deploy"] = place.run("deploy", FIRST, dynamo_hub_endpoint="{{ lab['hub'] }}/as/slow-4000")
    user.allow("inferops-dynamo-smoke-ways")
    for way in ("port_forward", "job"):
        done[way] = place.run("smoke_test", FIRST, smoke_test_via=way)
    broken = binding(image={"Worker": "registry.invalid/vllm:1.3.0"})
    done["broken"] = place.run(
        "deploy", SECOND, dynamo_binding=broken, deploy_budgets={"slow": 30, "scheduling": 30}, allow_gap=True
    )
    gated = [{"id": "inferops-lab/gated", "commit": "", "layout": "folder"}]
    done["refused token"] = place.run("deploy", THIRD, dynamo_recipe={"repositories": gated})
    return done


def test_a_user_without_rights_is_told_which(runs: dict[str, Run]) -> None:
    assert runs["no rights"].rc != 0
    assert "FORBIDDEN" in runs["no rights"].output
    assert "rbac.yaml" in runs["no rights"].output


def test_preflight_of_a_user_of_one_namespace_leaves_open_what_it_may_not_see(runs: dict[str, Run]) -> None:
    run = runs["namespace only"]
    assert run.rc == 0
    assert "UNKNOWN" in run.output
    assert {asked.namespaced for asked in run.denied} == {False}, "only what is outside the namespace is refused"


def test_deployment_with_least_rights(cluster: Lab, runs: dict[str, Run]) -> None:
    run = runs["deploy"]
    assert run.rc == 0
    assert run.denied == set(), "docs/rbac.yaml lacks what a deployment asks for"
    assert (DGD[1], NAME) in cluster.objects(NAMESPACE)


def test_no_right_is_for_nothing(runs: dict[str, Run]) -> None:
    used = runs["deploy"].used | runs["broken"].used | runs["refused token"].used
    assert rights("inferops-dynamo") - used - LATER == set()
    # The claim exists by now; volumes and device classes are looked at while something is to be created.
    assert rights("inferops-dynamo-preflight") - used == {Right("get", "resource.k8s.io", "deviceclasses", False)}


def test_failures_end_with_their_codes(runs: dict[str, Run]) -> None:
    assert runs["broken"].rc != 0
    assert "IMAGE_PULL" in runs["broken"].output
    assert runs["refused token"].rc != 0
    assert "TOKEN_REFUSED" in runs["refused token"].output


def test_the_secret_holds_the_token(cluster: Lab, runs: dict[str, Run]) -> None:
    """Guards the search below: the marks did get where they belong."""
    data = cluster.objects(NAMESPACE)["Secret", "hf-token-secret"]["data"]
    assert base64.b64decode(data["HF_TOKEN"]).decode() == SECOND


def test_the_mark_is_nowhere_else(cluster: Lab, site: tuple[Site, User], runs: dict[str, Run]) -> None:
    place, _user = site
    assert leaks(place.outside) == {"token"}, "guards the search"
    assert [name for name, run in runs.items() if marked(run.output.encode())] == []
    assert leaks(place.private) == set(), "output, events, reports, inventory"
    assert place.seen | leaks(place.temporary) == set(), "temporary files"
    assert len(list((place.private / "reports").glob("*.json"))) >= 3
    assert [name for name, text in live(cluster).items() if marked(text.encode())] == []


def test_the_users_own_token_is_not_in_the_output(site: tuple[Site, User], runs: dict[str, Run]) -> None:
    assert [name for name, run in runs.items() if site[1].token in run.output] == []


@pytest.mark.parametrize(
    ("way", "asked"),
    [
        ("port_forward", {Right("get", "", "services", True), Right("get", "", "pods/portforward", True)}),
        ("job", {Right("create", "batch", "jobs", True), Right("delete", "batch", "jobs", True)}),
    ],
)
def test_other_ways_of_the_smoke_test(runs: dict[str, Run], way: str, asked: set[Right]) -> None:
    assert runs[way].rc == 0
    assert runs[way].denied == set()
    assert asked <= runs[way].used <= rights("inferops-dynamo-smoke-ways") | rights("inferops-dynamo")


@pytest.mark.usefixtures("runs")
def test_teardown_takes_its_own_role(cluster: Lab, site: tuple[Site, User]) -> None:
    place, user = site
    denied = place.run("teardown", FIRST).denied
    assert denied and denied <= rights("inferops-dynamo-teardown")
    user.allow("inferops-dynamo-teardown")
    run = place.run("teardown", FIRST, teardown_cache=True, teardown_secret=True, teardown_records=True)
    assert run.rc == 0
    assert rights("inferops-dynamo-teardown") <= run.used
    assert cluster.objects(NAMESPACE) == {}
