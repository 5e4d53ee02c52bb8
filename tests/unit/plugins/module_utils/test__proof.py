# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.filter.pull_jobs import FilterModule
from ansible_collections.inferops.dynamo.plugins.module_utils import _proof
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._preflight_objects import live, release


def with_image(image: str, **pod: Any) -> dict[str, Any]:
    found = release()
    spec = found["manifest"]["spec"]["components"][1]["podTemplate"]["spec"]
    spec["containers"][0]["image"] = image
    spec.update(pod)
    return found


def test_a_sample_has_the_template_and_nothing_else() -> None:
    manifest = with_image("r/x:1.6.0")["manifest"]
    template = manifest["spec"]["components"][1]["podTemplate"]
    template["metadata"] = {"labels": {"a": "b"}}
    pods = _proof.sample_pods(manifest)
    assert list(pods) == ["Frontend", "Worker"]
    assert pods["Worker"]["spec"] == template["spec"]
    assert pods["Worker"]["metadata"] == {"name": "dgd-worker-sample", "namespace": "llm", "labels": {"a": "b"}}


def test_no_sample_where_no_pod_is_wanted() -> None:
    manifest = release()["manifest"]
    manifest["spec"]["components"][1]["replicas"] = 0
    assert list(_proof.sample_pods(manifest)) == ["Frontend"]


@pytest.mark.parametrize(
    ("code", "status", "message", "is_live", "found"),
    [
        (
            "REFUSED",
            403,
            'pods "x" is forbidden: violates PodSecurity "restricted:latest"',
            True,
            ("FAIL", "POD_SECURITY"),
        ),
        ("REFUSED", 403, 'pods "x" is forbidden: exceeded quota: gpus', False, ("FAIL", "QUOTA_EXCEEDED")),
        # the pods that run are those that the quota counts
        ("REFUSED", 403, 'pods "x" is forbidden: exceeded quota: gpus', True, ("UNKNOWN", "QUOTA_EXCEEDED")),
        ("REFUSED", 400, 'admission webhook "p" denied the request: no', False, ("FAIL", "ADMISSION_REFUSED")),
        (
            "REFUSED",
            422,
            'Pod "x" is invalid: spec.volumeMounts[0].name: Not found: "y"',
            False,
            ("FAIL", "DGD_REFUSED"),
        ),
        ("REFUSED", 500, 'Internal error occurred: failed calling webhook "p"', False, ("UNKNOWN", "NO_PODS")),
        ("FORBIDDEN", 403, "not allowed to patch Pod llm/x", False, ("UNKNOWN", "FORBIDDEN")),
    ],
)
def test_refusals(code: str, status: int, message: str, is_live: bool, found: tuple[str, str]) -> None:
    result = _proof.judge_pod("Worker", DynamoError(message, code, status=status), is_live)
    assert (result["level"], result["code"]) == found
    assert "Worker" in result["message"] and message in result["message"]


NODES = {"Worker": ["n2", "n1", "n1"], "Frontend": ["n1"]}


def test_only_new_images_are_pulled_once_on_each_node() -> None:
    old = live(release())
    assert _proof.pulls(old, release()["manifest"], NODES) == []
    new = with_image("r/x:2", imagePullSecrets=[{"name": "s"}])["manifest"]
    wanted = [{"image": "r/x:2", "node": node, "secrets": [{"name": "s"}]} for node in ("n1", "n2")]
    assert _proof.pulls(old, new, NODES) == wanted
    # where the nodes can't be read nothing is pulled
    assert _proof.pulls(old, new, {}) == []


def test_the_jobs_need_no_gpu_and_go_by_themselves() -> None:
    pulls: list[Any] = [{"image": "r/x:2", "node": node, "secrets": [{"name": "s"}]} for node in ("n1", "n2")]
    jobs = FilterModule().filters()["pull_jobs"](release(), {"pulls": pulls})
    assert len({job["metadata"]["name"] for job in jobs}) == 2
    pod = jobs[0]["spec"]["template"]["spec"]
    assert (pod["nodeName"], pod["imagePullSecrets"]) == ("n1", [{"name": "s"}])
    assert "nvidia.com/gpu" not in str(jobs) and jobs[0]["spec"]["ttlSecondsAfterFinished"]
    assert jobs[0]["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "inferops.dynamo"
    assert all(len(job["metadata"]["name"]) <= 63 for job in _proof.pull_jobs("a" * 60, "llm", pulls, 60))
