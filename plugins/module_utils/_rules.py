# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what Kubernetes takes as a key, a label, an image, a toleration, as shapes. Pure.

A dry run of the deployment doesn't find mistakes in its pods: it is accepted, and the pods never come to be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._shape import ANYTHING, COUNT, QUANTITY, TEXT

_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_PART}(\.{_PART})*"
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_HOST = r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*)(:\d+)?"
_FOLDER = r"[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*"
_TAG = r"\w[\w.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"

Pattern = tuple[re.Pattern[str], str]
_QUALIFIED = rf"((?=[^/]{{1,253}}/){_SUBDOMAIN}/)?{_WORD}"
KEY: Pattern = (
    re.compile(_QUALIFIED),
    "a Kubernetes key such as example.com/name, up to 63 characters after the slash",
)
# Of an annotation the letters of the prefix may be large.
ANNOTATION_KEY: Pattern = (re.compile(_QUALIFIED, re.I), KEY[1])
LABEL: Pattern = (re.compile(rf"({_WORD})?"), "a label value: up to 63 letters, digits, ., _ and -")
OBJECT: Pattern = (re.compile(rf"(?=.{{1,253}}\Z){_SUBDOMAIN}"), "a name of lower-case letters, digits, . and -")
IMAGE: Pattern = (
    re.compile(rf"(?=.{{1,1024}}\Z)({_HOST}/)?{_FOLDER}(/{_FOLDER})*(:{_TAG})?(@{_DIGEST})?", re.ASCII),
    "an image such as registry.example.com/path/name:tag",
)
REGISTRY: Pattern = (
    re.compile(rf"{_HOST}(/{_FOLDER})*/?"),
    "a registry and path such as mirror.example.com/nvcr, without a scheme or user",
)
LABELS: dict[str, Any] = {"...keys": KEY, "...": LABEL}
ANNOTATIONS: dict[str, Any] = {"...keys": ANNOTATION_KEY, "...": TEXT}
TOLERATION: dict[str, Any] = {
    "key": KEY,
    "operator": ("Exists", "Equal", "Lt", "Gt"),
    "value": LABEL,
    "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute"),
    "tolerationSeconds": COUNT,
}
_EXPRESSIONS = [{"key!": TEXT, "operator!": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"), "values": [TEXT]}]
_NODES: dict[str, Any] = {"matchExpressions": _EXPRESSIONS, "matchFields": _EXPRESSIONS}
_POD_AFFINITY = {
    f"{kind}DuringSchedulingIgnoredDuringExecution": [{"...": ANYTHING}] for kind in ("required", "preferred")
}
AFFINITY: dict[str, Any] = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms!": [_NODES]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight!": COUNT, "preference!": _NODES}],
    },
    "podAffinity": _POD_AFFINITY,
    "podAntiAffinity": _POD_AFFINITY,
}
_FACTORS = {"": Decimal(1), "m": Decimal("0.001")}
for _power, _unit in enumerate(("k", "M", "G", "T", "P", "E"), 1):
    _FACTORS |= {_unit: Decimal(1000) ** _power, f"{_unit.upper()}i": Decimal(1024) ** _power}


def toleration(given: Mapping[str, Any]) -> str:
    """What is wrong with a toleration of the right shape, or nothing."""
    exists = given.get("operator") == "Exists"
    if not given.get("key") and not exists:
        return "needs a key; without one only operator Exists is allowed"
    if exists and given.get("value"):
        return "operator Exists takes no value"
    if given.get("tolerationSeconds") is not None and given.get("effect") != "NoExecute":
        return "tolerationSeconds needs effect NoExecute"
    return ""


def quantity(amount: str) -> Decimal:
    """An amount that matches QUANTITY, in base units."""
    match = QUANTITY.fullmatch(amount)
    unit = (match[3] if match else "") or ""
    if unit[:1] in ("e", "E") and len(unit) > 1 and unit != "Ei":
        return Decimal(amount)
    return Decimal(amount.removesuffix(unit)) * _FACTORS[unit]
