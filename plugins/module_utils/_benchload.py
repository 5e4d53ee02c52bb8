# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the load of a benchmark: what the inventory says, what two runs must share, AIPerf's arguments. Pure.

Options of AIPerf are those that 0.12.0 and 0.13.0 have in common.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

Load = dict[str, Any]

SOURCES = ("path", "file", "config_map")
SPEC: dict[str, Any] = {
    "input_tokens": {"type": "int", "default": 1024},
    "output_tokens": {"type": "int", "default": 256},
    "shared_prefix": {"type": "float", "default": 0},
    "trace": {
        "type": "dict",
        "options": {
            **{source: {"type": "str"} for source in SOURCES},
            "key": {"type": "str", "default": "trace.jsonl"},
            "sha256": {"type": "str", "default": ""},
        },
    },
    "max_input_tokens": {"type": "int"},
    "max_output_tokens": {"type": "int"},
    "concurrency": {"type": "list", "elements": "int"},
    "rate": {"type": "list", "elements": "float"},
    "requests": {"type": "int"},
    "seconds": {"type": "int"},
    "warmup": {"type": "int"},
    "seed": {"type": "int", "default": 1},
    "ignore_eos": {"type": "bool", "default": True},
    "request_timeout": {"type": "int", "default": 7200},
}
CONCURRENCY = [1, 8, 32]
RATE_SECONDS = 120  # of a point with a rate, when nobody says how long
MOST = 1e9  # users, requests per second, requests, seconds
SYNTHETIC_ONLY = ("input_tokens", "output_tokens", "shared_prefix")
TRACE_ONLY = ("max_input_tokens", "max_output_tokens")


def refuse(path: str, problem: str) -> DynamoError:
    """The error of a wrong load; path below benchmark_load."""
    return DynamoError(f"benchmark_load{'.' + path if path else ''}: {problem}", "BENCHMARK_LOAD")


def normalise(given: Mapping[str, Any]) -> Load:
    """A checked load with its defaults and its points.

    :returns: kind (synthetic or trace), its sizes or its trace, seed, ignore_eos, request_timeout, and points [{name,
        concurrency or rate, requests or seconds, warmup}]; requests is None where all rows of the trace are replayed.
    :raises DynamoError: BENCHMARK_LOAD.
    """
    result = ArgumentSpecValidator(SPEC).validate(dict(given))
    if result.error_messages:
        message = re.sub(r" Supported parameters include: .*", "", result.error_messages[0])
        raise refuse("", f"{message.rstrip('.')}; there are {', '.join(SPEC)}")
    options = result.validated_parameters
    trace = {key: value for key, value in (options["trace"] or {}).items() if value is not None}
    misplaced = [key for key in (SYNTHETIC_ONLY if trace else TRACE_ONLY) if given.get(key) is not None]
    if misplaced:
        raise refuse(misplaced[0], "a trace brings its own lengths" if trace else "is for trace")
    load: Load = {"kind": "trace" if trace else "synthetic"}
    if trace:
        load["trace"] = _trace(trace)
        load |= {key: _positive(key, options[key]) for key in TRACE_ONLY if options[key] is not None}
    else:
        load |= {key: _positive(key, options[key]) for key in SYNTHETIC_ONLY[:2]}
        if not 0 <= options["shared_prefix"] < 1:
            raise refuse("shared_prefix", f"must be at least 0 and less than 1, found {options['shared_prefix']}")
        if round(options["input_tokens"] * options["shared_prefix"]) == options["input_tokens"]:
            raise refuse("shared_prefix", f"leaves no token of its own of {options['input_tokens']}")
        load["shared_prefix"] = options["shared_prefix"]
    load["points"] = _points(options, bool(trace))
    return load | {
        "seed": options["seed"],
        "ignore_eos": options["ignore_eos"],
        "request_timeout": _positive("request_timeout", options["request_timeout"]),
    }


def _positive(key: str, value: Any) -> Any:
    if not 0 < value <= MOST:
        raise refuse(key, f"must be positive and at most {MOST:g}, found {str(value)[:40]}")
    return value


def _trace(trace: dict[str, Any]) -> dict[str, str]:
    sources = [key for key in SOURCES if key in trace]
    if len(sources) != 1:
        raise refuse("trace", f"must have exactly one of {', '.join(SOURCES)}")
    if trace["sha256"] and not re.fullmatch(r"[0-9a-f]{64}", trace["sha256"]):
        raise refuse("trace.sha256", "must be 64 hexadecimal digits in lower case")
    name = trace[sources[0]]
    if not name:
        raise refuse(f"trace.{sources[0]}", "must not be empty")
    if sources[0] == "path" and (name.startswith("/") or ".." in name.split("/")):
        raise refuse("trace.path", f"must be a path below the mount of the model cache, found {name}")
    found = {"source": sources[0], "name": name, "sha256": trace["sha256"]}
    return {**found, "key": trace["key"]} if sources[0] == "config_map" else found


def _points(options: Mapping[str, Any], trace: bool) -> list[dict[str, Any]]:
    for one, other in (("concurrency", "rate"), ("requests", "seconds")):
        if options[one] is not None and options[other] is not None:
            raise refuse(one, f"excludes {other}")
    kind = "concurrency" if options["rate"] is None else "rate"
    values = options[kind] if options[kind] is not None else CONCURRENCY
    if not values or len(set(values)) != len(values):
        raise refuse(kind, f"must be a list of different numbers, found {values}")
    points = []
    for value in values:
        number = f"{_positive(kind, value):g}"
        point: dict[str, Any] = {"name": f"{kind}-{number}", kind: value}
        if options["seconds"] is not None:
            point["seconds"] = _positive("seconds", options["seconds"])
        elif kind == "rate" and options["requests"] is None and not trace:
            point["seconds"] = RATE_SECONDS
        elif options["requests"] is not None:
            point["requests"] = _positive("requests", options["requests"])
        else:
            point["requests"] = None if trace else max(20, 8 * value)
        warmup = options["warmup"] if options["warmup"] is not None else value if kind == "concurrency" else 1
        if warmup < 0:
            raise refuse("warmup", f"must not be negative, found {warmup}")
        points.append({**point, "warmup": warmup})
    if len({point["name"] for point in points}) != len(points):
        raise refuse(kind, f"has numbers that are the same in six digits, found {values}")
    return points


def arguments(load: Load, point: Mapping[str, Any], endpoint: Mapping[str, str], trace_file: str = "") -> list[str]:
    """The words after `aiperf profile` of one point; the artifact directory is the caller's.

    :param endpoint: model, url, tokenizer (its repository), commit, trust_remote_code.
    """
    words: list[Any] = [
        "--model",
        endpoint["model"],
        "--url",
        endpoint["url"],
        "--endpoint-type",
        "chat",
        "--streaming",
    ]
    words += ["--tokenizer", endpoint["tokenizer"], "--tokenizer-revision", endpoint["commit"]]
    words += ["--use-server-token-count", "--ui", "none", "--no-gpu-telemetry"]
    if endpoint.get("trust_remote_code"):
        words.append("--tokenizer-trust-remote-code")
    words += ["--random-seed", load["seed"], "--request-timeout-seconds", load["request_timeout"]]
    if load["ignore_eos"]:
        words += ["--extra-inputs", "ignore_eos:true"]
    if load["kind"] == "trace":
        words += ["--input-file", trace_file, "--custom-dataset-type", "mooncake_trace", "--no-fixed-schedule"]
        words += ["--dataset-sampling-strategy", "sequential"]
        for key, option in (("max_input_tokens", "--synthesis-max-isl"), ("max_output_tokens", "--synthesis-max-osl")):
            words += [option, load[key]] if key in load else []
    else:
        shared = round(load["input_tokens"] * load["shared_prefix"])
        words += ["--isl", load["input_tokens"] - shared, "--osl", load["output_tokens"]]
        words += ["--shared-system-prompt-length", shared] if shared else []
    words += ["--concurrency", point["concurrency"]] if "concurrency" in point else ["--request-rate", point["rate"]]
    if point.get("seconds"):
        # answers that come late belong to the measurement; without this AIPerf drops what takes more than 30 s
        words += ["--benchmark-duration", point["seconds"], "--benchmark-grace-period", load["request_timeout"]]
    elif point.get("requests"):
        words += ["--request-count", point["requests"]]
    if point["warmup"]:
        words += ["--warmup-request-count", point["warmup"]]
    return [str(word) for word in words]


def differences(one: Load, other: Load) -> list[str]:
    """What two loads don't have in common, as `key: one, other`; empty when their results can be compared."""
    left, right = _compared(one), _compared(other)
    if left.get("trace") and right.get("trace"):
        traces = (left["trace"], right["trace"])
        by = "sha256" if all(trace["sha256"] for trace in traces) else "name"
        left["trace"], right["trace"] = (trace[by] for trace in traces)
    keys = [*left, *(key for key in right if key not in left)]
    return [f"{key}: {left.get(key)}, {right.get(key)}" for key in keys if left.get(key) != right.get(key)]


def _compared(load: Load) -> dict[str, Any]:
    """Points as keys of their own, so that a difference names the point."""
    points = {point["name"]: {k: v for k, v in point.items() if k != "name"} for point in load["points"]}
    return {**{key: value for key, value in load.items() if key != "points"}, **points}


def describe(load: Load) -> str:
    """The load in a few words, for titles."""
    if load["kind"] == "trace":
        what = f"trace {load['trace']['name'].rpartition('/')[2]}"
    else:
        shared = f", {load['shared_prefix']:.0%} of it shared" if load["shared_prefix"] else ""
        what = f"{load['input_tokens']} tokens in{shared}, {load['output_tokens']} out"
    kind = "rate" if "rate" in load["points"][0] else "concurrency"
    return f"{what}; {kind} {', '.join(f'{point[kind]:g}' for point in load['points'])}"
