# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what a diagnosis looks at and what it says, shared by the files that make one. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.inferops.dynamo.plugins.module_utils import _secrets
from ansible_collections.inferops.dynamo.plugins.module_utils._dgd import Object, View

MAX_EVIDENCE = 400
MAX_READ = 4096  # characters of a line
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Snapshot(NamedTuple):
    """One observation.

    events, deployments, replicasets: of the namespace. logs: last lines by "<pod>/<container>". nodes, claims: only
    while the scheduler speaks of taints, of claims without a volume. known: what the wait found when it began, as
    `_diagnose.at_first` has it.
    """

    view: View
    events: list[Object] = []
    deployments: list[Object] = []
    replicasets: list[Object] = []
    logs: Mapping[str, str] = {}
    nodes: list[Object] = []
    claims: list[Object] = []
    known: Mapping[str, tuple[str, int]] = {}


class Finding(NamedTuple):
    """A cause. budget: which of the budgets ends the wait ("" never, "now" at once).

    key: what makes it the same cause in the next observation. seen, limit: restarts seen and allowed (0: the
    budget's). extra: seconds on top of the budget.
    """

    code: str
    object: str
    evidence: str
    hint: str
    budget: str
    key: str
    seen: int = 0
    limit: int = 0
    extra: float = 0


def pod_events(pod: Object, snapshot: Snapshot, *reasons: str) -> list[str]:
    """Messages of the events of this very pod (by uid) with one of these reasons, oldest first."""
    return [str(event.get("message") or "") for event in events_of(pod, snapshot, *reasons)]


def events_of(pod: Object, snapshot: Snapshot, *reasons: str) -> list[Object]:
    uid = pod["metadata"].get("uid")
    mine = [
        e
        for e in snapshot.events
        if (e.get("involvedObject") or {}).get("uid") == uid and (not reasons or e.get("reason") in reasons)
    ]
    return sorted(mine, key=event_time)


def event_time(event: Object) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    return str(
        series
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )


_VALUE = r"['\"\[(]*[^\s'\",;\])]{6,}"
_WORDS = r"(?!(?-i:[a-z]+) (?-i:[a-z]))"  # `token: unexpected status` is a sentence
SECRETS = (
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,32}://)[^\s/]+@"), r"\1********@"),
    (re.compile(r"\b(?:hf_|sk-|nvapi-|gh[opsu]_|glpat-)[\w-]{8,}"), "********"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), r"\1 ********"),
    (
        re.compile(
            r"(?i)(authorization['\"]?\s*[:=]\s*['\"]?(?:(?:basic|bearer|digest|token|api-?key)\s+|"
            + _WORDS
            + r"))[^\s'\",]{6,}"
        ),
        r"\1********",
    ),
    (
        re.compile(r"(?i)((?:x-(?:amz|goog)-(?:signature|credential|security-token)|[?&](?:signature|sig))=)[^&\s]+"),
        r"\1********",
    ),
    (re.compile(r"(?i)(\"auth\"\s*:\s*\")[^\"]+"), r"\1********"),
    (
        re.compile(
            r"(?i)\b([\w-]{0,64}(?:token|password|passwd|secret|(?:api|access|secret)[_-]?keys?))(['\"]?\s*(?:=\s*|:\s*"
            + _WORDS
            + r"))(?!\*)"
            + _VALUE
        ),
        r"\1\2********",
    ),
    (re.compile(r"(?i)(--[\w-]*(?:token|password|api-key))(\s+)(?![-*])" + _WORDS + _VALUE), r"\1\2********"),
)


def mask(text: str) -> str:
    """Text of a log or event without what looks like a credential, as one short line."""
    text = _clip(text)
    for pattern, replacement in SECRETS:
        text = pattern.sub(replacement, text)
    text = " ".join(_secrets.mask(text).split())
    return text if len(text) <= MAX_EVIDENCE else text[: MAX_EVIDENCE - 3] + "..."


def _clip(text: str) -> str:
    """As much as patterns are asked about, ending between two words; the time that some take grows with the square."""
    text = COLOUR.sub("", text)
    return text if len(text) <= MAX_READ else text[:MAX_READ].rsplit(None, 1)[0]


class LogClass(NamedTuple):
    """An error of an engine by its words. hopeless: the next start will end the same way."""

    name: str
    pattern: re.Pattern[str]
    hint: str
    hopeless: bool


def _log(name: str, pattern: str, hint: str, hopeless: bool = True) -> LogClass:
    return LogClass(name, re.compile(pattern, re.IGNORECASE), hint, hopeless)


# In this order: what is specific comes first, an argument error last, since its words also occur in other messages.
LOG_CLASSES = (
    _log(
        "wrong architecture",
        r"exec format error",
        "The image is built for another CPU architecture than the node: GB200 and GB300 nodes are arm64.",
    ),
    _log(
        "CUDA out of memory",
        r"CUDA out of memory|OutOfMemoryError|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY"
        r"|no available memory for the cache|not enough memory.*mem-fraction",
        "Something else uses the GPUs, or context length and memory fraction don't fit this GPU.",
        False,
    ),
    _log(
        "NCCL",
        r"NCCL (error|failure)|nccl(System|Internal|UnhandledCuda|Remote)Error",
        "The GPUs can't talk to each other: look at /dev/shm (sharedMemorySize), the binding's networking, the fabric.",
        False,
    ),
    _log(
        "token",
        r"GatedRepoError|gated repo|40[13] Client Error|Invalid (username or password|credentials)"
        r"|access to model .* is restricted",
        "The engine asks the hub: is the checkpoint in the cache, and does the token in the Secret have access?",
    ),
    _log(
        "missing checkpoint",
        r"LocalEntryNotFoundError|OfflineModeIsEnabled|outgoing traffic has been disabled|RepositoryNotFoundError"
        r"|cannot find (any|the requested) (model weights|files)|does not appear to have a file named"
        r"|not a local folder and is not a valid model|neither a local folder nor|SafetensorError|HeaderTooSmall"
        r"|(config\.json|\.safetensors|tokenizer[\w.]*|model path|snapshot)\b.{0,120}"
        r"(not found|no such file|does not exist|missing)"
        r"|(no such file|not found|does not exist).{0,120}(config\.json|\.safetensors|tokenizer)",
        "The mounted claim does not hold the checkpoint where the worker looks: run prepare.yml, compare the path.",
    ),
    _log(
        "GPU driver",
        r"CUDA driver version is insufficient|no CUDA-capable device|no CUDA GPUs are available"
        r"|NVIDIA driver on your system",
        "The node's GPU driver does not fit the image, or the container got no GPU.",
        False,
    ),
    _log(
        "no space",
        r"no space left on device",
        "A volume or /dev/shm is full: the claim's size, sharedMemorySize, ephemeral storage.",
        False,
    ),
    _log(
        "bad argument",
        r"unrecognized arguments?|error: argument|invalid choice|arguments are required"
        r"|unexpected (keyword )?argument"
        r"|no such option|No module named|invalid value .* for",
        "An engine argument does not exist in this image: compare the component's arguments with the image's version.",
    ),
)


# Levels as loggers of Python and Rust, TensorRT-LLM, glog and Python's warnings write them; NCCL_DEBUG=INFO is none.
NO_ERROR = re.compile(
    r"(?<![\w=])(?:WARN|WARNING|INFO|DEBUG|\w{0,40}Warning)\b|\bwarning:|(?<!\S)\[[WIDV]\]|^[WI]\d{4} "
)


def classify_log(text: str) -> tuple[LogClass | None, str]:
    """The class of an engine's error and the lines that show it: the last match, else the last three lines.

    Engines warn of much that they do without: what a logger's level below error stands before has no class.
    """
    lines = [_clip(line.strip()) for line in text.splitlines() if line.strip()]
    levels = [(line, NO_ERROR.search(line)) for line in lines]
    for log_class in LOG_CLASSES:
        for line, level in reversed(levels):
            error = log_class.pattern.search(line)
            if error and not (level and level.start() < error.start()):
                return log_class, mask(line)
    return None, mask(" | ".join(lines[-3:]))
