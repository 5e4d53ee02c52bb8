# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ReadWriteMany volumes of the lab: a static hostPath volume for every claim of the class lab-rwx, removed with it.
A kind cluster of one node has no other way to RWX. ROOT is a directory of the node, mounted at the same path here."""

from __future__ import annotations

import os
import shutil
import time

from kube import Api, ApiError, Object, log

CLASS, ROOT = "lab-rwx", "/var/lib/inferops-lab"


def volume_of(claim: Object) -> Object:
    """The volume for a claim, bound to it by uid."""
    meta = claim["metadata"]
    name = f"pvc-{meta['uid']}"
    reference = {key: meta[key] for key in ("namespace", "name", "uid")}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": CLASS,
            "hostPath": {"path": f"{ROOT}/{name}", "type": "DirectoryOrCreate"},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference},
        },
    }


def reconcile(api: Api) -> None:
    claims = api.call("GET", "/api/v1/persistentvolumeclaims")["items"]
    wanted = {f"pvc-{c['metadata']['uid']}": c for c in claims if c["spec"].get("storageClassName") == CLASS}
    volumes = api.call("GET", "/api/v1/persistentvolumes")["items"]
    have = {v["metadata"]["name"] for v in volumes if v["spec"].get("storageClassName") == CLASS}
    for name in wanted.keys() - have:
        os.makedirs(f"{ROOT}/{name}", exist_ok=True)
        os.chmod(f"{ROOT}/{name}", 0o777)  # any user, as shared storage is usually set up
        api.call("POST", "/api/v1/persistentvolumes", volume_of(wanted[name]))
        log(f"made {name} for {wanted[name]['metadata']['namespace']}/{wanted[name]['metadata']['name']}")
    for name in have - wanted.keys():
        api.delete(f"/api/v1/persistentvolumes/{name}")
        shutil.rmtree(f"{ROOT}/{name}", ignore_errors=True)
        log(f"removed {name}")


def main() -> None:
    api = Api()
    while True:
        time.sleep(1)
        try:
            reconcile(api)
        except (ApiError, OSError) as error:
            log(error)


if __name__ == "__main__":
    main()
