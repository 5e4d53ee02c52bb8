# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The smallest DRA kubelet plugin: publishes channels as devices, and prepares every claim with nothing in it, so that
a pod that claims a ComputeDomain channel starts. Runs on every node, with the kubelet's plugin directories mounted at
the same paths."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
from kube import Api, ApiError, log

DRIVER = "compute-domain.nvidia.com"
KUBELET = "/var/lib/kubelet"
SOCKET = f"plugins/{DRIVER}/dra.sock"
CHANNELS = 64

# ---- protobuf by hand: messages here have length-delimited fields only -----------------------------------------------


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, data: str | bytes) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """(field number, value), in order."""
    at = 0
    while at < len(message):
        number, at = message[at] >> 3, at + 1
        size = shift = 0
        while True:
            size |= (message[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if message[at - 1] < 128:
                break
        yield number, message[at : at + size]
        at += size


def prepared(request: bytes, _context: Any) -> bytes:
    """Claim {1: namespace, 2: uid, 3: name} of the request -> a map from its uid to an empty answer."""
    uids = [dict(fields(claim))[2] for number, claim in fields(request) if number == 1]
    log("claims", uids)
    return b"".join(field(1, field(1, uid) + field(2, b"")) for uid in uids)


def info(_request: bytes, _context: Any) -> bytes:
    return field(1, "DRAPlugin") + field(2, DRIVER) + field(3, f"{KUBELET}/{SOCKET}") + field(4, "v1.DRAPlugin")


METHODS: dict[str, Callable[[bytes, Any], bytes]] = {
    "GetInfo": info,
    "NotifyRegistrationStatus": lambda _request, _context: b"",
    "NodePrepareResources": prepared,
    "NodeUnprepareResources": prepared,
}


class Handler(grpc.GenericRpcHandler):
    def service(self, call: Any) -> Any:
        method = METHODS.get(call.method.rsplit("/", 1)[1])
        return method and grpc.unary_unary_rpc_method_handler(method)


def resource_slice(node: str, uid: str) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": f"{node}-{DRIVER}",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}],
        },
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"channel-{i}"} for i in range(CHANNELS)],
        },
    }


def main() -> None:
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([Handler()])
    os.makedirs(f"{KUBELET}/plugins/{DRIVER}", exist_ok=True)
    os.chdir(KUBELET)  # the path of a socket is limited to 107 bytes
    for path in (SOCKET, f"plugins_registry/{DRIVER}.sock"):
        if os.path.exists(path):
            os.unlink(path)
        server.add_insecure_port(f"unix:{path}")
    server.start()
    api, node = Api(), os.environ["NODE_NAME"]
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    while True:  # the kubelet deletes the slices of a driver that it doesn't know (any more)
        try:
            if not api.get(f"{slices}/{node}-{DRIVER}"):
                uid = api.call("GET", f"/api/v1/nodes/{node}")["metadata"]["uid"]
                api.call("POST", slices, resource_slice(node, uid))
                log(f"slice of {node} made")
        except (ApiError, OSError) as error:
            log(f"slice: {error}")
        time.sleep(5)


if __name__ == "__main__":
    main()
