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
from ansible_collections.inferops.dynamo.plugins.module_utils._shape import ANYTHING, TEXT, problem

# What is used of it; what is wrong elsewhere the client says.
SHAPE: dict[str, Any] = {
    "contexts": [
        {"name!": TEXT, "context": {"cluster": TEXT, "user": TEXT, "namespace": TEXT, "...": ANYTHING}, "...": ANYTHING}
    ],
    "clusters": [{"name!": TEXT, "cluster": {"server": TEXT, "...": ANYTHING}, "...": ANYTHING}],
    "users": [{"name!": TEXT, "user": {"...": ANYTHING}, "...": ANYTHING}],
    "current-context": TEXT,
    "...": ANYTHING,
}


def load(kubeconfig: Any, variable: str) -> dict[str, Any]:
    """One kubeconfig from a dictionary, a path, or several paths as in KUBECONFIG; the first to name something wins.

    :param variable: what the value comes from, for messages.
    :raises DynamoError: NO_CLUSTER.
    """
    if isinstance(kubeconfig, Mapping):
        return _checked(kubeconfig, variable)
    paths = [os.path.expanduser(path) for path in str(kubeconfig).split(os.pathsep) if path]
    merged: dict[str, Any] = {"contexts": [], "clusters": []}
    present = [path for path in paths if os.path.isfile(path)]
    if not present:
        what = "is a directory" if any(os.path.isdir(path) for path in paths) else ""
        text = (
            f"{os.pathsep.join(paths)} {what}, no kubeconfig"
            if what
            else f"there is no kubeconfig {os.pathsep.join(paths)}"
        )
        raise DynamoError(f"{variable}: {text}.", "NO_CLUSTER", "Nothing was changed.")
    for path in present:
        try:
            with open(path, encoding="utf-8") as stream:
                documents = _yaml.load_all(stream)
        except (OSError, UnicodeDecodeError, _yaml.NotYaml) as error:
            # the error of a YAML parser quotes the file, which holds credentials
            why = f"line {error.line} is not YAML" if isinstance(error, _yaml.NotYaml) else type(error).__name__
            raise DynamoError(f"{variable}: {path} is not readable as a kubeconfig: {why}.", "NO_CLUSTER") from None
        part = documents[0] if len(documents) == 1 else None
        if part is None:
            what = "holds several documents" if documents else "is empty"
            raise DynamoError(f"{variable}: {path} {what}; it must be one kubeconfig.", "NO_CLUSTER")
        part = _checked(part, f"{variable}: {path}")
        for key in ("contexts", "clusters"):
            merged[key] += part.get(key) or []
        merged.setdefault("current-context", part.get("current-context"))
        merged["current-context"] = merged["current-context"] or part.get("current-context")
    return merged


def _checked(config: Any, what: str) -> dict[str, Any]:
    wrong = problem(config, SHAPE)
    if wrong:
        raise DynamoError(f"{what} is not a kubeconfig: {wrong}.", "NO_CLUSTER")
    if not config.get("contexts"):
        keys = ", ".join(sorted(config)) or "nothing"
        raise DynamoError(f"{what} is not a kubeconfig: it has no contexts, only {keys}.", "NO_CLUSTER")
    return dict(config)


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
        raise DynamoError(
            f"{variable}: context {wanted} names no cluster with a server.", "NO_CLUSTER", f"There is: {names}."
        )
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
