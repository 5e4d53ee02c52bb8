# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: YAML, and the only file that imports PyYAML: the Python of another host may lack it."""

from __future__ import annotations

import re
from typing import IO, Any

from ansible_collections.inferops.dynamo.plugins.module_utils._errors import DynamoError

try:
    import yaml
except ImportError as error:
    IMPORT_ERROR: ImportError | None = error
else:
    IMPORT_ERROR = None
    _JSON = {f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str", "seq", "map")}
    _MERGE = "tag:yaml.org,2002:merge"
    # What Go's parsers, or YAML 1.2, take for a number, a date or a boolean, and PyYAML for a text.
    _AMBIGUOUS = re.compile(r"[-+._]*[0-9]|[yYnN]\Z")

    class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Gives what JSON can hold: dates are texts, sets and bytes are refused; so are duplicate keys and cycles."""

        yaml_constructors = {
            tag: how for tag, how in yaml.SafeLoader.yaml_constructors.items() if tag is None or tag in _JSON
        }
        yaml_implicit_resolvers = {
            first: [(tag, form) for tag, form in forms if tag in {*_JSON, _MERGE}]
            for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(None, None, "no dictionary", node.start_mark)
        seen = set()
        for key, _value in node.value:
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                problem = f"the key {key.value!r} is there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add((key.tag, key.value) if isinstance(key, yaml.ScalarNode) else id(key))
        made: dict[Any, Any] = loader.construct_mapping(node, deep=True)
        return made

    def _sequence(loader: Any, node: yaml.SequenceNode) -> list[Any]:
        made: list[Any] = loader.construct_sequence(node, deep=True)
        return made

    # Built at once and not by a generator: then PyYAML itself refuses what contains itself.
    _Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
    _Loader.add_constructor("tag:yaml.org,2002:seq", _sequence)

    class _Dumper(yaml.SafeDumper):
        """Shows text of several lines line by line, so that a diff of a ConfigMap can be read."""

    def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value else "'" if _AMBIGUOUS.match(value) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

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


MAX_VALUES = 1_000_000  # of a file, what its aliases stand for included: code that copies it would fill the memory


def _values(value: Any, known: dict[int, int]) -> int:
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in known:
        items = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_values(item, known) for item in items)
    return known[id(value)]


def load_all(stream: IO[str]) -> list[Any]:
    """All documents, empty ones (None) included. NotYaml; DynamoError NO_LIBRARY."""
    _check()
    try:
        documents = list(yaml.load_all(stream, Loader=_Loader))
        if _values(documents, {}) > MAX_VALUES:
            raise NotYaml(f"its aliases stand for more than {MAX_VALUES:,} values", 0)
        return documents
    except (NotYaml, UnicodeDecodeError):
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise NotYaml(str(getattr(error, "problem", None) or error), mark.line + 1 if mark else 0) from None
    except (LookupError, ValueError, RecursionError) as error:  # !!int of a word, and what is nested without end
        raise NotYaml(f"a value can't be read ({type(error).__name__})", 0) from None


def dump(obj: Any) -> str:
    """Block style, keys sorted. DynamoError NO_LIBRARY."""
    _check()
    return yaml.dump(obj, Dumper=_Dumper, default_flow_style=False, sort_keys=True, width=1000)
