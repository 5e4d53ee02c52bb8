# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: secrets in clear text, by the form of a value or by the name that it has. Pure functions.

Two short lists, kept so that a recipe of a vendor raises no false alarm; docs/security.md says what is recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

MASK = "********"
_CLEAR = "looks like a secret in clear text; refer to a Secret instead: {secretKeyRef: {name: ..., key: ...}}"
_URL = "holds a URL with a user name or password; give the address without it"
# `HFTOKEN` and `clientSecret` are names of secrets as well; for PASS and KEY something must say of what.
_NAME = re.compile(
    r"(?:TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIALS?|[_-]PASS|[_-]PWD"
    r"|(?:API|ACCESS|PRIVATE|SECRET|OPENAI|ANTHROPIC|NGC|NVIDIA|AZURE|AWS|HF|WANDB|MISTRAL|GEMINI)[_-]?KEY)\Z",
    re.I,
)
# Tokens of a tokenizer and numbers of them; names of Secrets.
_NO_NAME = re.compile(
    r"(?:FROM|PULL)[_-]?SECRETS?\Z|(?:EOS|BOS|PAD|UNK|SEP|CLS|MASK|STOP|IMAGE|VIDEO|AUDIO|MAX|MIN|NUM|PER)[_-]?TOKEN\Z",
    re.I,
)
_VALUE = re.compile(
    r"(?<![\w-])(?:hf_[A-Za-z0-9]{16,}|nvapi-[\w-]{16,}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|sk-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|AIza[\w-]{30,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+)|\b[Bb]earer\s+[\w.~+/-]{12,}=*|-----BEGIN [A-Z ]*PRIVATE KEY"
)
_USER_INFO = re.compile(
    r"://[@:]*[^/\s\"',{}@:][^/\s\"',{}]{0,1024}@"
    r"|(?:^|(?<=[\s=,;\"']))[^\s/@:=,;\"']{1,256}:[^\s/@]{1,256}@(?!sha\d+:)[\w.-]+(?::\d+)?(?=$|[\s/,;\"'])"
)
_REFERENCE = re.compile(r"\$\(\w+\)|\$\{\w+\}|\$[A-Z][A-Z0-9_]*")
# Not a secret in itself: nothing, a word for nothing or a path, such as of a file with credentials.
_HARMLESS = re.compile(
    r"(?:true|false|none|null|empty|dummy)?|\$[({].*|/[\w.-]+(?:/[\w.-]+)+|(?-i:[a-z][a-z0-9._-]*(?:/[a-z0-9._-]+)+)",
    re.I | re.S,
)
# A flag of an engine and a variable of a shell, each with its value.
_FLAG = re.compile(r"(?<!\S)--([\w-]+)(?:=|\s+)[\"']?(?!-)([^\s\"']+)")
_SHELL = re.compile(r"(?<![\w-])([A-Z][A-Z0-9_]*)=[\"']?([^\s\"']+)")
_YAML_ENV = re.compile(
    r"(\bname\W{1,40})([A-Za-z_][\w-]*)((?:\\n|\W){1,200}value[\"'\\]*\s*[:=]\s*[\"'\\]*)([^\s\"'\\{},]+)"
)


def problem(name: str, value: str) -> str:
    """Why what is called `name` must not hold `value` in clear text, or nothing. The value is never repeated."""
    value = _REFERENCE.sub("", value)
    if _USER_INFO.search(value):
        return _URL
    if _VALUE.search(value) or (_named(name) and not _HARMLESS.fullmatch(value.strip())):
        return _CLEAR
    pairs = [*_FLAG.findall(value), *_SHELL.findall(value)]
    return _CLEAR if any(_named(key) and not _HARMLESS.fullmatch(item) for key, item in pairs) else ""


def _named(name: str) -> bool:
    return bool(_NAME.search(name)) and not _NO_NAME.search(name)


def found(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, problem) of all secrets in clear text in manifests or in what becomes part of them."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            where = f"{path}.{key}" if path else str(key)
            named = key == "value" and isinstance(value.get("name"), str)
            wrong = problem(value["name"] if named else str(key), item) if isinstance(item, str) else ""
            if wrong:
                yield where, f"variable {value['name']} {wrong}" if named else wrong
            elif not isinstance(item, str):
                yield from found(item, where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            place = item.get("name", index) if isinstance(item, Mapping) else index
            yield from found(item, f"{path}[{place}]")
        words = [item for item in value if isinstance(item, str)]
        wrong = problem("", " ".join(words))  # a flag and its value are two words
        if wrong and not any(problem("", word) for word in words):
            yield path, wrong
    elif isinstance(value, str):
        wrong = problem("", value)
        if wrong:
            yield path, wrong


def mask(text: str) -> str:
    """The words of another program without what this module recognises."""
    text = _USER_INFO.sub(lambda match: f"://{MASK}@" if match[0].startswith(":") else MASK, _VALUE.sub(MASK, text))
    text = _YAML_ENV.sub(lambda m: f"{m[1]}{m[2]}{m[3]}{MASK}" if _named(m[2]) else m[0], text)
    for form in (_FLAG, _SHELL):
        text = form.sub(lambda m: m[0].replace(m[2], MASK) if _named(m[1]) else m[0], text)
    return text
