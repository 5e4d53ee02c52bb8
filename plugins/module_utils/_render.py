# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: a release as the YAML that a GitOps repository keeps: the same bytes for the same release. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _yaml
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import Manifest

SYNC_WAVE = "argocd.argoproj.io/sync-wave"


def objects(release: Mapping[str, Any], sync_waves: bool = False) -> list[Manifest]:
    """ConfigMaps, ComputeDomain and DynamoGraphDeployment of a release; with sync waves the deployment comes last."""
    domain = release["compute_domain"]
    found = [*release["config_maps"], *([domain["manifest"]] if domain else []), release["manifest"]]
    made: list[Manifest] = json.loads(json.dumps(found))  # nothing shared, so that YAML needs no anchors
    for manifest in made if sync_waves else []:
        wave = "0" if manifest["kind"] == "DynamoGraphDeployment" else "-1"
        manifest["metadata"].setdefault("annotations", {})[SYNC_WAVE] = wave
    return made


def render(release: Mapping[str, Any], sync_waves: bool = False) -> str:
    """The release's objects as YAML, below comments that say what else the namespace must hold. No Secret is in it."""
    volume = release["claim"].get("volume")
    where = f"volume {next(iter(volume))}" if volume else f"claim {release['claim']['name']}"
    lines = [
        f"# {release['target']} in namespace {release['namespace']}, rendered by inferops.dynamo. Not edited by hand.",
        *(f"# Needs in {where}: {m['id']} at {m['commit'] or 'a commit'}, {m['path']}" for m in release["models"]),
        f"# Needs for downloads of gated models: Secret {release['secret']['name']}, key {release['secret']['key']}",
    ]
    documents = [_yaml.dump(manifest) for manifest in objects(release, sync_waves)]
    return "".join(f"{line}\n" for line in lines) + "".join(f"---\n{document}" for document in documents)
