"""Metadata that people write beside their text, in YAML, TOML or JSON, as one flat mapping.

In: text. Out: names to plain values; what is nested has names with dots (`owner.team`). Must not: make objects, follow
aliases (a few lines of them can stand for gigabytes), or guess: `no` is a word and 2026-01-31 stays as it is written.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import yaml

MAX_CHARS = 100_000
MAX_DEPTH = 20


class ValuesError(ValueError):
    """The text is not such metadata; the message says why, in one line."""


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core schema, without aliases."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  filled below

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValuesError("an alias (*name); write the value out")
        return super().compose_node(parent, index)


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]{0,30})", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), [*_first])


def from_yaml(text: str) -> dict[str, Any]:
    """Raises ValuesError. An empty text has no metadata."""
    return _flat_mapping(text, lambda: yaml.load(text, Loader=_Loader))  # noqa: S506  a SafeLoader


def from_json(text: str) -> dict[str, Any]:
    """Raises ValuesError."""
    return _flat_mapping(text, lambda: json.loads(text))


def from_toml(text: str) -> dict[str, Any]:
    """Raises ValuesError."""
    return _flat_mapping(text, lambda: tomllib.loads(text))


def _flat_mapping(text: str, parse: Callable[[], object]) -> dict[str, Any]:
    if len(text) > MAX_CHARS:
        raise ValuesError(f"more than {MAX_CHARS:,} characters")
    try:
        values = parse()
        if values is None:
            return {}
        if not isinstance(values, Mapping):
            raise ValuesError("no `key: value` lines")
        return flat(values)
    except ValuesError:
        raise
    except RecursionError as error:
        raise ValuesError("nested too deep") from error
    except yaml.MarkedYAMLError as error:
        place = f"line {error.problem_mark.line + 1}: " if error.problem_mark is not None else ""
        raise ValuesError(f"{place}{error.problem or 'broken'}") from error
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise ValuesError(" ".join(str(error).split())[:120] or "broken") from error


def flat(values: Mapping[Any, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Nested mappings under names with dots. Lists stay."""
    if depth > MAX_DEPTH:
        raise ValuesError("nested too deep")
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found.update(flat(value, f"{name}.", depth + 1))
        else:
            found[name] = value
    return found
