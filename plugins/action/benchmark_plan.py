# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module of the same name, run inside the worker process where that is possible."""

from __future__ import annotations

from ansible_collections.inferops.dynamo.plugins.modules import benchmark_plan
from ansible_collections.inferops.dynamo.plugins.plugin_utils._action import DualAction


class ActionModule(DualAction):
    module = benchmark_plan
