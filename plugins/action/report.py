# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from typing import Any

from ansible.utils.display import Display

from ansible_collections.inferops.dynamo.plugins.module_utils import _report
from ansible_collections.inferops.dynamo.plugins.modules import report
from ansible_collections.inferops.dynamo.plugins.plugin_utils._action import DualAction

display = Display()


class ActionModule(DualAction):
    module = report

    def add_params(self, params: dict[str, Any], task_vars: dict[str, Any]) -> None:
        """The rows: of all hosts on the first host that is still in the play, else its own."""
        if not isinstance(params.get("directory"), str):
            params.pop("directory", None)  # target_info has refused it
        everybody, alive = task_vars["ansible_play_hosts_all"], task_vars["ansible_play_hosts"]
        own = task_vars["inventory_hostname"]
        reporter = next((host for host in everybody if host in alive), own)
        hostvars, check, now = task_vars["hostvars"], self._task.check_mode, time.time()
        hosts = everybody if own == reporter else [own]
        # raw_get: what came from a cluster must not be templated.
        params["rows"] = [_report.row(h, hostvars.raw_get(h), h in alive, check, now) for h in hosts]
        params["host"] = own
        params["show"] = own == reporter

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        for line in result.pop("table", []):
            display.display(line)
        if result.get("failed") and result.get("code") != report.DIRECTORY:
            # ansible has printed the cause with the task that failed, and the table has it
            result["msg"] = f"failed{' with ' if result['code'] else ''}{result['code']}: the closing table says why."
            result["hint"] = ""
        if result.get("path"):
            display.display(f"report: {result['path']}")
        return result
