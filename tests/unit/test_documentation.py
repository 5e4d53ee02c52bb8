# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation names everything that the code has, and nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
# Upper-case texts of the code that are no codes: environment variables, levels and states, words of protocols.
NOT_CODES = re.compile(
    r"(CUDA|DG|DYN|ETCD|FLASHINFER|GLOO|HF|HUGGING(_)?FACE|XDG|KUBERNETES|K8S|NATS|NCCL|NVIDIA|SGLANG|SPECULATIVE)_\w+"
    r"|(TORCHINDUCTOR|TRANSFORMERS|TRITON|TRTLLM|UCX|VLLM)_\w+|KUBECONFIG|HOME|PASS|WARN|FAIL|UNKNOWN|READY|STARTING"
    r"|DEGRADED|TERMINAL|COMPLETE|INCOMPLETE|CORRUPT|ERROR|GET|POST|PUT|PATCH|DELETE|HEAD|DONE|DIR|[A-Z]"
    r"|ALL|ASK|BOOKMARK|CONSTRAINTS|GB|MB|NCCL|PYTHON[A-Z]+"
    r"|IPC_LOCK|SYS_\w+"
    # element types of safetensors
    r"|BOOL|BF16|[CFIU]\d+(_\w+)?"
)


@cache
def code_constants() -> list[tuple[str, str]]:
    return list(upper_case())


def upper_case() -> Iterator[tuple[str, str]]:
    """(text, file) of every upper-case string in the plugins: what is no code must be named in NOT_CODES."""
    for path in sorted((ROOT / "plugins").glob("*/*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and CODE.fullmatch(text) and not NOT_CODES.fullmatch(text):
                yield text, path.name


# Where the causes come from that end a wait or a smoke test: each has a paragraph, and an anchor that results refer to.
CAUSES = {"_diagnose.py", "_podcauses.py", "_scheduling.py", "_dgdwait.py", "_smoke.py", "_ready.py"}
# What the API server says in between.
ELSEWHERE = {"NO_CLUSTER", "API_ERROR", "API_ABSENT", "FORBIDDEN", "UNAUTHORIZED"}


def paragraphs() -> dict[str, str]:
    """What stands below the heading of each code."""
    page = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
    found = re.findall(r"^### ([A-Z0-9_]+)\n\n((?:[^#\n].*\n)+)", page, re.M)
    assert len(found) == len(dict(found)), "a code has two headings"
    return dict(found)


def documented_codes() -> set[str]:
    """First cells of the tables of the page, and its headings."""
    page = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
    return {*re.findall(r"^\| `([A-Z0-9_]+)` \|", page, re.M), *paragraphs()}


def test_every_cause_has_its_paragraph() -> None:
    causes = {code for code, name in code_constants() if name in CAUSES} - ELSEWHERE
    assert sorted(causes ^ paragraphs().keys()) == []
    assert [code for code, text in paragraphs().items() if len(text.split()) < 8] == []


def test_every_code_is_explained() -> None:
    missing = sorted({f"{code} ({name})" for code, name in code_constants() if code not in documented_codes()})
    assert missing == [], "add these to docs/troubleshooting.md (or, if they are no codes, to NOT_CODES here)"


def test_every_explained_code_exists() -> None:
    assert sorted(documented_codes() - {code for code, _name in code_constants()}) == []


def variables_in_use() -> set[str]:
    found: set[str] = set()
    for folder in ("roles", "playbooks", "plugins"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in {".py", ".yml"} and "collections" not in path.parts:
                found |= set(re.findall(r"\bdynamo_[a-z0-9_]+\b", path.read_text("utf-8")))
    return found


def documented_variables() -> set[str]:
    page = (ROOT / "docs/inventory.md").read_text("utf-8")
    return set(re.findall(r"^\| `(dynamo_[a-z0-9_]+)` \|", page, re.M))


def test_every_inventory_variable_is_documented_and_used() -> None:
    assert sorted(variables_in_use() - documented_variables()) == [], "used, but not in docs/inventory.md"
    assert sorted(documented_variables() - variables_in_use()) == [], "in docs/inventory.md, but not used"


def defaults_in_roles() -> dict[str, set[str]]:
    """What the roles take a variable for that the inventory doesn't set, as written after `default(`."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "roles").glob("*/defaults/main.yml"):
        pattern = r"\{\{ (dynamo_\w+) \| default\(([^()|]*)\) \}\}"
        for name, value in re.findall(pattern, path.read_text("utf-8")):
            found.setdefault(name, set()).add(value.strip("'"))
    return found


def test_documented_defaults_are_those_of_the_roles() -> None:
    page = (ROOT / "docs/inventory.md").read_text("utf-8")
    documented = dict(re.findall(r"^\| `(dynamo_[a-z0-9_]+)` \| ([^|]*?) ?\|", page, re.M))
    wrong = []
    for name, values in defaults_in_roles().items():
        literal = re.fullmatch(r"`([^`]*)`", documented.get(name, ""))
        # Without a literal the page says in words, or leaves empty, what stands for "not set".
        wanted = {literal[1]} if literal else {"", "0", "[]", "{}"}
        if not values <= wanted:
            wrong.append(f"{name}: {documented.get(name)} in docs/inventory.md, {sorted(values)} in roles")
    assert wrong == []
    assert len(defaults_in_roles()) > 20, "guards the search"


def test_links_of_the_documentation_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "roles").glob("*/README.md")]:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
            if "://" not in link and not (page.parent / link).exists():
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert not broken
