# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: answers of an API server that are no answer to the question, as DynamoErrors of one line. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._objects import ADOPTABLE, KUBECTL

CHECK_WHICH = "Check dynamo_kubeconfig and dynamo_context."


def unreachable(error: Exception, server: str) -> DynamoError:
    """No answer at all. server: its address and context."""
    return DynamoError(
        f"no answer from the API server {server}: {one_line(reason_of(error))}.",
        "NO_CLUSTER",
        f"Is the cluster up and its address right? {CHECK_WHICH}",
    )


def refusal(error: Any, verb: str, title: str, server: str) -> DynamoError:
    """One line for an HTTP status.

    :param error: has status, body and reason, as the client's exceptions do.
    :param verb: what was asked for, of `title`, an object or objects.
    :param server: its address and context.
    """
    status = status_of(error.body)
    message = one_line(status.get("message") or error.body or error.reason or "")
    details = status.get("details") or {}
    code, hint, extra = "REFUSED", "", {"status": error.status}
    text = f"the API server refused to {verb} {title}: {message}"
    if error.status == 401:
        code, hint = "UNAUTHORIZED", "Renew the login of the kubeconfig that dynamo_kubeconfig names."
        text = f"the API server {server} does not accept the credentials (401)."
    elif error.status == 403 and "cannot" in message:
        code, hint = "FORBIDDEN", "Grant this user the verb and resource named; docs/rbac.yaml has them all."
        text = f"not allowed to {verb} {title}: {message}."
    elif error.status == 404 and details.get("kind") == "namespaces":
        code, hint = "NAMESPACE_ABSENT", "Create it, or check dynamo_namespace."
        text = f"{title}: the namespace {details.get('name')} does not exist."
    elif error.status == 409:
        code, hint = "CONFLICT", "Something else wrote it meanwhile; run again."
        text = f"cannot {verb} {title}: {message}."
    elif error.status in (429, 502, 503, 504):
        code, hint = "API_ERROR", "Try again later."
        text = f"cannot {verb} {title}: the API server cannot answer now ({error.status}): {message}."
    elif "failed calling webhook" in message:
        hint = "An admission webhook does not answer: look at the pods of the operator it belongs to."
    return DynamoError(text, code, hint, **extra)


def conflict(
    causes: list[dict[str, str]], wanted: Mapping[str, Any], live: Mapping[str, Any], title: str
) -> DynamoError:
    """Fields of other managers: who has what there, and what we want there. The values of Secrets are left out."""
    conflicts = []
    for cause in causes:
        field, manager = cause["field"], re.search(r'conflict with "([^"]+)"', cause.get("message", ""))
        entry = {"manager": manager.group(1) if manager else "unknown", "field": field}
        if wanted["kind"] != "Secret":
            entry.update(live=_short(field_value(live, field)), wanted=_short(field_value(wanted, field)))
        conflicts.append(entry)
    shown = "; ".join(
        f"{c['manager']} set {c['field']}" + (f" to {c['live']}, wanted is {c['wanted']}" if "live" in c else "")
        for c in conflicts[:3]
    )
    more = f"; and {len(conflicts) - 3} more" if len(conflicts) > 3 else ""
    # Equal values are no conflict: whoever set a field keeps it, and nothing has to be taken away from them.
    hint = "Take the change over into the inventory, or set it back in the cluster to what is wanted; then run again."
    if wanted["kind"] in ADOPTABLE:
        others = sorted({c["manager"] for c in conflicts} - {*KUBECTL})
        adopt = "-e deploy_adopt=true takes over what kubectl apply or create set"
        hint += f" {adopt}, but not what {' and '.join(others)} set." if others else f" {adopt}."
    return DynamoError(f"{title} has fields of another manager: {shown}{more}.", "CONFLICT", hint, conflicts=conflicts)


def causes_of(error: Any) -> list[dict[str, str]]:
    """The causes of a status 409 that name a field: those of server-side apply."""
    causes = (status_of(error.body).get("details") or {}).get("causes") or []
    return [cause for cause in causes if cause.get("field")]


def field_value(obj: Any, path: str) -> Any:
    """The value at a managedFields path such as `.spec.components[name="Worker"].replicas`; None when there is none.

    Names in a path are not escaped (`.metadata.labels.app.kubernetes.io/name`), so the longest key that fits is taken.
    """
    while path:
        if isinstance(obj, Mapping) and path.startswith("."):
            keys = [k for k in obj if path == f".{k}" or path.startswith((f".{k}.", f".{k}["))]
            if not keys:
                return None
            key = max(keys, key=len)
            obj, path = obj[key], path[len(key) + 1 :]
            continue
        step = re.match(r"\[([^\]]*)\]", path)
        if not isinstance(obj, (list, tuple)) or not step:
            return None
        obj, path = _element(obj, step.group(1)), path[step.end() :]
    return obj


def _element(items: Any, selector: str) -> Any:
    if selector.isdecimal():
        return items[int(selector)] if int(selector) < len(items) else None
    if selector.startswith("="):
        return next((i for i in items if json.dumps(i) == selector[1:]), None)
    try:
        wanted = {k: json.loads(v) for k, v in re.findall(r'([^=,]+)=("[^"]*"|[^,]+)', selector)}
    except ValueError:
        return None
    return next((i for i in items if isinstance(i, Mapping) and all(i.get(k) == v for k, v in wanted.items())), None)


def title_of(kind: str, name: str, namespace: str | None) -> str:
    return f"{kind} {namespace + '/' if namespace and name else ''}{name}".strip() + (
        f"s in {namespace}" if namespace and not name else ""
    )


def status_of(body: Any) -> dict[str, Any]:
    """The Status object of an error answer, or an empty dictionary when the body is something else."""
    try:
        parsed = json.loads(body)
    except (TypeError, ValueError):
        return {}
    ours = isinstance(parsed, dict) and parsed.get("kind") == "Status" and parsed.get("apiVersion") == "v1"
    return parsed if ours else {}


def reason_of(error: Any) -> Any:
    """What lies below the wrappers of urllib3."""
    while isinstance(getattr(error, "reason", None), Exception):
        error = error.reason
    return error


def one_line(text: Any) -> str:
    """One line; urllib3 puts the object that failed in front of its reason."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    folded = " ".join(str(text).split()).rstrip(".")
    folded = re.sub(r"^<?[\w.]*(Connection|Pool)\b[^>]*?(>|\)): ", "", folded)
    return folded if len(folded) <= 1000 else folded[:997] + "..."


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
