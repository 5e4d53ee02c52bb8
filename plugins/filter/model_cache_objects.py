# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _model_cache, _safetensors
from ansible_collections.inferops.dynamo.plugins.module_utils._run import plain

DOCUMENTATION = r"""
name: model_cache_objects
short_description: Claim, scripts and download Job of a release, as manifests
version_added: 1.0.0
author: inferops.dynamo contributors (@inferops)
description:
  - Makes what role model_cache applies. The same for all targets of a namespace that share models, claim and image.
positional: options, live
options:
  _input:
    description: The release. Every repository has its commit.
    type: dict
    required: true
  options:
    description:
      - C(verify), C(source), C(hub_endpoint), C(resources), C(run_as), C(backoff_limit) and C(ttl), as the options of
        role model_cache; C(doubted) of a plan; C(proved), true when all repositories have a record and are only looked
        at again; C(prune), the C(superseded) of a plan, to make the Job that deletes those.
    type: dict
    required: true
  live:
    description:
      - The claim and the Job as they are in the cluster. A claim of somebody else is left out of the result; a finished
        Job is made anew, one that runs and does the same is joined.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Create the claim, the scripts and the download Job
  inferops.dynamo.manifests:
    definitions: "{{ release | inferops.dynamo.model_cache_objects(options) }}"
"""

RETURN = r"""
_value:
  description: A PersistentVolumeClaim where it is ours to create, a ConfigMap and a Job.
  type: list
  elements: dict
"""

COLLECTION = Path(__file__).resolve().parents[2]


def scripts() -> dict[str, str]:
    """What the Job mounts: file name -> text. Filters run on the controller, where the files are."""
    files = (COLLECTION / "roles" / "model_cache" / "files" / "download.py", Path(_safetensors.__file__))
    return {file.name: file.read_text("utf-8") for file in files}


def model_cache_objects(release: Any, options: Any, live: Any = ()) -> list[dict[str, Any]]:
    """The manifests; text of recipes arrives tagged, and leaves plain."""
    return _model_cache.objects(plain(release), scripts(), plain(options), plain(live))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"model_cache_objects": model_cache_objects}
