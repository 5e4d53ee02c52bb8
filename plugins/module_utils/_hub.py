# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what a model hub says about a repository: may this token read it, at which commit, how many bytes?

The hub's HTTP API as huggingface_hub uses it: GET /api/models/ID/revision/REV (public even for a gated repository) and
HEAD /ID/resolve/COMMIT/FILE (asks the gate); the header X-Error-Code tells a gate from an absent repository.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypedDict, cast

from ansible_collections.inferops.dynamo.plugins.module_utils import _http
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

DEFAULT_ENDPOINT = "https://huggingface.co"
TIMEOUT = 15.0
RETRIES, RETRY_CAP = 3, 30.0  # after HTTP 429; seconds
COMMIT = re.compile(r"[0-9a-f]{40}\Z")

Send = Callable[[str, str, dict[str, str]], _http.Response]


class Access(TypedDict):
    """status: ok, TOKEN_MISSING, TOKEN_REFUSED, REPOSITORY_ABSENT, REVISION_ABSENT, HUB_RATE_LIMITED or
    HUB_UNREACHABLE."""

    id: str
    revision: str
    status: str
    commit: str
    gated: bool | None
    files: int | None
    bytes: int | None
    detail: str


def check_endpoint(endpoint: str) -> None:
    """DynamoError BAD_OPTION when the address is none, or has a password in it; the password is never repeated."""
    problem = _http.address_problem(endpoint)
    if "@" in endpoint:
        problem = "holds a user name or password; give the address without it, and the token as dynamo_hf_token"
    if problem:
        where = "The address of the model hub (dynamo_hub_endpoint, or HF_ENDPOINT)"
        raise DynamoError(f"{where} {problem}.", "BAD_OPTION")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    # A redirect leads to another host's storage: following it would hand the token over.
    def redirect_request(self, *args: Any) -> None:
        return None


def transport() -> Send:
    """The real thing: proxies of the environment, redirects returned as they are, a 429 tried again when it may."""
    director = urllib.request.build_opener(_NoRedirect())

    def send(method: str, url: str, headers: dict[str, str]) -> _http.Response:
        return _http.fetch(method, url, headers=headers, timeout=TIMEOUT, send=lambda r, t: director.open(r, timeout=t))

    return lambda method, url, headers: patient(send, method, url, headers)


def patient(
    send: Send, method: str, url: str, headers: dict[str, str], sleep: Callable[[float], None] = time.sleep
) -> _http.Response:
    """Waits as the hub's Retry-After asks (seconds), RETRIES times and RETRY_CAP seconds in all."""
    answer, left = send(method, url, headers), RETRY_CAP
    for _retry in range(RETRIES):
        after = answer.headers.get("retry-after", "")
        seconds = float(after) if after.isdecimal() else 5.0  # a date is as good as no number
        if answer.status != 429 or seconds > left:
            break
        sleep(seconds)
        left -= seconds
        answer = send(method, url, headers)
    return answer


def slug(repository: str) -> str:
    """Lower-case, everything but a-z and 0-9 becomes "-"."""
    return re.sub(r"[^a-z0-9]", "-", repository.lower())


def _ask(send: Send, method: str, url: str, headers: dict[str, str]) -> _http.Response:
    for _i in range(3):  # a renamed repository redirects once, on the same host
        answer = send(method, url, headers)
        target = urllib.parse.urljoin(url, answer.headers.get("location", ""))
        same = urllib.parse.urlsplit(target)[:2] == urllib.parse.urlsplit(url)[:2]
        if not 300 <= answer.status < 400 or not same or target == url:
            return answer
        url = target
    return answer


def _refusal(answer: _http.Response, token: str | None) -> str:
    error = answer.headers.get("x-error-code", "")
    if error == "RevisionNotFound":
        return "REVISION_ABSENT"
    if answer.status in (401, 403) or error == "GatedRepo":
        return "TOKEN_REFUSED" if token else "TOKEN_MISSING"
    if answer.status == 429:
        return "HUB_RATE_LIMITED"
    return "REPOSITORY_ABSENT" if answer.status == 404 else "HUB_UNREACHABLE"


def access(send: Send, endpoint: str, repository: str, revision: str = "", token: str | None = None) -> Access:
    """Ask the hub about one repository. revision: commit, branch or tag, "" is main. Failures are in the answer."""
    revision = revision or "main"
    result = Access(
        id=repository, revision=revision, status="ok", commit="", gated=None, files=None, bytes=None, detail=""
    )
    base, headers = endpoint.rstrip("/"), {"authorization": f"Bearer {token}"} if token else {}
    name, at = urllib.parse.quote(repository), urllib.parse.quote(revision, safe="")
    try:
        answer = _ask(send, "GET", f"{base}/api/models/{name}/revision/{at}?blobs=true", headers)
        if answer.status == 200:
            info = answer.json()
            siblings = info.get("siblings") or []
            sizes = [s.get("size") for s in siblings]
            result["commit"], result["gated"] = str(info.get("sha") or ""), bool(info.get("gated"))
            result["files"] = len(siblings)
            result["bytes"] = sum(sizes) if siblings and all(isinstance(s, int) for s in sizes) else None
            if not COMMIT.match(result["commit"]):
                result["status"], result["detail"] = "HUB_UNREACHABLE", "the answer names no commit"
                return result
            names = [s["rfilename"] for s in siblings]
            if not names:
                return result
            file = "config.json" if "config.json" in names else names[0]
            resolve = f"{base}/{name}/resolve/{result['commit']}/{urllib.parse.quote(file)}"
            answer = _ask(send, "HEAD", resolve, headers)
            # A redirect to the storage, or a missing single file, comes after the gate.
            if answer.status < 400 or answer.headers.get("x-error-code") == "EntryNotFound":
                return result
        result["status"], result["detail"] = _refusal(answer, token), f"{base}: HTTP {answer.status}"
    except _http.TransportError as error:
        result["status"], result["detail"] = "HUB_UNREACHABLE", f"{base}: {str(error).rpartition(': ')[2]}"
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        result["status"], result["detail"] = "HUB_UNREACHABLE", f"{base} does not answer as a model hub"
    return result


@contextmanager
def _locked(path: str) -> Iterator[dict[str, Any]]:
    """The JSON object in `path`, held by this process alone; written back at the end."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        text = stream.read()
        content = json.loads(text) if text else {}
        yield content
        stream.seek(0)
        stream.truncate()
        json.dump(content, stream)


def shared_access(
    cache_dir: str | None, send: Send, endpoint: str, repository: str, revision: str = "", token: str | None = None
) -> Access:
    """`access`, asked once per run: hosts that name no commit all get the one that the first of them was given.

    cache_dir is shared by the worker processes of a run (None: not shared). Answers are kept per endpoint and token.
    """
    if not cache_dir:
        return access(send, endpoint, repository, revision, token)
    with _locked(os.path.join(cache_dir, f"hub-{slug(repository)}.json")) as shared:
        heads, answers = shared.setdefault("heads", {}), shared.setdefault("answers", {})
        wanted = revision if COMMIT.match(revision) else heads.get(revision, revision)
        key = _key(endpoint, repository, wanted, token)
        if key not in answers:
            answer = answers[key] = access(send, endpoint, repository, wanted, token)
            if answer["commit"]:
                heads.setdefault(revision, answer["commit"])
                answers[_key(endpoint, repository, answer["commit"], token)] = answer
        return cast(Access, answers[key])


def _key(endpoint: str, repository: str, revision: str, token: str | None) -> str:
    return hashlib.sha256("\0".join((endpoint, repository, revision, token or "")).encode()).hexdigest()[:16]
