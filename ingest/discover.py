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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self
from urllib.parse import unquote_to_bytes, urlsplit

from ingest.selection import Levels, Selection, described_by
from rag_service.errors import LoadFailed

# Control characters, which move a terminal's cursor, and those that turn the direction of writing (they disguise names).
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file. `uri` is its canonical `file:` URI (links resolved, percent-encoded), or where a temporary file came
    from. `mark` is equal as long as the file is the same: size, times, inode; `device` is its file system.
    """

    path: Path
    uri: str
    title: str
    size: int
    mark: str
    device: int
    changed_ns: int
    temporary: bool = False

    @classmethod
    def at(cls, path: Path, status: os.stat_result, *, uri: str = "", title: str = "", temporary: bool = False) -> Self:
        """What `status`, the file's own, says of it. A change of content always moves the change time, which no program
        sets at will; a copy put in its place has another inode."""
        return cls(
            path=path,
            uri=uri or path.as_uri(),
            title=title or title_of(path.name),
            size=status.st_size,
            mark=f"{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}",
            device=status.st_dev,
            changed_ns=max(status.st_mtime_ns, status.st_ctime_ns),
            temporary=temporary,
        )

    def discard(self) -> None:
        """A page or an upload was only here to be read; any other file stays."""
        if self.temporary:
            with suppress(OSError):
                self.path.unlink()


@dataclass(frozen=True, slots=True)
class Refused:
    """Something that is not taken: `status` is `skipped` (by rule) or `failed` (it should have worked)."""

    uri: str
    status: Literal["skipped", "failed"]
    reason: str


def is_missing(path: Path) -> bool:
    """Whether there is nothing of that name: perhaps a share that is not mounted."""
    return not os.path.lexists(path)


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
    """Whether a document's file is gone. A folder that cannot be read says nothing about its files, and what did not come
    from a file (a web page, an upload) does not vanish."""
    if not uri.startswith("file:"):
        return False
    try:
        path_of(uri).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def discover(
    paths: Sequence[Path], leave_out: Path | None = None, selection: Selection | None = None
) -> Iterator[Found | Refused]:
    """Files named themselves, and those below folders that the `selection` takes; each real file once. Hidden names (`.git`,
    `.cache`) are passed over below a folder, and taken when named themselves. The folder `leave_out` (the index's own) is
    never entered. What was met is not remembered, so memory stays flat however many files there are."""
    own = None if leave_out is None else leave_out.resolve()
    rules = Selection() if selection is None else selection
    named: set[str] = set()
    walks: list[_Walk] = []
    for path in paths:
        if path.is_dir():
            walk = _Walk(path.resolve(), own, rules)
            items: Iterable[Found | Refused] = walk.items()
        else:
            walk, items = None, [_named(path)]
        for item in items:
            if item.uri in named or any(earlier.meets(path_of(item.uri)) for earlier in walks):
                continue
            if walk is None:
                named.add(item.uri)
            yield item
        if walk is not None:
            walks.append(walk)


class _Walk:
    """What is below one folder, in a stable order: the files of a folder, then its folders, each by name."""

    def __init__(self, root: Path, own: Path | None, rules: Selection) -> None:
        self._root = root
        self._own = own
        self._rules = rules
        self._by_link: set[str] = set()

    def meets(self, path: Path) -> bool:
        """Whether the walk itself comes by this path."""
        if not path.is_relative_to(self._root) or (self._own is not None and path.is_relative_to(self._own)):
            return False
        relative = path.relative_to(self._root)
        return not any(part.startswith(".") for part in relative.parts) and self._rules.meets(
            self._root, relative.as_posix()
        )

    def items(self) -> Iterator[Found | Refused]:
        todo: list[tuple[str, str, Levels]] = [
            (str(self._root), "", ())
        ]  # no recursion: folders nest deeper than Python
        while todo:
            folder, prefix, above = todo.pop()
            try:
                names, folders, links = self._listed(folder)
                levels = self._rules.below(folder, prefix, above)
            except OSError as error:
                yield Refused(Path(folder).as_uri(), "failed", f"unreadable folder: {error.strerror}")
                continue
            except LoadFailed as error:
                yield Refused(Path(folder).as_uri(), "failed", error.message)
                continue
            there = frozenset(names) if any(map(described_by, names)) else frozenset()
            for name in names:
                if (described := described_by(name)) is not None:
                    if described not in there:
                        yield Refused(Path(folder, name).as_uri(), "skipped", f"a sidecar, but there is no {described}")
                elif name in links:
                    if (item := self._linked(Path(folder, name))) is not None:
                        yield item
                elif self._rules.passes(prefix + name, levels):
                    yield _look(Path(folder, name))
            below = [name for name in folders if self._rules.passes(f"{prefix}{name}/", levels)]
            todo.extend((os.path.join(folder, name), f"{prefix}{name}/", levels) for name in reversed(below))  # noqa: PTH118

    def _listed(self, folder: str) -> tuple[list[str], list[str], set[str]]:
        """Names of all but folders, names of folders, and which of the former are links."""
        names: list[str] = []
        folders: list[str] = []
        links: set[str] = set()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if self._own is None or entry.path != str(self._own):
                        folders.append(entry.name)
                    continue
                names.append(entry.name)
                if entry.is_symlink():
                    links.add(entry.name)
        names.sort()
        folders.sort()
        return names, folders, links

    def _linked(self, path: Path) -> Found | Refused | None:
        """What a link leads to, unless the walk comes by that itself."""
        try:
            real = path.resolve(strict=True)
            status = real.stat()
        except (OSError, RuntimeError):  # RuntimeError: a loop of links
            return Refused(_plain_uri(path), "skipped", "a link that leads nowhere")
        if stat.S_ISDIR(status.st_mode):
            return Refused(_plain_uri(path), "skipped", "a link to a folder: name the folder itself to ingest it")
        if not real.is_relative_to(self._root):
            return Refused(_plain_uri(path), "skipped", "a link to a file outside this folder")
        if self._own is not None and real.is_relative_to(self._own):
            return None
        if not stat.S_ISREG(status.st_mode):
            return Refused(_plain_uri(path), "skipped", "not a regular file")
        relative = real.relative_to(self._root)
        if not any(part.startswith(".") for part in relative.parts):
            return None  # it comes by itself, or is ignored
        if not self._rules.meets(self._root, relative.as_posix()) or real.as_uri() in self._by_link:
            return None
        self._by_link.add(real.as_uri())
        return Found.at(real, status)


def _named(path: Path) -> Found | Refused:
    """A file that was named itself: a link is followed wherever it leads."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        if _is_link(path):
            return Refused(_plain_uri(path), "skipped", "a link that leads nowhere")
        return _unreadable(path, error)
    described = described_by(real.name)
    if described is not None and real.with_name(described).is_file():
        return Refused(real.as_uri(), "skipped", f"a sidecar: it is read together with {described}")
    return _look(real)


def _look(path: Path) -> Found | Refused:
    """A file whose path holds no link."""
    try:
        status = path.lstat()
    except OSError as error:
        return _unreadable(path, error)
    if not stat.S_ISREG(status.st_mode):
        return Refused(_plain_uri(path), "skipped", "not a regular file")
    return Found.at(path, status)


def _unreadable(path: Path, error: Exception) -> Refused:
    reason = getattr(error, "strerror", None) or "a loop of links"
    return Refused(_plain_uri(path), "failed", f"unreadable: {reason}")


def _is_link(path: Path) -> bool:
    return os.path.islink(path)  # noqa: PTH114  Path.is_symlink raises for a path that is too long


def _plain_uri(path: Path) -> str:
    """The URI of a path as it is named, its links not resolved."""
    return Path(os.path.abspath(path)).as_uri()  # noqa: PTH100  Path.absolute() leaves ".." in
