# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What components tell their engines, in every spelling."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _engine


def component(**main: Any) -> dict[str, Any]:
    volumes = main.pop("volumes", [])
    return {"name": "W", "podTemplate": {"spec": {"containers": [{"name": "main", **main}], "volumes": volumes}}}


def variable(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


SCRIPT = "ulimit -n 9\nexec python3 -m dynamo.vllm --model /m \\\n  --tp 4 --kv '{\"a\": 1}'"


@pytest.mark.parametrize(
    ("main", "expected"),
    [
        ({"args": ["-m", "x", "--a=b", "--c", "d", "--e"]}, {"-m": "x", "--a": "b", "--c": "d", "--e": ""}),
        ({"command": ["python3", "-m", "x"], "args": ["--a", "1"]}, {"-m": "x", "--a": "1"}),
        (
            {"command": ["/bin/sh", "-c"], "args": [SCRIPT]},
            {"-m": "dynamo.vllm", "--model": "/m", "--tp": "4", "--kv": '{"a": 1}'},
        ),
        ({"command": ["sh", "-c"], "args": ["python3 -m dynamo.vllm --a 'b"]}, {"-m": "dynamo.vllm", "--a": "'b"}),
        ({"command": ["sh", "-c"], "args": ["sleep 1"]}, {}),
        ({"args": ["--a", "1", "--a=2"]}, {"--a": "2"}),
        (
            {
                "command": ["bash", "-c"],
                "args": ["python3 -m dynamo.vllm --a $A --b ${B}"],
                "env": [variable("A", "x")],
            },
            {"-m": "dynamo.vllm", "--a": "x", "--b": "${B}"},
        ),
        (
            {"args": ["--m", "$(M)", "--n", "$(NO)"], "env": [variable("N", "x"), variable("M", "$(N)y")]},
            {"--m": "xy", "--n": "$(NO)"},
        ),
    ],
)
def test_arguments(main: dict[str, Any], expected: dict[str, str]) -> None:
    assert _engine.expanded_arguments(component(**main), []) == expected


@pytest.mark.parametrize("flag", ["--config", "--extra-engine-args"])
def test_settings_of_a_file(flag: str) -> None:
    config = {
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"key": "tensor_parallel_size: 8\nmax_seq_len: 5\n"},
    }
    worker = component(
        args=["--max-seq-len", "4", flag, "/etc/w/worker.yaml"],
        volumeMounts=[{"name": "v", "mountPath": "/etc/w"}],
        volumes=[{"name": "v", "configMap": {"name": "c", "items": [{"key": "key", "path": "worker.yaml"}]}}],
    )
    assert _engine.settings(worker, [config]) == {"context": "4", "tensor": "8"}
    for text in ("a: [", "- 1", ""):
        config["data"] = {"key": text}
        assert _engine.settings(worker, [config]) == {"context": "4"}
    assert _engine.settings(component(args=[flag, "/other"]), [config]) == {}


@pytest.mark.parametrize(
    ("given", "nodes", "gpus"),
    [
        ({}, 1, None),
        ({"tensor": "4"}, 1, 4),
        ({"tensor": "4", "pipeline": "2"}, 1, 8),
        ({"tensor": "8", "data": "2"}, 2, 8),
        ({"tensor": "4", "data": "4", "shared_data": ""}, 1, 4),
        ({"tensor": "1", "data": "16", "data_local": "8"}, 2, 8),
        ({"tensor": "$(TP)"}, 1, None),
        ({"tensor": "²", "data_local": "²"}, 1, None),
        ({"data": "8"}, 1, 8),
        ({"tensor": "4", "data": "8", "rank": "0"}, 1, 4),
        ({"shared_data": ""}, 1, None),
    ],
)
def test_gpus(given: dict[str, str], nodes: int, gpus: int | None) -> None:
    assert _engine.gpus_wanted(given, nodes) == gpus


@pytest.mark.parametrize(
    ("text", "number"),
    [("4096", 4096), ("256k", 256000), ("256K", 262144), ("1.5k", 1500), ("1M", 1 << 20), ("auto", None), ("-1", None)],
)
def test_tokens(text: str, number: int | None) -> None:
    assert _engine.tokens(text) == number


def test_gpus_of_a_pod() -> None:
    assert _engine.gpus_of(component(resources={"requests": {"nvidia.com/gpu": "2"}})) == 2
    assert _engine.gpus_of(component()) == 0
