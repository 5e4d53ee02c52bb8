# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what our plugins support, said once."""

from __future__ import annotations


class ModuleDocFragment:
    """Fragment `_attributes` for every plugin; `_attributes.cluster` in addition for those with cluster access."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    support: full
    description: Can run in check mode and says what would change, without changing anything.
  diff_mode:
    support: full
    description: Says what has changed, or in check mode would change, if anything does.
"""

    CLUSTER = r"""
options: {}
attributes:
  action:
    support: full
    description:
      - There is an action of the same name. It does the work in the controller's process when the connection is local
        and there is no async, become or delegate_to; otherwise the module does it where the task says.
  async:
    support: full
    description: Supports the C(async) property.
  action_group:
    support: full
    description: Use C(group/inferops.dynamo.all) in C(module_defaults) to set defaults.
    membership:
      - inferops.dynamo.all
"""
