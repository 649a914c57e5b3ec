"""Metadata from outside a file: what the command line says of all, and what a sidecar says of one.

In: `key=value` pairs, files as they are found. Out: filterable fields, and sidecars that cannot be read as values with a
reason. Must not: let a broken sidecar keep its document out of the index.

A sidecar of `report.pdf` is `report.pdf.meta.yaml` (or `.meta.yml`, `.meta.json`) next to it.
"""

import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ingest.discover import Found, Refused, path_of
from ingest.loaders.encoding import decode
from ingest.loaders.normalise import clean_metadata
from ingest.loaders.plain_values import MAX_CHARS, ValuesError, from_json, from_yaml
from ingest.results import FileResult
from ingest.selection import SIDECARS, described_by
from rag_service.errors import InvalidSettings, LoadFailed
from rag_service.index.rows import MetadataValue
from rag_service.index.search_sql import IDENTITY, METADATA_KEY

Item = Found | Refused | FileResult
_INT = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")


def parse_pairs(pairs: Sequence[str]) -> dict[str, MetadataValue]:
    """`key=value` pairs; a key that comes several times has all its values. Raises InvalidSettings that names the pair."""
    values: dict[str, list[MetadataValue]] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not METADATA_KEY.fullmatch(key) or [*clean_metadata({key: 1})] != [key]:
            raise InvalidSettings(
                f"--metadata: {pair!r} is not key=value, with a key of letters, digits, `_`, `-` and dots."
            )
        if key in IDENTITY:
            raise InvalidSettings(
                f"--metadata: {pair!r} names {key}, which every document has of itself. Choose another key."
            )
        if not text.strip():
            raise InvalidSettings(f"--metadata: {pair!r} has no value.")
        values.setdefault(key, []).append(typed(text))
    return clean_metadata({key: found[0] if len(found) == 1 else found for key, found in values.items()})


def typed(text: str) -> MetadataValue:
    """`3` is a number, `true` a truth, everything else a text. Zeros in front (a phone or part number) are kept as text."""
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _INT.fullmatch(text) and str(int(text)) == text.removeprefix("+"):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


class Metadata:
    """A `Given` for the scan. What a sidecar says goes before what the command line says."""

    def __init__(self, for_all: dict[str, MetadataValue] | None = None) -> None:
        self._for_all = for_all or {}
        self._of: tuple[Path, dict[str, MetadataValue]] | None = None  # of the file in hand, so it is read once

    def __call__(self, found: Found) -> dict[str, MetadataValue]:
        if self._of is None or self._of[0] != found.path:
            for _ in self._read(found):
                pass  # told by `checked`, where there is one
        assert self._of is not None  # noqa: S101  `_read` sets it
        return {**self._for_all, **self._of[1]}

    def checked(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, each after what is wrong with its sidecar."""
        for item in items:
            if isinstance(item, Found):
                yield from self._read(item)
            yield item

    def _read(self, found: Found) -> Iterator[Refused]:
        said: dict[str, MetadataValue] = {}
        self._of = (found.path, said)
        if found.temporary:
            return
        for path in sidecars_of(found.path):
            try:
                said.update(clean_metadata(read_sidecar(path)))
            except LoadFailed as error:
                yield Refused(path.as_uri(), "failed", f"{error.message}; {found.title} is indexed without it")


def sidecars_of(path: Path) -> Iterator[Path]:
    for suffix in SIDECARS:
        sidecar = path.with_name(path.name + suffix)
        try:
            sidecar.lstat()
        except OSError:
            continue
        yield sidecar


def read_sidecar(path: Path) -> dict[str, Any]:
    """Raises LoadFailed with the reason."""
    parse: Callable[[str], dict[str, Any]] = from_json if path.name.lower().endswith(".json") else from_yaml
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise LoadFailed("a sidecar that is not a regular file")
        if status.st_size > 4 * MAX_CHARS:
            raise ValuesError(f"more than {MAX_CHARS:,} characters")
        return parse(decode(path.read_bytes()).text)
    except OSError as error:
        raise LoadFailed(f"a sidecar that cannot be read ({error.strerror})") from error
    except ValuesError as error:
        raise LoadFailed(f"a broken sidecar ({error})") from error


def why_no_document(uri: str) -> str | None:
    """The reason when this file is the sidecar of one that is there."""
    if not uri.startswith("file:"):
        return None
    path = path_of(uri)
    described = described_by(path.name)
    return f"it is the sidecar of {described}" if described and path.with_name(described).is_file() else None


def is_good_sidecar(uri: str) -> bool:
    """Whether a sidecar that was told as broken is in order now."""
    if why_no_document(uri) is None:
        return False
    try:
        read_sidecar(path_of(uri))
    except LoadFailed:
        return False
    return True
