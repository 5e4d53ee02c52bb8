# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of recipes and of the cluster is data: nothing in it is a template, on the way through roles, facts and report.

The playbooks are run for real, and by `make sanity` on the lowest and on the newest ansible-core, since the cores
differ in what they call trusted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.dynamo.plugins.module_utils import _run
from ansible_collections.inferops.dynamo.tests.unit.plugins.fake_api import FakeApi, kubeconfig, serve, status

pytestmark = pytest.mark.playbook

ROOT = Path(_run.__file__).parents[2]
COLLECTIONS = Path(_run.__file__).parents[5]
RECIPE = ROOT / "roles/target/files/recipes/minimax-m3.1/sglang/agg-gb300"
SUM = "{{ 6 * 7001 }}"
RESULT = "42006"


def hostile(folder: Path) -> str:
    """What would leave a file behind if anything templated it."""
    return SUM + " {{ lookup('ansible.builtin.pipe', 'touch " + str(folder / "templated") + "') }} {% raw %}"


def recipe(folder: Path, text: str) -> None:
    """A recipe whose manifest and metadata hold the text wherever a free text may stand."""
    place = folder / "recipes/mine/sglang/agg-gb300"
    place.mkdir(parents=True)
    documents = list(yaml.safe_load_all((RECIPE / "deploy.yaml").read_text("utf-8")))
    dgd = documents[-1]
    dgd["metadata"]["annotations"] = {"example.com/note": text}
    for component in dgd["spec"]["components"]:
        main = component["podTemplate"]["spec"]["containers"][0]
        main["env"].append({"name": "HOSTILE", "value": text})
        main["args"] += ["--hostile", text]
    (place / "deploy.yaml").write_text(yaml.safe_dump_all(documents), "utf-8")
    model = yaml.safe_load((RECIPE.parents[1] / "model.yml").read_text("utf-8"))
    own = yaml.safe_load((RECIPE / "recipe.yml").read_text("utf-8"))
    model["repositories"][0]["commit"] = "0" * 40
    own |= {"notes": [text], "provenance": {"image": f"inferred: {text}"}}
    own["smoke"] = {"requests": [{"name": text, "body": {"messages": [{"role": "user", "content": text}]}}]}
    (place.parents[1] / "model.yml").write_text(yaml.safe_dump(model), "utf-8")
    (place / "recipe.yml").write_text(yaml.safe_dump(own), "utf-8")


def inventory(folder: Path, url: str) -> None:
    (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig(url)), "utf-8")
    host: dict[str, Any] = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "dynamo_kubeconfig": str(folder / "kubeconfig"),
        "dynamo_context": "lab",
        "dynamo_namespace": "llm",
        "dynamo_recipe_paths": [str(folder / "recipes")],
        "dynamo_report_dir": str(folder / "reports"),
        "dynamo_target": "mine/sglang/agg-gb300",
    }
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"one": host}}}), "utf-8")


def play(folder: Path, playbook: str, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("K8S_AUTH_", "ANSIBLE_"))}
    environment |= {
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    command = [sys.executable, "-m", "ansible.cli.playbook", f"inferops.dynamo.{playbook}", "-i", "hosts.yml", *args]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_text_from_outside_is_never_templated(tmp_path: Path) -> None:
    text = hostile(tmp_path)
    recipe(tmp_path, text)
    api = FakeApi()
    # The first thing that preflight reads; what the server says becomes failure, fact and row of the report.
    api.answers["GET", "api/v1/namespaces/kube-system"] = status(500, f"etcd says {text}")
    with serve(api):
        inventory(tmp_path, api.url)
        shown = play(tmp_path, "target", "-e", f"target_output={tmp_path}/out.yaml", "-vv", "--diff")
        failed = play(tmp_path, "deploy", "-vv")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    written = (tmp_path / "out.yaml").read_text("utf-8")
    worker = next(d for d in yaml.safe_load_all(written) if d["kind"] == "DynamoGraphDeployment")["spec"]["components"][
        1
    ]
    main = worker["podTemplate"]["spec"]["containers"][0]
    assert {"name": "HOSTILE", "value": text} in main["env"]
    assert text in main["args"]
    assert failed.returncode == 2, failed.stdout + failed.stderr
    assert f"etcd says {SUM}" in failed.stdout
    (report,) = (tmp_path / "reports").glob("*.json")
    assert f"etcd says {SUM}" in json.loads(report.read_text("utf-8"))["hosts"][0]["detail"]
    for output in (shown.stdout, shown.stderr, failed.stdout, failed.stderr, written, report.read_text("utf-8")):
        assert RESULT not in output
    assert not (tmp_path / "templated").exists()
