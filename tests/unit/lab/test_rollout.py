# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replica arithmetic of the managed rolling update, against what the real operator was seen to do."""

from __future__ import annotations

import pytest
from render import MAX_SURGE, MAX_UNAVAILABLE
from rollout import Counts, recreate, roll, room

ZERO = {MAX_SURGE: "0", MAX_UNAVAILABLE: "1"}


@pytest.mark.parametrize(
    ("notes", "desired", "expected"),
    [
        ({}, 1, (1, 0)),
        ({}, 2, (1, 0)),
        ({}, 4, (1, 1)),
        ({}, 5, (2, 1)),
        (ZERO, 2, (0, 1)),
        ({MAX_SURGE: "0", MAX_UNAVAILABLE: "0"}, 2, (1, 0)),
        ({}, 0, (1, 0)),
    ],
)
def test_room(notes: dict[str, str], desired: int, expected: tuple[int, int]) -> None:
    assert room(notes, desired) == expected


@pytest.mark.parametrize(
    ("case", "desired", "new", "old", "space", "expected"),
    [
        ("starts with one more", 2, Counts(0, 0), [Counts(2, 2)], (1, 0), (1, [2])),
        ("no room: stands still", 2, Counts(1, 0), [Counts(2, 2)], (1, 0), (1, [2])),
        ("new one is there: one old goes", 2, Counts(1, 1), [Counts(2, 2)], (1, 0), (1, [1])),
        ("then the next comes", 2, Counts(1, 1), [Counts(1, 1)], (1, 0), (2, [1])),
        ("one replica", 1, Counts(1, 1), [Counts(1, 1)], (1, 0), (1, [0])),
        ("broken one on the only slot: stands still", 1, Counts(1, 0), [Counts(1, 0)], (1, 0), (1, [1])),
        ("zero surge: an old one first", 2, Counts(0, 0), [Counts(2, 2)], (0, 1), (0, [1])),
        ("zero surge: then a new one", 2, Counts(0, 0), [Counts(1, 1)], (0, 1), (1, [1])),
        ("zero surge: waits for it", 2, Counts(1, 0), [Counts(1, 1)], (0, 1), (1, [1])),
        ("zero surge: and on", 2, Counts(1, 1), [Counts(1, 1)], (0, 1), (1, [0])),
        ("zero surge repairs a broken one", 1, Counts(0, 0), [Counts(1, 0)], (0, 1), (0, [0])),
        ("unready middle generation goes first", 1, Counts(0, 0), [Counts(1, 1), Counts(1, 0)], (1, 0), (0, [1, 0])),
        ("scaled to nothing", 0, Counts(0, 0), [Counts(2, 1)], (1, 0), (0, [0])),
        ("fewer wanted than are there", 1, Counts(2, 2), [Counts(1, 1)], (1, 0), (1, [0])),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_roll(
    case: str, desired: int, new: Counts, old: list[Counts], space: tuple[int, int], expected: tuple[int, list[int]]
) -> None:
    assert roll(desired, new, old, *space) == expected


def test_recreate() -> None:
    assert recreate(2, [Counts(2, 2)], pods_left=True) == (0, [0])
    assert recreate(2, [Counts(0, 0)], pods_left=False) == (2, [0])
