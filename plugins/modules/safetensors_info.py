#!/usr/bin/python
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: safetensors_info
short_description: Is the checkpoint in a directory complete and intact?
version_added: 1.0.0
description:
  - Looks at checkpoints in safetensors format on the host that the task runs on, without the hub. Plain folders and
    snapshots of a hub cache; sharded with or without index, and single files.
  - Finds missing shards and files, cut and foreign files (git-lfs pointers, web pages), headers that fit neither their
    file nor the index, leftovers of downloads, and paths that lead out of the directory.
  - A flipped bit or zeroed data inside a file is found by O(verify=sha256) only.
  - A bad checkpoint is not a failure of this module; look at RV(state).
author:
  - inferops.dynamo contributors (@inferops)
options:
  paths:
    description: Directories to check; a C(models--owner--name) directory of a hub cache stands for its snapshot.
    type: list
    elements: path
    required: true
  commit:
    description:
      - The commit that the directories hold. Needed only where a directory has the hub's listing of several commits, or
        a hub cache several snapshots.
    type: str
    default: ""
  verify:
    description:
      - V(headers) compares what the files say of themselves and of each other.
      - V(sizes) besides compares the size of every file with what the hub published, by the listing that a download
        left.
      - V(sha256) besides reads every byte and compares the published hashes.
    type: str
    choices: [headers, sizes, sha256]
    default: sizes
  threads:
    description: Files that are read at the same time; 0 stands for 4, and with O(verify=sha256) for one per CPU.
    type: int
    default: 0
attributes:
  check_mode:
    support: full
    description: Changes nothing.
  diff_mode:
    support: none
    description: Says what has changed, or in check mode would change, if anything does.
"""

EXAMPLES = r"""
- name: Look at a checkpoint on a file server
  inferops.dynamo.safetensors_info:
    paths: [/export/models/MiniMax-M3.1-Flash]
    verify: sha256
  register: checkpoint
  failed_when: checkpoint.state != 'COMPLETE'
  delegate_to: nfs1
"""

RETURN = r"""
state:
  description: COMPLETE, INCOMPLETE or CORRUPT; the worst of all directories.
  returned: success
  type: str
directories:
  description:
    - One verdict for each directory, with C(path), C(layout), C(commit), C(state), C(verify) (asked), C(proved)
      (reached), C(files), C(bytes), C(shards), C(tensors), C(tensor_bytes), C(incomplete) (leftovers of downloads),
      C(problems) (the first 50, each with level, code, file and message), C(problems_total), C(not_checked) and
      C(seconds).
  returned: success
  type: list
  elements: dict
"""

from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _safetensors
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run, run_module

ARGUMENT_SPEC: dict[str, Any] = {
    "paths": {"type": "list", "elements": "path", "required": True},
    "commit": {"type": "str", "default": ""},
    "verify": {"type": "str", "choices": ["headers", "sizes", "sha256"], "default": "sizes"},
    "threads": {"type": "int", "default": 0},
}


def run(params: dict[str, Any], run: Run) -> dict[str, Any]:
    """A verdict for every directory."""
    if not params["paths"]:
        raise DynamoError("paths: name at least one directory.", "BAD_OPTION")
    try:
        options = (params["commit"], params["verify"], params["threads"])
        verdicts = [_safetensors.check(path, *options) for path in params["paths"]]
    except ValueError as error:
        raise DynamoError(str(error), "BAD_OPTION") from error
    return {"state": _safetensors.worst(verdicts), "directories": [_safetensors.shown(v) for v in verdicts]}


def main() -> None:
    run_module(ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
