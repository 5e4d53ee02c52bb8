# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the one error type. Library code raises it; only the plugin base turns it into a failed result."""

from __future__ import annotations

from typing import Any


def paragraph(code: str) -> str:
    """Where the documentation says more about a cause: page and anchor, in the collection's folder."""
    return f"docs/troubleshooting.md#{code.lower()}"


class DynamoError(Exception):
    """What went wrong, in one line for people, with a code for programs.

    :param message: what happened and where; whitespace is folded so that it stays one line.
    :param code: stable upper-case word, for example ``NO_CLUSTER``.
    :param hint: what to do; may be empty.
    :param result: small pieces of evidence that become keys of the failed result.
    """

    def __init__(self, message: str, code: str, hint: str = "", **result: Any) -> None:
        self.message = " ".join(message.split())
        self.code = code
        self.hint = " ".join(hint.split())
        self.result = result
        super().__init__(f"{self.message} {self.hint}".rstrip())

    def as_result(self) -> dict[str, Any]:
        """The keys of a failed task: msg (with the hint), code, hint and the evidence."""
        return {**self.result, "msg": str(self), "code": self.code, "hint": self.hint}
