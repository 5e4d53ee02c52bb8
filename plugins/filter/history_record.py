# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _history
from ansible_collections.inferops.dynamo.plugins.module_utils._run import plain

DOCUMENTATION = r"""
name: history_record
short_description: The record of a change of a release, as a ConfigMap
version_added: 1.0.0
author: inferops.dynamo contributors (@inferops)
description:
  - Makes the numbered record that role deploy leaves in the namespace for every change.
positional: plan
options:
  _input:
    description: The release.
    type: dict
    required: true
  plan:
    description: The plan that preflight made for it, with C(record) and C(operator_version).
    type: dict
    required: true
  who:
    description: Who makes the change.
    type: str
    default: ""
  when:
    description: The time, UTC, ISO 8601.
    type: str
    required: true
  outcome:
    description: How it went so far.
    type: str
    default: applied
"""

EXAMPLES = r"""
- name: Keep the record
  ansible.builtin.set_fact:
    deploy_record: "{{ release | inferops.dynamo.history_record(plan, who='eve', when='2026-11-30T15:00:00Z') }}"
"""

RETURN = r"""
_value:
  description: A ConfigMap.
  type: dict
"""


def history_record(
    release: Mapping[str, Any], plan: Mapping[str, Any], *, when: str, who: str = "", outcome: str = "applied"
) -> dict[str, Any]:
    """The ConfigMap; text of recipes arrives tagged, and leaves plain."""
    version = str(plan.get("operator_version") or "")
    return _history.build(
        plain(release),
        int(plan["record"]["number"]),
        who=plain(who),
        when=plain(when),
        outcome=outcome,
        operator_version=version,
    )


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"history_record": history_record}
