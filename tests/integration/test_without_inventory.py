# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KUBECONFIG alone: the current context and its namespace, named before anything happens. The facts of the cluster come
as extra variables here; a real cluster of the right size needs only dynamo_storage_class."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from lab import CONTEXT, KUBECONFIG, ROOT, Lab, lab_variables, play

NAMESPACE = "no-inventory"


def test_the_current_context_is_named_and_used(cluster: Lab, tmp_path: Path) -> None:
    config = yaml.safe_load(KUBECONFIG.read_text("utf-8"))
    context = next(item for item in config["contexts"] if item["name"] == CONTEXT)
    context["context"]["namespace"] = NAMESPACE
    server = config["clusters"][0]["cluster"]["server"]
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({**config, "current-context": CONTEXT}), "utf-8")
    (tmp_path / "kubeconfig").chmod(0o600)
    of_inventory = ("dynamo_kubeconfig", "dynamo_context", "dynamo_namespace")
    facts = {name: value for name, value in lab_variables().items() if name not in of_inventory}
    (tmp_path / "facts.yml").write_text(yaml.safe_dump(facts), "utf-8")
    env = {"KUBECONFIG": str(tmp_path / "kubeconfig")}
    cluster.remove([NAMESPACE])
    try:
        run = play(
            "deploy.yml",
            f"--extra-vars=@{tmp_path}/facts.yml",
            "-etarget=sglang-gb300",
            env=env,
            cwd=ROOT / "playbooks",
        )
        assert (run.rc, run.recap("localhost")["failed"]) == (0, 0)
        named = [run.output.find(text) for text in (CONTEXT, server, NAMESPACE)]
        first_change = re.search(r"^changed:", run.output, re.MULTILINE)
        assert first_change and -1 < max(named) < first_change.start(), "all three are named before the first change"
        service = "minimax-m3-1-sglang-agg-gb300-frontend"
        assert "4" in cluster.ask(NAMESPACE, service, "minimax-m3.1", "What is 2 + 2?")
    finally:
        cluster.remove([NAMESPACE])
