# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError


def test_text_is_one_line_with_the_hint() -> None:
    error = DynamoError("no such\n  target.", "NO_TARGET", "Look at\nthe list.", found="x")
    assert str(error) == "no such target. Look at the list."
    assert (error.message, error.code, error.hint) == ("no such target.", "NO_TARGET", "Look at the list.")


def test_without_hint() -> None:
    assert str(DynamoError("broken.", "BROKEN")) == "broken."


def test_result_keeps_evidence_and_cannot_overwrite_the_message() -> None:
    error = DynamoError("broken.", "BROKEN", "Mend it.", found="x", msg="no")
    assert error.as_result() == {"found": "x", "msg": "broken. Mend it.", "code": "BROKEN", "hint": "Mend it."}
