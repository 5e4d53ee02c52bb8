# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The managed rolling update of workers: replica arithmetic of one component. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

from render import MAX_SURGE, MAX_UNAVAILABLE, STRATEGY


class Counts(NamedTuple):
    """One generation of one component: replicas asked for, and those that are available."""

    replicas: int
    available: int


def amount(value: str, desired: int, up: bool) -> int:
    """A number or a percentage of `desired`, rounded."""
    if not value.endswith("%"):
        return int(value)
    part = desired * int(value[:-1]) / 100
    return math.ceil(part) if up else math.floor(part)


def room(notes: dict[str, str], desired: int) -> tuple[int, int]:
    """(surge, unavailable) in replicas from a pod template's annotations. Both 0 would stand still: then surge is 1."""
    surge = amount(notes.get(MAX_SURGE, "25%"), desired, up=True)
    unavailable = amount(notes.get(MAX_UNAVAILABLE, "25%"), desired, up=False)
    return (surge, unavailable) if surge or unavailable else (1, 0)


def roll(desired: int, new: Counts, old: list[Counts], surge: int, unavailable: int) -> tuple[int, list[int]]:
    """Next replicas of the new generation and of the old ones (oldest first).

    Unhealthy old replicas go first, but never below `desired - unavailable` counting what is still starting: without
    room for a surge that is a standstill, as with the real operator."""
    total_old = sum(c.replicas for c in old)
    target = min(desired, new.replicas + max(0, desired + surge - total_old - new.replicas))
    target = max(target, min(new.replicas, desired))
    keep = desired - unavailable
    spare = total_old + new.replicas - keep - (new.replicas - new.available)
    next_old = [c.replicas for c in old]
    for i, counts in enumerate(old):
        broken = min(counts.replicas - min(counts.available, counts.replicas), max(spare, 0))
        next_old[i] -= broken
        spare -= broken
    extra = min(max(spare, 0), sum(min(c.available, c.replicas) for c in old) + new.available - keep)
    for i in range(len(old)):
        down = min(next_old[i], max(extra, 0))
        next_old[i] -= down
        extra -= down
    return target, next_old


def recreate(desired: int, old: list[Counts], pods_left: bool) -> tuple[int, list[int]]:
    """Everything old goes before anything new comes."""
    return (0 if pods_left else desired), [0] * len(old)


def is_recreate(notes: dict[str, str]) -> bool:
    return notes.get(STRATEGY) == "Recreate"
