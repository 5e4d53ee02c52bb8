# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: which cluster a kubeconfig means. Reads files only; no API is called and no credential is kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils import _yaml
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError


def load(kubeconfig: Any, variable: str) -> dict[str, Any]:
    """One kubeconfig from a dictionary, a path, or several paths as in KUBECONFIG; the first to name something wins.

    :param variable: what the value comes from, for messages.
    :raises DynamoError: NO_CLUSTER.
    """
    if isinstance(kubeconfig, Mapping):
        return dict(kubeconfig)
    paths = [os.path.expanduser(path) for path in str(kubeconfig).split(os.pathsep) if path]
    merged: dict[str, Any] = {"contexts": [], "clusters": []}
    present = [path for path in paths if os.path.isfile(path)]
    if not present:
        raise DynamoError(
            f"{variable}: there is no kubeconfig {os.pathsep.join(paths)}.", "NO_CLUSTER", "Nothing was changed."
        )
    for path in present:
        try:
            with open(path, encoding="utf-8") as stream:
                documents = _yaml.load_all(stream)
        except (OSError, UnicodeDecodeError, _yaml.NotYaml) as error:
            # the error of a YAML parser quotes the file, which holds credentials
            raise DynamoError(
                f"{variable}: {path} is not readable as a kubeconfig ({type(error).__name__}).", "NO_CLUSTER"
            ) from None
        part = documents[0] if len(documents) == 1 else None
        if not isinstance(part, dict):
            raise DynamoError(f"{variable}: {path} is not a kubeconfig.", "NO_CLUSTER")
        for key in ("contexts", "clusters"):
            merged[key] += part.get(key) or []
        merged.setdefault("current-context", part.get("current-context"))
        merged["current-context"] = merged["current-context"] or part.get("current-context")
    return merged


def cluster_of(config: Mapping[str, Any], context: str | None, variable: str) -> dict[str, str]:
    """{context, server, namespace} of a context, or of the current one.

    :raises DynamoError: NO_CLUSTER naming the contexts that there are.
    """
    contexts = {item.get("name"): item.get("context") or {} for item in config.get("contexts") or []}
    names = ", ".join(sorted(str(name) for name in contexts)) or "none"
    wanted = context or config.get("current-context") or ""
    if not wanted:
        raise DynamoError(
            f"{variable} has no current context.", "NO_CLUSTER", f"Set dynamo_context to one of: {names}."
        )
    if wanted not in contexts:
        source = "dynamo_context" if context else f"the current context of {variable}"
        raise DynamoError(f"{source}: there is no context {wanted}.", "NO_CLUSTER", f"There is: {names}.")
    chosen = contexts[wanted]
    clusters = {item.get("name"): item.get("cluster") or {} for item in config.get("clusters") or []}
    server = str(clusters.get(chosen.get("cluster"), {}).get("server") or "").rstrip("/")
    if not server:
        raise DynamoError(f"context {wanted} names no cluster with a server.", "NO_CLUSTER", f"There is: {names}.")
    return {"context": wanted, "server": server, "namespace": str(chosen.get("namespace") or "")}


def context_of(spec: Mapping[str, Any], default: str) -> str:
    """The context that a client will use, "" without a kubeconfig.

    :param spec: the authentication options as kubernetes.core takes them from parameters and environment.
    :param default: path of the kubeconfig that is read when nothing is said.
    :raises DynamoError: NO_CLUSTER: no such file or context.
    """
    source, context = spec.get("kubeconfig"), spec.get("context")
    if spec.get("host") and (spec.get("api_key") or spec.get("username") or spec.get("cert_file")):
        return ""
    if not source and not context and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "in-cluster"
    variable = "dynamo_kubeconfig" if source else "the default kubeconfig"
    return cluster_of(load(source or default, variable), context, variable)["context"]
