# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.inferops.dynamo.plugins.modules import preflight_info
from ansible_collections.inferops.dynamo.plugins.plugin_utils._action import DualAction


class ActionModule(DualAction):
    module = preflight_info
