# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long binding one M3 disagg recipe takes in a running process, and `kustomize build` of the same."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "collections")]

from ansible_collections.inferops.dynamo.plugins.module_utils import _bind, _catalog  # noqa: E402
from ansible_collections.inferops.dynamo.plugins.module_utils._binding import normalise  # noqa: E402
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils import starter  # noqa: E402
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils.test__bind_parity import choice  # noqa: E402

TARGET = "minimax-m3/vllm/disagg-gb200-agentic"
CHOSEN = ("cache-binding", "registry-credentials", "probes", "scheduling", "network-interface", "placement")
ROUNDS = 9


def median(work: Callable[[], Any], times: int) -> float:
    """Milliseconds of one call, the median of ROUNDS measurements of `times` calls."""
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(times):
            work()
        found.append((time.perf_counter() - began) * 1000 / times)
    return statistics.median(found)


def main() -> None:
    if not starter.STARTER.exists() or not starter.built():
        print("binding: the vendor's starter or kustomize v5.8.1 isn't there, nothing to compare with")
        return
    catalog = _catalog.find([str(ROOT / "roles/target/files/recipes")])
    recipe = _catalog.read(TARGET, catalog)
    binding: dict[str, Any] = {}
    for component in CHOSEN:
        binding |= choice(component, "disagg")
    site = _bind.Site(namespace="llm", claim="models")
    ours = median(lambda: _bind.bind(recipe.manifests, normalise(binding), site), 10)
    with tempfile.TemporaryDirectory() as directory:
        base = Path(catalog[TARGET]) / "deploy.yaml"
        place = str(starter.fill(Path(directory), base, "disagg", dict.fromkeys(CHOSEN)))
        command = [str(starter.KUSTOMIZE), "build", "--load-restrictor", "LoadRestrictionsNone", place]
        theirs = median(lambda: subprocess.run(command, check=True, capture_output=True), 1)
    print(
        f"binding of {TARGET}: {ours:.1f} ms; kustomize build of the same: {theirs:.0f} ms; ratio {theirs / ours:.0f}"
    )


if __name__ == "__main__":
    main()
