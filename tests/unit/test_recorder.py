# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The right behind a request, by which the integration test holds docs/rbac.yaml against a real run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).resolve().parents[1] / "integration/recorder.py"


def load() -> Any:
    """By its path: ansible-test has no pythonpath for it."""
    spec = importlib.util.spec_from_file_location("recorder", PATH)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


right = load().right


@pytest.mark.parametrize(
    ("request_line", "wanted"),
    [
        ("GET /version", None),
        ("GET /api/v1", None),
        ("GET /apis/nvidia.com/v1beta1", None),
        ("GET /api/v1/namespaces/llm", ("get", "", "namespaces", True)),
        ("GET /api/v1/namespaces/kube-system", ("get", "", "namespaces", False)),
        ("GET /api/v1/nodes?limit=500", ("list", "", "nodes", False)),
        ("GET /api/v1/pods?fieldSelector=x", ("list", "", "pods", False)),
        ("GET /api/v1/namespaces/llm/pods", ("list", "", "pods", True)),
        ("GET /api/v1/namespaces/llm/pods/p/log?tailLines=5", ("get", "", "pods/log", True)),
        (
            "POST /api/v1/namespaces/llm/services/http:s:8000/proxy/v1/models",
            ("create", "", "services/proxy", True),
        ),
        ("PATCH /apis/batch/v1/namespaces/llm/jobs/j?fieldManager=x", ("patch", "batch", "jobs", True)),
        ("DELETE /apis/batch/v1/namespaces/llm/jobs/j", ("delete", "batch", "jobs", True)),
        (
            "GET /apis/nvidia.com/v1beta1/namespaces/llm/dynamographdeployments?watch=true",
            ("watch", "nvidia.com", "dynamographdeployments", True),
        ),
        ("GET /apis/storage.k8s.io/v1/storageclasses", ("list", "storage.k8s.io", "storageclasses", False)),
    ],
)
def test_right(request_line: str, wanted: tuple[str, str, str, bool] | None) -> None:
    assert right(*request_line.split(" ")) == wanted
