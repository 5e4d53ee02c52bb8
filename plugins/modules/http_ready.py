#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: http_ready
short_description: Wait until URLs answer as they should
description:
  - Asks one or more URLs again and again until all of them give the expected answer several times in a row.
  - Refused connections, resets, errors of TLS, partial answers and answers that drip are not ready, and asked again.
  - Needs nothing but Python on the host that it runs on. In check mode nothing is asked.
author:
  - inferops.dynamo contributors (@inferops)
version_added: 1.0.0
options:
  urls:
    description: What is asked, in turn.
    type: list
    elements: str
    required: true
  headers:
    description: Headers of the requests. Their values are treated as secrets.
    type: dict
    default: {}
  status:
    description: Statuses of a good answer.
    type: list
    elements: int
    default: [200]
  final_status:
    description: Statuses that end the wait at once, since asking again gives the same.
    type: list
    elements: int
    default: []
  content_type:
    description: How the content type of a good answer begins.
    type: str
    default: ""
  expected_headers:
    description: Texts that headers of a good answer must hold, by name.
    type: dict
    default: {}
  json:
    description: What the body of a good answer must have, as JSON.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Where to look, such as C(data[0].id).
        type: str
        required: true
      operator:
        description: How to compare. What is absent fits none.
        type: str
        choices: [eq, ne, ge, le, contains, exists, not_empty]
        default: eq
      value:
        description: What to compare with.
        type: raw
  successes:
    description: Good rounds in a row.
    type: int
    default: 1
  interval:
    description: Seconds between two rounds; a quarter more or less by chance.
    type: float
    default: 2
  timeout:
    description: Seconds for everything together.
    type: int
    default: 300
  request_timeout:
    description: Seconds for one complete answer.
    type: float
    default: 30
  validate_certs:
    description: Whether certificates are checked.
    type: bool
    default: true
  ca_path:
    description: File with the certificates of the authorities to trust, instead of the system's.
    type: path
  use_proxy:
    description: Whether the proxy of the environment is used.
    type: bool
    default: true
extends_documentation_fragment:
  - inferops.dynamo._attributes
"""

EXAMPLES = r"""
- name: Wait until the gateway serves the model
  inferops.dynamo.http_ready:
    urls:
      - https://inference.example.com/v1/models
    json:
      - path: data[0].id
        value: minimax-m3.1
    final_status: [401, 403]
    successes: 3
"""

RETURN = r"""
attempts:
  description: Rounds that were asked.
  returned: always, except in check mode
  type: int
  sample: 4
seconds:
  description: How long it took.
  returned: always, except in check mode
  type: float
  sample: 6.2
answers:
  description: The last answer of each URL.
  returned: always, except in check mode
  type: list
  elements: dict
  contains:
    url:
      description: What was asked.
      type: str
    status:
      description: Status of the answer, 0 without one.
      type: int
    body:
      description: Its body, at most 500 characters.
      type: str
    problem:
      description:
        - What kind of thing it lacks, or an empty string. Without a complete answer V(refused), V(reset), V(dns),
          V(tls), V(timeout) (also of one that drips), V(partial), V(redirect) (a loop) or V(protocol), else
          V(status), V(content_type), V(header), V(empty) or V(json).
      type: str
    missing:
      description: What the answer lacks, or an empty string.
      type: str
    latency_ms:
      description: Milliseconds until it was complete.
      type: int
code:
  description: V(URL_NOT_READY) when the time is over, V(URL_FINAL) for one of O(final_status).
  returned: failure
  type: str
"""

import math
import re
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._http import Response, fetch
from ansible_collections.inferops.dynamo.plugins.module_utils._paths import transport
from ansible_collections.inferops.dynamo.plugins.module_utils._ready import OPERATORS, Expectation, wait
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, at_least, run_module

ARGUMENT_SPEC: dict[str, Any] = {
    "urls": {"type": "list", "elements": "str", "required": True},
    "headers": {"type": "dict", "default": {}, "no_log": True},
    "status": {"type": "list", "elements": "int", "default": [200]},
    "final_status": {"type": "list", "elements": "int", "default": []},
    "content_type": {"type": "str", "default": ""},
    "expected_headers": {"type": "dict", "default": {}},
    "json": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"type": "str", "required": True},
            "operator": {"type": "str", "choices": list(OPERATORS), "default": "eq"},
            "value": {"type": "raw"},
        },
    },
    "successes": {"type": "int", "default": 1},
    "interval": {"type": "float", "default": 2},
    "timeout": {"type": "int", "default": 300},
    "request_timeout": {"type": "float", "default": 30},
    "validate_certs": {"type": "bool", "default": True},
    "ca_path": {"type": "path"},
    "use_proxy": {"type": "bool", "default": True},
}


def is_number(value: Any) -> bool:
    """Also as text, which templates make of it in ansible-core 2.18."""
    try:
        return not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """attempts, seconds and answers; DynamoError URL_NOT_READY or URL_FINAL."""
    addresses = {f"urls[{number}]": url for number, url in enumerate(params["urls"])}
    send = transport(addresses, ("ca_path", params["ca_path"]), params["validate_certs"], params["use_proxy"])
    if not addresses:
        raise DynamoError("urls is empty; it must hold at least one address.", "BAD_OPTION")
    at_least(params, successes=1, interval=0, timeout=0, request_timeout=0.1)
    headers = {str(name): str(value).strip() for name, value in params["headers"].items()}
    for name, value in headers.items():
        if not re.fullmatch(r"[!-9;-~]+", name) or not re.fullmatch(r"[\t -~\x80-\xff]*", value):
            text = f"headers: {name} or its value, which is not shown, has characters that HTTP doesn't allow there."
            raise DynamoError(text, "BAD_OPTION")
    for number, check in enumerate(params["json"]):
        if check["operator"] in ("ge", "le") and not is_number(check.get("value")):
            text = f"json[{number}].value is {check.get('value')!r}; operator {check['operator']} needs a number."
            raise DynamoError(text, "BAD_OPTION")
    if run.check_mode:
        return {"changed": False}

    def get(url: str, left: float) -> Response:
        return fetch("GET", url, headers=headers, timeout=min(left, params["request_timeout"]), send=send)

    expected = {str(name): str(text) for name, text in params["expected_headers"].items()}
    want = Expectation(params["status"], params["final_status"], params["content_type"], params["json"], expected)
    pace = {name: params[name] for name in ("successes", "interval", "timeout")}
    return {"changed": False, **wait(get, params["urls"], want, **pace)}


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
