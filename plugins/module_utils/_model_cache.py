# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the objects of role model_cache: claim, scripts, download Job, and the records of what it proved. Pure.

What is made here depends on models, claim, commits, image and options of the Job, never on the target: the targets of
one namespace share it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible.module_utils.common.validation import check_type_dict

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._manifests import (
    HEX40,
    Manifest,
    cache_source,
    cache_user,
    content_hash,
    references,
)
from ansible_collections.inferops.dynamo.plugins.module_utils._objects import CONTENT, LABELS, ours
from ansible_collections.inferops.dynamo.plugins.module_utils._plan import CHECKPOINT_LABEL
from ansible_collections.inferops.dynamo.plugins.module_utils._safetensors import rank

CLAIM = "inferops.dynamo/claim"  # label
CONTAINER = "model-download"
SCRATCH = "/tmp"  # an emptyDir: HF_HOME of plain folders
SCRIPTS = "/opt/inferops-dynamo"
# facts/serving-stack.md: hf_transfer's variable is dead, Xet's is this one; the rest keeps the log short.
HUB_ENV = {
    "HF_XET_HIGH_PERFORMANCE": "1",
    "HF_HUB_DOWNLOAD_TIMEOUT": "60",
    "HF_HUB_ETAG_TIMEOUT": "30",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}
# Exit codes of download.py that no retry can change: usage, access, space, a volume that cannot be written, no hashes.
HOPELESS = [2, 5, 6, 7, 8]


def slug(repository: str) -> str:
    """The repository in the name of an object: lower-case, everything but [a-z0-9] becomes a hyphen."""
    return re.sub(r"[^a-z0-9]", "-", repository.lower())


def objects(
    release: Mapping[str, Any], scripts: Mapping[str, str], options: Mapping[str, Any], live: Iterable[Manifest]
) -> list[Manifest]:
    """Claim (when it is ours to make), script ConfigMap and Job.

    :param scripts: file name -> text.
    :param options: verify, doubted (as `_plan.doubted`), source, proved (True: only look, the records are there), prune
        (checkpoints to delete, as `_plan.superseded` gives them; nothing else is done then), hub_endpoint, resources,
        run_as, backoff_limit, ttl.
    :param live: the claim and the Job as they are in the cluster, where they are.
    :raises DynamoError: NOT_PINNED when a repository has no commit, JOB_RUNNING when the Job of that name runs and does
        something else.
    """
    for model in release["models"]:
        if not HEX40.match(model.get("commit") or ""):
            raise DynamoError(
                f"{model['id']} has no commit: an unpinned checkpoint cannot be proved.",
                "NOT_PINNED",
                "Set dynamo_model_commit, or let role preflight ask the hub.",
            )
    found = {manifest["kind"]: manifest for manifest in live}
    claim = found.get("PersistentVolumeClaim")
    wanted = release["claim"].get("create") and (claim is None or ours(claim))
    config_map = _config_map(release, scripts)
    job = _job(release, options, config_map["metadata"]["name"])
    job["metadata"]["annotations"] = {CONTENT: _content(job, found.get("Job"))}
    return [*([_claim(release)] if wanted else []), config_map, job]


def _metadata(name: str, namespace: str) -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "labels": dict(LABELS)}


def _claim(release: Mapping[str, Any]) -> Manifest:
    claim = release["claim"]
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": str(claim["size"])}},
    }
    if claim.get("storage_class") is not None:
        spec["storageClassName"] = claim["storage_class"]
    if claim.get("volume_name"):
        spec["volumeName"] = claim["volume_name"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(claim["name"], release["namespace"]),
        "spec": spec,
    }


def _config_map(release: Mapping[str, Any], scripts: Mapping[str, str]) -> Manifest:
    config_map: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "immutable": True, "data": dict(scripts)}
    config_map["metadata"] = _metadata(f"model-cache-scripts-{content_hash(config_map)}", release["namespace"])
    config_map["metadata"]["labels"][CLAIM] = release["claim"]["name"]
    return config_map


def job_name(release: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """One that only looks at what is proved, or deletes, has a name of its own: it can wait beside a download."""
    suffix = "-prune" if options.get("prune") else "-verify" if options.get("proved") else ""
    return str(release["job"]["name"]) + suffix


def _content(job: Manifest, live: Manifest | None) -> str:
    """What the Job does, as the annotation that makes plugin `manifests` replace a Job that does something else.

    A finished Job is replaced as well: who comes here misses a proof, and a finished Job never runs again. One that
    runs is never replaced: doing the same work, whatever its image and environment, it is joined.
    """
    digest = hashlib.sha256(json.dumps(job["spec"], sort_keys=True).encode()).hexdigest()
    if live is None:
        return digest
    status = live.get("status") or {}
    conditions = status.get("conditions") or []
    if any(c.get("type") in ("Complete", "Failed") and c.get("status") == "True" for c in conditions):
        return f"{digest}-after-{live['metadata'].get('uid', '')[:8]}"
    said = str((live["metadata"].get("annotations") or {}).get(CONTENT) or "")
    if said.partition("-")[0] == digest:
        return said
    # `ready` counts pods whose container runs; one that waits for its image or volume may be corrected.
    if not status.get("ready"):
        return digest
    if _work(live) == _work(job):
        return said
    name = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
    raise DynamoError(
        f"Job {name} runs and does something else than what the inventory asks for now.",
        "JOB_RUNNING",
        f"Wait until it has ended and run again, or delete it: kubectl delete job -n {name.replace('/', ' ')}",
    )


def _work(job: Manifest) -> Any:
    pod = ((job.get("spec") or {}).get("template") or {}).get("spec") or {}
    return [container.get("args") for container in pod.get("containers") or []], job["metadata"]["name"]


def _env(release: Mapping[str, Any], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    folders = all(model["layout"] == "folder" for model in release["models"])
    plain = {
        **HUB_ENV,
        "HOME": SCRATCH,
        "HF_HOME": f"{SCRATCH}/hf-home" if folders else release["mount"],
        "PYTHONDONTWRITEBYTECODE": "1",
        **({"HF_ENDPOINT": options["hub_endpoint"]} if options.get("hub_endpoint") else {}),
        **release["job"].get("env", {}),
    }
    secret = release["secret"]
    # Without a Secret a public repository can be read; a gated one ends early with the Secret's name.
    optional = not any(model.get("gated") for model in release["models"])
    reference = {"name": secret["name"], "key": secret["key"], "optional": optional}
    token = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}}
    return [token, *({"name": name, "value": str(value)} for name, value in sorted(plain.items()))]


def _verify(options: Mapping[str, Any]) -> str:
    """`recorded` trusts what is proved; what isn't, is proved by sizes, and as deeply as something bad was found."""
    asked = "sizes" if options["verify"] == "recorded" else options["verify"]
    return str(max(asked, options.get("doubted") or "", key=rank))


def _source(options: Mapping[str, Any]) -> str:
    """What the pod does, in the words of download.py."""
    if options.get("prune"):
        return "prune"
    return "proved" if options.get("proved") else options.get("source") or "download"


def _job(release: Mapping[str, Any], options: Mapping[str, Any], scripts: str) -> Manifest:
    job, claim = release["job"], release["claim"]["name"]
    work = {
        "mount": release["mount"],
        "claim": claim,
        "verify": _verify(options),
        "source": _source(options),
        "models": [
            {key: model[key] for key in ("id", "commit", "layout", "path", "adopted") if key in model}
            for model in options.get("prune") or release["models"]
        ],
    }
    container = {
        "name": CONTAINER,
        "image": job["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-u", f"{SCRIPTS}/download.py"],
        "args": [json.dumps(work)],
        "env": _env(release, options),
        "resources": check_type_dict(options.get("resources") or {}),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {
                "name": "cache",
                "mountPath": release["mount"],
                **({"readOnly": True} if work["source"] == "proved" else {}),
            },
            {"name": "scripts", "mountPath": SCRIPTS, "readOnly": True},
            {"name": "scratch", "mountPath": SCRATCH},
        ],
    }
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": cache_user(int(options.get("run_as", 1000))),
        "containers": [container],
        "volumes": [
            {"name": "cache", **cache_source(release["claim"])},
            {"name": "scripts", "configMap": {"name": scripts}},
            {"name": "scratch", "emptyDir": {}},
        ],
    }
    if job.get("tolerations"):
        pod["tolerations"] = job["tolerations"]
    if job.get("node_selector"):
        pod["nodeSelector"] = job["node_selector"]
    if job.get("pull_secrets"):
        pod["imagePullSecrets"] = references(job["pull_secrets"])
    ttl = int(options.get("ttl") or 0)  # -e gives texts, and "0" is one
    metadata = _metadata(job_name(release, options), release["namespace"])
    metadata["labels"][CLAIM] = claim  # the commit in its name is not always known when the cache is removed
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            **({"ttlSecondsAfterFinished": ttl} if ttl else {}),
            # Looking at what somebody else filled gives the same answer again.
            "backoffLimit": int(options["backoff_limit"]) if work["source"] == "download" else 0,
            "activeDeadlineSeconds": int(job["deadline"]),
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": HOPELESS},
                    },
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
            "template": {"metadata": {"labels": dict(LABELS)}, "spec": pod},
        },
    }


def record_head(release: Mapping[str, Any], model: Mapping[str, Any]) -> Manifest:
    """A checkpoint record without its data."""
    name = f"checkpoint-{slug(model['id'])}-{model['commit'][:12]}"
    metadata = _metadata(name, release["namespace"])
    metadata["labels"] |= {CHECKPOINT_LABEL: "true", CLAIM: release["claim"]["name"]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def doubts(release: Mapping[str, Any], level: str, claims: Mapping[str, str], at: str) -> list[Manifest]:
    """The records after a verification that found something bad: nobody trusts them, the next run looks as deeply.

    A record that was only removed would come back by a look at sizes, which sees no flipped bit, and a repository
    without a pin would lose its commit.

    :param level: of that verification.
    :param claims: as `records`.
    :param at: when it was, as download.py writes it (2026-11-30T10:00:00Z).
    """
    found = {"verify": level, "problems": 1, "verified_at": at}
    proofs = [
        {"repository": model["id"], **{key: model[key] for key in ("commit", "layout", "path")}, **found}
        for model in release["models"]
    ]
    return records(release, proofs, claims)


def records(
    release: Mapping[str, Any], proofs: Iterable[Mapping[str, Any]], claims: Mapping[str, str]
) -> list[Manifest]:
    """The checkpoint record of every repository of the release.

    :param proofs: what the Job reported: repository, commit, verify, files, bytes, path, layout, verified_at, problems.
    :param claims: name -> uid of the claims that the Job mounted.
    :raises DynamoError: PROOF_MISSING when a repository is not among the proofs, or the claim is not known.
    """
    claim = release["claim"]["name"]
    uid = claim if release["claim"].get("volume") else claims.get(claim)
    by_model = {(proof["repository"], proof["commit"]): proof for proof in proofs}
    made = []
    for model in release["models"]:
        proof = by_model.get((model["id"], model["commit"]))
        if proof is None or not uid:
            raise DynamoError(
                f"Job {release['job']['name']} ended and left no proof of {model['id']} in claim {claim}.",
                "PROOF_MISSING",
                "Run the same command again: the Job is then made anew and finds what is there.",
            )
        data = {key: str(value) for key, value in sorted(proof.items())}
        data |= {"claim": claim, "claim_uid": uid, **({"adopted": "true"} if model.get("adopted") else {})}
        made.append({**record_head(release, model), "data": data})
    return made
