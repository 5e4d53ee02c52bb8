# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What no other tool checks about the repository as a whole."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
# also in a copy without git, where ansible-test runs and leaves these
NOT_OURS = {"__pycache__", "output", "LICENSES"}
TEXT = {"", ".cfg", ".go", ".j2", ".md", ".py", ".sh", ".toml", ".yaml", ".yml"}
CODE = {"", ".j2", ".py", ".sh"}
MAX_LINES = 400
REASON = re.compile(r"^# Over 400 lines: \S+", re.M)
HEADER = "# SPDX-License-Identifier: GPL-3.0-or-later"


@cache
def files() -> list[Path]:
    """Text files of the project: what git knows or would add, so that no cache or virtual environment is looked at."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
        found = [ROOT / name for name in listed if name]
    else:
        found = list(ROOT.rglob("*"))
    return sorted(
        path
        for path in found
        if path.is_file()
        and not path.is_symlink()
        and path.suffix in TEXT
        and not path.name.startswith("LICENSE")
        and NOT_OURS.isdisjoint(path.relative_to(ROOT).parts)
    )


def test_files_are_found() -> None:
    assert {"README.md", "galaxy.yml"} <= {path.name for path in files()}
    assert Path(__file__).resolve() in files()


def offenders(pattern: str, *, besides: tuple[str, ...] = ()) -> list[str]:
    found = []
    for path in files():
        name = str(path.relative_to(ROOT))
        if path == Path(__file__).resolve() or name.startswith(besides):
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if re.search(pattern, line):
                found.append(f"{name}:{number}: {line.strip()}")
    return found


def test_no_path_of_one_machine() -> None:
    """/home/runner is the home directory inside every execution environment."""
    assert not offenders(r"(?<![\w.])/(work|root|home/(?!runner/)\w+)/")


def test_registries_are_named_only_by_recipes() -> None:
    """What is shipped takes them from the inventory besides, so that an air-gapped site has one place to look."""
    assert not offenders(
        r"\b(nvcr\.io|quay\.io|ghcr\.io|docker\.io|registry\.k8s\.io|registry\.redhat\.io)\b",
        besides=("roles/target/files/recipes/", "tests/", "docs/", "tools/"),
    )


def test_files_are_short_or_say_why_not() -> None:
    long = []
    for path in files():
        lines = path.read_text("utf-8").splitlines()
        if path.suffix in CODE and len(lines) > MAX_LINES and not REASON.search("\n".join(lines[:20])):
            long.append(f"{path.relative_to(ROOT)}: {len(lines)} lines")
    assert not long, "split it, or say why not in a comment near its top: # Over 400 lines: ..."


def test_python_files_carry_the_licence() -> None:
    python = [path for path in files() if path.suffix == ".py" and path.stat().st_size]
    assert not [str(path.relative_to(ROOT)) for path in python if HEADER not in path.read_text("utf-8")[:600]]


def test_module_utils_and_their_tests_mirror_each_other() -> None:
    tested = {path.name for path in (ROOT / "tests/unit/plugins/module_utils").glob("test_*.py")}
    wanted = {f"test_{path.name}" for path in (PLUGINS / "module_utils").glob("_*.py") if path.name != "__init__.py"}
    assert sorted(wanted - tested) == [], "without a test"
    # test__x_topic.py may stand beside test__x.py
    strays = [name for name in tested if not any(name.startswith(known.removesuffix(".py")) for known in wanted)]
    assert strays == [], "tests of nothing"


def names(folder: str) -> list[str]:
    return sorted(path.stem for path in (PLUGINS / folder).glob("[!_]*.py"))


def module_source(name: str) -> str:
    return (PLUGINS / "modules" / f"{name}.py").read_text("utf-8")


def takes_credentials(name: str) -> bool:
    return "AUTH_SPEC" in module_source(name) or '"kubeconfig"' in module_source(name)


@pytest.mark.parametrize("name", names("modules"))
def test_module_is_thin_and_has_an_action_if_it_talks_to_a_cluster(name: str) -> None:
    source = module_source(name)
    functions = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    assert {"run", "main"} <= functions.keys()
    main = functions["main"]
    assert (main.end_lineno or 0) - main.lineno < 40
    if takes_credentials(name):
        assert name in names("action"), "takes cluster credentials, so it is also an action, which costs a fraction"


def test_action_group_holds_what_takes_cluster_credentials() -> None:
    assert set(names("action")) <= set(names("modules"))
    group = yaml.safe_load((ROOT / "meta/runtime.yml").read_text("utf-8"))["action_groups"]["all"]
    listed = [str(item).removeprefix("inferops.dynamo.") for item in group if not isinstance(item, dict)]
    wanted = [
        name for name in names("modules") if "AUTH_SPEC" in (PLUGINS / "modules" / f"{name}.py").read_text("utf-8")
    ]
    assert sorted(listed) == sorted(wanted)
    assert {"metadata": {"extend_group": ["kubernetes.core.k8s"]}} in group


@pytest.mark.xdist_group("groups")
def test_the_tests_of_a_group_run_in_one_worker(request: pytest.FixtureRequest) -> None:
    """pytest 9.2 took away the attribute by which xdist 3.8 marks them, and nothing said so."""
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@groups")
