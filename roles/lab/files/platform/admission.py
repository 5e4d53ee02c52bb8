# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Admission of DynamoGraphDeployments: `review()` is pure, `serve()` puts it behind TLS.

Only what the real webhooks answer. What the CRD's schema and CEL rules refuse (types, enums, patterns, unique names,
restart at create) is theirs."""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Object = dict[str, Any]

PROVIDER = "nvidia.com/workload-provider"
ORIGIN = "nvidia.com/dynamo-operator-origin-version"
EXECUTOR = "nvidia.com/vllm-distributed-executor-backend"
QUANTITY = re.compile(r"[+-]?[0-9.]+([eEinumkKMGTP]*[-+]?[0-9]*)")
SEMANTIC_TAG = re.compile(r"v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)([-+][0-9A-Za-z.+-]+)?")
IMMUTABLE = "field is immutable"
REASONS = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Forbidden": "FieldValueForbidden",
}


class Problem(NamedTuple):
    """A field error; text starts with its type, as the API spells it."""

    field: str
    text: str

    @property
    def reason(self) -> str:
        return REASONS[self.text.split(":")[0]]


def required(field: str, text: str = "is required") -> Problem:
    return Problem(field, f"Required value: {text}")


def invalid(field: str, value: Any, text: str) -> Problem:
    return Problem(field, f"Invalid value: {json.dumps(value, separators=(',', ':'))}: {text}")


def forbidden(field: str, text: str) -> Problem:
    return Problem(field, f"Forbidden: {text}")


# ---- mutation --------------------------------------------------------------------------------------------------------
def defaults(obj: Object, version: str) -> list[Object]:
    """JSON patch of a created DGD. A provider given by the user is overwritten."""
    notes = {**(obj["metadata"].get("annotations") or {}), PROVIDER: "component", ORIGIN: version}
    patch: list[Object] = [{"op": "add", "path": "/metadata/annotations", "value": notes}]
    for i, component in enumerate(obj["spec"].get("components") or []):
        if component.get("replicas") is None:
            patch.append({"op": "add", "path": f"/spec/components/{i}/replicas", "value": 1})
    return patch


def quantities(obj: Object) -> Iterator[Any]:
    for component in obj["spec"].get("components") or []:
        if "sharedMemorySize" in component:
            yield component["sharedMemorySize"]
        pod = (component.get("podTemplate") or {}).get("spec") or {}
        for container in [*(pod.get("containers") or []), *(pod.get("initContainers") or [])]:
            resources = container.get("resources") or {}
            for kind in ("requests", "limits"):
                yield from (resources.get(kind) or {}).values()


def undecodable(obj: Object) -> bool:
    """The webhook cannot read such an object at all, which hides every other error."""
    return any(not QUANTITY.fullmatch(str(value)) for value in quantities(obj))


# ---- validation ------------------------------------------------------------------------------------------------------
def has_version(image: str) -> bool:
    tag = image.rsplit("/", 1)[-1].partition(":")[2]
    return "@" not in image and bool(SEMANTIC_TAG.fullmatch(tag))


def component_problems(obj: Object) -> Iterator[Problem]:
    components = obj["spec"].get("components") or []
    if not components:
        yield required("spec.components", "must have at least one component")
    for i, component in enumerate(components):
        at = f"spec.components[{i}]"
        containers = ((component.get("podTemplate") or {}).get("spec") or {}).get("containers") or []
        place, main = next(((n, c) for n, c in enumerate(containers) if c.get("name") == "main"), (0, None))
        if main is None:
            yield required(f"{at}.podTemplate.spec.containers")
        elif not main.get("image"):
            yield required(f"{at}.podTemplate.spec.containers[{place}].image")
        elif not component.get("runtimeVersionOverride") and not has_version(main["image"]):
            text = "is required when the specified main container image has no parseable semantic-version tag"
            yield required(f"{at}.runtimeVersionOverride", text)


def graph_problems(obj: Object) -> Iterator[Problem]:
    if obj["spec"].get("priorityClassName"):
        text = 'requires the Grove pathway, but workload provider "component" is selected'
        yield forbidden("spec.priorityClassName", text)
    executor = (obj["metadata"].get("annotations") or {}).get(EXECUTOR)
    if executor is not None and executor not in ("mp", "ray"):
        yield invalid(f"metadata.annotations[{EXECUTOR}]", executor, 'must be "mp" or "ray"')


def restart_problems(new: Object, old: Object) -> Iterator[Problem]:
    restart = new["spec"].get("restart") or {}
    before = old["spec"].get("restart") or {}
    phase = old.get("status", {}).get("rollingUpdate", {}).get("phase")
    if restart.get("id") != before.get("id") and restart and phase in ("Pending", "InProgress"):
        yield invalid("spec.restart.id", restart["id"], f"cannot be changed while a rolling update is {phase}")
    strategy = restart.get("strategy") or {}
    order = strategy.get("order")
    if order is None:
        return
    if strategy.get("type") == "Parallel":
        yield forbidden("spec.restart.strategy.order", "cannot be specified when strategy is parallel")
    elif sorted(set(order)) != sorted(c["name"] for c in new["spec"]["components"]):
        text = "must have the same number of unique components as the deployment"
        yield invalid("spec.restart.strategy.order", order, text)


def update_problems(new: Object, old: Object) -> Iterator[Problem]:
    given, kept = ((o["metadata"].get("annotations") or {}).get(PROVIDER) for o in (new, old))
    if given != kept:
        yield invalid(f"metadata.annotations[{PROVIDER}]", given, IMMUTABLE)
    names_new, names_old = ({c["name"]: c for c in o["spec"].get("components") or []} for o in (new, old))
    changes = [
        f"components {what}: [{' '.join(sorted(names))}]"
        for what, names in (("added", names_new.keys() - names_old), ("removed", names_old.keys() - names_new))
        if names
    ]
    if changes:
        text = "component topology is immutable and cannot be modified after creation: "
        yield forbidden("spec.components", text + ", ".join(changes))
    framework = new["spec"].get("backendFramework")
    if framework != old["spec"].get("backendFramework"):
        yield invalid("spec.backendFramework", framework or "", "is immutable and cannot be changed after creation")
    for i, component in enumerate(new["spec"].get("components") or []):
        before = names_old.get(component["name"])
        if before and bool(component.get("multinode")) != bool(before.get("multinode")):
            text = "cannot change node topology between single-node and multi-node after creation"
            yield invalid(f"spec.components[{i}].multinode", component.get("multinode"), text)
    yield from restart_problems(new, old)


def problems(new: Object, old: Object | None) -> list[Problem]:
    """Every reason to refuse; none for an object that is being deleted."""
    if new["metadata"].get("deletionTimestamp"):
        return []
    found = [*component_problems(new), *graph_problems(new)]
    return found + (list(update_problems(new, old)) if old else [])


def refusal(name: str, found: list[Problem]) -> Object:
    texts = [f"{p.field}: {p.text}" for p in found]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": f'DynamoGraphDeployment.nvidia.com "{name}" is invalid: {text}',
        "details": {
            "group": "nvidia.com",
            "kind": "DynamoGraphDeployment",
            "name": name,
            "causes": [{"reason": p.reason, "message": p.text, "field": p.field} for p in found],
        },
    }


def review(path: str, request: Object, version: str) -> Object:
    """The response to one AdmissionReview request; `path` is /mutate... or /validate..."""
    out: Object = {"uid": request["uid"], "allowed": True}
    new, old = request["object"], request.get("oldObject")
    if path.startswith("/mutate"):
        if undecodable(new):
            text = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            return {**out, "allowed": False, "status": {"code": 400, "message": text}}
        if request["operation"] == "CREATE":
            patch = base64.b64encode(json.dumps(defaults(new, version)).encode()).decode()
            return {**out, "patchType": "JSONPatch", "patch": patch}
        return out
    found = problems(new, old)
    if any(p.field == "spec.backendFramework" for p in found):
        out["warnings"] = ["Changing spec.backendFramework may cause unexpected behavior"]
    name = request.get("name") or new["metadata"].get("name", "")
    return {**out, "allowed": False, "status": refusal(name, found)} if found else out


# ---- server ----------------------------------------------------------------------------------------------------------
def serve(port: int, certificate: str, key: str, version: str) -> None:
    """Answers AdmissionReviews in background threads."""

    class Hook(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.answer(b'{"status": "ok"}')

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            response = review(self.path, asked["request"], version)
            self.answer(json.dumps({**asked, "request": None, "response": response}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("", port), Hook)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
