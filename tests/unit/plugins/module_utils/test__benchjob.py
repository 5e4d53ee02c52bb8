# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _benchjob, _benchload, _catalog, _release
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils.test__catalog import CATALOG

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FOLDER, HUB = "minimax-m3.1/sglang/agg-gb300", "minimax-m3/vllm/disagg-gb200-agentic"
SHA = "a" * 64
JOB: dict[str, Any] = {"image": "example.com/aiperf:1", "deadline": 600, "beside_frontend": True, "run_as": 1000}


def release(target: str = FOLDER, **options: Any) -> dict[str, Any]:
    commits = {"MiniMaxAI/MiniMax-M3.1-Flash": COMMIT} if target == FOLDER else None
    return _release.build(_catalog.read(target, CATALOG), {"namespace": "llm", "commits": commits, **options})


def made(load: dict[str, Any], target: str = FOLDER, parts: tuple[str, ...] = (), **job: Any) -> dict[str, Any]:
    """{kind/name: object} and `plan`, what the sweep reads."""
    objects = _benchjob.objects(
        release(target), _benchload.normalise(load), "# sweep", {**JOB, **job}, list(parts), "r1"
    )
    found: dict[str, Any] = {f"{o['kind']}/{o['metadata']['name']}": o for o in objects}
    return {**found, "job": objects[-1], "plan": json.loads(objects[0]["data"]["plan.json"])}


def pod(found: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = found["job"]["spec"]["template"]["spec"]
    return spec


def test_objects_of_a_synthetic_load() -> None:
    found = made({"concurrency": [2]}, resources={"limits": {"cpu": "8"}}, env={"NO_PROXY": ".svc"})
    job = found["job"]
    assert job["metadata"]["name"] == "minimax-m3-1-sglang-agg-gb300-benchmark"
    assert job["spec"]["backoffLimit"] == 0 and job["spec"]["activeDeadlineSeconds"] == 600 + 1800
    for thing in (job, found["ConfigMap/minimax-m3-1-sglang-agg-gb300-benchmark-sweep"]):
        assert thing["metadata"]["labels"]["inferops.dynamo/benchmark"] == "minimax-m3-1-sglang-agg-gb300"
        assert thing["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "inferops.dynamo"
    container = pod(found)["containers"][0]
    assert container["command"] == ["python3", "-u", "/opt/inferops-dynamo/sweep.py", "/opt/inferops-dynamo/plan.json"]
    assert {"name": "NO_PROXY", "value": ".svc"} in container["env"]
    assert container["resources"] == {"limits": {"cpu": "8"}}
    assert [v["name"] for v in pod(found)["volumes"]] == ["scripts", "cache", "scratch"]
    term = pod(found)["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert term["labelSelector"]["matchLabels"] == {
        "nvidia.com/dynamo-graph-deployment-name": "minimax-m3-1-sglang-agg-gb300",
        "nvidia.com/dynamo-component-type": "frontend",
    }
    plan = found["plan"]
    assert plan["trace"] is None and plan["seconds"] == 600
    assert "http://minimax-m3-1-sglang-agg-gb300-frontend:8000" in plan["points"][0]["argv"]


def test_options_of_the_pod() -> None:
    found = pod(
        made(
            {},
            beside_frontend=False,
            tolerations=[{"key": "a"}],
            node_selector={"b": "c"},
            pull_secrets=["d"],
            run_as=0,
        )
    )
    assert "affinity" not in found
    assert (found["tolerations"], found["nodeSelector"]) == ([{"key": "a"}], {"b": "c"})
    assert found["imagePullSecrets"] == [{"name": "d"}]
    security = found["securityContext"]
    assert (security["runAsUser"], security["fsGroup"], security["runAsNonRoot"]) == (0, 0, False)


@pytest.mark.parametrize(
    ("target", "tokenizer"),
    [
        (
            FOLDER,
            {
                "id": "MiniMaxAI/MiniMax-M3.1-Flash",
                "commit": COMMIT,
                "directory": f"/shared-model-cache/MiniMax-M3.1-Flash/{COMMIT[:12]}",
            },
        ),
        (
            HUB,
            {
                "id": "nvidia/MiniMax-M3-NVFP4",
                "commit": "901464083161bf8612a29ff7ad29914cd4ab4a85",
                "directory": "/shared-model-cache/hub/models--nvidia--MiniMax-M3-NVFP4/snapshots/"
                "901464083161bf8612a29ff7ad29914cd4ab4a85",
            },
        ),
    ],
)
def test_the_tokenizer_is_that_of_the_proved_checkpoint(target: str, tokenizer: dict[str, str]) -> None:
    assert made({}, target)["plan"]["tokenizer"] == tokenizer


@pytest.mark.parametrize(
    ("trace", "parts", "file"),
    [
        ({"path": "traces/a.jsonl"}, (), "/shared-model-cache/traces/a.jsonl"),
        ({"config_map": "mine", "key": "b"}, (), "/opt/trace/b"),
        ({"file": "x", "sha256": SHA}, ("1", "2"), f"/shared-model-cache/.inferops-dynamo/traces/{SHA}.jsonl"),
        ({"file": "x", "sha256": SHA}, (), f"/shared-model-cache/.inferops-dynamo/traces/{SHA}.jsonl"),
    ],
)
def test_traces(trace: dict[str, str], parts: tuple[str, ...], file: str) -> None:
    found = made({"trace": trace}, parts=parts)
    plan = found["plan"]
    assert plan["trace"]["file"] == file
    assert plan["points"][0]["argv"][plan["points"][0]["argv"].index("--input-file") + 1] == file
    assert plan["trace"]["parts"] == ("/opt/trace" if parts else "")
    names = [v["name"] for v in pod(found)["volumes"]]
    assert names == ["scripts", *(["trace"] if parts or "config_map" in trace else []), "cache", "scratch"]
    assert sorted(names) == sorted(m["name"] for m in pod(found)["containers"][0]["volumeMounts"])
    assert sum("-trace-" in key for key in found) == len(parts)


def test_a_trace_travels_in_parts_and_only_if_it_is_small() -> None:
    content = b'{"input_length": 1}\n' * 1000
    parts = _benchjob.parts_of(content)
    assert gzip.decompress(base64.b64decode("".join(parts))) == content
    assert parts == _benchjob.parts_of(content)
    with pytest.raises(DynamoError, match=r"benchmark_load.trace.file: has .* MB even compressed, at most 6 MB"):
        _benchjob.parts_of(__import__("random").Random(1).randbytes(8_000_000))


def test_a_staged_trace_is_known_by_content_and_claim() -> None:
    record = _benchjob.record(release(), SHA, "uid-1")
    assert record["metadata"]["name"] == f"benchmark-trace-{SHA[:12]}"
    assert record["metadata"]["labels"]["inferops.dynamo/trace"] == "true"
    assert "inferops.dynamo/benchmark" not in record["metadata"]["labels"]
    assert _benchjob.staged([record], SHA, "uid-1")
    assert not _benchjob.staged([record], SHA, "uid-2")
    assert not _benchjob.staged([record], "b" * 64, "uid-1")
    assert not _benchjob.staged([record], SHA, "")


def test_identity() -> None:
    found = _benchjob.identity(release(HUB))
    assert (found["gpus"], found["gpu"]) == (24, "GB200")
    assert found["workers"] == {"PrefillWorker": 3, "DecodeWorker": 3}
    assert found["synthetic_acceptance"] is False
    other = _benchjob.identity(release(HUB, synthetic_acceptance=True))
    assert other["synthetic_acceptance"] is True and other["arguments"] != found["arguments"]
    same = _benchjob.identity(release(HUB, binding={"scheduling": {"node_selector": {"a": "b"}}}))
    assert same["arguments"] == found["arguments"] and same["release"] != found["release"]


def test_the_presets_of_the_catalog_are_loads() -> None:
    presets = release(HUB)["benchmark"]["presets"]
    load = _benchload.normalise(presets["agentic"])
    assert [p["name"] for p in load["points"]] == ["concurrency-64"]
    assert load["trace"]["sha256"].startswith("f20d3f2b") and load["max_output_tokens"] == 12000
    assert release("minimax-m3/vllm/agg-gb200-agentic")["benchmark"] == release(HUB)["benchmark"]
    mirrored = release(binding={"image_registry": "mirror.example.com/nv"})["benchmark"]
    assert mirrored["image"] == "mirror.example.com/nv/nvidia/ai-dynamo/aiperf:0.12.0" and mirrored["presets"] == {}
