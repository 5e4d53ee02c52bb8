# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _model_cache
from ansible_collections.inferops.dynamo.plugins.module_utils._run import plain

DOCUMENTATION = r"""
name: model_cache_records
short_description: The records of proved checkpoints, as ConfigMaps
version_added: 1.0.0
author: inferops.dynamo contributors (@inferops)
description:
  - Makes one record for every repository of a release from what the download Job reported. Fails when a repository is
    not among the proofs.
positional: proofs, claims, names_only, doubt, doubt_at
options:
  _input:
    description: The release.
    type: dict
    required: true
  proofs:
    description: RV(inferops.dynamo.job_wait#module:records).
    type: list
    elements: dict
    required: true
  claims:
    description: RV(inferops.dynamo.job_wait#module:claims).
    type: dict
    required: true
  names_only:
    description: Only kind, name and namespace of each, whatever is proved, to remove them.
    type: bool
    default: false
  doubt:
    description: The level of a verification that found something bad, which the records then say. No proof is needed.
    type: str
    default: ""
  doubt_at:
    description: When that was, such as V(2026-11-30T10:00:00Z).
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Record what is proved
  inferops.dynamo.manifests:
    definitions: "{{ release | inferops.dynamo.model_cache_records(done['records'], done['claims']) }}"
"""

RETURN = r"""
_value:
  description: ConfigMaps.
  type: list
  elements: dict
"""


def model_cache_records(
    release: Any, proofs: Any, claims: Any, names_only: bool = False, doubt: str = "", doubt_at: str = ""
) -> list[dict[str, Any]]:
    """The manifests; text of the pod arrives tagged, and leaves plain."""
    if doubt:
        return _model_cache.doubts(plain(release), plain(doubt), plain(claims), plain(doubt_at))
    if names_only:
        return [_model_cache.record_head(plain(release), model) for model in plain(release)["models"]]
    return _model_cache.records(plain(release), plain(proofs), plain(claims))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"model_cache_records": model_cache_records}
