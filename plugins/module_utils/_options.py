# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the flat choices of an inventory, checked before anything is rendered or written. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _rules, _shape
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

# Kubernetes' own limits: a name of a namespace or label value has 63 characters, keys of a Secret 253.
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
QUANTITY = re.compile(rf"(?!0+(\.0*)?\D*$){_shape.QUANTITY.pattern}")

_NAME_RULE = "a Kubernetes name: up to 63 lower-case letters, digits, . and -"
_RULES = {
    "namespace": ("dynamo_namespace", LABEL, "a namespace's name: up to 63 lower-case letters, digits and -"),
    "cache_claim": ("dynamo_cache_claim", NAME, _NAME_RULE),
    "storage_class": ("dynamo_storage_class", NAME, _NAME_RULE),
    "cache_volume": ("dynamo_cache_volume", NAME, _NAME_RULE),
    "secret_name": ("dynamo_secret_name", NAME, _NAME_RULE),
    "secret_key": ("dynamo_secret_key", KEY, "a key of a Secret: letters, digits, ., _ and -"),
    "cache_size": ("dynamo_cache_size", QUANTITY, "a size above zero, such as 500Gi"),
}


def check(options: Mapping[str, Any]) -> None:
    """DynamoError BAD_OPTION that names the variable, what was found and what is allowed; empty values pass."""
    for option, (variable, pattern, allowed) in _RULES.items():
        value = options.get(option)
        if value and not pattern.fullmatch(str(value)):
            raise DynamoError(f"{variable} is {str(value)!r}; it must be {allowed}.", "BAD_OPTION")
    size = str(options.get("cache_size") or "1Gi")
    if _rules.quantity(size) < 2**20:
        raise DynamoError(
            f"dynamo_cache_size is {size!r}, that many bytes; give it a unit, such as 500Gi.", "BAD_OPTION"
        )
    timeout = options.get("ready_timeout") or 0
    if timeout < 0:
        raise DynamoError(f"dynamo_ready_timeout is {timeout}; it must be at least 1 second.", "BAD_OPTION")
