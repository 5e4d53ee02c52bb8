# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real AIPerf measures the real frontend with the scripted worker. A point takes most of a minute."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from lab import CACHE, DGD, ROOT, Lab, Play, binding, command_of, environment, inventory, play

pytestmark = pytest.mark.long
NODE = "inferops-lab-control-plane"
HOST, NAME = "mol-bench", "minimax-m3-1-sglang-agg-gb300"
SYNTHETIC_HOST, SYNTHETIC_NAME = "mol-bench-synthetic", "minimax-m3-agg-gb200-agentic"
STAGED = "benchmark-trace-"
MARK = "inferops.dynamo/synthetic-acceptance"
LOAD = {"input_tokens": 200, "output_tokens": 20, "shared_prefix": 0.5, "requests": 20, "warmup": 2}
ROWS = 24
SLOW = {"LAB_TOKEN_DELAY": "0.02"}


@pytest.fixture(scope="module")
def image() -> str:
    runtime = json.loads((CACHE / "lab/inferops-lab.json").read_text("utf-8"))["image"]
    command = [str(ROOT / "tools/aiperf-image/build.sh"), runtime, "inferops-lab"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1]


@pytest.fixture(scope="module")
def clean(cluster: Lab) -> Iterator[None]:
    cluster.remove([HOST, SYNTHETIC_HOST])
    yield
    cluster.remove([HOST, SYNTHETIC_HOST])


def options(image: str, output: Path, concurrency: list[int], **load: Any) -> dict[str, Any]:
    """Variables of a host that is measured."""
    return {
        "benchmark_image": image,
        "benchmark_output": str(output),
        "benchmark_load": {**LOAD, "concurrency": concurrency, **load},
        "benchmark_deadline": 600,
        "benchmark_resources": {
            "requests": {"cpu": "20m", "memory": "256Mi"},
            "limits": {"cpu": "2", "memory": "6Gi"},
        },
    }


def replaying(image: str, folder: Path) -> dict[str, Any]:
    """Variables of the host with synthetic acceptance: one worker, not three, and a trace from the controller."""
    rows = [{"input_length": 1100, "output_length": 20, "hash_ids": [1, 2 + row % 3, 10 + row]} for row in range(ROWS)]
    (folder / "trace.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    load = {"trace": {"file": str(folder / "trace.jsonl")}, "concurrency": [2], "warmup": 2}
    return {
        **options(image, folder / "runs", [2]),
        "benchmark_load": load,
        "dynamo_binding": binding(replicas={"Worker": 1}, env={"Worker": SLOW}),
    }


def summaries(output: Path) -> list[dict[str, Any]]:
    """Of all runs, the oldest first."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(output.glob("*/summary.json"))]


def nothing_left(cluster: Lab, namespace: str) -> None:
    assert [key for key in cluster.objects(namespace) if key[1].endswith(("-benchmark", "-sweep"))] == []


class Running:
    """A benchmark that goes on while the test does something."""

    def __init__(self, where: str, *args: str) -> None:
        self.process = subprocess.Popen(
            command_of("benchmark.yml", where, *args),
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def until_measuring(self) -> str:
        """The output up to the first line that counts requests."""
        seen = []
        assert self.process.stdout
        for line in self.process.stdout:
            seen.append(line)
            if re.search(r"benchmark point \d+/\d+ \S+: \d+(/\d+)? requests", line):
                return "".join(seen)
        raise AssertionError(f"nothing was measured:\n{''.join(seen)[-6000:]}")

    def cut_off(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> Play:
        output = self.process.communicate(timeout=240)[0]
        print(output)
        return Play(self.process.returncode, output)


def deploy(folder: Path, host: str, target: str, variables: Mapping[str, Any]) -> str:
    where = inventory(folder, {host: variables})
    done = play("deploy.yml", where, f"--extra-vars=target={target}")
    assert done.rc == 0
    return where


def kill_worker(cluster: Lab, namespace: str) -> None:
    """The container ends without a word, as by a signal."""
    pod = cluster.pods(namespace, **{"nvidia.com/dynamo-component-type": "worker"})[0]
    container = pod.status.container_statuses[0].container_id.partition("//")[2]
    subprocess.run(["docker", "exec", NODE, "crictl", "stop", "--timeout", "0", container], check=True)


@pytest.mark.usefixtures("clean")
def test_a_sweep_is_measured_drawn_and_compared(cluster: Lab, image: str, tmp_path: Path) -> None:
    output = tmp_path / "runs"
    variables = options(image, output, [1, 2, 4])
    # without it tokens come in bursts, and the median of what lies between two of them is now 0 and now not
    variables["dynamo_binding"] = binding(env={"Worker": {"LAB_TOKEN_DELAY": "0.01"}})
    where = deploy(tmp_path / "lab", HOST, "sglang-gb300", variables)
    first = play("benchmark.yml", where, "--extra-vars=target=sglang-gb300", "--extra-vars=benchmark_baseline=last")
    assert first.rc == 0 and "nothing to compare" in first.output
    nothing_left(cluster, HOST)
    (found,) = summaries(output)
    assert found["whole"] and found["warnings"] == [] and found["deployment"]["gpus"] == 4
    assert found["deployment"]["target"] == "minimax-m3.1/sglang/agg-gb300"
    assert [(p["name"], p["done"], p["failed"]) for p in found["points"]] == [
        (f"concurrency-{number}", 20, 0) for number in (1, 2, 4)
    ]
    for point in found["points"]:
        assert 0 < point["ttft_ms"]["p50"] <= point["ttft_ms"]["p90"] <= point["ttft_ms"]["p99"]
        assert point["output_tokens"] == 20
        assert point["output_tokens_per_s"] == pytest.approx(20 * point["requests_per_s"], rel=0.01)
        assert point["output_tokens_per_s_per_gpu"] == pytest.approx(point["output_tokens_per_s"] / 4, rel=0.01)
        folder = output / found["run"] / point["name"]
        assert (folder / "profile_export_aiperf.csv").stat().st_size > 1000
        export = json.loads((folder / "profile_export_aiperf.json").read_text("utf-8"))
        assert export["request_count"]["avg"] == 20
    look(output / found["run"] / "index.html", tmp_path)

    other = [f"--extra-vars={json.dumps({'benchmark_load': {**LOAD, 'concurrency': [1, 2, 8]}})}"]
    other += ["--extra-vars=target=sglang-gb300", f"--extra-vars=benchmark_baseline={found['run']}"]
    refused = play("benchmark.yml", where, *other)
    assert refused.rc != 0 and "concurrency-8: {'concurrency': 8" in refused.output
    assert len(summaries(output)) == 1

    gate = ["--extra-vars=benchmark_baseline=last", "--extra-vars=benchmark_max_regression=1000"]
    second = play("benchmark.yml", where, "--extra-vars=target=sglang-gb300", *gate)
    assert second.rc == 0 and f"against {found['run']}:" in second.output
    compared = summaries(output)[-1]["comparison"]
    assert compared["baseline"] == found["run"] and len(compared["rows"]) == 9
    assert all(row["change"] is not None for row in compared["rows"]) and compared["notes"] == []


def look(page: Path, folder: Path) -> None:
    """A headless browser opens the page, where there is one."""
    browser = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
    if not browser:
        warnings.warn("no headless browser on this machine: the page was not opened", stacklevel=2)
        return
    command = [browser, "--headless", "--no-sandbox", "--dump-dom", f"file://{page}"]
    dom = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    assert dom.count("<svg") == 2 and "concurrency-4" in dom
    picture = folder / "page.png"
    shot = [browser, "--headless", "--no-sandbox", "--window-size=1180,1640", f"--screenshot={picture}"]
    subprocess.run([*shot, f"file://{page}"], check=True, capture_output=True, timeout=120)
    assert picture.stat().st_size > 50_000


@pytest.mark.usefixtures("clean")
def test_a_worker_that_dies_ends_the_run_with_its_cause(cluster: Lab, image: str, tmp_path: Path) -> None:
    variables = options(image, tmp_path / "runs", [2], requests=2000)
    variables["dynamo_binding"] = binding(env={"Worker": SLOW})
    where = inventory(tmp_path / "slow", {HOST: variables})
    target = ["--extra-vars=target=sglang-gb300", "--extra-vars=allow_gap=true"]
    assert play("deploy.yml", where, *target).rc == 0
    running = Running(where, *target)
    running.until_measuring()
    began = time.monotonic()
    kill_worker(cluster, HOST)
    ended = running.end()
    assert ended.rc != 0 and time.monotonic() - began < 60
    (found,) = summaries(tmp_path / "runs")
    assert found["whole"] is False and found["failure"]["code"] == "WORKER_LOST"
    assert "exit code 137 during the measurement" in found["failure"]["message"]
    assert "NOT WHOLE" in (tmp_path / "runs" / found["run"] / "index.html").read_text("utf-8")
    nothing_left(cluster, HOST)


@pytest.mark.usefixtures("clean")
def test_a_synthetic_run_that_is_cut_off_is_cleaned_up_by_the_next(cluster: Lab, image: str, tmp_path: Path) -> None:
    def marked() -> bool:
        return MARK in (cluster.objects(SYNTHETIC_HOST)[DGD[1], SYNTHETIC_NAME]["metadata"].get("annotations") or {})

    variables = replaying(image, tmp_path)
    target = "vllm-agg-gb200"
    where = deploy(tmp_path / "lab", SYNTHETIC_HOST, target, variables)
    assert not marked()
    synthetic = [f"--extra-vars=target={target}", "--extra-vars=benchmark_synthetic_acceptance=true"]
    refused = play("benchmark.yml", where, *synthetic)
    assert refused.rc != 0 and "allow_gap" in refused.output and not marked()

    long = f"--extra-vars={json.dumps({'benchmark_load': {**LOAD, 'concurrency': [2], 'requests': 5000}})}"
    running = Running(where, *synthetic, "--extra-vars=allow_gap=true", long)
    running.until_measuring()
    running.cut_off()
    assert marked()
    # without a word about gaps
    after = play("benchmark.yml", where, f"--extra-vars=target={target}")
    assert after.rc == 0 and not marked()
    nothing_left(cluster, SYNTHETIC_HOST)
    (found,) = summaries(tmp_path / "runs")
    assert found["whole"] and found["deployment"]["synthetic_acceptance"] is False
    assert found["points"][0]["done"] == ROWS and found["load"]["trace"]["sha256"]
    # staged under its checksum, and not again by the test below where it comes after this one
    (record,) = (o["data"] for key, o in cluster.objects(SYNTHETIC_HOST).items() if key[1].startswith(STAGED))
    assert record["sha256"] == found["load"]["trace"]["sha256"]


@pytest.mark.usefixtures("clean")
def test_a_synthetic_run_is_marked_and_put_back(cluster: Lab, image: str, tmp_path: Path) -> None:
    where = deploy(tmp_path / "lab", SYNTHETIC_HOST, "vllm-agg-gb200", replaying(image, tmp_path))
    staged = any(key[1].startswith(STAGED) for key in cluster.objects(SYNTHETIC_HOST))
    given = ["benchmark_synthetic_acceptance=true", "allow_gap=true", "target=vllm-agg-gb200"]
    done = play("benchmark.yml", where, *(f"--extra-vars={text}" for text in given))
    assert done.rc == 0
    (found,) = summaries(tmp_path / "runs")
    assert found["whole"] and found["warnings"][0].startswith("SYNTHETIC ACCEPTANCE")
    assert "SYNTHETIC ACCEPTANCE" in (tmp_path / "runs" / found["run"] / "index.html").read_text("utf-8")
    objects = cluster.objects(SYNTHETIC_HOST)
    assert MARK not in (objects[DGD[1], SYNTHETIC_NAME]["metadata"].get("annotations") or {})
    assert found["points"][0]["done"] == ROWS and ("-trace-0 created" in done.output) is not staged
    records = [o["data"] for (kind, _n), o in objects.items() if kind == "ConfigMap" and "outcome" in o.get("data", {})]
    assert [r for r in records if r.get("synthetic_acceptance") == "true"]
    newest = max(records, key=lambda record: int(record["number"]))
    assert "synthetic_acceptance" not in newest and newest["outcome"] == "answered"
