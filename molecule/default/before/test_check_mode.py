# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""After `--check --diff` in an empty namespace nothing is there but the namespace that prepare.yml made."""

from __future__ import annotations

from lab import Lab


def test_check_mode_created_nothing() -> None:
    lab = Lab()
    assert "mol-default" in lab.namespaces()
    assert lab.objects("mol-default") == {}
