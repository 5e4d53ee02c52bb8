# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests on the lab (make lab)."""

from __future__ import annotations

import pytest
from lab import KUBECONFIG, Lab


@pytest.fixture(scope="session")
def cluster() -> Lab:
    assert KUBECONFIG.is_file(), f"{KUBECONFIG} is missing: run `make lab` first"
    return Lab()
