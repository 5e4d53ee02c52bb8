# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of target_info: adds what only the controller knows: the host's variables, which hosts there are and whose
clusters they name."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleError
from ansible.utils.vars import load_extra_vars

from ansible_collections.inferops.dynamo.plugins.module_utils import _inventory, _kubeconfig
from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import hide, plain
from ansible_collections.inferops.dynamo.plugins.modules import target_info
from ansible_collections.inferops.dynamo.plugins.plugin_utils._action import DualAction, display

# What ansible uses when nobody names an inventory.
NO_INVENTORY = "/etc/ansible/hosts"


class ActionModule(DualAction):
    """Which cluster is never a guess: design rules that need the whole inventory."""

    module = target_info
    _unfound: DynamoError | None = None

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The module's result; in diff mode the rendered manifests are printed as they are, to be read or piped on."""
        result = super().run(tmp, task_vars)
        if self._unfound and result.get("code") == "NO_CLUSTER":
            result.update(self._failure(self._unfound, {}))
        if self._task.diff and result.get("rendered"):
            display.display(result["rendered"])
        return result

    def add_params(self, params: dict[str, Any], task_vars: dict[str, Any]) -> None:
        """Refuse what the inventory leaves open or says wrongly.

        :raises DynamoError: BAD_OPTION, INVENTORY_EMPTY, CLUSTER_UNSET, SAME_CLUSTER.
        """
        self._check_variables(task_vars)
        host = str(task_vars["inventory_hostname"])
        inventory = [str(name) for name in task_vars["groups"]["all"]]
        params["implicit"] = host not in inventory
        sources = [str(source) for source in task_vars.get("ansible_inventory_sources") or []]
        self._refuse_sources([source for source in sources if source != NO_INVENTORY], params["implicit"])
        if params.get("need_cluster") is False and params.get("namespace"):
            params.pop("kubeconfig", None)
            params.pop("context", None)
            return
        play = [str(name) for name in task_vars.get("ansible_play_hosts_all") or [host]]
        if len({*inventory, *play}) < 2:
            return
        named = params.get("kubeconfig") or params.get("context")
        missing = [] if named else ["dynamo_kubeconfig or dynamo_context"]
        missing += [] if params.get("namespace") else ["dynamo_namespace"]
        if missing:
            raise DynamoError(
                f"host {host}: {' and '.join(missing)} not set.",
                "CLUSTER_UNSET",
                "With several hosts each names its own cluster and namespace.",
            )
        twins = self._twins(play, task_vars)
        if twins:
            raise DynamoError(twins, "SAME_CLUSTER", "One host is one namespace of one cluster.")

    def _refuse_sources(self, sources: list[str], empty: bool) -> None:
        """What was given and is no inventory: ansible only warns, and goes on with the others or with localhost."""
        for source in sources:
            if "," not in source and not os.path.exists(source):
                raise _empty([source], "doesn't exist")
        if not empty or not sources:
            return
        for path in [path for source in sources for path in _files(source)]:
            try:
                self._loader.load_from_file(path)
            except AnsibleError as error:
                reason = " ".join(str(getattr(error, "message", "") or error).split())
                raise _empty([path], f"can't be read: {reason.rstrip('.')}") from error
        raise _empty(sources, "has no hosts")

    def _find_kubeconfig(self, args: dict[str, Any]) -> None:
        """A kubeconfig that isn't there is said when the values were looked at, which needs none."""
        try:
            super()._find_kubeconfig(args)
        except DynamoError as error:
            self._unfound = error

    def _check_variables(self, task_vars: dict[str, Any]) -> None:
        _inventory.mistyped(task_vars, load_extra_vars(self._loader))
        for name in (*_inventory.VARIABLES, *_inventory.OPTIONS):
            if name not in task_vars:
                continue
            try:
                value = plain(self._templar.template(task_vars[name]))
            except AnsibleError as error:
                if name in _inventory.OPTIONS:
                    continue  # the default of a role that comes later may need what isn't there yet
                # default() in the roles would take it for a variable that isn't set
                reason = " ".join(str(getattr(error, "message", "") or error).split())
                if name in _inventory.SECRETS and "undefined" not in reason:
                    reason = type(error).__name__  # its words may hold the value
                raise DynamoError(f"{name} can't be evaluated: {reason}", "BAD_OPTION") from error
            if name in _inventory.SECRETS[:-1] and isinstance(value, str):
                hide(value)
            _inventory.check(name, value)

    def _twins(self, play: list[str], task_vars: dict[str, Any]) -> str:
        """Which two hosts of the play name the same cluster and namespace. Found once for all hosts of the task."""
        cache = os.path.join(C.DEFAULT_LOCAL_TMP, f"inferops-twins-{self._task._uuid}")
        try:
            with open(cache, encoding="utf-8") as stream:
                return str(json.load(stream))
        except (OSError, ValueError):
            pass
        by_namespace: dict[str, list[str]] = {}
        for name in play:
            by_namespace.setdefault(self._value(task_vars, name, "dynamo_namespace") or "", []).append(name)
        seen: dict[tuple[str, str], str] = {}
        found = ""
        for namespace, names in by_namespace.items():
            for name in names if len(names) > 1 and namespace else []:
                server = self._server(task_vars, name)
                other = seen.setdefault((server.lower(), namespace), name) if server else name
                if other != name and not found:
                    found = f"hosts {other} and {name} both are namespace {namespace} of {server}."
        temporary = f"{cache}.{os.getpid()}"
        with open(temporary, "w", encoding="utf-8") as stream:
            json.dump(found, stream)
        os.replace(temporary, cache)
        return found

    def _server(self, task_vars: dict[str, Any], host: str) -> str:
        """The API server of a host, or nothing when it can't be told: that host's own run explains why."""
        kubeconfig = self._value(task_vars, host, "dynamo_kubeconfig")
        context = self._value(task_vars, host, "dynamo_context")
        if not kubeconfig and not context:
            return ""
        params = {"kubeconfig": kubeconfig or None, "context": context}
        try:
            super()._find_kubeconfig(params)
            config = _kubeconfig.load(params["kubeconfig"] or target_info.default_kubeconfig(), "dynamo_kubeconfig")
            return _kubeconfig.cluster_of(config, context, "dynamo_kubeconfig")["server"]
        except DynamoError:
            return ""

    @staticmethod
    def _value(task_vars: dict[str, Any], host: str, name: str) -> Any:
        try:
            return plain(task_vars["hostvars"][host].get(name))
        except AnsibleError:
            return None


def _files(source: str) -> list[str]:
    """The YAML files of a source, which is a file or a directory."""
    names = sorted(os.listdir(source)) if os.path.isdir(source) else [""]
    paths = [os.path.join(source, name) if name else source for name in names]
    return [path for path in paths if path.endswith((".yml", ".yaml")) and os.path.isfile(path)]


def _empty(sources: list[str], what: str) -> DynamoError:
    names = ", ".join(os.path.relpath(source) if os.path.isabs(source) else source for source in sources)
    return DynamoError(f"-i {names} {what}.", "INVENTORY_EMPTY", "Check the path after -i and what is in it.")
