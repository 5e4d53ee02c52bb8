#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: openai_smoke
short_description: Prove that an OpenAI-compatible endpoint serves a model
description:
  - Asks for the list of models until it names the served model, then sends chat requests and looks at the answers.
  - An answer counts when its status is 200, its content is not empty, it was finished, and it counts its tokens.
  - While workers register, an endpoint answers 404 or 503; those are asked again until the time is up. A request that
    the endpoint refuses, and an empty answer, end the test at once.
  - Changes nothing. In check mode nothing is asked, since what would be asked may not be deployed.
author:
  - inferops.dynamo contributors (@inferops)
version_added: 1.0.0
options:
  via:
    description:
      - The way to the endpoint. V(service_proxy) goes through the API server, with the verbs C(get) and C(create) on
        C(services/proxy). V(url) asks O(url) from where the task runs.
      - V(auto) is V(url) when O(url) is given, else V(service_proxy).
    type: str
    choices: [auto, service_proxy, url]
    default: auto
  url:
    description:
      - Base URL of the endpoint, without C(/v1). Needed for O(via=url). O(validate_certs) and O(ca_cert) hold for it.
    type: str
  namespace:
    description: Namespace of the Service. Needed for O(via=service_proxy).
    type: str
  service:
    description: Name of the frontend's Service. Needed for O(via=service_proxy).
    type: str
  port:
    description: Port of the Service.
    type: int
    default: 8000
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
  successes:
    description: How often in a row all requests must be answered.
    type: int
    default: 1
  timeout:
    description: Seconds for everything together. The first answer of an engine that still compiles may take minutes.
    type: int
    default: 600
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
check:
  description: The request that failed, or V(models).
  returned: failure
  type: str
code:
  description: Code of the cause.
  returned: failure
  type: str
  sample: MODEL_EMPTY_ANSWER
"""

from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import AUTH_SPEC, Cluster
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Response, fetch, opener
from ansible_collections.inferops.dynamo.plugins.module_utils._openai import Call, Smoke
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, run_module

ARGUMENT_SPEC: dict[str, Any] = {
    **AUTH_SPEC,
    "via": {"type": "str", "choices": ["auto", "service_proxy", "url"], "default": "auto"},
    "url": {"type": "str"},
    "namespace": {"type": "str"},
    "service": {"type": "str"},
    "port": {"type": "int", "default": 8000},
    "model": {"type": "str", "required": True},
    "context_length": {"type": "int"},
    "requests": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {"name": {"type": "str", "required": True}, "body": {"type": "dict", "required": True}},
    },
    "successes": {"type": "int", "default": 1},
    "timeout": {"type": "int", "default": 600},
}


def way(params: dict[str, Any]) -> Call:
    """How to send a request. DynamoError BAD_OPTION: the options that this way needs are not there."""
    via = params["via"] if params["via"] != "auto" else "url" if params["url"] else "service_proxy"
    missing = [n for n in (["url"] if via == "url" else ["namespace", "service"]) if not params[n]]
    if missing:
        raise DynamoError(f"openai_smoke via {via} needs {' and '.join(missing)}.", "BAD_OPTION")
    if via == "url":
        send = opener(validate_certs=params.get("validate_certs") is not False, ca_path=params.get("ca_cert"))
        base = params["url"].rstrip("/")

        def by_url(method: str, path: str, body: bytes | None, timeout: float) -> Response:
            headers = {"Content-Type": "application/json"} if body is not None else {}
            return fetch(method, base + path, headers=headers, body=body, timeout=timeout, send=send)

        return by_url
    cluster = Cluster.connect(params)

    def by_proxy(method: str, path: str, body: bytes | None, timeout: float) -> Response:
        return cluster.service_proxy(
            method, params["namespace"], params["service"], params["port"], path, body, timeout
        )

    return by_proxy


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """The answers; DynamoError with the code of what is wrong."""
    if run.check_mode:
        return {"changed": False, "answers": [], "skipped_reason": "nothing is asked in check mode"}
    smoke = Smoke(way(params), params["model"], params["timeout"], say=run.progress)
    answers = smoke.run(params["requests"], params["context_length"], params["successes"])
    for answer in answers:
        text = " ".join(answer["content"].split())
        text = text if len(text) <= 100 else text[:97] + "..."
        run.progress(f'{params["model"]} answered "{text}" in {answer["latency_ms"]} ms')
    return {"changed": False, "answers": answers}


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
