# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: the base of the actions that run their module's run() inside the worker process.

An action costs a fraction of a module, but ansible gives it less: no environment, become, delegate_to, async, no_log.
Here what needs another process or host goes to the module of the same name, and the rest is made up for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError
from ansible_collections.inferops.dynamo.plugins.module_utils._run import (
    Run,
    hide,
    hide_kubeconfig,
    outcome,
    plain,
    scrub,
)

display = Display()


class DualAction(ActionBase):
    """Subclasses set `module` to the module of the same name (ARGUMENT_SPEC, run, and optionally CONSTRAINTS)."""

    module: ModuleType
    _supports_async = True

    def add_params(self, params: dict[str, Any], task_vars: dict[str, Any]) -> None:
        """Put into `params` what only the controller knows; they are options of the module."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The module's result, from this process where that is possible."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        # null in an inventory is as good as absent
        args = {name: value for name, value in plain(self._task.args).items() if value is not None}
        host = str(task_vars.get("inventory_hostname", self._task.delegate_to or ""))
        try:
            self.add_params(args, task_vars)
            self._find_kubeconfig(args)
        except DynamoError as error:
            result.update(self._failure(error, args))
            return result
        if self._needs_module():
            wrap_async = bool(self._task.async_val)
            answer = self._execute_module(module_args=args, task_vars=task_vars, wrap_async=wrap_async)
            result.update(answer)
            return result
        constraints = getattr(self.module, "CONSTRAINTS", {})
        validated = ArgumentSpecValidator(self.module.ARGUMENT_SPEC, **constraints).validate(args)
        for value in validated._no_log_values:
            hide(str(value))
        if validated.error_messages:
            message = f"{self._task.action}: {'; '.join(validated.error_messages)}"
            result.update(self._failure(DynamoError(message, "BAD_OPTION"), args))
            return result
        run = Run(
            check_mode=self._task.check_mode,
            diff=bool(self._task.diff),
            cache_dir=C.DEFAULT_LOCAL_TMP,
            show=None if self._task.no_log else lambda line: display.display(f"{host}: {line}"),
        )
        with self._environment():
            result.update(outcome(self.module.run, plain(validated.validated_parameters), run))
        if run.traceback:
            display.vvv(run.traceback, host=host)
        return result

    def _needs_module(self) -> bool:
        task, connection = self._task, self._connection
        return bool(task.async_val or task.delegate_to or connection.become or connection.transport != "local")

    def _find_kubeconfig(self, args: dict[str, Any]) -> None:
        """Resolve paths against the files of role and playbook and decrypt vaulted ones, as kubernetes.core does.

        On another host the path is that host's.
        """
        value = args.get("kubeconfig")
        if not value or not isinstance(value, str) or self._connection.transport != "local":
            return
        found = []
        for path in value.split(os.pathsep):
            try:
                found.append(self._loader.get_real_file(self._find_needle("files", path), decrypt=True))
            except AnsibleError as error:
                absent = "is a directory" if os.path.isdir(os.path.expanduser(path)) else "does not exist"
                problem = absent if "Could not find" in str(error) else f"cannot be read: {error}"
                message = f"the kubeconfig {path} {problem}"
                raise DynamoError(f"{message.rstrip('.')}.", "NO_CLUSTER", "Check dynamo_kubeconfig.") from error
        args["kubeconfig"] = os.pathsep.join(str(path) for path in found)

    @contextmanager
    def _environment(self) -> Iterator[None]:
        """The task's `environment` in os.environ, for the time of the run."""
        wanted: dict[str, Any] = {}
        self._compute_environment_string(wanted)
        before = dict(os.environ)
        os.environ.update({str(k): str(v) for k, v in plain(wanted).items()})
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def _failure(self, error: DynamoError, args: dict[str, Any]) -> dict[str, Any]:
        """The result of a failure before run(); hides what the specification calls secret, valid or not."""
        for name, option in self.module.ARGUMENT_SPEC.items():
            for key in (name, *option.get("aliases", [])):
                if option.get("no_log") and args.get(key) is not None:
                    hide(str(args[key]))
        hide_kubeconfig(args.get("kubeconfig"))
        cleaned: dict[str, Any] = scrub({"changed": False, **error.as_result(), "failed": True})
        return cleaned
