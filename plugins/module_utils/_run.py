# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: what a plugin's run() is given, how secrets are kept out of its output, and how it is run as a module."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

MASK = "********"
# A shorter value would be found inside ordinary words, and is no secret that scrubbing could protect.
MIN_SECRET = 4
KUBECONFIG_SECRETS = (
    "token",
    "password",
    "client-key-data",
    "id-token",
    "refresh-token",
    "access-token",
    "client-secret",
)

# One process runs one plugin for one host, so what is hidden belongs to the process: the cluster layer can then
# register the values of a Secret that it reads without being handed a Run.
_hidden: set[str] = set()


def hide(value: str | bytes | None) -> None:
    """Replace `value`, its base64 and its URL-quoted forms from now on in everything that this process gives out."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not value:
        return
    text = str(value)
    # A value of several lines is shown indented in diffs, so each of its lines is hidden by itself.
    for form in {text, text.strip(), *(line.strip() for line in text.splitlines())}:
        encoded = form.encode("utf-8", "surrogatepass")
        forms = {form, base64.b64encode(encoded).decode(), base64.urlsafe_b64encode(encoded).decode()}
        forms |= {quote(form, safe=""), quote(form), quote_plus(form), json.dumps(form)[1:-1]}
        forms |= {f.rstrip("=") for f in forms} if len(form) >= MIN_SECRET else set()
        _hidden.update(f for f in forms if len(form) >= MIN_SECRET and len(f) >= MIN_SECRET)


def hide_secret(obj: Mapping[str, Any]) -> None:
    """Hide every value of a Kubernetes Secret; other objects are left alone."""
    if obj.get("kind") != "Secret":
        return
    for value in (obj.get("stringData") or {}).values():
        hide(str(value))
    for value in (obj.get("data") or {}).values():
        hide(str(value))
        try:
            hide(base64.b64decode(str(value), validate=True))
        except ValueError:
            continue


def hide_kubeconfig(value: Any) -> None:
    """Hide the credentials of a kubeconfig that is given as a dictionary."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key in KUBECONFIG_SECRETS and isinstance(item, str):
                hide(item)
            hide_kubeconfig(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            hide_kubeconfig(item)


def scrub(value: Any) -> Any:
    """A copy of `value` (JSON-able) in which no hidden value is left; dictionary keys and numbers included."""
    secrets = sorted(_hidden, key=len, reverse=True)
    return _scrub(value, secrets) if secrets else value


def _scrub(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            if secret in value:
                value = value.replace(secret, MASK)
        return value
    if isinstance(value, Mapping):
        return {_scrub(k, secrets): _scrub(v, secrets) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_scrub(v, secrets) for v in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and str(value) in secrets:
        return MASK
    return value


def plain(value: Any) -> Any:
    """A copy of `value` made of built-in types only.

    ansible-core 2.19+ hands tagged subclasses and lazy containers to actions, which YAML cannot dump; vaulted strings
    become their text.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return {plain(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(v) for v in value]
    return str(value)


class Run:
    """The circumstances of one run of a plugin.

    check_mode, diff: as in ansible. cache_dir: directory shared by all hosts of this ansible-playbook run (None when
    run as a module).
    """

    def __init__(
        self,
        check_mode: bool = False,
        diff: bool = False,
        cache_dir: str | None = None,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self.check_mode = check_mode
        self.diff = diff
        self.cache_dir = cache_dir
        self.lines: list[str] = []
        self.traceback = ""  # of an error that nobody foresaw, scrubbed: for -vvv
        self._show = show

    def progress(self, text: str) -> None:
        """Show one line on the screen (action), or only keep it (module)."""
        line = " ".join(str(scrub(text)).split())
        self.lines.append(line)
        if self._show:
            self._show(line)

    def hide(self, value: str | None) -> None:
        """Keep `value` out of everything that this run gives out from now on."""
        hide(value)


def at_least(params: Mapping[str, Any], **least: float) -> None:
    """DynamoError BAD_OPTION for the first option that is a smaller number than `least` says."""
    for name, number in least.items():
        if not params[name] >= number:
            raise DynamoError(f"{name} is {params[name]}; it must be {number} or more.", "BAD_OPTION")


RunPlugin = Callable[[dict[str, Any], Run], dict[str, Any]]


def outcome(run_plugin: RunPlugin, params: dict[str, Any], run: Run) -> dict[str, Any]:
    """The result of `run_plugin`, also when it fails: scrubbed, without a diff that nobody asked for."""
    hide_kubeconfig(params.get("kubeconfig"))
    try:
        result = {"changed": False, **run_plugin(params, run)}
    except DynamoError as error:
        result = {"changed": False, **error.as_result(), "failed": True}
    except Exception as error:
        run.traceback = str(scrub(traceback.format_exc()))
        line = " ".join(f"{type(error).__name__}: {error}".split())
        hint = "This is a defect of inferops.dynamo; -vvv shows where."
        result = {"changed": False, "failed": True, "msg": f"{line} {hint}", "code": "BUG", "hint": hint}
    if not run.diff:
        result.pop("diff", None)
    cleaned: dict[str, Any] = scrub(plain(result))
    return cleaned


def run_module(argument_spec: dict[str, Any], run_plugin: RunPlugin, **constraints: Any) -> None:
    """Run a plugin as a module. constraints: as AnsibleModule takes them (required_if, mutually_exclusive, ...)."""
    module = AnsibleModule(argument_spec=argument_spec, supports_check_mode=True, **constraints)
    for value in module.no_log_values:
        hide(value)
    # ansible would replace short values inside any text, and whole results by a fixed sentence; the rest is done here.
    module.no_log_values = {value for value in module.no_log_values if len(str(value)) >= MIN_SECRET}
    run = Run(check_mode=module.check_mode, diff=module._diff)
    result = outcome(run_plugin, plain(module.params), run)
    # With no_log options masked by name, whatever their length: core before 2.21 shows the invocation.
    result["invocation"] = {"module_args": scrub(censor(argument_spec, plain(module.params)))}
    if result.pop("failed", False):
        if run.traceback and module._verbosity >= 3:
            result["exception"] = run.traceback
        module.fail_json(**result)
    module.exit_json(**result)


def censor(argument_spec: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """`params` with the values of no_log options masked, also in suboptions."""
    censored: dict[str, Any] = {}
    for name, value in params.items():
        option = argument_spec.get(name, {})
        if option.get("no_log") and value is not None:
            censored[name] = MASK
        elif "options" in option and isinstance(value, Mapping):
            censored[name] = censor(option["options"], value)
        elif "options" in option and isinstance(value, list):
            censored[name] = [censor(option["options"], v) if isinstance(v, Mapping) else v for v in value]
        else:
            censored[name] = value
    return censored
