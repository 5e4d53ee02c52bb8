# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _benchload
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

ENDPOINT = {"model": "m", "url": "http://f:8000", "tokenizer": "acme/m", "commit": "c" * 40}
TRACE = {"trace": {"path": "traces/a.jsonl"}}
SHA = "a" * 64


def points(**given: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _benchload.normalise(given)["points"]
    return found


def test_without_a_word_it_is_a_small_sweep() -> None:
    load = _benchload.normalise({})
    assert load["kind"] == "synthetic"
    assert [(p["name"], p["requests"], p["warmup"]) for p in load["points"]] == [
        ("concurrency-1", 20, 1),
        ("concurrency-8", 64, 8),
        ("concurrency-32", 256, 32),
    ]
    assert _benchload.describe(load) == "1024 tokens in, 256 out; concurrency 1, 8, 32"


@pytest.mark.parametrize(
    ("given", "point"),
    [
        ({"concurrency": [2], "requests": 9}, {"concurrency": 2, "requests": 9, "warmup": 2}),
        ({"concurrency": [2], "seconds": 9}, {"concurrency": 2, "seconds": 9, "warmup": 2}),
        ({"rate": [2.5]}, {"rate": 2.5, "seconds": 120, "warmup": 1}),
        ({"rate": [2], "warmup": 0, "requests": 7}, {"rate": 2, "requests": 7, "warmup": 0}),
        ({**TRACE, "concurrency": [64]}, {"concurrency": 64, "requests": None, "warmup": 64}),
        ({**TRACE, "rate": [64]}, {"rate": 64, "requests": None, "warmup": 1}),
    ],
)
def test_points(given: dict[str, Any], point: dict[str, Any]) -> None:
    kind = "rate" if "rate" in point else "concurrency"
    assert points(**given) == [{"name": f"{kind}-{point[kind]:g}", **point}]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"concurency": [1]}, r"benchmark_load: .*concurency.*; there are input_tokens"),
        ({"concurrency": [1], "rate": [1]}, "benchmark_load.concurrency: excludes rate"),
        ({"requests": 1, "seconds": 1}, "benchmark_load.requests: excludes seconds"),
        ({"concurrency": [0]}, "benchmark_load.concurrency: must be positive and at most 1e"),
        ({"concurrency": [1, 1]}, "different numbers"),
        ({"concurrency": []}, "different numbers"),
        ({"input_tokens": -1}, "benchmark_load.input_tokens: must be positive and .*, found -1"),
        ({"requests": 0}, "benchmark_load.requests: must be positive"),
        ({"seconds": 0}, "benchmark_load.seconds: must be positive"),
        ({"rate": [float("nan")]}, "benchmark_load.rate: must be positive"),
        ({"rate": [float("inf")]}, "benchmark_load.rate: must be positive"),
        ({"concurrency": [10**400]}, "benchmark_load.concurrency: must be positive and at most"),
        ({"rate": [0.1234567, 0.1234568]}, "the same in six digits"),
        ({"trace": {"path": ""}}, "benchmark_load.trace.path: must not be empty"),
        ({"shared_prefix": 1}, "less than 1"),
        ({"shared_prefix": 0.9999}, "leaves no token of its own of 1024"),
        ({"warmup": -1}, "must not be negative"),
        ({"max_output_tokens": 1}, "benchmark_load.max_output_tokens: is for trace"),
        ({**TRACE, "input_tokens": 1}, "a trace brings its own lengths"),
        ({"trace": {"path": "a", "file": "b"}}, "exactly one of path, file, config_map"),
        ({"trace": {"path": "../a"}}, "below the mount"),
        ({"trace": {"path": "a", "sha256": "A" * 64}}, "64 hexadecimal digits"),
        ({"input_tokens": "many"}, "many"),
    ],
)
def test_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(DynamoError, match=words) as raised:
        _benchload.normalise(given)
    assert raised.value.code == "BENCHMARK_LOAD"


def option(words: list[str], name: str) -> str | None:
    return words[words.index(name) + 1] if name in words else None


def test_arguments_of_a_synthetic_point() -> None:
    load = _benchload.normalise({"input_tokens": 1000, "shared_prefix": 0.25, "concurrency": [4], "seconds": 30})
    words = _benchload.arguments(load, load["points"][0], ENDPOINT)
    assert all(isinstance(word, str) for word in words)
    wanted = {"--isl": "750", "--shared-system-prompt-length": "250", "--osl": "256", "--concurrency": "4"}
    wanted |= {"--benchmark-duration": "30", "--benchmark-grace-period": "7200", "--warmup-request-count": "4"}
    wanted |= {
        "--tokenizer": "acme/m",
        "--tokenizer-revision": "c" * 40,
        "--random-seed": "1",
        "--extra-inputs": "ignore_eos:true",
    }
    assert {name: option(words, name) for name in wanted} == wanted
    assert not {"--request-count", "--input-file", "--tokenizer-trust-remote-code"} & set(words)


def test_arguments_of_a_trace() -> None:
    load = _benchload.normalise({**TRACE, "rate": [2], "warmup": 0, "max_output_tokens": 12000, "ignore_eos": False})
    words = _benchload.arguments(load, load["points"][0], {**ENDPOINT, "trust_remote_code": "true"}, "/t/a.jsonl")
    assert option(words, "--input-file") == "/t/a.jsonl"
    assert option(words, "--synthesis-max-osl") == "12000"
    assert option(words, "--request-rate") == "2.0"
    assert "--tokenizer-trust-remote-code" in words
    assert not {"--request-count", "--isl", "--warmup-request-count", "--extra-inputs"} & set(words)


def test_loads_are_the_same_or_say_where_not() -> None:
    one = _benchload.normalise({"concurrency": [1, 2]})
    assert _benchload.differences(one, _benchload.normalise({"concurrency": [1, 2]})) == []
    other = _benchload.normalise({"concurrency": [1, 4], "output_tokens": 8})
    assert _benchload.differences(one, other) == [
        "output_tokens: 256, 8",
        "concurrency-2: {'concurrency': 2, 'requests': 20, 'warmup': 2}, None",
        "concurrency-4: None, {'concurrency': 4, 'requests': 32, 'warmup': 4}",
    ]


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({"file": "b.jsonl", "sha256": SHA}, True),
        ({"file": "a.jsonl", "sha256": "b" * 64}, False),
        ({"path": "traces/a.jsonl"}, True),
        ({"path": "traces/b.jsonl"}, False),
    ],
)
def test_traces_are_compared_by_content_where_it_is_known(other: dict[str, str], same: bool) -> None:
    one = _benchload.normalise({"trace": {"path": "traces/a.jsonl", "sha256": SHA}})
    assert (_benchload.differences(one, _benchload.normalise({"trace": other})) == []) is same
    assert _benchload.describe(one) == "trace a.jsonl; concurrency 1, 8, 32"
