# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _options
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cache_claim": "", "ready_timeout": 0},
        {"cache_claim": "shared-model-cache", "cache_size": "1.5Ti", "secret_key": "HF_TOKEN", "namespace": "llm"},
        {"cache_size": "1000Gi", "storage_class": "nfs.example", "ready_timeout": 1},
    ],
)
def test_what_kubernetes_takes_passes(options: dict[str, Any]) -> None:
    _options.check(options)


@pytest.mark.parametrize(
    ("options", "variable"),
    [
        ({"cache_claim": "A B"}, "dynamo_cache_claim"),
        ({"cache_claim": "['x']"}, "dynamo_cache_claim"),
        ({"cache_claim": "x" * 64}, "dynamo_cache_claim"),
        ({"cache_size": "lots"}, "dynamo_cache_size"),
        ({"cache_size": "-5"}, "dynamo_cache_size"),
        ({"cache_size": "0Gi"}, "dynamo_cache_size"),
        ({"cache_size": "500"}, "dynamo_cache_size is '500', that many bytes"),
        ({"secret_name": "A B"}, "dynamo_secret_name"),
        ({"secret_key": "a/b c"}, "dynamo_secret_key"),
        ({"storage_class": "Fast"}, "dynamo_storage_class"),
        ({"namespace": "a.b"}, "dynamo_namespace"),
        ({"ready_timeout": -1}, "dynamo_ready_timeout"),
    ],
)
def test_anything_else_names_the_variable(options: dict[str, Any], variable: str) -> None:
    with pytest.raises(DynamoError, match=variable) as error:
        _options.check(options)
    assert error.value.code == "BAD_OPTION"
