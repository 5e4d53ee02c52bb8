# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for the ComputeDomain controller: makes a domain's claim template, its status and its finalizers, and
takes them away again. A pass over all domains every PERIOD seconds (default 0.5)."""

from __future__ import annotations

import os
import time
from typing import Any

from kube import Api, ApiError, Object, log

GROUP = "resource.nvidia.com"
FINALIZER = f"{GROUP}/computeDomain"
DRIVER = "compute-domain.nvidia.com"
DOMAINS = f"/apis/{GROUP}/v1beta1"


def template(domain: Object) -> Object:
    """The ResourceClaimTemplate that workload pods name."""
    meta, channel = domain["metadata"], domain["spec"]["channel"]
    parameters = {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "ComputeDomainChannelConfig",
        "domainID": meta["uid"],
        "allocationMode": channel.get("allocationMode", "Single"),
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": channel["resourceClaimTemplate"]["name"],
            "namespace": meta["namespace"],
            "labels": {f"{GROUP}/computeDomain": meta["uid"], f"{GROUP}/computeDomainTarget": "Workload"},
            "finalizers": [FINALIZER],
        },
        "spec": {
            "spec": {
                "devices": {
                    "requests": [
                        {"name": "channel", "exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com"}}
                    ],
                    "config": [{"requests": ["channel"], "opaque": {"driver": DRIVER, "parameters": parameters}}],
                }
            }
        },
    }


def joined(domain: Object, pods: list[Object], nodes: dict[str, Object]) -> list[Object]:
    """status.nodes: every node that a pod with the domain's claim was placed on."""
    wanted = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    names = {
        pod["spec"]["nodeName"]
        for pod in pods
        if pod["spec"].get("nodeName")
        and any(c.get("resourceClaimTemplateName") == wanted for c in pod["spec"].get("resourceClaims", []))
    }
    result = []
    for index, name in enumerate(sorted(names & nodes.keys())):
        node = nodes[name]
        address = next(a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP")
        clique = node["metadata"]["labels"].get("nvidia.com/gpu.clique", "")
        result.append({"name": name, "ipAddress": address, "cliqueID": clique, "index": index, "status": "Ready"})
    return result


def domain_status(domain: Object, nodes: list[Object]) -> Object:
    """With numNodes 0 a domain is Ready at once."""
    ready = len(nodes) >= domain["spec"].get("numNodes", 0)
    return {"status": "Ready" if ready else "NotReady", "nodes": nodes}


def reconcile(api: Api, domain: Object, nodes: dict[str, Object]) -> None:
    meta, claim = domain["metadata"], template(domain)
    namespace = meta["namespace"]
    where = f"{DOMAINS}/namespaces/{namespace}/computedomains/{meta['name']}"
    claims = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates"
    place = f"{claims}/{claim['metadata']['name']}"
    live = api.get(place)
    ours = live and live["metadata"].get("labels", {}).get(f"{GROUP}/computeDomain") == meta["uid"]
    finalizers = meta.get("finalizers", [])
    if meta.get("deletionTimestamp"):
        if ours:
            api.delete(place)
            api.merge(place, {"metadata": {"finalizers": None}})
        if FINALIZER in finalizers:
            api.merge(where, {"metadata": {"finalizers": [f for f in finalizers if f != FINALIZER]}})
        return
    if FINALIZER not in finalizers:
        api.merge(where, {"metadata": {"finalizers": [*finalizers, FINALIZER]}})
    if not live:
        api.call("POST", claims, claim)
        log(f"claim template {namespace}/{claim['metadata']['name']} made")
    pods = api.call("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    status = domain_status(domain, joined(domain, pods, nodes))
    if status != domain.get("status"):
        # Without a status subresource (the driver's own CRD may have none) the status is an ordinary field.
        body: dict[str, Any] = {"status": status}
        try:
            api.merge(f"{where}/status", body)
        except ApiError as error:
            if error.status != 404:
                raise
            api.merge(where, body)


def main() -> None:
    api, period = Api(), float(os.environ.get("PERIOD", "0.5"))
    while True:
        time.sleep(period)
        try:
            domains = api.call("GET", f"{DOMAINS}/computedomains")["items"]
            nodes = {n["metadata"]["name"]: n for n in api.call("GET", "/api/v1/nodes")["items"]} if domains else {}
        except (ApiError, OSError) as error:
            log(f"list: {error}")
            continue
        for domain in domains:
            try:
                reconcile(api, domain, nodes)
            except (ApiError, OSError) as error:
                log(f"{domain['metadata']['namespace']}/{domain['metadata']['name']}: {error}")


if __name__ == "__main__":
    main()
