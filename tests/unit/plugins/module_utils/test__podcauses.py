# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.inferops.dynamo.plugins.module_utils import _dgd
from ansible_collections.inferops.dynamo.plugins.module_utils._causes import Finding, Snapshot
from ansible_collections.inferops.dynamo.plugins.module_utils._podcauses import (
    HOPELESS_RESTARTS,
    TRIED_AGAIN,
    pod_causes,
    runs,
)
from ansible_collections.inferops.dynamo.tests.unit.plugins.module_utils._dgd_objects import (
    CREATING,
    LATER,
    NEW,
    NO_GPU,
    OLD,
    TAINT,
    counts,
    crashed,
    dcd,
    event,
    look,
    node,
    not_ready,
    pod,
    pull,
    rolling,
    waiting,
)

CASES = [
    # image
    (pull('failed to resolve reference "r/engine:1": r/engine:1: not found'), "IMAGE_NOT_FOUND", "config"),
    (pull('Back-off pulling image: ErrImagePull: manifest unknown', "ImagePullBackOff"), "IMAGE_NOT_FOUND", "config"),
    (pull("couldn't parse image name: invalid reference format", "InvalidImageName"), "IMAGE_NOT_FOUND", "config"),
    (pull("unexpected status from HEAD request to r/v2: 401 Unauthorized"), "IMAGE_UNAUTHORIZED", "config"),
    (pull("pull access denied, repository does not exist or may require login"), "IMAGE_UNAUTHORIZED", "config"),
    (pull("no match for platform in manifest: not found"), "IMAGE_ARCHITECTURE", "config"),
    (pull("no matching manifest for linux/arm64/v8 in the manifest list entries"), "IMAGE_ARCHITECTURE", "config"),
    (
        pull('choosing image instance: no image found in image index for architecture "arm64", OS "linux"'),
        "IMAGE_ARCHITECTURE",
        "config",
    ),
    (pull("dial tcp: lookup registry.example on 10.0.0.2:53: no such host"), "IMAGE_PULL", "config"),
    (pull("429 Too Many Requests - toomanyrequests: rate limit"), "IMAGE_PULL", "slow"),
    (pull("dial tcp 10.0.0.9:443: i/o timeout"), "IMAGE_PULL", "slow"),
    (pull("failed to extract layer: reader: content digest sha256:bb: not found"), "IMAGE_PULL", "slow"),
    (pull("image signature: no key", "SignatureValidationFailed"), "IMAGE_PULL", "slow"),
    (pull('Back-off pulling image "r/engine:1"', "ImagePullBackOff"), "IMAGE_PULL", "slow"),
    (
        look(
            pod(container=waiting("ImagePullBackOff", 'Back-off pulling image "x"')),
            events=(
                event("Failed", 'Failed to pull image "x": not found', at=1),
                event("Failed", "Error: ImagePullBackOff", at=14),
            ),
        ),
        "IMAGE_NOT_FOUND",
        "config",
    ),
    # scheduling
    (look(pod(scheduled=NO_GPU)), "UNSCHEDULABLE", "scheduling"),
    (look(pod(scheduled=NO_GPU), events=(event("TriggeredScaleUp", "pod triggered scale-up"),)), "UNSCHEDULABLE", ""),
    (look(pod(scheduled=NO_GPU), pod("old", leaving=True)), "UNSCHEDULABLE", ""),
    (
        look(pod(scheduled="0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready}")),
        "NODE_NOT_READY",
        "",
    ),
    (
        look(
            pod("old", ready=True),
            pod("new", worker_hash=NEW, scheduled=NO_GPU, created=LATER, template="t2"),
            dgd=rolling(workers=counts(2, 1, 1)),
            dcds=[dcd(OLD), dcd(NEW, created=LATER)],
        ),
        "ROLLOUT_STUCK",
        "scheduling",
    ),
    (
        look(pod(scheduled='0/1 nodes are available: persistentvolumeclaim "cache" not found. not found')),
        "CLAIM_MISSING",
        "config",
    ),
    (
        look(pod(scheduled="0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found")),
        "CLAIM_PENDING",
        "slow",
    ),
    (
        look(
            pod(scheduled=False),
            events=(event("FailedResourceClaimCreation", 'resource claim template "cd" not found'),),
        ),
        "CLAIM_TEMPLATE_MISSING",
        "scheduling",
    ),
    (look(pod(scheduled=TAINT), nodes=[node("n1", "nvidia.com/gpu=x:NoSchedule")]), "UNSCHEDULABLE", "scheduling"),
    (look(pod(scheduled=TAINT), nodes=[node("n1", "node.kubernetes.io/not-ready:NoExecute")]), "NODE_NOT_READY", ""),
    (look(pod(scheduled=TAINT), nodes=[node("n", "node.kubernetes.io/pid-pressure:NoSchedule")]), "NODE_NOT_READY", ""),
    # the user may not read nodes, so nobody knows whether the taint passes
    (look(pod(scheduled=TAINT)), "UNSCHEDULABLE", "slow"),
    (look(pod(scheduled="request channel: device class c does not exist")), "UNSCHEDULABLE", "scheduling"),
    (look(pod(scheduled='resourceclaim "w" is being deleted')), "UNSCHEDULABLE", "slow"),
    (
        look(
            pod("w-x-2", scheduled=NO_GPU),
            events=(event("Preempted", "Preempted by pod 4f1c on node node-1", about="w-x-1"),),
        ),
        "EVICTED",
        "scheduling",
    ),
    (
        look(
            pod("old", ready=True),
            pod("new", scheduled=NO_GPU, created=LATER, template="t2"),
            dgd=not_ready(restart="Restarting", workers=counts(2, 1, 1)),
        ),
        "ROLLOUT_STUCK",
        "scheduling",
    ),
    (look(pod(scheduled='running Filter plugin: failed to find storage class "fast"')), "CLAIM_PENDING", "slow"),
    (
        look(
            pod(
                scheduled="0/1 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with"
                " ReadWriteOncePod access mode already in-use by another pod."
            )
        ),
        "CLAIM_ACCESS_MODE",
        "slow",
    ),
    # the claim's template came late: the event is still there, the pod waits for something else now
    (look(pod(scheduled=NO_GPU), events=(event("FailedResourceClaimCreation", "x"),)), "UNSCHEDULABLE", "scheduling"),
    # between scheduling and running
    (
        look(pod(container=waiting("CreateContainerConfigError", "couldn't find key TOKEN in Secret llm/hf"))),
        "CONFIG_MISSING",
        "config",
    ),
    (
        look(
            pod(container=CREATING),
            events=(event("FailedMount", 'volume "t" : references non-existent secret key: TOKEN'),),
        ),
        "CONFIG_MISSING",
        "config",
    ),
    (
        look(pod(container=waiting("CreateContainerConfigError", "image will run as root: runAsNonRoot"))),
        "CONTAINER_START",
        "config",
    ),
    (
        look(pod(container=waiting("RunContainerError", "exec /usr/bin/python3: exec format error: unknown"))),
        "IMAGE_ARCHITECTURE",
        "config",
    ),
    (look(pod(container=waiting("CreateContainerError", "context deadline exceeded"))), "CONTAINER_START", "slow"),
    (
        look(pod(container=crashed(128, 3, "StartError", "CrashLoopBackOff"))),
        "CONTAINER_START",
        "config",
    ),
    (look(pod(container=waiting("CreateContainerConfigError", 'secret "hf" not found'))), "CONFIG_MISSING", "config"),
    (look(pod(container=waiting("RunContainerError", 'exec: "nope": not found'))), "CONTAINER_START", "config"),
    (
        look(pod(container=CREATING), events=(event("FailedMount", 'SetUp failed: configmap "eagle" not found'),)),
        "CONFIG_MISSING",
        "config",
    ),
    (look(pod(container=CREATING), events=(event("FailedMount", "timed out"),)), "VOLUME_MOUNT", "slow"),
    (
        look(pod(container=CREATING), events=(event("FailedAttachVolume", "Multi-Attach error for volume"),)),
        "CLAIM_ACCESS_MODE",
        "slow",
    ),
    (
        look(
            pod(container=CREATING),
            events=(
                event("FailedPrepareDynamicResources", "DRA driver compute-domain.nvidia.com is not registered"),
            ),
        ),
        "DRA_DRIVER_ABSENT",
        "scheduling",
    ),
    (
        look(
            pod(container=CREATING),
            events=(event("FailedPrepareDynamicResources", "current node not ready in ComputeDomain"),),
        ),
        "COMPUTE_DOMAIN_NOT_READY",
        "slow",
    ),
    # running
    (look(pod(container=crashed())), "CRASH_LOOP", "restarts"),
    (look(pod(container=crashed(now="CrashLoopBackOff"))), "CRASH_LOOP", "restarts"),
    (look(pod(container=crashed(137, reason="OOMKilled"))), "OOM_KILLED", "restarts"),
    (
        look(
            pod(container=crashed(137)),
            events=(event("Killing", "Container main failed liveness probe, will be restarted"),),
        ),
        "PROBE_KILLED",
        "restarts",
    ),
    (
        look(
            pod(container=crashed(143)),
            events=(event("Killing", "Container main failed startup probe, will be restarted"),),
        ),
        "STARTUP_BUDGET",
        "restarts",
    ),
    # an engine that handles its signal ends as it likes
    (
        look(
            pod(container=crashed(1, lived=(0, 40))),
            events=(event("Killing", "Container main failed liveness probe, will be restarted", at=30),),
        ),
        "PROBE_KILLED",
        "restarts",
    ),
    # the probe killed an earlier run of it; this one crashed
    (
        look(
            pod(container=crashed(137, lived=(40, 50))),
            events=(event("Killing", "Container main failed liveness probe, will be restarted", at=30),),
        ),
        "CRASH_LOOP",
        "restarts",
    ),
    (
        look(pod(container=crashed(255)), logs={"worker-1/main": "exec /usr/bin/python3: exec format error"}),
        "IMAGE_ARCHITECTURE",
        "restarts",
    ),
    (look(pod(), events=(event("NodeNotReady", "Node is not ready"),)), "NODE_NOT_READY", ""),
]  # fmt: skip


@pytest.mark.parametrize(("snapshot", "code", "budget"), CASES, ids=[f"{c}-{i}" for i, (_s, c, _b) in enumerate(CASES)])
def test_one_cause(snapshot: Snapshot, code: str, budget: str) -> None:
    pods = [p for p in snapshot.view.pods if not _dgd.ready(p) and not _dgd.leaving(p)]
    found = [cause for p in pods for cause in pod_causes(p, snapshot)]
    assert [(f.code, f.budget) for f in found] == [(code, budget)]
    assert found[0].object and found[0].evidence


def test_an_engine_that_can_not_start_needs_no_third_try() -> None:
    crash = look(pod(container=crashed()), logs={"worker-1/main": "error: unrecognized arguments: --wibble"})
    found = pod_causes(crash.view.pods[1], crash)[0]
    assert found.limit == HOPELESS_RESTARTS and "--wibble" in found.evidence


def test_what_was_there_before_the_wait_is_given_the_time_of_another_try() -> None:
    bad = pull("unauthorized")
    assert [f.extra for f in pod_causes(bad.view.pods[1], bad)] == [0]
    known = runs(bad.view.pods)
    assert [f.extra for f in pod_causes(bad.view.pods[1], bad._replace(known=known))] == [TRIED_AGAIN]


def test_restarts_from_before_the_wait_do_not_count() -> None:
    known = runs([pod(container=crashed(lived=(10, 20), restarts=6))])

    def crash(restarts: int, begin: int, log: str = "NCCL error") -> Finding:
        live = pod(container=crashed(lived=(begin, begin + 5), restarts=restarts))
        (found,) = pod_causes(live, look(live, logs={"worker-1/main": log}, known=known))
        return found

    assert crash(6, 10).budget == ""
    assert [(crash(n, 30).budget, crash(n, 30).seen) for n in (7, 8)] == [("restarts", 1), ("restarts", 2)]
    assert crash(7, 30, "error: unrecognized arguments: --x").seen == HOPELESS_RESTARTS
    # a runtime that never started it gives no time
    never = pod(container=crashed(restarts=7, reason="StartError"))
    never["status"]["containerStatuses"][0]["lastState"]["terminated"]["startedAt"] = "1970-01-01T00:00:00Z"
    assert pod_causes(never, look(never, known=runs([never])))[0].budget == "config"
