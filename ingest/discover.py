"""What there is to ingest: the files below the given paths, and what cannot be taken, as values with a reason.

In: paths. Out: `Found` and `Refused` in a stable order; what a file is called, contains and whether it is still there.
Must not: follow a link out of its folder, touch anything that is not a regular file (a FIFO would block for ever), or
trust a name: it may be any bytes but NUL and "/".
"""

import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote_to_bytes, urlsplit

# Control characters, which move a terminal's cursor, and those that turn the direction of writing (they disguise names).
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file. `uri` is its canonical `file:` URI: links resolved, percent-encoded."""

    path: Path
    uri: str
    size: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Something that is not taken: `status` is `skipped` (by rule) or `failed` (it should have worked)."""

    uri: str
    status: Literal["skipped", "failed"]
    reason: str


def canonical_uri(path: Path) -> str:
    return path.resolve().as_uri()


def path_of(uri: str) -> Path:
    """The file of a `file:` URI; the inverse of `Path.as_uri`, also for names that are not UTF-8."""
    return Path(os.fsdecode(unquote_to_bytes(urlsplit(uri).path)))


def title_of(name: str) -> str:
    """A file's name as one line of text for people: NFC; what would steer a terminal or is no character, as U+FFFD.

    The URI keeps the exact name.
    """
    text = os.fsencode(name).decode("utf-8", "replace")
    return STEERING.sub("\ufffd", " ".join(unicodedata.normalize("NFC", text).split()))


def content_hash(path: Path) -> str:
    """SHA-256 of the file's bytes, hexadecimal: what decides whether a file has changed (its time does not)."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def has_vanished(uri: str) -> bool:
    """Whether a document's file is gone. A folder that cannot be read says nothing about its files."""
    try:
        path_of(uri).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def discover(paths: Sequence[Path], leave_out: Path | None = None) -> Iterator[Found | Refused]:
    """Files named themselves, and those below folders; each real file once. Hidden names (`.git`, `.cache`) are passed over
    below a folder, and taken when named themselves. The folder `leave_out` (the index's own) is never entered."""
    own = None if leave_out is None else leave_out.resolve()
    seen: set[str] = set()
    for path in paths:
        items = _below(path.resolve(), own) if path.is_dir() else [_look(path, root=None)]
        for item in items:
            if item.uri not in seen:
                seen.add(item.uri)
                yield item


def _below(root: Path, own: Path | None) -> Iterator[Found | Refused]:
    problems: list[OSError] = []
    # os.walk does not enter linked folders, so a loop of links ends here.
    for folder, folders, files in os.walk(root, onerror=problems.append):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and Path(folder) / name != own)
        for name in sorted(files):
            if not name.startswith("."):
                yield _look(Path(folder) / name, root=root)
        for name in folders:
            if _is_link(Path(folder) / name):
                yield Refused(
                    _plain_uri(Path(folder) / name),
                    "skipped",
                    "a link to a folder: name the folder itself to ingest it",
                )
    for error in problems:
        yield Refused(_plain_uri(Path(os.fsdecode(error.filename))), "failed", f"unreadable folder: {error.strerror}")


def _look(path: Path, root: Path | None) -> Found | Refused:
    try:
        real = path.resolve(strict=True)
        status = real.stat()
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        if _is_link(path):
            return Refused(_plain_uri(path), "skipped", "a link that leads nowhere")
        return Refused(
            _plain_uri(path), "failed", f"unreadable: {getattr(error, 'strerror', None) or 'a loop of links'}"
        )
    if root is not None and not real.is_relative_to(root):
        return Refused(_plain_uri(path), "skipped", "a link to a file outside this folder")
    if not stat.S_ISREG(status.st_mode):
        return Refused(_plain_uri(path), "skipped", "not a regular file")
    return Found(real, real.as_uri(), status.st_size)


def _is_link(path: Path) -> bool:
    return os.path.islink(path)  # noqa: PTH114  Path.is_symlink raises for a path that is too long


def _plain_uri(path: Path) -> str:
    """The URI of a path as it is named, its links not resolved."""
    return Path(os.path.abspath(path)).as_uri()  # noqa: PTH100  Path.absolute() leaves ".." in
