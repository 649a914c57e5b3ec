"""What changes below the given folders, told once it has settled: `rag-ingest run --watch`.

In: folders and files, the operating system's events. Out: `Changes`, one for each burst, and `EVERYTHING` at first, when a
folder came or went, and every hour as a safety net: an overflowing queue of events or a network drive tells nothing.
Must not: read files, or tell of the index's own folder, which changes with every run.
"""

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from watchfiles import Change, watch

from ingest.selection import IGNORE_FILE, described_by
from ingest.settings import WatchSettings
from rag_service.errors import InvalidSettings

TICK_MS = 200
POLL_S = 1.0
LONGEST = 15  # a burst without a pause is taken after so many times the pause


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths that are to be looked at, with all that is below them; None stands for everything."""

    paths: frozenset[Path] | None

    @property
    def is_everything(self) -> bool:
        return self.paths is None


EVERYTHING = Changes(None)


class Burst:
    """Changes that belong together: they are due when nothing more has come for `settle_s`."""

    def __init__(self, settle_s: float) -> None:
        self._settle_s = settle_s
        self._paths: set[Path] = set()
        self._everything = False
        self._first = self._last = 0.0

    def add(self, paths: set[Path], now: float, *, everything: bool = False) -> None:
        if not paths and not everything:
            return
        if not self._paths and not self._everything:
            self._first = now
        self._last = now
        self._paths |= paths
        self._everything = self._everything or everything

    def take(self, now: float) -> Changes | None:
        """What is due; it is forgotten then."""
        if not self._paths and not self._everything:
            return None
        if now - self._last < self._settle_s and now - self._first < LONGEST * self._settle_s:
            return None
        due = EVERYTHING if self._everything else Changes(frozenset(self._paths))
        self._paths.clear()
        self._everything = False
        return due


class Following:
    """Follows folders, with all that is below them, and single files."""

    def __init__(
        self, paths: Sequence[Path], home: Path, settings: WatchSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        real = [path.resolve() for path in paths]
        self._files = {path: _state(path) for path in real if path.is_file()}
        self._roots = [path for path in real if path not in self._files]
        self._home = home.resolve()
        self._settings = settings
        self._clock = clock

    def changes(self) -> Generator[Changes, None, None]:
        """Without end. The caller may take its time: what happens meanwhile is told afterwards. Raises InvalidSettings."""
        burst = Burst(self._settings.settle_s)
        full_at = self._clock()  # the first one, as soon as watching is on
        while True:
            watched = {root: _state(root, is_folder=True) for root in self._roots}
            with closing(self._ticks([root for root, state in watched.items() if state is not None])) as ticks:
                for changed in ticks:
                    now = self._clock()
                    rules = any(path.name == IGNORE_FILE for path in changed)
                    burst.add(changed | self._changed_files(), now, everything=rules)
                    if now >= full_at:
                        burst.take(float("inf"))
                        due: Changes | None = EVERYTHING
                    else:
                        due = burst.take(now)
                    if due is not None:
                        yield due
                        if due.is_everything:
                            full_at = self._clock() + self._settings.full_run_s
                    if {root: _state(root, is_folder=True) for root in self._roots} != watched:
                        break
            burst.add(set(), self._clock(), everything=True)  # a folder was deleted, made anew or mounted

    def _ticks(self, roots: Sequence[Path]) -> Generator[set[Path], None, None]:
        """What changed, again and again, whether or not anything did; ends when a folder vanishes."""
        if not roots:
            while True:
                time.sleep(TICK_MS / 1000)
                yield set()
        if self._settings.poll:
            yield from self._polled(roots)
        try:
            for found in watch(
                *roots,
                watch_filter=None,  # one that leaves out all of a batch would leave out the tick, too
                debounce=5 * TICK_MS,
                step=TICK_MS // 4,
                rust_timeout=TICK_MS,
                yield_on_timeout=True,
                force_polling=False,  # its own polling tells times in whole seconds: it misses the second of two quick changes
                ignore_permission_denied=True,
            ):
                yield self._of_interest({(Path(name), change is Change.modified) for change, name in found})
        except FileNotFoundError:
            time.sleep(TICK_MS / 1000)
        except (OSError, RuntimeError) as error:  # RuntimeError: what its Rust part raises
            raise InvalidSettings(
                f"The system cannot tell of changes here ({error}). Set RAG_WATCH__POLL=true, or raise the system's limit on"
                " watches (fs.inotify.max_user_watches)."
            ) from error

    def _polled(self, roots: Sequence[Path]) -> Generator[set[Path], None, None]:
        """The same by looking at all files, in at most a fifth of the time. Folders are not told, files are."""
        before = self._states(roots)
        pause_s = 0.0
        while True:
            time.sleep(pause_s)
            started = time.monotonic()
            now = self._states(roots)
            pause_s = max(POLL_S, 4 * (time.monotonic() - started))
            yield self._of_interest({(path, True) for path, _ in before.items() ^ now.items()})
            before = now

    def _states(self, roots: Sequence[Path]) -> dict[Path, tuple[int, ...] | None]:
        found: dict[Path, tuple[int, ...] | None] = {}
        for root in roots:
            for folder, folders, names in os.walk(root):
                here = Path(folder)
                folders[:] = [name for name in folders if not name.startswith(".") and here / name != self._home]
                found.update((here / name, _state(here / name)) for name in names)
        return found

    def _of_interest(self, found: set[tuple[Path, bool]]) -> set[Path]:
        """Of paths, and whether they were only modified, those to look at."""
        paths: set[Path] = set()
        for path, is_modified in found:
            if not self._is_followed(path) or (is_modified and path.is_dir()):
                continue  # of a folder, what is in it is told itself
            paths.add(path)
            if (described := described_by(path.name)) is not None:
                paths.add(path.with_name(described))
        return paths

    def _is_followed(self, path: Path) -> bool:
        if path == self._home or path.is_relative_to(self._home):
            return False
        for root in self._roots:
            if path != root and path.is_relative_to(root):
                *folders, name = path.relative_to(root).parts
                return not any(part.startswith(".") for part in folders) and (
                    not name.startswith(".") or name == IGNORE_FILE
                )
        return False

    def _changed_files(self) -> set[Path]:
        """Of the files that were given themselves: many programs put a new one in an old one's place, which ends a watch."""
        changed = {path for path, state in self._files.items() if _state(path) != state}
        self._files.update((path, _state(path)) for path in changed)
        return changed


def _state(path: Path, *, is_folder: bool = False) -> tuple[int, ...] | None:
    """Which file or folder is there now; None for none."""
    try:
        status = os.stat(path)  # noqa: PTH116  as Path.stat, without a surprise for odd names
    except OSError:
        return None
    if is_folder:
        return (status.st_dev, status.st_ino)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
