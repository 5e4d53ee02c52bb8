# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""preflight_info fails with one line, or shows what was found; what is found is tested beside _preflight."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _hub
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import Run
from ansible_collections.inferops.dynamo.plugins.modules import preflight_info
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._preflight_objects import (
    BARE,
    CACHED,
    DGD,
    FULL,
    NO_CLASS,
    OURS,
    FakeCluster,
    Hub,
    codes,
    live,
    node,
    release,
    strip,
    thing,
    worker_pod,
)

DEFAULTS = {name: option.get("default") for name, option in preflight_info.ARGUMENT_SPEC.items()}


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(_hub, "access", Hub())

    def call(cluster: FakeCluster, of: dict[str, Any], run: Run | None = None, **params: Any) -> dict[str, Any]:
        monkeypatch.setattr(preflight_info.Cluster, "connect", lambda _params: cluster)
        result: dict[str, Any] = preflight_info.run({**DEFAULTS, "release": of, **params}, run or Run())
        return result

    return call


def test_not_applicable_is_not_looked_at(look: Any) -> None:
    cluster = FakeCluster()
    result = look(cluster, release(applicable=False, reason="dynamo_gpu is B200"))
    assert (result["plan"]["steps"], cluster.calls) == ([], [])
    assert codes(result, "PASS") == ["NOT_APPLICABLE"]


def test_another_cluster_ends_the_look_at_once(look: Any) -> None:
    cluster = FakeCluster(*BARE)
    with pytest.raises(DynamoError, match="dynamo_cluster_uid"):
        look(cluster, release(), cluster_uid="other")
    assert cluster.calls == ["get Namespace"]


@pytest.mark.parametrize(
    ("objects", "of", "code", "text"),
    [
        (strip("PersistentVolumeClaim"), release(claim=NO_CLASS), "STORAGE_CLASS_ABSENT", "dynamo_storage_class"),
        ([*CACHED, FULL], release(), "CAPACITY", "n1 has free only 0 nvidia.com/gpu"),
        ([*strip("Node"), node(product="NVIDIA-B200")], release(), "GPU_PRODUCT", "NVIDIA-B200"),
        ([*CACHED, thing(DGD[1], "dgd-two")], release(), "NAME_CLASH", "dgd-two"),
        ([*CACHED, thing(DGD[1], "x", labels=OURS)], release(replaces_target="m/y"), "OTHER_TARGET", "m/y"),
        ([*CACHED, live(release("c" * 40)), worker_pod()], release(), "UPDATE_NEEDS_GAP", "allow_gap"),
        ([*CACHED, live(release("c" * 40, {})), worker_pod()], release(annotations={}), "NO_SURGE_ROOM", "n1 has free"),
    ],
)
def test_one_thing_is_wrong(look: Any, objects: list[Any], of: dict[str, Any], code: str, text: str) -> None:
    with pytest.raises(DynamoError) as raised:
        look(FakeCluster(*objects), of)
    assert raised.value.code == code
    assert text in str(raised.value)
    assert sorted(raised.value.result) == ["cluster", "started"]


def test_without_the_platform(look: Any) -> None:
    cluster = FakeCluster(*BARE, absent=("DynamoGraphDeployment", "ComputeDomain"))
    with pytest.raises(DynamoError, match=r"DynamoGraphDeployment.*install the Dynamo platform") as raised:
        look(cluster, release())
    assert raised.value.code == "DGD_API_ABSENT"


def test_two_things_are_wrong_and_one_line_says_both(look: Any) -> None:
    cluster = FakeCluster(*strip("PersistentVolumeClaim"), FULL)
    with pytest.raises(DynamoError) as raised:
        look(cluster, release(claim=NO_CLASS))
    assert raised.value.code == "STORAGE_CLASS_ABSENT"
    assert str(raised.value).startswith("no storage class and no claim: claim llm/cache can't be created;")
    assert "; also CAPACITY: Worker: room for 0 of 1 pods" in raised.value.hint


def test_what_is_shown(look: Any) -> None:
    quiet, loud = Run(), Run()
    look(FakeCluster(*CACHED), release(), quiet)
    look(FakeCluster(*CACHED), release(), loud, strict=False)
    assert quiet.lines == []
    assert any(line.startswith("PASS capacity: room for") for line in loud.lines)


@pytest.mark.skipif("ansible_forked" in sys.modules, reason="a process of its own finds no collections in ansible-test")
def test_without_kubernetes_core_the_library_is_named() -> None:
    """Its options come from there; the playbooks always give two of them."""
    program = (
        "import sys; sys.modules['ansible_collections.kubernetes'] = None\n"
        "from ansible.module_utils.common.arg_spec import ArgumentSpecValidator\n"
        "from ansible_collections.inferops.dynamo.plugins.module_utils._cluster import Cluster\n"
        "from ansible_collections.inferops.dynamo.plugins.modules import preflight_info, target_info\n"
        "given = {'kubeconfig': 'x', 'context': 'y', 'release': {}, 'catalog': 'z'}\n"
        "for plugin in (preflight_info, target_info):\n"
        "    spec = plugin.ARGUMENT_SPEC\n"
        "    own = {name: value for name, value in given.items() if name in ('kubeconfig', 'context', *spec)}\n"
        "    print(ArgumentSpecValidator(spec).validate(own).error_messages)\n"
        "try:\n    Cluster.connect(given)\nexcept Exception as error:\n    print(error.code, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["[]", "[]"]
    assert lines[2].startswith("NO_LIBRARY")
    assert "kubernetes.core" in lines[2]
