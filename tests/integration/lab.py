# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab as tests see it: the cluster through its own client, and playbooks run as people run them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kubernetes
import kubernetes.stream
import yaml

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("INFEROPS_CACHE", Path.home() / ".cache/inferops-dynamo"))
KUBECONFIG = CACHE / "lab/kubeconfig"
CONTEXT = "kind-inferops-lab"
GROUP_VARS = ROOT / "inventories/lab/group_vars"
KINDS = (
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("v1", "PersistentVolumeClaim"),
    ("batch/v1", "Job"),
    ("nvidia.com/v1beta1", "DynamoGraphDeployment"),
    ("resource.nvidia.com/v1beta1", "ComputeDomain"),
)
DGD = KINDS[4]
GPU = "nvidia.com/gpu"
Objects = dict[tuple[str, str], dict[str, Any]]


class Lab:
    """The lab's cluster, asked past the collection's own code."""

    def __init__(self) -> None:
        config = kubernetes.config.new_client_from_config(str(KUBECONFIG), CONTEXT)
        self.core = kubernetes.client.CoreV1Api(config)
        self.apps = kubernetes.client.AppsV1Api(config)
        self.dynamic = kubernetes.dynamic.DynamicClient(config)

    def objects(self, namespace: str) -> Objects:
        """Everything that a deployment makes, by kind and name; empty also when the namespace isn't there."""
        found = {}
        for api_version, kind in KINDS:
            for item in self.dynamic.resources.get(api_version=api_version, kind=kind).get(namespace=namespace).items:
                if item.metadata.name != "kube-root-ca.crt":
                    found[kind, item.metadata.name] = item.to_dict()
        return found

    def pods(self, namespace: str, **labels: str) -> list[Any]:
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found: list[Any] = self.core.list_namespaced_pod(namespace, label_selector=selector).items
        return found

    def namespaces(self) -> set[str]:
        return {item.metadata.name for item in self.core.list_namespace().items}

    def served(self, namespace: str, service: str) -> list[str]:
        """The models that the frontend lists."""
        return [model["id"] for model in self._proxy("GET", namespace, service, "/v1/models")["data"]]

    def ask(self, namespace: str, service: str, model: str, question: str) -> str:
        """The content of the model's answer to one chat request."""
        request = {"model": model, "messages": [{"role": "user", "content": question}], "max_tokens": 64}
        body = self._proxy("POST", namespace, service, "/v1/chat/completions", request)
        return str(body["choices"][0]["message"]["content"] or "")

    def _proxy(self, method: str, namespace: str, service: str, path: str, body: Any = None) -> dict[str, Any]:
        """Through the API server, so that nothing depends on the way from here into the cluster."""
        url = f"/api/v1/namespaces/{namespace}/services/{service}:8000/proxy{path}"
        result: dict[str, Any] = json.loads(self.dynamic.request(method, url, body=body, serialize=False).data)
        return result

    def fill(self, namespace: str, leave: int) -> None:
        """Take all GPUs of the lab's one node that no pod has, but so many; until the namespace is removed."""
        total = sum(int(node.status.allocatable.get(GPU, "0")) for node in self.core.list_node().items)
        pods = [p for p in self.core.list_pod_for_all_namespaces().items if p.status.phase in ("Pending", "Running")]
        requests = [(c.resources.requests or {}) for pod in pods for c in pod.spec.containers if c.resources]
        free = total - sum(int(request.get(GPU, "0")) for request in requests)
        assert free >= leave, f"{free} free GPUs, {leave} are needed"
        taken = {GPU: str(free - leave)}
        container = {
            "name": "filler",
            "image": json.loads((CACHE / "lab/inferops-lab.json").read_text())["image"],
            "imagePullPolicy": "Never",
            "command": ["sleep", "3600"],
            "resources": {"requests": taken, "limits": taken},
        }
        self.core.create_namespace({"metadata": {"name": namespace}})
        spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
        self.core.create_namespaced_pod(namespace, {"metadata": {"name": "filler"}, "spec": spec})

    def wait_for(self, condition: Callable[[], Any], timeout: float = 120) -> None:
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.5)

    def apply(self, obj: Mapping[str, Any]) -> None:
        """Any object, as a person would."""
        resource = self.dynamic.resources.get(api_version=obj["apiVersion"], kind=obj["kind"])
        place = {"name": obj["metadata"]["name"], "namespace": obj["metadata"].get("namespace")}
        resource.server_side_apply(dict(obj), field_manager="test", force_conflicts=True, **place)

    def delete(self, obj: Mapping[str, Any]) -> None:
        """Any object, if it is there."""
        resource = self.dynamic.resources.get(api_version=obj["apiVersion"], kind=obj["kind"])
        with contextlib.suppress(kubernetes.dynamic.exceptions.NotFoundError):
            resource.delete(name=obj["metadata"]["name"], namespace=obj["metadata"].get("namespace"))

    def kill(self, namespace: str, pod: str) -> None:
        """End the program of a pod's container from inside; the kubelet starts it again."""
        command = ["sh", "-c", "kill 1"]
        kubernetes.stream.stream(
            self.core.connect_get_namespaced_pod_exec, pod, namespace, container="main", command=command, stdout=True
        )

    def remove(self, namespaces: Iterable[str], timeout: float = 300) -> None:
        """Remove namespaces, all at once, and wait until they are gone."""
        wanted = set(namespaces)
        for name in wanted & self.namespaces():
            self.core.delete_namespace(name)
        end = time.monotonic() + timeout
        while left := wanted & self.namespaces():
            assert time.monotonic() < end, f"still there after {timeout:.0f} s: {sorted(left)}"
            time.sleep(2)


WORKER = {"nvidia.com/dynamo-component-type": "worker"}


class Meddler(threading.Thread):
    """Does something to the lab while a playbook runs: tries until `act` says that it did it; once, or `again`."""

    def __init__(self, act: Callable[[Lab], bool], again: bool = False) -> None:
        super().__init__(daemon=True)
        self.act, self.again, self.times = act, again, 0
        self.at = datetime.now(UTC)
        self.over = threading.Event()
        self.start()

    def run(self) -> None:
        lab = Lab()  # a client of its own: the other one belongs to another thread
        while not self.over.wait(0.2):
            with contextlib.suppress(Exception):  # nothing is there yet, or it went meanwhile
                if self.act(lab):
                    self.at, self.times = datetime.now(UTC), self.times + 1
                    if not self.again:
                        return

    def stop(self) -> int:
        """How often it was done."""
        self.over.set()
        self.join(30)
        return self.times


def kill_starting(namespace: str) -> Callable[[Lab], bool]:
    """Kills the worker while it starts."""

    def act(lab: Lab) -> bool:
        for pod in lab.pods(namespace, **WORKER):
            state = pod.status.container_statuses[0]
            if state.state.running and not state.ready and age(state.state.running.started_at) > 5:
                lab.kill(namespace, pod.metadata.name)
                return True
        return False

    return act


def age(since: datetime) -> float:
    return (datetime.now(UTC) - since).total_seconds()


def versions(objects: Objects) -> dict[tuple[str, str], str]:
    """What must not move when nothing changed: of a DGD the generation, since status moves its resourceVersion."""
    return {
        key: str(item["metadata"]["generation" if key[0] == DGD[1] else "resourceVersion"])
        for key, item in objects.items()
    }


@dataclass(frozen=True)
class Play:
    """How a run of ansible-playbook ended."""

    rc: int
    output: str
    lines: tuple[tuple[datetime, str], ...] = ()  # each with the time when it was said

    def recap(self, host: str) -> dict[str, int]:
        """Counters of the host's line in the recap."""
        lines = [line for line in self.output.rpartition("PLAY RECAP")[2].splitlines() if line.split(" ")[0] == host]
        assert lines, f"{host} is not in the recap:\n{self.output[-4000:]}"
        return {key: int(value) for key, value in (word.split("=") for word in lines[0].split() if "=" in word)}


def environment() -> dict[str, str]:
    """Nothing of the person who runs it: neither a kubeconfig nor settings of Ansible."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "K8S_AUTH_", "KUBECONFIG"))}
    return {**clean, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(CACHE / "ansible-home"), "COLUMNS": "1000"}


def command_of(playbook: str, *args: str) -> list[str]:
    """The command line of a playbook of the collection."""
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(ROOT / "playbooks" / playbook)]
    return [*command, f"--extra-vars=dynamo_report_dir={CACHE}/reports", *args]


def play(playbook: str, *args: str, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> Play:
    """Run a playbook of the collection; its output is shown when the test fails."""
    command, clean = command_of(playbook, *args), {**environment(), **(env or {})}
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=cwd, env=clean, text=True, **pipes) as process:
        assert process.stdout
        lines = tuple((datetime.now(UTC), line) for line in process.stdout)
    output = "".join(line for _at, line in lines)
    print(f"$ {' '.join(command)}\n{output}")
    return Play(process.returncode, output, lines)


def lab_variables() -> dict[str, Any]:
    """The group variables of inventories/lab, untemplated."""
    found: dict[str, Any] = yaml.safe_load((GROUP_VARS / "all.yml").read_text("utf-8"))
    return found


def binding(**changes: Any) -> dict[str, Any]:
    """The lab's dynamo_binding with these keys besides: a host's dictionary replaces that of its group."""
    return {**lab_variables()["dynamo_binding"], **changes}


def inventory(folder: Path, hosts: Mapping[str, Mapping[str, Any]], shared: bool = True) -> str:
    """An inventory of these hosts; what they don't set is that of inventories/lab, unless shared is false."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = {name: dict(variables) for name, variables in hosts.items()}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": plain}}), "utf-8")
    if shared and not (folder / "group_vars").exists():
        (folder / "group_vars").symlink_to(GROUP_VARS)
    return f"--inventory={folder}"
