# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ComputeDomain stand-in makes of a domain."""

from __future__ import annotations

from typing import Any

import compute_domain
import pytest

DOMAIN: dict[str, Any] = {
    "metadata": {"name": "a-cd", "namespace": "lab", "uid": "u1"},
    "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "a-cd-channel"}}},
}


def test_template() -> None:
    made = compute_domain.template(DOMAIN)
    assert made["metadata"]["name"] == "a-cd-channel"
    assert made["metadata"]["labels"]["resource.nvidia.com/computeDomain"] == "u1"
    parameters = made["spec"]["spec"]["devices"]["config"][0]["opaque"]["parameters"]
    assert (parameters["domainID"], parameters["allocationMode"]) == ("u1", "Single")


def test_nodes_are_those_of_claiming_pods() -> None:
    address = [{"type": "InternalIP", "address": "10.0.0.1"}]
    node = {"metadata": {"labels": {"nvidia.com/gpu.clique": "rack.1"}}, "status": {"addresses": address}}
    claim = [{"name": "c", "resourceClaimTemplateName": "a-cd-channel"}]
    pods: list[dict[str, Any]] = [
        {"spec": {"nodeName": "n1", "resourceClaims": claim}},
        {"spec": {"resourceClaims": claim}},
        {"spec": {"nodeName": "n2"}},
    ]
    joined = compute_domain.joined(DOMAIN, pods, {"n1": node, "n2": node})
    assert joined == [{"name": "n1", "ipAddress": "10.0.0.1", "cliqueID": "rack.1", "index": 0, "status": "Ready"}]


@pytest.mark.parametrize(("wanted", "there", "expected"), [(0, 0, "Ready"), (2, 1, "NotReady"), (2, 2, "Ready")])
def test_status(wanted: int, there: int, expected: str) -> None:
    domain = {**DOMAIN, "spec": {**DOMAIN["spec"], "numNodes": wanted}}
    assert compute_domain.domain_status(domain, [{}] * there)["status"] == expected
