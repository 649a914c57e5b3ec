"""Which files below a folder are taken: the rules of the command line, of `.ragignore` files, and those that always hold.

In: patterns as in `.gitignore`. Out: yes or no for a path, and how many were passed over. Must not: look at what a file
holds, or follow a link.

As in git, the last pattern that matches decides, a `.ragignore` further down goes before one further up, and nothing below
an ignored folder is looked at. Rules given for one run (`--include`, `--exclude`) say what this run reads; only a
`.ragignore` says what does not belong into the index.
"""

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pathspec import GitIgnoreSpec

from rag_service.errors import InvalidSettings, LoadFailed

IGNORE_FILE = ".ragignore"
MAX_IGNORE_BYTES = 1_000_000
# What programs leave behind between documents. A `!pattern` in a .ragignore takes it back.
ALWAYS_IGNORED = (
    *("node_modules/", "__pycache__/", "bower_components/", "*.egg-info/"),
    *("~$*", "Thumbs.db", "desktop.ini", "*~", "#*#", "*.swp", "*.swo", "*.pyc", "*.part", "*.crdownload"),
)
SIDECARS = (".meta.yaml", ".meta.yml", ".meta.json")


@dataclass(frozen=True, slots=True)
class Level:
    """One `.ragignore`: `prefix` is its folder below the root ("" or "a/b/"), `name` how people are told of it."""

    prefix: str
    spec: GitIgnoreSpec
    name: str


Levels = tuple[Level, ...]  # the deepest first


class Selection:
    """The rules of one run. Raises InvalidSettings for a pattern that is none."""

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self.ignored = 0  # files and folders passed over; a folder counts once
        self._include = compiled(include, "--include") if include else None
        self._exclude = compiled(exclude, "--exclude")
        self._always = compiled(ALWAYS_IGNORED, "")
        self._of_folder = lru_cache(maxsize=4096)(self._read)

    def below(self, folder: str, prefix: str, above: Levels) -> Levels:
        """The rules for what is in `folder`. Raises LoadFailed when its own cannot be read."""
        own = self._of_folder(folder, prefix)
        return above if own is None else (own, *above)

    def passes(self, relative: str, levels: Levels) -> bool:
        """Whether a file (`a/b.md`) or folder (`a/b/`) whose folder passed is to be taken; counts those that are not."""
        taken = self._wanted(relative) and not self._ignored(relative, levels)
        self.ignored += not taken
        return taken

    def meets(self, root: Path, relative: str) -> bool:
        """Whether the whole way to this file below `root` passes."""
        levels: Levels = ()
        folder, prefix = str(root), ""
        *folders, name = relative.split("/")
        try:
            for part in [*folders, ""]:
                levels = self.below(folder, prefix, levels)
                here = f"{prefix}{part}/" if part else relative
                if not self._wanted(here) or self._ignored(here, levels):
                    return False
                folder, prefix = os.path.join(folder, part), here  # noqa: PTH118  a million times
        except LoadFailed:
            return False
        return bool(name)

    def ruled_out(self, root: Path, relative: str) -> str | None:
        """Which `.ragignore` below `root` ignores this file or a folder above it; None when none does, or one cannot be
        read now."""
        levels: Levels = ()
        folder, prefix = str(root), ""
        try:
            for part in [*relative.split("/")[:-1], ""]:
                levels = self.below(folder, prefix, levels)
                here = f"{prefix}{part}/" if part else relative
                for level in levels:
                    decided = level.spec.check_file(here[len(level.prefix) :]).include
                    if decided:
                        return level.name
                    if decided is not None:
                        break
                folder, prefix = os.path.join(folder, part), here  # noqa: PTH118
        except LoadFailed:
            return None
        return None

    def _wanted(self, relative: str) -> bool:
        if self._exclude.match_file(relative):
            return False
        return self._include is None or relative.endswith("/") or self._include.match_file(relative)

    def _ignored(self, relative: str, levels: Levels) -> bool:
        for level in levels:
            decided = level.spec.check_file(relative[len(level.prefix) :]).include
            if decided is not None:
                return decided
        return self._always.match_file(relative)

    def _read(self, folder: str, prefix: str) -> Level | None:
        path = Path(folder, IGNORE_FILE)
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):  # as git, no link: it would bring rules from outside
                return None
            if status.st_size > MAX_IGNORE_BYTES:
                raise LoadFailed(f"{IGNORE_FILE} is larger than {MAX_IGNORE_BYTES:,} bytes; its folder is passed over")
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise LoadFailed(f"{IGNORE_FILE} cannot be read ({error.strerror}); its folder is passed over") from error
        lines = os.fsdecode(data.removeprefix(b"\xef\xbb\xbf")).splitlines()
        return Level(prefix, GitIgnoreSpec.from_lines(good(lines)), f"{prefix}{IGNORE_FILE}")


def compiled(patterns: Iterable[str], option: str) -> GitIgnoreSpec:
    """Raises InvalidSettings that names the pattern."""
    kept = list(patterns)
    for pattern in kept:
        if not is_pattern(pattern) or not pattern.strip(" /") or pattern.startswith("!"):
            raise InvalidSettings(
                f"{option}: {pattern!r} is no pattern. Write it as in .gitignore: *.md, drafts/, /a/**/b."
            )
    return GitIgnoreSpec.from_lines(kept)


def good(lines: Iterable[str]) -> list[str]:
    """Without the lines that mean nothing, which git passes over too."""
    return [line for line in lines if is_pattern(line)]


def is_pattern(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def described_by(name: str) -> str | None:
    """The name of the file that a sidecar of this name describes; None for what is named like no sidecar."""
    for suffix in SIDECARS:
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return None
