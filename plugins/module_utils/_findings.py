# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the findings of a preflight, one function for one question. Pure functions.

A finding is {code, level, message, hint}; level is PASS, WARN, FAIL or UNKNOWN.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ansible_collections.inferops.dynamo.plugins.module_utils._capacity import Placement
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._hub import Access
from ansible_collections.inferops.dynamo.plugins.module_utils._objects import ours, refuse
from ansible_collections.inferops.dynamo.plugins.module_utils._plan import Object, Rollout

PROVIDER = "nvidia.com/workload-provider"
CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"

Finding = dict[str, str]

# What may explain others comes first: wrong place, no rights, no platform, the objects that are there, then what a
# deployment needs, from the namespace's storage to the hub, places for the pods, and last what an update would do.
CAUSES_FIRST = (
    *("CLUSTER_UID", "FORBIDDEN", "NAMESPACE_TERMINATING", "NAMESPACE_ABSENT"),
    *("DGD_API_ABSENT", "OPERATOR_SILENT", "COMPUTE_DOMAIN_API_ABSENT", "DEVICE_CLASS_ABSENT"),
    *("BEING_DELETED", "FOREIGN", "NAME_CLASH", "OTHER_TARGET", "CONFLICT", "COMPUTE_DOMAIN_CHANGED", "DGD_REFUSED"),
    *("STORAGE_CLASS_ABSENT", "VOLUME_ABSENT", "CLAIM_ABSENT", "CLAIM_LOST", "CLAIM_ACCESS_MODE", "CACHE_READ_ONLY"),
    *("POD_SECURITY", "ADMISSION_REFUSED", "QUOTA_EXCEEDED"),
    *("SECRET_KEY_ABSENT", "TOKEN_MISSING", "TOKEN_REFUSED"),
    *("HUB_UNREACHABLE", "REPOSITORY_ABSENT", "REVISION_ABSENT"),
    *("GPU_PRODUCT", "CAPACITY", "NO_SURGE_ROOM", "UPDATE_NEEDS_GAP"),
)


def finding(level: str, code: str, message: str, hint: str = "") -> Finding:
    return {"code": code, "level": level, "message": " ".join(message.split()), "hint": hint}


def text(item: Finding) -> str:
    """A finding as people read it."""
    return f"{item['message'].rstrip('.')}: {item['hint']}" if item["hint"] else item["message"]


def failures(findings: Iterable[Finding]) -> list[Finding]:
    """Those of level FAIL, the root cause first."""
    failed = [item for item in findings if item["level"] == "FAIL"]
    order = {code: place for place, code in enumerate(CAUSES_FIRST)}
    return sorted(failed, key=lambda item: order.get(item["code"], len(order)))


def error(failed: list[Finding], **evidence: Any) -> DynamoError:
    """One line: the first of `failures` as what happened, and what to do about it and about each of the others.

    `_report.table` makes paragraphs of it, at each `; also CODE: `.
    """
    first, *others = failed
    hint = "; ".join([first["hint"], *(f"also {item['code']}: {text(item)}" for item in others)])
    return DynamoError(f"{first['message'].rstrip('.')}:", first["code"], hint, **evidence)


def cluster_uid(found: str, wanted: str | None, where: str) -> Finding:
    if wanted and found != wanted:
        message = f"{where} is another cluster than dynamo_cluster_uid says: it has {found}, expected {wanted}"
        return finding(
            "FAIL", "CLUSTER_UID", message, "correct dynamo_kubeconfig, dynamo_context or dynamo_cluster_uid"
        )
    return finding("PASS", "cluster_uid", f"{where} has the uid {found}")


def namespace(obj: Object | None, name: str, create: bool) -> Finding:
    if obj is None and create:
        return finding("PASS", "namespace", f"namespace {name} will be created")
    if obj is None:
        return finding(
            "FAIL",
            "NAMESPACE_ABSENT",
            f"namespace {name} doesn't exist",
            "create it or set dynamo_create_namespace: true",
        )
    if obj["metadata"].get("deletionTimestamp"):
        return finding("FAIL", "NAMESPACE_TERMINATING", f"namespace {name} is being deleted", "wait until it is gone")
    return finding("PASS", "namespace", f"namespace {name} exists")


def operator(stored: Object | None, error: DynamoError | None, name: str) -> Finding:
    """From the server-side dry run of the DGD: the operator's webhooks run in it."""
    if error is not None:
        if "calling webhook" in error.message or "call webhook" in error.message:
            hint = "look at the pods of the Dynamo operator (label app.kubernetes.io/name=dynamo-operator)"
            return finding("FAIL", "OPERATOR_SILENT", f"the Dynamo operator doesn't answer: {error.message}", hint)
        code = error.code if error.code in ("CONFLICT", "FORBIDDEN") else "DGD_REFUSED"
        hint = error.hint or "correct dynamo_binding, or the recipe: this is the API server's answer to its manifest"
        return finding("FAIL", code, error.message, hint)
    if stored is not None and PROVIDER not in (stored["metadata"].get("annotations") or {}):
        message = f"the API accepts DynamoGraphDeployment {name}, but no operator has marked it"
        return finding(
            "WARN", "OPERATOR_SILENT", message, "check that the Dynamo operator and its webhooks are installed"
        )
    return finding("PASS", "operator", f"the Dynamo operator accepts DynamoGraphDeployment {name}")


def owner(live: Object | None, wanted: Object, adopt: bool = False) -> list[Finding]:
    """The live object is another tool's, or has what can't be changed."""
    try:
        if live is not None:
            refuse(wanted, live, adopt)
    except DynamoError as error:
        return [finding("FAIL", error.code, error.message, error.hint)]
    return []


def names(dgds: Iterable[Object], release: Object) -> list[Finding]:
    """A frontend serves every DGD whose name starts with its own: no name may be the prefix of another."""
    name, place, found = release["name"], release["namespace"], []
    others = [d for d in dgds if d["metadata"]["name"] != name]
    clash = [
        d["metadata"]["name"] for d in others if (o := d["metadata"]["name"]).startswith(name) or name.startswith(o)
    ]
    if clash:
        message = f"frontends of {name} and {', '.join(sorted(clash))} in {place} would serve each other's models"
        found.append(finding("FAIL", "NAME_CLASH", message, "set dynamo_namespace to a namespace of its own"))
    replaced = [d["metadata"]["name"] for d in others if ours(d)]
    if release.get("replaces_target") and replaced:
        message = (
            f"target {release['target']} differs from this host's dynamo_target {release['replaces_target']}, "
            f"and namespace {place} holds {', '.join(sorted(replaced))}"
        )
        found.append(finding("FAIL", "OTHER_TARGET", message, "tear that down first, or run with -e add_target=true"))
    return found or [finding("PASS", "names", f"the name {name} is free of clashes in namespace {place}")]


def read_only_cache(live: Object | None, wanted: Object, downloads: bool, writers: Iterable[str]) -> list[Finding]:
    """Who would write to a cache that can only be read. writers: `component: variable=path`."""
    modes = (live or {}).get("spec", {}).get("accessModes") or []
    source: Object = next(iter((wanted.get("volume") or {}).values()), {})
    if not (source.get("readOnly") or ("ReadOnlyMany" in modes and "ReadWriteMany" not in modes)):
        return []
    reasons = ["the checkpoint is not proved there and would be downloaded"] if downloads else []
    reasons += [f"the recipe writes to it ({writer})" for writer in writers]
    if not reasons:
        return []
    what = "dynamo_binding.cache_volume" if source.get("readOnly") else f"claim {wanted['name']}"
    hint = (
        "take one that can be written (dynamo_cache_claim); a checkpoint that somebody else put there needs"
        " model_cache_source: populated"
    )
    return [finding("FAIL", "CACHE_READ_ONLY", f"{what} can only be read, but {'; '.join(reasons)}", hint)]


def claim(
    live: Object | None, wanted: Object, place: str, classes: Iterable[Object], volumes: Iterable[Object]
) -> Finding:
    """`classes` and `volumes` are needed only when there is no claim yet."""
    name, storage = wanted["name"], wanted.get("storage_class")
    if live is not None:
        modes = live["spec"].get("accessModes") or []
        phase = (live.get("status") or {}).get("phase", "Pending")
        if live["metadata"].get("deletionTimestamp") or phase == "Lost":
            state = "lost its volume" if phase == "Lost" else "is being deleted"
            return finding(
                "FAIL", "CLAIM_LOST", f"claim {place}/{name} {state}", "set dynamo_cache_claim to another claim"
            )
        if not {"ReadWriteMany", "ReadOnlyMany"} & set(modes):
            message = f"claim {place}/{name} is {', '.join(modes)}, not ReadWriteMany"
            return finding("FAIL", "CLAIM_ACCESS_MODE", message, "set dynamo_cache_claim to a ReadWriteMany claim")
        return finding("PASS", "claim", f"claim {place}/{name} is {phase}")
    if not wanted.get("create"):
        return finding(
            "FAIL",
            "CLAIM_ABSENT",
            f"claim {place}/{name} doesn't exist",
            "set dynamo_cache_claim to an existing claim, or dynamo_cache_claim_create: true and dynamo_storage_class",
        )
    volume = wanted.get("volume_name")
    if volume:
        if any(v["metadata"]["name"] == volume for v in volumes):
            return finding("PASS", "claim", f"claim {place}/{name} will be created on volume {volume}")
        return finding(
            "FAIL", "VOLUME_ABSENT", f"PersistentVolume {volume} doesn't exist", "correct dynamo_cache_volume"
        )
    known = sorted(c["metadata"]["name"] for c in classes)
    # A static volume needs no StorageClass object, only the same class name.
    if storage and (storage in known or any(_offers(v, storage, place, name) for v in volumes)):
        return finding("PASS", "claim", f"claim {place}/{name} will be created with storage class {storage}")
    what = f"storage class {storage} doesn't exist" if storage else "no storage class and no claim"
    return finding(
        "FAIL",
        "STORAGE_CLASS_ABSENT",
        f"{what}: claim {place}/{name} can't be created; storage classes here: {', '.join(known) or 'none'}",
        "set dynamo_storage_class to one that offers ReadWriteMany, or dynamo_cache_claim to an existing claim",
    )


def _offers(volume: Object, storage: str, place: str, name: str) -> bool:
    spec, phase = volume["spec"], (volume.get("status") or {}).get("phase")
    ref = spec.get("claimRef") or {}
    return (
        spec.get("storageClassName") == storage
        and "ReadWriteMany" in (spec.get("accessModes") or [])
        and phase == "Available"
        and (not ref or (ref.get("namespace") == place and ref.get("name") == name))
    )


def secret(live: Object | None, wanted: Object, place: str, given: bool, required: bool) -> Finding:
    """`given`: the inventory has a token. `required`: the release itself refers to the Secret's key."""
    name, key = wanted["name"], wanted["key"]
    what = f"Secret {place}/{name}"
    if live is not None and given and not ours(live) and key in (live.get("data") or {}):
        message = f"{what} was not made by this collection: it is used, and dynamo_hf_token is not"
        hint = "take dynamo_hf_token out of the inventory, or set dynamo_secret_name to a name of its own"
        return finding("WARN", "SECRET_FOREIGN", message, hint)
    if live is not None and key in (live.get("data") or {}):
        return finding("PASS", "secret", f"{what} has the key {key}")
    if given and (live is None or ours(live)):
        return finding("PASS", "secret", f"{what} will be written from dynamo_hf_token")
    state = f"{what} doesn't exist" if live is None else f"{what} has no key {key}"
    if required or live is not None:
        hint = f"add the key, or set dynamo_secret_key or dynamo_secret_name{'' if live else ', or dynamo_hf_token'}"
        return finding("FAIL" if required else "WARN", "SECRET_KEY_ABSENT", state, hint)
    return finding("PASS", "secret", f"{state}; the release doesn't refer to it")


def model_access(answer: Access, pinned: bool, secret_name: str, token_wanted: bool) -> Finding:
    """token_wanted: the recipe calls the repository gated and there is no token; counts if the hub can't be asked."""
    what, detail = f"{answer['id']} at {answer['revision']}", f" ({answer['detail']})" if answer["detail"] else ""
    status = answer["status"]
    if status == "HUB_UNREACHABLE" and token_wanted:
        status = "TOKEN_MISSING"
    if status == "ok":
        size = f", {answer['bytes'] / 1e9:.1f} GB" if answer["bytes"] is not None else ""
        return finding("PASS", "model_access", f"{what}: commit {answer['commit'][:12]}, {answer['files']} files{size}")
    texts = {
        "TOKEN_MISSING": (
            f"{what} is gated or private, and there is no token",
            f"set dynamo_hf_token (vaulted), or put a token into Secret {secret_name}",
        ),
        "TOKEN_REFUSED": (
            f"the hub refuses the token for {what}{detail}",
            "accept the licence on the model's page with the token's account, or set another dynamo_hf_token",
        ),
        "REPOSITORY_ABSENT": (f"the hub has no repository {answer['id']}{detail}", "correct the recipe's repository"),
        "REVISION_ABSENT": (
            f"{answer['id']} has no revision {answer['revision']}{detail}",
            "correct dynamo_model_commit",
        ),
        "HUB_RATE_LIMITED": (
            f"the hub limits requests, {what} can't be asked about now{detail}",
            "run again later, set dynamo_hf_token, or a mirror in dynamo_hub_endpoint",
        ),
        "HUB_UNREACHABLE": (
            f"the hub can't be asked about {what} from here{detail}",
            ""
            if pinned
            else "set dynamo_model_commit to a 40-hex commit, or dynamo_hub_endpoint to a hub that answers",
        ),
    }
    # What cannot be asked from here may well answer the Job; without a commit nothing can go on.
    level = "UNKNOWN" if status in ("HUB_UNREACHABLE", "HUB_RATE_LIMITED") and pinned else "FAIL"
    return finding(level, status, *texts[status])


def compute_domain(live: Object | None, wanted: Object, served: bool, classes: Iterable[str] | None) -> Finding:
    """`classes`: names of the DeviceClasses, None if unknown; the driver's is what pods claim a channel of."""
    if not served:
        message = "the API resource.nvidia.com/v1beta1 ComputeDomain is not served"
        return finding(
            "FAIL", "COMPUTE_DOMAIN_API_ABSENT", message, "install the NVIDIA DRA driver with ComputeDomains"
        )
    if classes is not None and CHANNEL_CLASS not in classes:
        message = f"there is no DeviceClass {CHANNEL_CLASS}"
        return finding("FAIL", "DEVICE_CLASS_ABSENT", message, "install the NVIDIA DRA driver with ComputeDomains")
    refused = owner(live, wanted["manifest"])
    if refused:
        return refused[0]
    return finding(
        "PASS", "compute_domain", f"ComputeDomain {wanted['name']} {'exists' if live else 'will be created'}"
    )


def capacity(placement: Placement, hint: str = "free GPUs, or correct dynamo_binding.placement") -> Finding:
    if placement.missing:
        return finding("FAIL", "CAPACITY", "; ".join(placement.missing.values()), hint)
    places = (
        f"{name} on " + ", ".join(f"{node} ({n})" if n > 1 else node for node, n in sorted(Counter(nodes).items()))
        for name, nodes in placement.nodes.items()
        if nodes
    )
    return finding("PASS", "capacity", "room for " + "; ".join(places))


def surge_room(placement: Placement) -> Finding:
    if placement.missing:
        message = "this change starts new workers beside the old ones, and there is no room: " + "; ".join(
            placement.missing.values()
        )
        return finding("FAIL", "NO_SURGE_ROOM", message, "free GPUs, or set dynamo_surge_room: false")
    return finding("PASS", "surge_room", "room for the new workers beside the old ones")


def gpu_products(found: tuple[list[str], list[str], list[str]], allowed: Iterable[str]) -> Finding:
    fits, other, unknown = found
    wanted = " or ".join(allowed)
    if fits and not other:
        return finding("PASS", "gpu_product", f"{wanted} on {', '.join(fits)}")
    if fits:
        message = f"pods may also be placed on nodes without {wanted}: {', '.join(other)}"
        return finding(
            "WARN", "GPU_PRODUCT", message, "set dynamo_binding.placement so that only the right nodes are left"
        )
    if other and not unknown:
        message = f"no node has {wanted}: {', '.join(other)}"
        return finding("FAIL", "GPU_PRODUCT", message, "choose a target for these GPUs, or correct dynamo_gpu_products")
    where = f"nodes {', '.join(unknown)} have" if unknown else "no GPU node that the workers may use has"
    return finding(
        "UNKNOWN",
        "GPU_PRODUCT",
        f"{where} {'no ' if unknown else 'a '}label nvidia.com/gpu.product to tell {wanted} by",
    )


def gap(change: Rollout, release: Object, allowed: bool) -> list[Finding]:
    if not change.gap:
        return []
    minutes = math.ceil(release["timeouts"]["ready"] / 60)
    message = (
        f"this change stops the last ready {' and '.join(change.gap)} of {release['namespace']}/{release['name']}: "
        f"no answers until the new one has started, up to {minutes} minutes"
    )
    if allowed:
        return [finding("WARN", "UPDATE_NEEDS_GAP", message)]
    return [finding("FAIL", "UPDATE_NEEDS_GAP", message, "run with -e allow_gap=true when the gap is acceptable")]
