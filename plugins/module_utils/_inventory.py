# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the variables that an inventory or a command line may set, and the kind of value that each takes. Pure.

Checked by the action of target_info, which every playbook runs first. Specifications of roles would name the role's
own variable, in several lines, and only where that role begins.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible.module_utils.common.validation import (
    check_type_bool,
    check_type_dict,
    check_type_float,
    check_type_int,
    check_type_list,
)

from ansible_collections.inferops.dynamo.plugins.module_utils import _http, _hub
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._shape import FLAG, TEXT, found

NUMBER = "a whole number"
PERCENT = "a number from 0"
TEXTS = "a list of texts"
DICTIONARY = "a dictionary"
PATH_OR_DICTIONARY = "a path or a dictionary"
TEXT_OR_DICTIONARY = "a text or a dictionary"
TOKEN = "the token alone, a text without blanks and line breaks"
# A tuple lists the texts that are allowed.

VARIABLES: dict[str, str | tuple[str, ...]] = {
    "dynamo_kubeconfig": PATH_OR_DICTIONARY,
    "dynamo_context": TEXT,
    "dynamo_namespace": TEXT,
    "dynamo_create_namespace": FLAG,
    "dynamo_cluster_uid": TEXT,
    "dynamo_target": TEXT,
    "dynamo_recipe_paths": TEXTS,
    "dynamo_recipe": DICTIONARY,
    "dynamo_gpu": TEXT,
    "dynamo_gpu_products": TEXTS,
    "dynamo_binding": DICTIONARY,
    "dynamo_kustomization": TEXT,
    "dynamo_kustomization_roots": TEXTS,
    "dynamo_kustomize": TEXT,
    "dynamo_model_commit": TEXT_OR_DICTIONARY,
    "dynamo_model_path": TEXT_OR_DICTIONARY,
    "dynamo_worker_liveness": ("recipe", "vendor"),
    "dynamo_trtllm_health_check": FLAG,
    "dynamo_pathway": ("component", "grove"),
    "dynamo_release_name": TEXT,
    "dynamo_synthetic_acceptance": FLAG,
    "dynamo_sync_waves": FLAG,
    "dynamo_surge_room": FLAG,
    "dynamo_ready_timeout": NUMBER,
    "dynamo_cache_claim": TEXT,
    "dynamo_cache_claim_create": FLAG,
    "dynamo_storage_class": TEXT,
    "dynamo_cache_size": TEXT,
    "dynamo_cache_volume": TEXT,
    "dynamo_hf_token": TOKEN,
    "dynamo_secret_name": TEXT,
    "dynamo_secret_key": TEXT,
    "dynamo_hub_endpoint": TEXT,
    "dynamo_download_image": TEXT,
    "dynamo_download_env": DICTIONARY,
    "dynamo_report_dir": TEXT,
    "target": TEXT,
    "allow_gap": FLAG,
    "add_target": FLAG,
    "model_update": FLAG,
    "deploy_adopt": FLAG,
    "deploy_apply": FLAG,
    "benchmark_synthetic_acceptance": FLAG,
}
# Options of roles that an inventory may set and that are read late: a role would refuse them after the first write.
OPTIONS: dict[str, str | tuple[str, ...]] = {
    "preflight_strict": FLAG,
    "preflight_hf_token": TOKEN,
    "hf_secret_token": TOKEN,
    "model_cache_verify": ("recorded", "headers", "sizes", "sha256"),
    "model_cache_source": ("download", "populated"),
    "model_cache_budgets": DICTIONARY,
    "model_cache_prune": FLAG,
    "model_cache_run_as": NUMBER,
    "model_cache_ttl": NUMBER,
    "model_cache_backoff_limit": NUMBER,
    "model_cache_timeout": NUMBER,
    "model_cache_resources": DICTIONARY,
    "compute_domain_timeout": NUMBER,
    "deploy_timeout": NUMBER,
    "deploy_budgets": DICTIONARY,
    "deploy_pull": FLAG,
    "smoke_test_url": TEXT,
    "smoke_test_via": ("auto", "service_proxy", "port_forward", "job", "url"),
    "smoke_test_successes": NUMBER,
    "smoke_test_timeout": NUMBER,
    "smoke_test_request_timeout": NUMBER,
    "smoke_test_junit": TEXT,
    "smoke_test_checks": TEXTS,
    "benchmark_max_regression": PERCENT,
    "benchmark_load": DICTIONARY,
    "benchmark_env": DICTIONARY,
    "benchmark_resources": DICTIONARY,
    "benchmark_node_selector": DICTIONARY,
    "benchmark_run_as": NUMBER,
    "benchmark_beside_frontend": FLAG,
    "benchmark_deadline": NUMBER,
    "teardown_timeout": NUMBER,
    "teardown_cache": FLAG,
    "teardown_secret": FLAG,
    "teardown_records": FLAG,
    "teardown_namespace": FLAG,
}
POSITIVE = ("smoke_test_successes", "smoke_test_request_timeout")  # a smoke test without either proves nothing
# Patterns of hosts are read by ansible before any task runs.
ELSEWHERE = ("dynamo_hosts",)
# Of single playbooks.
PLAYBOOKS = ("rollout_waves", "target_output", "benchmark_baseline", "benchmark_preset")
ROLES = ("preflight_", "hf_secret_", "model_cache_", "compute_domain_", "deploy_", "smoke_test_", "teardown_")
SECRETS = ("dynamo_hf_token", "preflight_hf_token", "hf_secret_token", "dynamo_kubeconfig")
_TOKEN = re.compile(r"[!-~]*")


def check(name: str, value: Any) -> None:
    """DynamoError BAD_OPTION that names the variable, what was found and what is allowed. null is as good as absent."""
    kind = VARIABLES.get(name) or OPTIONS[name]
    nothing = name in POSITIVE and _fits(NUMBER, value) and check_type_int(value) == 0
    if value is None or (_fits(kind, value) and not nothing):
        if name == "dynamo_hub_endpoint" and value:
            _hub.check_endpoint(str(value))
        if name == "smoke_test_url" and value and _http.address_problem(str(value)):
            raise DynamoError(f"smoke_test_url {_http.address_problem(str(value))}.", "BAD_OPTION")
        return
    allowed = kind if isinstance(kind, str) else f"one of {', '.join(kind)}"
    allowed += " above zero" if nothing else ""
    odd = [item for item in value if not _scalar(item) or item == ""] if isinstance(value, list) else []
    if kind == TEXTS and odd:
        allowed = f"a list of texts, without {found(odd[0])}"
    shown = found(value) if name not in SECRETS or not isinstance(value, str) else "something else (it is not shown)"
    raise DynamoError(f"{name} is {shown}; it must be {allowed}.", "BAD_OPTION")


def _fits(kind: str | tuple[str, ...], value: Any) -> bool:
    if isinstance(kind, tuple):
        return value in kind
    if kind == TOKEN:
        return _scalar(value) and bool(_TOKEN.fullmatch(str(value)))
    if kind == TEXT:
        return _scalar(value)
    if kind == PATH_OR_DICTIONARY:
        return isinstance(value, (str, Mapping))
    if kind == TEXT_OR_DICTIONARY:
        return isinstance(value, Mapping) or _scalar(value)
    try:
        if kind == NUMBER:
            return not isinstance(value, bool) and check_type_int(value) >= 0
        if kind == PERCENT:
            return not isinstance(value, bool) and check_type_float(value) >= 0
        if kind == FLAG:
            check_type_bool(value)
        elif kind == DICTIONARY:
            check_type_dict(value)
        else:
            return not _number(value) and all(_scalar(item) and item != "" for item in check_type_list(value))
    except (TypeError, ValueError):
        return False
    return True


def _number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _scalar(value: Any) -> bool:
    """A text, or a number that YAML made of one; true and false are mistakes (yes, no, on, off without quotes)."""
    return isinstance(value, str) or (_number(value) and not isinstance(value, bool))


def mistyped(names: Iterable[str], command_line: Collection[str] = ()) -> None:
    """DynamoError BAD_OPTION for a variable that nobody reads and that is nearly one of ours.

    :param names: variables of the host. Those of an inventory may have any name: only what begins like ours is looked
        at, and what is like a variable that is set may be the inventory's own.
    :param command_line: those of -e, which are meant for this run.
    """
    given = set(names)
    unset = [name for name in VARIABLES if name not in given]
    known = {*VARIABLES, *OPTIONS, *ELSEWHERE, *PLAYBOOKS}
    for name in sorted({*given, *command_line} - known):
        if name in command_line:
            close = difflib.get_close_matches(name.lower(), sorted(known), 1, 0.88)
        elif name.startswith("dynamo_"):
            close = difflib.get_close_matches(name, unset, 1, 0.88)
        else:
            close = difflib.get_close_matches(name, OPTIONS, 1, 0.92) if name.startswith(ROLES) else []
        if close:
            raise DynamoError(f"{name} is no variable of this collection; did you mean {close[0]}?", "BAD_OPTION")
