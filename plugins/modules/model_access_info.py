#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_access_info
short_description: Asks a model hub whether a token may read repositories
version_added: 1.0.0
description:
  - For each repository, may this token read its files at this revision? With the commit, the number of files and
    their bytes.
  - An answer of the hub is never a failure of this module; look at C(status).
author:
  - inferops.dynamo contributors (@inferops)
extends_documentation_fragment:
  - inferops.dynamo._attributes
options:
  repositories:
    description: The repositories to ask about.
    type: list
    elements: dict
    required: true
    suboptions:
      id:
        description: Owner and name.
        type: str
        required: true
      commit:
        description: Commit, branch or tag; the default branch if empty.
        type: str
        default: ""
  hf_token:
    description: Token for the hub; asked without one if empty.
    type: str
  hub_endpoint:
    description: Address of the hub. The default is E(HF_ENDPOINT), or the public hub without it.
    type: str
"""

EXAMPLES = r"""
- name: May we download it?
  inferops.dynamo.model_access_info:
    repositories:
      - id: MiniMaxAI/MiniMax-M3.1-Flash
    hf_token: "{{ dynamo_hf_token }}"
  register: access
  failed_when: access.repositories | rejectattr('status', 'equalto', 'ok') | length > 0
"""

RETURN = r"""
repositories:
  description:
    - One answer for each, with C(id), C(revision), C(commit), C(gated), C(files), C(bytes), C(detail) and C(status),
      which is V(ok), V(TOKEN_MISSING), V(TOKEN_REFUSED), V(REPOSITORY_ABSENT), V(REVISION_ABSENT),
      V(HUB_RATE_LIMITED) (also after the time that it asked to wait) or V(HUB_UNREACHABLE).
  returned: success
  type: list
  elements: dict
"""

import os
import re
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _hub
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, run_module

ARGUMENT_SPEC: dict[str, Any] = {
    "repositories": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {"id": {"type": "str", "required": True}, "commit": {"type": "str", "default": ""}},
    },
    "hf_token": {"type": "str", "no_log": True},
    "hub_endpoint": {"type": "str"},
}


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """The hub's answer for every repository."""
    endpoint = params["hub_endpoint"] or os.environ.get("HF_ENDPOINT") or _hub.DEFAULT_ENDPOINT
    _hub.check_endpoint(endpoint)
    send, token = _hub.transport(), (params["hf_token"] or "").strip() or None
    if token and not re.fullmatch("[!-~]+", token):
        raise DynamoError("hf_token has blanks or characters that no token has (it is not shown).", "BAD_OPTION")
    return {"repositories": [_hub.access(send, endpoint, r["id"], r["commit"], token) for r in params["repositories"]]}


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
