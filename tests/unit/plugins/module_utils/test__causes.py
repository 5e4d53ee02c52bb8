# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils._causes import (
    MAX_EVIDENCE,
    MAX_READ,
    classify_log,
    event_time,
    mask,
    pod_events,
)
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._dgd_objects import (
    Object,
    event,
    look,
    pod,
)


@pytest.mark.parametrize(
    "text",
    [
        "proxy http://svc:S3CRET99@proxy:3128 refused",
        "non-default args: {'api_key': ['S3CRET99']}",
        "python -m vllm --api-key S3CRET99 --port 8000",
        "AWS_SECRET_ACCESS_KEY=S3CRET99x",
        "secret_key: S3CRET99",
        "passwd=S3CRET99",
        "nvapi-S3CRET99xyz",
        "GET https://s3/x?X-Amz-Signature=S3CRET99&y=1",
        '{"auth": "S3CRET99"}',
        "HF_TOKEN=S3CRET99 was rejected",
        "proxy http://svc:P@S3CRET99@proxy:3128 refused",
        "proxy svc:S3CRET99@proxy:3128 refused",
        "GET https://s3/x?y=1&Signature=S3CRET99",
        "GET https://blob/x?sig=S3CRET99",
        "GET https://storage/x?x-goog-signature=S3CRET99",
        "github_pat_S3CRET99xxxxxxxxxxxxxxxxx",
        "{'name': 'HF_TOKEN', 'value': 'S3CRET99'}",
        "Authorization: token S3CRET99",
        "authorization: basic s3S3CRET99",
        "authorization=xS3CRET99",
        "api_keys=['S3CRET99']",
    ],
)
def test_no_credential_is_shown(text: str) -> None:
    assert "S3CRET99" not in mask(text) and "********" in mask(text)


def test_a_password_in_small_letters_is_no_sentence() -> None:
    assert "correcthorse" not in mask("password=correcthorse rejected by hub") + mask("HF_TOKEN=correcthorse was bad")


@pytest.mark.parametrize(
    "text",
    [
        "failed to fetch oauth token: unexpected status from GET request: 503",
        "error: argument --hf-token: expected one argument",
        "authorization: failed because the token has expired",
        "Authorization: the header is absent",
        "max_tokens: 1024, docker.io/library/x@sha256:0123456789",
    ],
)
def test_what_is_no_credential_is_shown(text: str) -> None:
    assert mask(text) == text


def test_a_warning_has_no_class() -> None:
    log = "WARNING 11-30 [x.py:1] Failed to import Triton: No module named 'triton_kernels'\nRuntimeError: etcd refused"
    assert classify_log(log)[0] is None
    found, line = classify_log('x NCCL WARN Missing "iommu=pt"\nFileNotFoundError: a/model.safetensors not found')
    assert found and found.name == "missing checkpoint" and line.startswith("FileNotFoundError")


@pytest.mark.parametrize(
    "line",
    [
        "[11/30/2026-10:00:00] [TRT-LLM] [W] Failed to import flashinfer: No module named 'flashinfer'",
        "[11/30/2026-10:00:00] [TRT-LLM] [I] generation_config.json not found, using defaults",
        "x.py:7: UserWarning: No module named 'flashinfer'",
        "W1130 10:00:00.000000 7 x.cc:1] No such file or directory: tokenizer.json",
        "nvcc warning: No module named x",
        "\x1b[2m2026-11-30T10:00:00Z\x1b[0m \x1b[34mDEBUG\x1b[0m dynamo: no such file: tokenizer.json",
        "\x1b[33m\x1b[1mWARNING\x1b[0m | No module named x",
    ],
)
def test_warnings_of_other_loggers_have_no_class_either(line: str) -> None:
    assert classify_log(f"{line}\n[TRT-LLM] [E] Failed to register with etcd\nConnectionError: lost")[0] is None


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            "torch.OutOfMemoryError: CUDA out of memory. Warning: see the docs of PYTORCH_ALLOC_CONF",
            "CUDA out of memory",
        ),
        ("RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)", "NCCL"),
        ("NCCL_DEBUG=INFO RuntimeError: NCCL error in ProcessGroupNCCL.cpp", "NCCL"),
        ("worker[I]: CUDA out of memory", "CUDA out of memory"),
    ],
)
def test_an_error_that_speaks_of_warnings_is_one(line: str, name: str) -> None:
    found, shown = classify_log(line)
    assert found and found.name == name and shown == line


@pytest.mark.parametrize("text", ["name " + "-" * 100_000, "name: x" + "-" * 100_000, "a-" * 50_000, "a." * 50_000])
@pytest.mark.parametrize("end", ["", " HF_TOKEN=sesame99"])
def test_long_lines_end(text: str, end: str) -> None:
    """In a second or two, not in hours; what is not read is not shown."""
    _found, line = classify_log(text + end)
    assert len(line) <= MAX_EVIDENCE and "sesame99" not in line


def test_what_is_cut_shows_no_part_of_a_secret() -> None:
    assert "sesame" not in mask(" " * (MAX_READ - 20) + " --api-key sesamesesame")


def test_events_of_a_pod_are_its_own_and_in_order() -> None:
    mine = pod()
    events = [event("Failed", "second", at=2), event("Failed", "first", at=1), event("Pulled", "other reason", at=3)]
    foreign = {**event("Failed", "of a pod of the same name"), "involvedObject": {"name": "worker-1", "uid": "0"}}
    assert pod_events(mine, look(mine, events=(*events, foreign)), "Failed") == ["first", "second"]


@pytest.mark.parametrize(
    ("values", "time"),
    [
        ({"series": {"lastObservedTime": "3"}, "lastTimestamp": "2"}, "3"),
        ({"lastTimestamp": "2", "eventTime": "1"}, "2"),
        ({"lastTimestamp": None, "eventTime": "1"}, "1"),
        ({}, "0"),
    ],
)
def test_the_time_of_an_event(values: Object, time: str) -> None:
    assert event_time({**values, "metadata": {"creationTimestamp": "0"}}) == time


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "CUDA out of memory"),
        ("RuntimeError: NCCL error: unhandled system error", "NCCL"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/model/config.json'", "missing checkpoint"),
        ("huggingface_hub.errors.LocalEntryNotFoundError: outgoing traffic has been disabled", "missing checkpoint"),
        ("huggingface_hub.errors.GatedRepoError: 403 Client Error.", "token"),
        ("sglang.launch_server: error: unrecognized arguments: --wibble", "bad argument"),
        ("ModuleNotFoundError: No module named 'dynamo.sglangg'", "bad argument"),
        ("RuntimeError: No CUDA GPUs are available", "GPU driver"),
        ("OSError: [Errno 28] No space left on device", "no space"),
        ("all went well", ""),
    ],
)
def test_engine_errors(line: str, name: str) -> None:
    log_class, lines = classify_log(f"starting\n{line}\nbye")
    assert (log_class.name if log_class else "") == name
    assert line.split(":")[0] in lines


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("token hf_abcdefghijklmnop used", "token ******** used"),
        ("Authorization: Bearer abcdefgh.ijkl", "Authorization: Bearer ********"),
        ("HF_TOKEN=abcdef123456 x", "HF_TOKEN=******** x"),
        ('{"password": "hunter2hunter2"}', '{"password": ********"}'),
        ("completion_tokens: 3", "completion_tokens: 3"),
    ],
)
def test_credentials_are_masked(text: str, clean: str) -> None:
    assert mask(text) == clean


def test_evidence_has_no_colours() -> None:
    assert mask("\x1b[31mERROR\x1b[0m HF_TOKEN=\x1b[1mabcdef123456\x1b[0m") == "ERROR HF_TOKEN=********"
    found, line = classify_log("\x1b[31mRuntimeError: NCCL error\x1b[0m")
    assert found and line == "RuntimeError: NCCL error"


def test_evidence_is_one_short_line() -> None:
    assert mask(" a\n b ") == "a b"
    assert len(mask("x" * 5000)) == MAX_EVIDENCE
