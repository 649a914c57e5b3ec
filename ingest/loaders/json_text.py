"""How JSON values read as text: rows for records, `path: value` for settings, prose for long strings.

In: parsed values, with objects as `Members` and numbers as `Literal`. Out: parts. Must not: parse; drop a value, also an
empty one: that there is none can be the answer.
"""

from collections.abc import Iterator
from typing import Any

from langchain_core.documents import Document

from ingest.loaders.parts import heading, part

LONG_STRING = 300  # characters; longer ones are prose of their own
MAX_ROW = 1_500  # characters; a longer record becomes a section with a line for each value
MAX_DEPTH = 100
_NAMING_KEYS = ("title", "name", "subject", "label", "id", "key")


class Members(list[tuple[str, Any]]):
    """The members of an object in order, with keys that stand twice."""


class Literal(str):
    """A number as it is written."""

    __slots__ = ()


def parts_of(value: Any) -> Iterator[Document]:
    """A whole document. RecursionError when it is nested too deeply."""
    if isinstance(value, Members):
        yield from _section(value, "", 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from parts_of_item(item, f"[{number}]")
    elif _is_long(value):
        yield part(f"{value}\n")
    else:
        yield part(f"{_scalar(value)}\n", "table")


def parts_of_item(value: Any, name: str) -> Iterator[Document]:
    """One record of a list: a row, or a section when it is long. `name` says where it stands."""
    yield from _item(value, name, "", 1)


def _item(value: Any, name: str, path: str, level: int) -> Iterator[Document]:
    row = _row(value)
    if row is not None:
        yield part(f"{row}\n", "table")
        return
    label = _label(value)
    yield heading(f"{name}: {label}\n\n" if label else f"{name}\n\n", min(level, 6))
    yield from _section(value, path, level + 1)


def _section(value: Any, path: str, level: int) -> Iterator[Document]:
    """The short values as lines, then the long ones and the lists of records, each under its path."""
    if level > MAX_DEPTH:
        raise RecursionError
    members = value if isinstance(value, Members) else [(f"[{i}]", item) for i, item in enumerate(_listed(value))]
    apart: list[tuple[str, Any]] = []
    lines: list[str] = []
    for key, inner in members:
        at = _joined(path, key)
        if _is_long(inner) or _holds_records(inner) or (found := _lines(inner, at)) is None:
            apart.append((at, inner))
        else:
            lines.extend(found)
    if lines:
        yield part("".join(f"{line}\n" for line in lines) + "\n", "table")
    for at, inner in apart:
        yield heading(f"{at}\n\n", min(level, 6))
        if isinstance(inner, str):
            yield part(f"{inner.strip()}\n\n")
        elif isinstance(inner, Members):
            yield from _section(inner, at, level + 1)
        else:
            yield from _list(inner, at, level + 1)
            yield part("\n")


def _list(items: list[Any], path: str, level: int) -> Iterator[Document]:
    for number, item in enumerate(items):
        yield from _item(item, f"{path}[{number}]", f"{path}[{number}]", level)


def _row(value: Any) -> str | None:
    """`key: value; key: value` on one line; None when that would be too long to be read, or hold prose."""
    if not isinstance(value, Members | list):
        return None if _is_long(value) else _scalar(value)
    pieces: list[str] = []
    length = 0
    for path, text in _leaves(value, "", 0):
        if text is None:
            return None
        pieces.append(f"{path}: {text}" if path else text)
        length += len(pieces[-1])
        if length > MAX_ROW:
            return None
    return "; ".join(pieces)


def _lines(value: Any, path: str) -> list[str] | None:
    """A line for each value below `path`; None when there are many, or one of them is prose."""
    lines: list[str] = []
    for inner, text in _leaves(value, path, 0):
        if text is None or len(lines) == 30:
            return None
        lines.append(f"{inner}: {text}")
    return lines


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, str | None]]:
    """Every value with its path; None for a long string. A list of plain values is one value."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, Members) and value:
        for key, inner in value:
            yield from _leaves(inner, _joined(path, key), depth + 1)
    elif isinstance(value, list) and value and not isinstance(value, Members):
        if any(isinstance(item, list) for item in value):
            for number, item in enumerate(value):
                yield from _leaves(item, f"{path}[{number}]", depth + 1)
        else:
            yield path, None if any(map(_is_long, value)) else ", ".join(map(_scalar, value))
    else:
        yield path, None if _is_long(value) else _scalar(value)


def _scalar(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Members():
            return "{}"
        case list():
            return "[]"
        case "" if not isinstance(value, Literal):
            return '""'
        case _:
            return " ".join(str(value).split())


def _label(value: Any) -> str:
    """What tells a record from its neighbours in a list."""
    if not isinstance(value, Members):
        return ""
    plain = [(key, inner) for key, inner in value if not (inner is None or isinstance(inner, list) or _is_long(inner))]
    found = {key.lower(): _scalar(inner) for key, inner in plain}
    return next((found[key] for key in _NAMING_KEYS if found.get(key)), "")


def _is_long(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Literal) and len(value) > LONG_STRING


def _holds_records(value: Any) -> bool:
    """Whether it is a list of records, or an object that has one."""
    if isinstance(value, Members):
        return any(_holds_records(inner) for _, inner in value)
    return isinstance(value, list) and any(isinstance(item, Members) for item in value)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _joined(path: str, key: str) -> str:
    if not path or key.startswith("["):
        return f"{path}{key}"
    return f"{path}.{key}"
