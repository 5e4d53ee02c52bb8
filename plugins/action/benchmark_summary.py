# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module of the same name, run inside the worker process where that is possible, and its table on the screen."""

from __future__ import annotations

from typing import Any

from ansible.utils.display import Display

from ansible_collections.inferops.dynamo.plugins.modules import benchmark_summary
from ansible_collections.inferops.dynamo.plugins.plugin_utils._action import DualAction

display = Display()


class ActionModule(DualAction):
    module = benchmark_summary

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        for line in result.pop("table", []):
            display.display(line)
        if result.get("page"):
            display.display(f"page: {result['page']}")
        return result
