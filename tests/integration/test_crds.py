# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our CRDs and the real ones, held against one table of accepted and refused manifests.

Both are installed under groups of their own, so that neither webhooks nor the lab's own definitions have a say, and
every manifest is a dry run."""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.dynamic.exceptions import DynamicApiError
from lab import ROOT, Lab

PLATFORM = ROOT / "roles/lab/files/platform"
UPSTREAM = ROOT.parent / "shared/upstream"
sys.path.append(str(PLATFORM))
import podschema  # noqa: E402

REAL = {
    "dynamographdeployments": "wxsms__dynamo/deploy/operator/config/crd/bases/nvidia.com_dynamographdeployments.yaml",
    "computedomains": (
        "kubernetes-sigs__dra-driver-nvidia-gpu/deployments/helm/dra-driver-nvidia-gpu/crds/"
        "resource.nvidia.com_computedomains.yaml"
    ),
}
OURS = {
    "dynamographdeployments": "nvidia.com_dynamographdeployments.yaml",
    "computedomains": "resource.nvidia.com_computedomains.yaml",
}
Manifest = dict[str, Any]
Change = Callable[[Manifest], Any]


class Definitions:
    """The CRDs of one origin under the group `<origin>.inferops.test`."""

    def __init__(self, lab: Lab, origin: str) -> None:
        self.client, self.group = lab.dynamic, f"{origin}.inferops.test"
        answer = self.call("GET", "/openapi/v3/apis/apps/v1")
        schemas = answer["components"]["schemas"]
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        for plural in OURS:
            if origin == "ours":
                crd = yaml.safe_load((ROOT / "roles/lab/files/crds" / OURS[plural]).read_text(encoding="utf-8"))
                crd = podschema.fill(crd, schemas)
            else:
                crd = podschema.only_beta(
                    yaml.load((UPSTREAM / REAL[plural]).read_text(encoding="utf-8"), Loader=loader)
                )
            crd = {**crd, "metadata": {"name": f"{plural}.{self.group}"}, "spec": {**crd["spec"], "group": self.group}}
            crd["spec"]["names"] = {**crd["spec"]["names"], "shortNames": [], "categories": []}
            self.apply(f"{self.crds}/{crd['metadata']['name']}", crd)
        self.wait()

    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        options = {"header_params": {"Accept": "application/json"}, "content_type": content_type}
        return json.loads(self.client.request(method, path, body=body, serialize=False, **options).data)

    def apply(self, path: str, body: Manifest, options: str = "") -> Any:
        return self.call("PATCH", f"{path}?fieldManager=test&force=true{options}", body, "application/apply-patch+yaml")

    def wait(self) -> None:
        end = time.monotonic() + 60
        for plural in OURS:
            while True:
                crd = self.call("GET", f"{self.crds}/{plural}.{self.group}")
                if any(c["type"] == "Established" and c["status"] == "True" for c in crd["status"]["conditions"] or []):
                    break
                assert time.monotonic() < end, f"{plural}.{self.group} is not established"
                time.sleep(0.2)

    def remove(self) -> None:
        for plural in OURS:
            self.call("DELETE", f"{self.crds}/{plural}.{self.group}")

    def refusal(self, manifest: Manifest, plural: str = "dynamographdeployments") -> str:
        """Why a dry run of server-side apply is refused; empty when it is accepted."""
        body = {**manifest, "apiVersion": f"{self.group}/v1beta1"}
        path = f"/apis/{self.group}/v1beta1/namespaces/default/{plural}/{body['metadata']['name']}"
        try:
            self.apply(path, body, "&dryRun=All")
        except DynamicApiError as error:
            return str(json.loads(error.body)["message"])
        return ""


@pytest.fixture(scope="module", params=["ours", "theirs"])
def definitions(request: pytest.FixtureRequest, cluster: Lab) -> Iterator[Definitions]:
    if request.param == "theirs" and not UPSTREAM.is_dir():
        pytest.skip("the real CRDs are not there (../shared/upstream)")
    made = Definitions(cluster, request.param)
    yield made
    made.remove()


def component(name: str, kind: str) -> Manifest:
    main = {
        "name": "main",
        "image": "a/b:1.6.0",
        "env": [{"name": "GREETING", "value": "one"}],
        "ports": [{"containerPort": 8000}],
        "resources": {"requests": {"cpu": 1, "memory": "1Gi"}},
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
    }
    volume = {"name": "c", "persistentVolumeClaim": {"claimName": "c"}}
    pod = {
        "containers": [main],
        "volumes": [volume],
        "imagePullSecrets": [{"name": "s"}],
        "tolerations": [{"operator": "Exists"}],
    }
    return {
        "name": name,
        "type": kind,
        "replicas": 1,
        "podTemplate": {"metadata": {"annotations": {"a": "b"}}, "spec": pod},
    }


DGD: Manifest = {
    "kind": "DynamoGraphDeployment",
    "metadata": {"name": "x"},
    "spec": {
        "backendFramework": "vllm",
        "components": [component("Frontend", "frontend"), component("Worker", "worker")],
    },
}


def worker(manifest: Manifest) -> Manifest:
    found: Manifest = manifest["spec"]["components"][1]
    return found


def main(manifest: Manifest) -> Manifest:
    found: Manifest = worker(manifest)["podTemplate"]["spec"]["containers"][0]
    return found


UNKNOWN = '.spec.components[name="Worker"]{}: field not declared in schema'
CASES: list[tuple[str, Change, str]] = [
    ("as it is", lambda m: None, ""),
    ("unknown field", lambda m: worker(m).update(wibble=1), UNKNOWN.format(".wibble")),
    (
        "unknown field of a container",
        lambda m: main(m).update(wibble=1),
        UNKNOWN.format('.podTemplate.spec.containers[name="main"].wibble'),
    ),
    ("unknown field of a pod", lambda m: worker(m)["podTemplate"]["spec"].update(wibble=1), "field not declared"),
    (
        "component twice",
        lambda m: m["spec"]["components"].append(component("Worker", "worker")),
        '.spec.components: duplicate entries for key [name="Worker"]',
    ),
    (
        "component in two cases",
        lambda m: m["spec"]["components"].append(component("worker", "worker")),
        'spec.components: Invalid value: "array": component names must be unique case-insensitively',
    ),
    ("env twice", lambda m: main(m)["env"].append({"name": "GREETING"}), 'duplicate entries for key [name="GREETING"]'),
    ("env is no text", lambda m: main(m)["env"][0].update(value=True), "expected string"),
    (
        "threshold is text",
        lambda m: main(m)["readinessProbe"].update(failureThreshold="60"),
        "failureThreshold: expected numeric",
    ),
    ("override of two numbers", lambda m: worker(m).update(runtimeVersionOverride="1.6"), "should match"),
    ("override with a suffix", lambda m: worker(m).update(runtimeVersionOverride="1.6.0-dev.1"), "should match"),
    ("override", lambda m: worker(m).update(runtimeVersionOverride="0.9.0"), ""),
    (
        "type",
        lambda m: worker(m).update(type="workr"),
        'Unsupported value: "workr": supported values: "frontend", "worker", "prefill", "decode", "planner", "epp"',
    ),
    (
        "framework",
        lambda m: m["spec"].update(backendFramework="tgi"),
        'spec.backendFramework: Unsupported value: "tgi": supported values: "sglang", "vllm", "trtllm"',
    ),
    ("replicas", lambda m: worker(m).update(replicas=-1), "should be greater than or equal to 0"),
    (
        "restart",
        lambda m: m["spec"].update(restart={"id": "r1"}),
        'spec: Invalid value: "object": spec.restart must be unset on create; '
        "set spec.restart.id after creation to request a restart",
    ),
    ("component's name", lambda m: worker(m).update(name="bad_name"), "should match '^[A-Za-z0-9]"),
    ("shared memory", lambda m: worker(m).update(sharedMemorySize="lots"), "sharedMemorySize"),
    ("shared memory as a number", lambda m: worker(m).update(sharedMemorySize=0), ""),
    ("memory limit", lambda m: main(m)["resources"].update(limits={"memory": "lots"}), "memory"),
    ("long name", lambda m: m["metadata"].update(name="n" * 60), ""),
    ("two frontends", lambda m: worker(m).update(type="frontend"), ""),
    ("annotations for all", lambda m: m["spec"].update(annotations={"a": "b"}, labels={"c": "d"}), ""),
    ("env for all", lambda m: m["spec"].update(env=[{"name": "A", "value": "1"}]), ""),
    ("claims", lambda m: main(m)["resources"].update(claims=[{"name": "c"}]), ""),
    ("mount of an unknown volume", lambda m: main(m).update(volumeMounts=[{"name": "no", "mountPath": "/no"}]), ""),
]


@pytest.mark.parametrize(("change", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_graph_deployment(definitions: Definitions, change: Change, expected: str) -> None:
    manifest = copy.deepcopy(DGD)
    change(manifest)
    answer = definitions.refusal(manifest)
    assert (expected in answer) if expected else answer == ""


def domain(**spec: Any) -> Manifest:
    channel = {"resourceClaimTemplate": {"name": "x-channel"}, **spec.pop("channel", {})}
    return {"kind": "ComputeDomain", "metadata": {"name": "x"}, "spec": {"channel": channel, **spec}}


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (domain(), ""),
        (domain(numNodes=0), ""),
        (domain(numNodes=-1), "should be greater than or equal to 0"),
        (domain(channel={"allocationMode": "Two"}), 'supported values: "All", "Single"'),
        (domain(wibble=1), "field not declared in schema"),
        ({**domain(), "spec": {}}, "spec.channel: Required value"),
    ],
    ids=["as it is", "with numNodes", "negative numNodes", "allocation", "unknown field", "no channel"],
)
def test_compute_domain(definitions: Definitions, manifest: Manifest, expected: str) -> None:
    answer = definitions.refusal(manifest, "computedomains")
    assert (expected in answer) if expected else answer == ""


def test_every_published_recipe_is_accepted(definitions: Definitions) -> None:
    recipes = list(UPSTREAM.glob("karya0__dynamo/recipes/**/deploy.yaml")) if UPSTREAM.is_dir() else []
    recipes += Path(ROOT, "roles/target/files/recipes").glob("**/deploy.yaml")
    assert recipes
    for file in recipes:
        for manifest in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if manifest["kind"] == "DynamoGraphDeployment":
                text = json.dumps(manifest).replace('"value": true', '"value": "y"')  # YAML 1.1 reads a bare y as true
                assert definitions.refusal(json.loads(text)) == "", file
