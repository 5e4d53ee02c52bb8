# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every variable of the inventory has a kind, and what is of another kind is refused by the variable's name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils import _inventory
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.modules import target_info

ROOT = Path(__file__).resolve().parents[4]
SAMPLES: tuple[Any, ...] = (None, "text", "", 5, 1.5, True, "yes", ["a"], [["a"]], {"a": 1}, [], {}, "a b\n")


def test_every_documented_variable_has_a_kind() -> None:
    page = (ROOT / "docs/inventory.md").read_text("utf-8")
    documented = set(re.findall(r"^\| `([a-z_]+)(?:=true)?` \|", page.partition("## The binding")[0], re.M))
    documented |= set(re.findall(r"^\| `([a-z_]+)(?:=true)?` \|", page.partition("## Confirmations")[2], re.M))
    assert documented == {*_inventory.VARIABLES, *_inventory.ELSEWHERE}


def test_choices_are_those_of_the_plugin() -> None:
    kinds = {name: kind for name, kind in _inventory.VARIABLES.items() if isinstance(kind, tuple)}
    for name, kind in kinds.items():
        assert tuple(target_info.ARGUMENT_SPEC[name.removeprefix("dynamo_")]["choices"]) == kind


def test_options_are_those_of_the_roles() -> None:
    types = {
        "float": _inventory.PERCENT,
        "bool": _inventory.FLAG,
        "int": _inventory.NUMBER,
        "dict": _inventory.DICTIONARY,
        "list": _inventory.TEXTS,
        "str": _inventory.TEXT,
    }
    specified: dict[str, Any] = {}
    for path in (ROOT / "roles").glob("*/meta/argument_specs.yml"):
        specified |= yaml.safe_load(path.read_text("utf-8"))["argument_specs"]["main"]["options"]
    for name, kind in _inventory.OPTIONS.items():
        option = specified[name]
        wanted = _inventory.TOKEN if option.get("no_log") else types[option["type"]]
        assert kind == (tuple(option["choices"]) if isinstance(kind, tuple) else wanted), name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dynamo_gpu", "GB300"),
        ("dynamo_cluster_uid", 5),
        ("dynamo_gpu_products", ["NVIDIA-GB300"]),
        ("dynamo_gpu_products", "NVIDIA-GB300,NVIDIA-B200"),
        ("dynamo_recipe", '{"gpu": "B200"}'),
        ("dynamo_ready_timeout", "300"),
        ("dynamo_surge_room", "yes"),
        ("dynamo_surge_room", 0),
        ("dynamo_hf_token", 1234567890),
        ("dynamo_hf_token", ""),
        ("dynamo_model_commit", {"a/b": "c"}),
        ("dynamo_kubeconfig", {"clusters": []}),
        ("dynamo_pathway", "grove"),
        *((name, None) for name in _inventory.VARIABLES),
    ],
)
def test_what_fits_passes(name: str, value: Any) -> None:
    _inventory.check(name, value)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("dynamo_gpu", ["GB300"], "dynamo_gpu is a list; it must be a text."),
        ("dynamo_storage_class", True, "dynamo_storage_class is true; it must be a text."),
        ("dynamo_gpu_products", {"a": 1}, "dynamo_gpu_products is a dictionary; it must be a list of texts."),
        ("dynamo_gpu_products", [["a"]], "is a list; it must be a list of texts, without a list."),
        ("dynamo_gpu_products", 5, "dynamo_gpu_products is 5; it must be a list of texts."),
        ("dynamo_recipe", ["a"], "dynamo_recipe is a list; it must be a dictionary."),
        ("dynamo_recipe", "a", "dynamo_recipe is 'a'; it must be a dictionary."),
        ("dynamo_ready_timeout", "soon", "dynamo_ready_timeout is 'soon'; it must be a whole number."),
        ("dynamo_ready_timeout", True, "dynamo_ready_timeout is true"),
        ("dynamo_ready_timeout", 1.5, "dynamo_ready_timeout is 1.5"),
        ("dynamo_ready_timeout", -1, "dynamo_ready_timeout is -1"),
        ("dynamo_surge_room", "maybe", "dynamo_surge_room is 'maybe'; it must be true or false."),
        ("dynamo_pathway", "groove", "dynamo_pathway is 'groove'; it must be one of component, grove."),
        ("dynamo_kubeconfig", ["a"], "dynamo_kubeconfig is a list; it must be a path or a dictionary."),
        ("dynamo_gpu_products", [""], "it must be a list of texts"),
        ("dynamo_hub_endpoint", "hub.example.com", "dynamo_hub_endpoint, or HF_ENDPOINT) is no http or https address"),
        ("model_cache_verify", "md5", "model_cache_verify is 'md5'; it must be one of recorded, headers,"),
        ("hf_secret_token", ["hf_abcdef"], "hf_secret_token is a list; it must be the token alone"),
        ("dynamo_report_dir", {}, "dynamo_report_dir is a dictionary"),
        ("smoke_test_successes", "0", "smoke_test_successes is '0'; it must be a whole number above zero."),
        ("smoke_test_request_timeout", 0, "smoke_test_request_timeout is 0; it must be a whole number above zero."),
        ("smoke_test_url", "frontend:8000", "smoke_test_url is no http or https address: frontend:8000."),
        ("benchmark_max_regression", "nan", "benchmark_max_regression is 'nan'; it must be a number from 0."),
        ("allow_gap", "x" * 99, "allow_gap is 'xxx"),
        ("dynamo_hf_token", ["hf_abcdef"], "dynamo_hf_token is a list; it must be the token alone"),
        (
            "dynamo_hf_token",
            "hf_abcdef\n",
            "dynamo_hf_token is something else (it is not shown); it must be the token alone",
        ),
        ("dynamo_hf_token", False, "dynamo_hf_token is false"),
    ],
)
def test_what_does_not_fit_is_named(name: str, value: Any, words: str) -> None:
    with pytest.raises(DynamoError) as error:
        _inventory.check(name, value)
    assert words in str(error.value)
    assert error.value.code == "BAD_OPTION" and len(str(error.value)) < 200
    assert "hf_abcdef" not in str(error.value)


@pytest.mark.parametrize("name", _inventory.VARIABLES)
def test_no_value_breaks_the_check(name: str) -> None:
    for value in SAMPLES:
        try:
            _inventory.check(name, value)
        except DynamoError as error:
            assert f"{name} is " in str(error) or name == "dynamo_hub_endpoint"


def test_a_mistyped_name_is_found() -> None:
    _inventory.mistyped(["dynamo_mirror", "dynamo_hosts", "dynamo_namespace", "dynamo_namespaces", "namespase"])
    for wrong, right in (("dynamo_namspace", "dynamo_namespace"), ("dynamo_storageclass", "dynamo_storage_class")):
        with pytest.raises(DynamoError, match=f"{wrong} is no variable of this collection; did you mean {right}"):
            _inventory.mistyped([wrong])


@pytest.mark.parametrize(
    ("name", "meant", "where"),
    [
        ("taget", "target", "line"),
        ("Target", "target", "line"),
        ("alow_gap", "allow_gap", "line"),
        ("targetoutput", "target_output", "line"),
        ("smoke_test_timout", "smoke_test_timeout", "inventory"),
        ("model_cache_prun", "model_cache_prune", "inventory"),
    ],
)
def test_misspelled_options_are_refused(name: str, meant: str, where: str) -> None:
    message = f"^{name} is no variable of this collection; did you mean {meant}\\?$"
    with pytest.raises(DynamoError, match=message):
        _inventory.mistyped([name, "target", meant], [name] if where == "line" else [])


def test_names_of_the_collection_itself_and_of_others_pass() -> None:
    names = {"taget", "Target", "deploy_user", "ansible_host", "targets", "awx_user_name"}  # not on the command line
    _inventory.mistyped(names)
    own: set[str] = set()
    for folder in ("roles", "playbooks"):
        for path in (ROOT / folder).rglob("*.yml"):
            if "collections" not in path.parts and "recipes" not in path.parts:
                own |= set(re.findall(r"\b[a-z_]+_[a-z_]+\b", path.read_text("utf-8")))
    own = {name for name in own if name.startswith(_inventory.ROLES)}
    assert len(own) > 40
    _inventory.mistyped(own)
    specified: set[str] = set()
    for path in (ROOT / "roles").glob("*/meta/argument_specs.yml"):
        specified |= yaml.safe_load(path.read_text("utf-8"))["argument_specs"]["main"]["options"].keys()
    _inventory.mistyped([], specified)
