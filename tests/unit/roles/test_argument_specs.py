# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every role documents exactly the options that it has, and carries what a collection's role needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import StrictUndefined, TemplateError
from jinja2.nativetypes import NativeEnvironment

ROLES = Path(__file__).resolve().parents[3] / "roles"
NAMES = sorted(path.name for path in ROLES.iterdir() if path.is_dir())
NOTHING = object()


def load(role: str, path: str) -> Any:
    file = ROLES / role / path
    assert file.is_file(), f"roles/{role}/{path} is missing"
    return yaml.safe_load(file.read_text("utf-8")) or {}


def options(role: str) -> dict[str, Any]:
    found: dict[str, Any] = load(role, "meta/argument_specs.yml")["argument_specs"]["main"].get("options") or {}
    return found


def test_there_are_roles() -> None:
    assert {"target", "preflight", "deploy", "smoke_test"} <= set(NAMES)


def fallback(value: Any) -> Any:
    """What a default is when the inventory says nothing: documentation wants a value of the option's type, no template.

    NOTHING where it comes from another role, or needs ansible (a lookup, a test of files).
    """
    if not isinstance(value, str) or "{{" not in value:
        return value
    try:
        found = NativeEnvironment(undefined=StrictUndefined).from_string(value).render()
    except TemplateError:
        return NOTHING
    return NOTHING if isinstance(found, StrictUndefined) else found


@pytest.mark.parametrize("role", NAMES)
def test_defaults_equal_argument_specs(role: str) -> None:
    specified = options(role)
    defaults = load(role, "defaults/main.yml")
    assert sorted(defaults.keys() - specified.keys()) == [], "not in meta/argument_specs.yml"
    documented = {name: option["default"] for name, option in specified.items() if "default" in option}
    assert sorted(documented.keys() - defaults.keys()) == [], "documented default, but none in defaults/main.yml"
    for name, value in defaults.items():
        wanted = [fallback(value)]
        if wanted[0] is NOTHING and specified[name].get("type", "str") in ("path", "str"):
            wanted.append(value)
        # repr tells true from 1
        assert repr(documented.get(name, NOTHING)) in map(repr, wanted), f"{name}: documented default, default"


@pytest.mark.parametrize("role", NAMES)
def test_options_are_described_and_prefixed(role: str) -> None:
    for name, option in options(role).items():
        assert name.startswith(f"{role}_"), name
        assert option.get("description"), f"{name} has no description"
        assert not (option.get("required") and "default" in option), f"{name} is required and has a default"


@pytest.mark.parametrize("role", NAMES)
def test_role_is_complete(role: str) -> None:
    assert load(role, "meta/main.yml").get("galaxy_info"), "meta/main.yml without galaxy_info"
    readme = (ROLES / role / "README.md").read_text("utf-8")
    for word in ("argument_specs.yml", "heck mode", "dempotent"):
        assert word in readme, f"README.md says nothing about {word}"


@pytest.mark.parametrize("role", NAMES)
def test_every_option_is_used(role: str) -> None:
    """In the role's tasks, variables or templates, or in the default of another option."""
    places = [path for folder in ("tasks", "vars", "templates") for path in (ROLES / role / folder).rglob("*.*")]
    text = "\n".join(path.read_text("utf-8") for path in places)
    text += "\n".join(str(value) for value in load(role, "defaults/main.yml").values())
    assert [name for name in options(role) if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("role", NAMES)
def test_texts_of_the_command_line_are_converted(role: str) -> None:
    """`-e teardown_cache=false` is the text "false", which is true. A module converts what it is given as a whole."""
    kinds = {"bool": "bool", "int": "int", "float": "float"}
    typed = {name: kinds[o["type"]] for name, o in options(role).items() if o.get("type") in kinds}
    places = [path for folder in ("tasks", "vars") for path in (ROLES / role / folder).rglob("*.yml")]
    for path in places:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            for name in typed:
                for found in re.finditer(rf"(?<![\w'.]){name}\b", line):
                    whole = re.search(r"\{\{ ?$", line[: found.start()]) and re.match(r" ?\}\}", line[found.end() :])
                    converted = re.match(rf" \| {typed[name]}\b", line[found.end() :])
                    assert whole or converted or line.lstrip().startswith((f"{name}:", "#")), f"{path}:{number} {line}"
