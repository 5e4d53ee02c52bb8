# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: YAML, and the only file that imports PyYAML: the Python of another host may lack it."""

from __future__ import annotations

from typing import IO, Any

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

try:
    import yaml
except ImportError as error:
    IMPORT_ERROR: ImportError | None = error
else:
    IMPORT_ERROR = None
    _Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class _Dumper(yaml.SafeDumper):
        """Shows text of several lines line by line, so that a diff of a ConfigMap can be read."""

    def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    _Dumper.add_representer(str, _text)


class NotYaml(ValueError):
    """problem: the parser's words, which may quote the text. line: counted from 1, 0 if it is not known."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


def _check() -> None:
    if IMPORT_ERROR is not None:
        raise DynamoError(
            f"a Python library for YAML is missing: {IMPORT_ERROR}.",
            "NO_LIBRARY",
            "Install the Python package PyYAML for this interpreter.",
        )


def load_all(stream: IO[str]) -> list[Any]:
    """All documents, empty ones (None) included. NotYaml; DynamoError NO_LIBRARY."""
    _check()
    try:
        return list(yaml.load_all(stream, Loader=_Loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise NotYaml(str(getattr(error, "problem", None) or error), mark.line + 1 if mark else 0) from None


def dump(obj: Any) -> str:
    """Block style, keys sorted. DynamoError NO_LIBRARY."""
    _check()
    return yaml.dump(obj, Dumper=_Dumper, default_flow_style=False, sort_keys=True, width=1000)
