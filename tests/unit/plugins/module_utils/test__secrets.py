# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in clear text: what is recognised, what raises no alarm, and that no message repeats one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils import _binding, _catalog, _release, _secrets
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

from .test__catalog import CATALOG, DEPLOYMENT, EIGHT, write

HF = "hf_" + "Q" * 30
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("EXTRA", value) for value in (HF, "nvapi-" + "a" * 20, "ghp_" + "a1" * 18, "glpat-" + "a" * 20, JWT)),
        *(("EXTRA", value) for value in ("AKIA" + "A1" * 8, "sk-" + "a" * 24, "Bearer abcdefghijklmnop")),
        *((name, "sesame") for name in ("DB_PASS", "PGPASSWORD", "OPENAI_KEY", "HFTOKEN", "HF_TOKEN", "db_password")),
        *((name, "sesame") for name in ("clientSecret", "X-Api-Key", "AWS_SECRET_ACCESS_KEY", "SSH_PASSPHRASE")),
        *(("HTTPS_PROXY", value) for value in ("bob:pw@p:1", "http://bob@p", "http://bob:pw@p:3128", "a=b:pw@p")),
        ("", "--api-key sesame"),
        ("", "exec python3 -m x --api-key=sesame"),
        ("", "export HF_TOKEN=sesame; exec python3"),
    ],
)
def test_secrets(name: str, value: str) -> None:
    problem = _secrets.problem(name, value)
    assert problem
    assert value not in problem and "sesame" not in problem


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "</s>") for name in ("NIM_EOS_TOKEN", "PAD_TOKEN", "eos_token")),
        *(("HF_TOKEN", value) for value in ("", "$(TOKEN)", "${TOKEN}", "$(cat /run/token)", "/var/run/secrets/token")),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/etc/gcp/key.json"),
        ("OPENAI_API_KEY", "EMPTY"),
        ("envFromSecret", "hub"),
        ("MAX_TOKENS", "4"),
        ("NCCL_IB_PKEY", "0x1"),
        ("ROUTER_KEY", "prefix"),
        ("HTTPS_PROXY", "http://$(USER):$(PASS)@proxy:1"),
        ("NO_PROXY", "a@b"),
        ("IMAGE", "nvcr.io/nvidia/a:1.0@sha256:" + "a" * 64),
        ("", "a:1.0@sha256:" + "a" * 64),
        ("", "--disk-offload-folder-of-the-model /a --risk-sk-1"),
        ("", "--hf-token --model a/b"),
        ("", "--max-token 5 --skip-tokenizer-init --ssl-keyfile /a"),
        ("DIR", "/home/a:/b@c"),
        ("", '--kv-events-config={"publisher":"zmq","endpoint":"tcp://*:5557","topic":"kv-events@m"}'),
        ("vault.hashicorp.com/agent-inject-secret-hf-token", "secret/data/hf"),
    ],
)
def test_no_secrets(name: str, value: str) -> None:
    assert _secrets.problem(name, value) == ""


@pytest.mark.parametrize("text", ["http://" + "a:b" * 7000, "x=a:b," * 5000, "name" + "-" * 30_000, "name- " * 9000])
def test_long_values_end(text: str) -> None:
    """In a second or two, not in hours."""
    assert (_secrets.problem("", text), _secrets.mask(text)) == ("", text)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"env": [{"name": "HF_TOKEN", "value": "sesame"}]}, "env[HF_TOKEN].value"),
        ({"args": ["--model", "a", "--api-key", "sesame"]}, "args"),
        ({"args": ["--proxy", "http://u:sesame@h"]}, "args[1]"),
        ({"data": {"HF_TOKEN": "sesame"}}, "data.HF_TOKEN"),
        ([{"a": HF}], "[0].a"),
    ],
)
def test_where(value: Any, path: str) -> None:
    [(where, problem)] = _secrets.found(value)
    assert where == path and problem
    assert "sesame" not in problem and HF not in problem


def test_what_is_none() -> None:
    env = [{"name": "A", "value": "b"}, {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    assert list(_secrets.found({"env": env, "n": 1, "token": None})) == []


@pytest.mark.parametrize(
    "text",
    [
        f"value: {HF}",
        "http://bob:sesame@p",
        'patch: "- name: HF_TOKEN\\n  value: sesame"',
        "- name: HF_TOKEN\n  value: 'sesame'",
        "{name: HF_TOKEN, value: sesame}",
        "run --api-key sesame",
        "HF_TOKEN=sesame is no literal",
    ],
)
def test_mask(text: str) -> None:
    masked = _secrets.mask(text)
    assert _secrets.MASK in masked
    assert "sesame" not in masked and HF not in masked


@pytest.mark.parametrize(
    "patch",
    [
        {"env": [{"name": "HF_TOKEN", "value": "sesame"}]},
        {"env": [{"name": "HTTPS_PROXY", "value": "http://bob:sesame@proxy"}]},
        {"args": ["-m", "dynamo.vllm", "--model", "acme/tiny", "--api-key", "sesame"]},
    ],
)
def test_a_recipe_with_a_secret_is_refused(tmp_path: Path, patch: dict[str, Any]) -> None:
    documents: list[Any] = [yaml.safe_load(yaml.safe_dump(DEPLOYMENT))]
    documents[0]["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0].update(patch)
    refused(tmp_path, documents)


def test_a_secret_for_all_components_or_in_a_config_map_is_refused(tmp_path: Path) -> None:
    for_all = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "env": [{"name": "HF_TOKEN", "value": "sesame"}]}}
    refused(tmp_path, [for_all])
    kept = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"TOKEN": "sesame"}}
    refused(tmp_path, [kept, DEPLOYMENT])


def refused(root: Path, documents: list[Any]) -> None:
    with pytest.raises(DynamoError, match=r"deploy\.yaml: .*(clear text|user name)") as error:
        _catalog.read("own/vllm/agg-h100", write(root, yaml.safe_dump_all(documents)))
    assert (error.value.code, "sesame" in str(error.value)) == ("RECIPE", False)


@pytest.mark.parametrize(
    ("binding", "path"),
    [
        ({"annotations": {"acme.com/api-key": "sesame"}}, "annotations.acme.com/api-key"),
        ({"pod_annotations": {"all": {"note": HF}}}, "pod_annotations.all.note"),
        (
            {"cache_volume": {"csi": {"driver": "d", "volumeAttributes": {"a": HF}}}},
            "cache_volume.csi.volumeAttributes",
        ),
        ({"patches": [{"merge": {"spec": {"x": {"args": ["--api-key", "sesame"]}}}}]}, "patches[0].merge.spec.x.args"),
        ({"patches": [{"json6902": [{"op": "add", "path": "/a", "value": HF}]}]}, "patches[0].json6902[0].value"),
    ],
)
def test_a_binding_with_a_secret_is_refused(binding: dict[str, Any], path: str) -> None:
    with pytest.raises(DynamoError) as error:
        _binding.normalise(binding)
    assert f"dynamo_binding.{path}" in str(error.value)
    assert "sesame" not in str(error.value) and HF not in str(error.value)


def test_operations_that_make_a_secret_together_are_refused() -> None:
    main = "/podTemplate/spec/containers/0"
    operations = [
        {"op": "test", "path": f"{main}/env/0", "value": {"name": "TEST_A", "value": "b"}},
        {"op": "replace", "path": f"{main}/env/0/name", "value": "HF_TOKEN"},
        {"op": "replace", "path": f"{main}/env/0/value", "value": "sesame"},
    ]
    patches = [
        {
            "component": "Frontend",
            "merge": {
                "podTemplate": {"spec": {"containers": [{"name": "main", "env": [{"name": "TEST_A", "value": "b"}]}]}}
            },
        },
        {"component": "Frontend", "json6902": operations},
    ]
    with pytest.raises(DynamoError, match=r"dynamo_binding\.patches\[1\]: .*env\[HF_TOKEN\]") as error:
        _release.build(_catalog.read(EIGHT[6], CATALOG), {"namespace": "llm", "binding": {"patches": patches}})
    assert "sesame" not in str(error.value)
