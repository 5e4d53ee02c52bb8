# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user of the lab with the rights of docs/rbac.yaml and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from lab import ROOT, Lab
from recorder import Right

RBAC = "rbac.authorization.k8s.io"
Rights = set[Right]


def roles() -> dict[str, dict[str, Any]]:
    """The objects of docs/rbac.yaml by name."""
    documents = yaml.safe_load_all((ROOT / "docs/rbac.yaml").read_text("utf-8"))
    return {document["metadata"]["name"]: document for document in documents}


def rights(role: str) -> Rights:
    wanted = roles()[role]
    return {
        Right(verb, group, resource, wanted["kind"] == "Role")
        for rule in wanted["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class User:
    """A ServiceAccount in a namespace of its own, as a CI system has one. Its token is valid for an hour."""

    def __init__(self, lab: Lab, namespace: str) -> None:
        self.lab, self.namespace = lab, namespace
        self.home = f"{namespace}-ci"
        for name in (namespace, self.home):
            lab.core.create_namespace({"metadata": {"name": name}})
        lab.core.create_namespaced_service_account(self.home, {"metadata": {"name": "deployer"}})
        request = {"spec": {"audiences": None, "expirationSeconds": 3600}}
        answer = lab.core.create_namespaced_service_account_token("deployer", self.home, request)
        self.token = str(answer.status.token)
        for role in roles().values():
            place = {"namespace": namespace} if role["kind"] == "Role" else {}
            lab.dynamic.resources.get(api_version=f"{RBAC}/v1", kind=role["kind"]).server_side_apply(
                body=role, name=role["metadata"]["name"], field_manager="tests", force_conflicts=True, **place
            )

    def allow(self, *names: str) -> None:
        """Bind roles of docs/rbac.yaml to it."""
        for name in names:
            kind = roles()[name]["kind"]
            place = {"namespace": self.namespace} if kind == "Role" else {}
            binding = {
                "apiVersion": f"{RBAC}/v1",
                "kind": f"{kind}Binding",
                "metadata": {"name": f"{self.namespace}-{name}", **place},
                "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": self.home}],
            }
            self.lab.dynamic.resources.get(api_version=f"{RBAC}/v1", kind=f"{kind}Binding").create(
                body=binding, **place
            )

    def remove(self) -> None:
        bindings = self.lab.dynamic.resources.get(api_version=f"{RBAC}/v1", kind="ClusterRoleBinding")
        for item in bindings.get().items:
            if item.metadata.name.startswith(f"{self.namespace}-"):
                bindings.delete(name=item.metadata.name)
        self.lab.remove([self.namespace, self.home])

    def kubeconfig(self, path: Path, server: str) -> str:
        """A kubeconfig of this user for that address."""
        entry = {"clusters": [{"name": "c", "cluster": {"server": server}}]}
        user = {"users": [{"name": "deployer", "user": {"token": self.token}}]}
        context = {"contexts": [{"name": "c", "context": {"cluster": "c", "user": "deployer"}}], "current-context": "c"}
        path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **entry, **user, **context}))
        path.chmod(0o600)
        return str(path)
