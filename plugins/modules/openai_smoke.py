#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: openai_smoke
short_description: Prove that an OpenAI-compatible endpoint serves a model
description:
  - Asks for the list of models until it names the served model, then makes the O(checks), each with a short request.
  - An answer counts when its status is 200, its content is not empty and holds no marks of reasoning, it was finished,
    and it counts its tokens.
  - While workers register, an endpoint answers 404 or 503; those are asked again until the time is up. A request that
    the endpoint refuses, and an empty answer, fail at once.
  - The first request has all the time there is, since an engine may still compile. Requests are sent one by one.
  - Changes nothing. In check mode nothing is asked, since what would be asked may not be deployed.
author:
  - inferops.dynamo contributors (@inferops)
version_added: 1.0.0
options:
  via:
    description:
      - The way to the endpoint. V(service_proxy) goes through the API server, with the verbs C(get) and C(create) on
        C(services/proxy). V(port_forward) goes to a ready pod of the Service, with C(get) on C(services), C(list) on
        C(pods), and C(get) and C(create) on C(pods/portforward). V(job) sends each request from a Job in the namespace,
        with C(patch), C(create) and C(delete) on C(jobs), C(list) on C(pods) and C(get) on C(pods/log). V(url) asks
        O(url) from where the task runs.
      - V(auto) is V(url) when O(url) is given, else the first of V(service_proxy), V(port_forward) and V(job) that
        works.
      - A way that fails ends with V(PATH_UNREACHABLE), which says nothing about the model.
    type: str
    choices: [auto, service_proxy, port_forward, job, url]
    default: auto
  url:
    description:
      - Base URL of the endpoint, without C(/v1). Needed for O(via=url). O(validate_certs) and O(ca_cert) hold for it.
    type: str
  namespace:
    description: Namespace of the Service. Needed unless O(via=url).
    type: str
  service:
    description: Name of the frontend's Service. Needed unless O(via=url).
    type: str
  port:
    description: Port of the Service.
    type: int
    default: 8000
  job:
    description: The Job of O(via=job).
    type: dict
    suboptions:
      image:
        description: An image with Python 3.9 or later. Without one there is no Job.
        type: str
      pull_secrets:
        description: Names of Secrets to pull it with.
        type: list
        elements: str
      tolerations:
        description: Tolerations of its pod.
        type: list
        elements: dict
      node_selector:
        description: Node selector of its pod.
        type: dict
  model:
    description: The served name of the model.
    type: str
    required: true
  context_length:
    description: Tokens that the model's context must have room for, by its entry in the list. Not checked by default.
    type: int
  requests:
    description: Chat requests, each sent in turn.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the request in results and messages.
        type: str
        required: true
      body:
        description: The request's body, without C(model).
        type: dict
        required: true
  checks:
    description:
      - What is checked. V(models) is the list of models, with name and context, and without a model of another release;
        V(ready) the frontend's own word; V(chat) the O(requests); V(stream) the first of them as a stream, with its
        count of tokens; V(bad_request) that a chat without messages is refused in words.
      - V(effort) is the first of the O(requests) with the reasoning efforts none, low and high; V(tools) a call of a
        tool; V(image) a question about a small image, only with O(images).
    type: list
    elements: str
    choices: [models, ready, chat, stream, bad_request, effort, tools, image]
    default: [models, ready, chat, stream, bad_request]
  images:
    description: Whether the model takes images. Without it V(image) of O(checks) is skipped.
    type: bool
    default: false
  junit:
    description: File to write the checks to, as JUnit, also when one fails.
    type: path
  successes:
    description: How often in a row all requests must be answered.
    type: int
    default: 1
  timeout:
    description: Seconds until the first answer, and for tries. An engine that still compiles may take minutes.
    type: int
    default: 600
  request_timeout:
    description: Seconds for one request, once a first one was answered.
    type: int
    default: 120
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - inferops.dynamo._attributes
  - inferops.dynamo._attributes.cluster
"""

EXAMPLES = r"""
- name: Ask the model a question through the API server
  inferops.dynamo.openai_smoke:
    namespace: llm
    service: minimax-m3-1-sglang-agg-gb300-frontend
    model: minimax-m3.1
    requests:
      - name: chat
        body:
          messages:
            - {role: user, content: "What is 2 + 2?"}
          max_tokens: 1024
"""

RETURN = r"""
answers:
  description: The answers of the last round.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the request.
      type: str
    content:
      description: The answer's text, at most 500 characters.
      type: str
    reasoning:
      description: Whether the answer had reasoning apart from its content.
      type: bool
    finish_reason:
      description: Why the answer ended.
      type: str
    latency_ms:
      description: Milliseconds until the answer was complete.
      type: int
    usage:
      description: The endpoint's count of tokens.
      type: dict
  sample:
    - name: chat
      content: 2 + 2 = 4
      reasoning: true
      finish_reason: stop
      latency_ms: 31
      usage: {prompt_tokens: 44, completion_tokens: 33, total_tokens: 77}
checks:
  description: The checks that were made, or skipped.
  returned: always, except in check mode
  type: list
  elements: dict
  contains:
    name:
      description: Name of the check; for V(chat) that of the request.
      type: str
    result:
      description: V(passed), V(failed) or V(skipped).
      type: str
    why:
      description: Why it failed or was skipped.
      type: str
    code:
      description: Code of the failure.
      type: str
    seconds:
      description: How long the request took, with all tries if it failed.
      type: float
    first_token_seconds:
      description: Seconds until the first token of a stream had come.
      type: float
    tokens:
      description: Tokens of the answer.
      type: int
via:
  description: The way that was used.
  returned: always, except in check mode
  type: str
  sample: service_proxy
check:
  description: The first check that failed.
  returned: failure
  type: str
code:
  description: Code of the cause.
  returned: failure
  type: str
  sample: MODEL_EMPTY_ANSWER
see:
  description: Where the documentation of the collection says more about it.
  returned: failure
  type: str
  sample: docs/troubleshooting.md#model_empty_answer
"""

from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _smoke
from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import AUTH_SPEC, Cluster
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Response, fetch
from ansible_collections.inferops.dynamo.plugins.module_utils._openai import Call
from ansible_collections.inferops.dynamo.plugins.module_utils._paths import WAYS, Endpoint, transport
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, at_least, run_module, scrub

ARGUMENT_SPEC: dict[str, Any] = {
    **AUTH_SPEC,
    "via": {"type": "str", "choices": ["auto", *WAYS, "url"], "default": "auto"},
    "url": {"type": "str"},
    "namespace": {"type": "str"},
    "service": {"type": "str"},
    "port": {"type": "int", "default": 8000},
    "job": {
        "type": "dict",
        "options": {
            "image": {"type": "str"},
            "pull_secrets": {"type": "list", "elements": "str", "no_log": False},
            "tolerations": {"type": "list", "elements": "dict"},
            "node_selector": {"type": "dict"},
        },
    },
    "model": {"type": "str", "required": True},
    "context_length": {"type": "int"},
    "requests": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {"name": {"type": "str", "required": True}, "body": {"type": "dict", "required": True}},
    },
    "checks": {
        "type": "list",
        "elements": "str",
        "choices": list(_smoke.CHECKS),
        "default": list(_smoke.DEFAULT_CHECKS),
    },
    "images": {"type": "bool", "default": False},
    "junit": {"type": "path"},
    "successes": {"type": "int", "default": 1},
    "timeout": {"type": "int", "default": 600},
    "request_timeout": {"type": "int", "default": 120},
}


def way(params: dict[str, Any]) -> Call:
    """How to send a request. DynamoError BAD_OPTION: the options that this way needs are not there."""
    via = params["via"] if params["via"] != "auto" else "url" if params["url"] else "auto"
    missing = [n for n in (["url"] if via == "url" else ["namespace", "service"]) if not params[n]]
    if missing:
        raise DynamoError(f"openai_smoke via {via} needs {' and '.join(missing)}.", "BAD_OPTION")
    if via != "url":
        where = (params["namespace"], params["service"], params["port"])
        return Endpoint(Cluster.connect(params), *where, ways=WAYS if via == "auto" else (via,), job=params["job"])
    certificates = (("ca_cert", params.get("ca_cert")), params.get("validate_certs") is not False)
    send = transport({"url": params["url"]}, *certificates)
    base = params["url"].rstrip("/")

    def by_url(method: str, path: str, body: bytes | None, timeout: float) -> Response:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        return fetch(method, base + path, headers=headers, body=body, timeout=timeout, send=send)

    return by_url


def write_junit(path: str, suite: str, rows: list[dict[str, Any]]) -> None:
    """DynamoError REPORT_DIRECTORY when it can't be written."""
    try:
        with open(path, "wb") as stream:
            stream.write(_smoke.junit(suite, scrub(rows)))
    except OSError as error:
        text = f"the JUnit file can't be written to {path}: {error.strerror}."
        raise DynamoError(text, "REPORT_DIRECTORY", "Set smoke_test_junit.") from error


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """The checks and the answers; DynamoError with the code of what is wrong."""
    if not params["requests"] and "chat" in params["checks"]:
        raise DynamoError("requests (smoke_test_requests) is empty; check chat needs at least one.", "BAD_OPTION")
    at_least(params, successes=1, timeout=0, request_timeout=1)
    if run.check_mode:
        return {"changed": False, "answers": [], "skipped_reason": "nothing is asked in check mode"}
    call = way(params)
    options = {n: params[n] for n in ("requests", "context_length", "successes", "request_timeout", "images")}
    alone = isinstance(call, Endpoint)
    smoke = _smoke.Smoke(call, params["model"], params["timeout"], alone=alone, say=run.progress, **options)
    try:
        smoke.run(params["checks"])
    finally:
        if params["junit"]:
            write_junit(params["junit"], params["model"], smoke.rows)
    for answer in smoke.answers:
        text = " ".join(answer["content"].split())
        text = text if len(text) <= 100 else text[:97] + "..."
        run.progress(f'{params["model"]} answered "{text}" in {answer["latency_ms"]} ms')
    via = call.used if isinstance(call, Endpoint) else "url"
    return {"changed": False, "answers": smoke.answers, "checks": smoke.rows, "via": via}


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
