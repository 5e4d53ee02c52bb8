# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rendering for GitOps: what was rendered is the release, and the same every time."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils import _catalog, _release, _render

from .test__catalog import CATALOG, EIGHT

DISAGG = EIGHT[7]


def release(target: str, **options: Any) -> dict[str, Any]:
    return _release.build(_catalog.read(target, CATALOG), {"namespace": "llm", **options})


@pytest.mark.parametrize("target", EIGHT)
def test_the_same_objects_and_the_same_bytes(target: str) -> None:
    made = release(target)
    text = _render.render(made)
    assert text == _render.render(release(target))
    domain = [made["compute_domain"]["manifest"]] if made["compute_domain"] else []
    assert list(yaml.safe_load_all(text)) == [*made["config_maps"], *domain, made["manifest"]]
    assert "&id" not in text
    assert text.endswith("\n")


def test_what_a_reader_needs() -> None:
    text = _render.render(release(DISAGG, secret_name="hub"))
    assert "\n# Needs in claim shared-model-cache: nvidia/MiniMax-M3-NVFP4 at 901464083161" in text
    assert "Secret hub, key HF_TOKEN" in text
    assert "speculative-config: |-\n" in text
    assert "Secret\n" not in text
    volume = _render.render(release(DISAGG, binding={"cache_volume": {"nfs": {"server": "s", "path": "/p"}}}))
    assert "# Needs in volume nfs: " in volume


def test_sync_waves() -> None:
    made = release(DISAGG)
    waves = [m["metadata"]["annotations"][_render.SYNC_WAVE] for m in _render.objects(made, sync_waves=True)]
    assert waves == ["-1", "-1", "0"]
    assert _render.SYNC_WAVE not in str(made)
