# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the one error type. Library code raises it; only the plugin base turns it into a failed result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar


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


# An API server that restarts or limits requests says nothing about what is waited for.
UNREACHABLE = ("NO_CLUSTER", "API_ERROR")
# A token may be renewed while a wait of hours goes on; credentials that are refused so often in a row are wrong.
RENEWALS = 3
T = TypeVar("T")


class Passing:
    """Tells errors of reads that go by themselves: no answer, HTTP 5xx, and a token that is renewed meanwhile.

    reconnect: reads the credentials anew; without it a refused token is final.
    """

    def __init__(self, reconnect: Callable[[], Any] | None) -> None:
        self.reconnect, self.refused = reconnect, 0

    def __call__(self, error: DynamoError) -> bool:
        if error.code == "UNAUTHORIZED" and self.reconnect:
            self.refused += 1
            return self.refused <= RENEWALS
        return error.code in UNREACHABLE or int(error.result.get("status") or 0) >= 500

    def renewed(self, cluster: T) -> T:
        """The same connection, or a new one after a refusal."""
        return self.reconnect() if self.refused and self.reconnect else cluster
