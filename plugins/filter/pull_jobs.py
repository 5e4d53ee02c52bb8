# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _proof
from ansible_collections.inferops.dynamo.plugins.module_utils._run import plain

DOCUMENTATION = r"""
name: pull_jobs
short_description: Jobs that pull the new images of a release, as manifests
version_added: 1.0.0
author: inferops.dynamo contributors (@inferops)
description:
  - Makes a Job for each image and node that a plan names. Its pod runs on that node, does nothing and asks for no GPU.
positional: plan
options:
  _input:
    description: The release.
    type: dict
    required: true
  plan:
    description: The plan of M(inferops.dynamo.preflight_info); its C(pulls) are used.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Pull the new images
  inferops.dynamo.manifests:
    definitions: "{{ release | inferops.dynamo.pull_jobs(plan) }}"
"""

RETURN = r"""
_value:
  description: The Jobs.
  type: list
  elements: dict
"""


def pull_jobs(release: Mapping[str, Any], plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The manifests; text of recipes arrives tagged, and leaves plain."""
    found = plain(release)
    return _proof.pull_jobs(found["name"], found["namespace"], plain(plan)["pulls"], int(found["timeouts"]["ready"]))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"pull_jobs": pull_jobs}
