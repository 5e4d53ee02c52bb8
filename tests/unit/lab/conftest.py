# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's programs are no package: tests take them from their directories."""

from __future__ import annotations

import sys
from pathlib import Path

FILES = Path(__file__).resolve().parents[3] / "roles/lab/files"
for directory in ("platform", "image"):
    if str(FILES / directory) not in sys.path:
        sys.path.append(str(FILES / directory))
