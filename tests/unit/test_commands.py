# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every command that people are told to type is executed by a test, or stands in commands.yml with what it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
KNOWN: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("commands.yml").read_text("utf-8"))
PROGRAM = re.compile(
    r"(\w+=\S+ |cd \S+ && )*(make|ansible(-\w+)?|kubectl|kind|molecule|pytest|pip|hf|helm|kustomize|docker"
    r"|antsibull-\w+|tools/\S+\.(sh|py)|\.(?= \.venv))( |$)"
)
# In the text these name a thing rather than something to type.
WORDS = {"kubectl apply", "ansible-playbook", "ansible-core", "ansible-runner", "ansible-navigator", "ansible-builder"}
WORDS |= {"kubectl", "kind", "make", "kustomize", "helm", "molecule", "docker", "antsibull-changelog release"}


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(text: str) -> Iterator[str]:
    """Lines of indented blocks and of fenced ones in a shell's language, and code within the text."""
    fence = None
    for line in text.splitlines():
        if line.startswith("```"):
            fence = None if fence is not None else line[3:].strip()
        elif fence is not None:
            if fence in ("sh", "bash", "console"):
                yield line
        elif line.startswith("    "):
            yield line
        else:
            yield from re.findall(r"`([^`]+)`", line)


def commands(page: Path) -> Iterator[str]:
    for line in blocks(page.read_text("utf-8")):
        command = " ".join(re.sub(r"\s\s+#.*", "", line).split())
        if PROGRAM.match(command) and command not in WORDS:
            yield command


def listed() -> list[str]:
    found = [*KNOWN["run"], *KNOWN["lab"], *(c for entry in KNOWN["elsewhere"] for c in entry["commands"])]
    return [*found, *(command for some in KNOWN["needs"].values() for command in some)]


def test_commands_are_found() -> None:
    """Guards the search: one of each kind."""
    found = set(commands(ROOT / "docs/lab.md")) | set(commands(ROOT / "docs/security.md"))
    assert {"make lab-absent", ". .venv/bin/activate", "kubectl apply -n llm -f docs/rbac.yaml"} <= found


def test_every_command_is_executed_or_says_what_it_needs() -> None:
    written = {command: page.name for page in pages() for command in commands(page)}
    assert len(listed()) == len(set(listed())), "listed twice"
    missing = sorted(f"{page}: {command}" for command, page in written.items() if command not in listed())
    assert missing == [], "add these to tests/unit/commands.yml"
    pattern = "ansible-playbook inferops.dynamo.deploy -i inventories/prod -e target=<target>"
    assert sorted(set(listed()) - written.keys() - {pattern}) == [], "in commands.yml, but in no page"


def test_pages_of_targets_have_their_one_command() -> None:
    for page in sorted((ROOT / "docs/targets").glob("*.md")):
        deploy = re.compile(r"ansible-playbook inferops\.dynamo\.deploy -i inventories/prod -e target=\S+")
        assert [c for c in commands(page) if not deploy.fullmatch(c) and c != "make docs"] == [], page.name


@pytest.mark.parametrize("entry", KNOWN["elsewhere"], ids=lambda entry: entry["commands"][0])
def test_what_is_executed_elsewhere_is_there(entry: dict[str, Any]) -> None:
    path = ROOT / entry["file"]
    if not path.exists() and not (ROOT / "tools").exists():
        pytest.skip("ansible-test leaves tools/ out")
    assert entry["text"] in path.read_text("utf-8")
