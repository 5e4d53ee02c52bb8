# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: live state against a release: what would change, what a rollout takes, which steps are needed. Pure.

Rules about rollouts are the operator's as observed on its component pathway: one hash over all workers, replica
arithmetic, the strategy read from the annotations of podTemplate and spec.
"""

from __future__ import annotations

import base64
import json
import math
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._capacity import Demand, pod_requests
from ansible_collections.inferops.dynamo.plugins.module_utils._history import RECORD_LABEL
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import placeholder, workers_of
from ansible_collections.inferops.dynamo.plugins.module_utils._objects import comparable, ours
from ansible_collections.inferops.dynamo.plugins.module_utils._safetensors import rank

STEPS = ("hf_secret", "model_cache", "compute_domain", "deploy")
RELEASE_LABEL = "inferops.dynamo/release"
CHECKPOINT_LABEL = "inferops.dynamo/checkpoint"
OPERATOR_VERSION = "nvidia.com/dynamo-operator-origin-version"
SURGE = "nvidia.com/deployment-rolling-update-max-surge"
UNAVAILABLE = "nvidia.com/deployment-rolling-update-max-unavailable"
STRATEGY = "nvidia.com/deployment-strategy"
DOMAIN_API = "resource.nvidia.com/v1beta1"
# Not part of the operator's hash over the worker specs.
_UNHASHED = ("replicas", "minAvailable", "scalingAdapter")

Object = Mapping[str, Any]


def labels(obj: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return found


def checkpoints(config_maps: Iterable[Object], wanted: Object, claim_uid: str | None) -> list[Mapping[str, str]]:
    """Checkpoint records of this very claim, newest first; also those of what a later verification found bad."""
    found = []
    for config_map in config_maps:
        data = config_map.get("data") or {}
        if (
            claim_uid
            and labels(config_map).get(CHECKPOINT_LABEL) == "true"
            and data.get("claim") == wanted["name"]
            and data.get("claim_uid") == claim_uid
        ):
            found.append(data)
    return sorted(found, key=lambda data: data.get("verified_at", ""), reverse=True)


def bad(record: Mapping[str, str]) -> bool:
    return record.get("problems", "0") != "0"


def doubted(models: Iterable[Object], records: Iterable[Mapping[str, str]]) -> str:
    """The level of the verification that found one of these checkpoints bad, "" when none did."""
    held = [record_of(model, records) for model in models]
    levels = [record.get("verify", "") for record in held if record and bad(record)]
    return max(*levels, "sizes", key=rank) if levels else ""


def record_of(model: Object, records: Iterable[Mapping[str, str]]) -> Mapping[str, str] | None:
    """The newest record of this repository in this layout, at this commit if the model names one."""
    for data in records:
        same = data.get("repository") == model["id"] and data.get("layout", model["layout"]) == model["layout"]
        if model["layout"] == "folder":  # two recipes may mount one claim at different paths
            path = model["path"].replace(placeholder(model["id"]), "commit")
            held = data.get("path", "")
            # A folder that somebody filled is proved as such; ours are told by the folder above the commit.
            ours_is = posixpath.basename(held) == data.get("commit", "")[:12] and _folder(held) == _folder(path)
            same = same and (held == path if model.get("adopted") else ours_is)
        if same and model.get("commit") in (None, "", data.get("commit")):
            return data
    return None


def superseded(records: Iterable[Mapping[str, str]], release: Object, users: Iterable[Object]) -> list[dict[str, str]]:
    """Checkpoints that nothing needs: other commits of the release's repositories, in directories that role model_cache
    made.

    :param records: as `checkpoints`.
    :param users: DynamoGraphDeployments, pods and release records of the namespace. Whatever names the commit in its
        text keeps it, for a release may mount it by path alone.
    """
    commits = {model["id"]: model["commit"] for model in release["models"] if model["commit"]}
    used = json.dumps(list(users), default=str)
    found = []
    for data in records:
        repository, commit = data.get("repository", ""), data.get("commit", "")
        made_here = data.get("adopted") != "true" and (
            data.get("layout") == "hub" or posixpath.basename(data.get("path", "")) == commit[:12]
        )
        if commits.get(repository, commit) != commit and made_here and commit[:12] not in used:
            found.append({"id": repository, **{key: data[key] for key in ("commit", "layout", "path")}})
    return found


def _folder(path: str) -> str:
    return posixpath.basename(posixpath.dirname(path))


def secret_value(live: Object | None, key: str) -> str:
    """The value behind a Secret's key, "" when there is none."""
    text = ((live or {}).get("data") or {}).get(key) or ""
    return base64.b64decode(text).decode("utf-8", "replace")


def secret_reason(live: Object | None, wanted: Object, token: str | None) -> str:
    """Why the Secret would be written: only with a token from the inventory, and never over a foreign Secret."""
    if not token or (live is not None and not ours(live)):
        return ""
    if live is None:
        return f"Secret {wanted['name']} would be created"
    same = secret_value(live, wanted["key"]) == token
    return "" if same else f"key {wanted['key']} of Secret {wanted['name']} would change"


def refers_to_secret(node: Any, name: str) -> bool:
    """Does a manifest need the Secret `name` (an env or envFrom reference that isn't optional)?"""
    if isinstance(node, list):
        return any(refers_to_secret(item, name) for item in node)
    if not isinstance(node, Mapping):
        return False
    references = [node[key] for key in ("secretRef", "secretKeyRef") if isinstance(node.get(key), Mapping)]
    needed = any(r.get("name") == name and not r.get("optional") for r in references)
    return needed or any(refers_to_secret(item, name) for item in node.values())


def foreign_domains(nodes: Iterable[Object], own_uid: str | None) -> dict[str, str]:
    """Nodes that another ComputeDomain holds: a node takes part in one at a time."""
    held = ((n["metadata"]["name"], labels(n).get("resource.nvidia.com/computeDomain")) for n in nodes)
    return {name: "belongs to another ComputeDomain" for name, uid in held if uid and uid != own_uid}


def differences(before: Any, after: Any, path: str = "") -> list[str]:
    """Paths that differ; lists of named entries are compared by name."""
    if before == after:
        return []
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = [*before, *(key for key in after if key not in before)]
        return [p for key in keys for p in differences(before.get(key), after.get(key), f"{path}.{key}".lstrip("."))]
    if (
        isinstance(before, list)
        and isinstance(after, list)
        and all(isinstance(i, Mapping) and "name" in i for i in before + after)
    ):
        left, right = ({i["name"]: i for i in items} for items in (before, after))
        keys = [*left, *(key for key in right if key not in left)]
        return [p for key in keys for p in differences(left.get(key), right.get(key), f"{path}[{key}]")]
    return [path]


def ready_workers(live: Object | None) -> int:
    """Ready worker pods, of all generations together."""
    return sum(_ready(live, component["name"]) for component in workers_of(live)) if live else 0


def _ready(live: Object, component: str) -> int:
    state = ((live.get("status") or {}).get("components") or {}).get(component) or {}
    return int(state.get("readyReplicas") or 0)


def _hashed(spec: Object) -> dict[str, Any]:
    workers = {c["name"]: {k: v for k, v in c.items() if k not in _UNHASHED} for c in workers_of({"spec": spec})}
    return {"workers": workers, **{key: spec.get(key) or None for key in ("annotations", "labels", "env")}}


def _amount(text: Any, total: int, up: bool) -> int:
    value = str(text)
    if value.endswith("%"):
        share = total * int(value[:-1]) / 100
        return math.ceil(share) if up else math.floor(share)
    return int(value)


@dataclass
class Rollout:
    """What the change from the live to the wanted spec does to the workers."""

    rolls: bool = False
    gap: list[str] = field(default_factory=list)
    surge: list[Demand] = field(default_factory=list)


def rollout(live: Object, wanted: Object) -> Rollout:
    """gap: components that lose their last ready pod; surge: pods that must find room beside all the present ones."""
    result = Rollout(rolls=_hashed(live["spec"]) != _hashed(wanted["spec"]))
    for component in workers_of(wanted):
        template = component.get("podTemplate") or {}
        annotations = {
            **(wanted["spec"].get("annotations") or {}),
            **((template.get("metadata") or {}).get("annotations") or {}),
        }
        name, desired = component["name"], component.get("replicas", 1)
        try:
            surge = _amount(annotations.get(SURGE, "25%"), desired, up=True)
            unavailable = _amount(annotations.get(UNAVAILABLE, "25%"), desired, up=False)
        except ValueError:
            surge, unavailable = _amount("25%", desired, up=True), 0
        if surge == 0 and unavailable == 0:
            surge = 1
        recreate = annotations.get(STRATEGY) == "Recreate"
        takes_all = desired == 0 or (result.rolls and (recreate or unavailable >= desired))
        if takes_all and _ready(live, name):
            result.gap.append(name)
        if result.rolls and not recreate and surge and desired:
            spec = template.get("spec") or {}
            result.surge.append(Demand(name, spec, pod_requests(spec), surge))
    return result


def settled(live: Object) -> str:
    """ "" when the live DGD is Ready for its present generation, else what it says."""
    status = live.get("status") or {}
    if (status.get("observedGeneration") or 0) < (live["metadata"].get("generation") or 0):
        return "the operator hasn't processed it yet"
    for condition in status.get("conditions") or []:
        if condition.get("type") == "Ready":
            return "" if condition.get("status") == "True" else str(condition.get("message") or condition.get("reason"))
    return "it has no condition Ready"


def deploy_reasons(
    live: Object | None, stored: Object | None, release: Object, known: set[str], old: list[Object]
) -> list[str]:
    """Why the step `deploy` is needed; `known` are the ConfigMaps that exist, `old` what will be pruned."""
    what = f"DynamoGraphDeployment {release['name']}"
    reasons = [
        f"ConfigMap {c['metadata']['name']} would be created"
        for c in release["config_maps"]
        if c["metadata"]["name"] not in known
    ]
    if live is None:
        reasons.insert(0, f"{what} would be created")
    elif stored is None:
        reasons.insert(0, f"{what} could not be compared")
    else:
        paths = differences(comparable(live), comparable(stored))
        if paths:
            more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
            reasons.insert(0, f"{what} would change: {', '.join(paths[:3])}{more}")
        elif state := settled(live):
            reasons.append(f"{what} isn't ready: {state}")
    if old:
        reasons.append("would be removed: " + ", ".join(f"{o['kind']} {o['name']}" for o in old))
    return reasons


def steps(reasons: Mapping[str, list[str]]) -> tuple[list[str], dict[str, str]]:
    """The steps that have a reason, in the order of execution, and the reasons as text."""
    needed = [step for step in STEPS if reasons.get(step)]
    return needed, {step: "; ".join(reasons[step]) for step in needed}


def prune(config_maps: Iterable[Object], domains: Iterable[Object], release: Object) -> list[dict[str, str]]:
    """Objects of ours that belong to this release and that it no longer has; records stay."""
    keep = {("ConfigMap", c["metadata"]["name"]) for c in release["config_maps"]}
    if release.get("compute_domain"):
        keep.add(("ComputeDomain", release["compute_domain"]["name"]))
    candidates = [("v1", "ConfigMap", c) for c in config_maps if RECORD_LABEL not in labels(c)]
    candidates += [(DOMAIN_API, "ComputeDomain", d) for d in domains]
    return [
        {"apiVersion": api, "kind": kind, "name": obj["metadata"]["name"]}
        for api, kind, obj in candidates
        if ours(obj)
        and labels(obj).get(RELEASE_LABEL) == release["name"]
        and (kind, obj["metadata"]["name"]) not in keep
    ]
