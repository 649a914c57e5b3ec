"""A local server that is started by whoever needs it first, shared by all, and stopped by the last one out.

In: a `ServerSpec` and the folder of the run files. Out: the address of a live server. Must not: know what is served;
block an event loop (every method blocks, so call it in a thread); be carried across `fork` without `exec`, since parent
and child would count as one user.

    user A ─┐ lock NAME.lock, join NAME.users, look at NAME.json
    user B ─┤                                             ┌─ NAME.serving held: wait until it is ready, share it
    user C ─┘                                             └─ free: start a keeper, which starts the server
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from rag_service.errors import InvalidSettings, LocalServerFailed
from rag_service.local.keeper import Order
from rag_service.local.state import (
    LOOPBACK,
    POLL_S,
    FileId,
    RunFiles,
    ServerState,
    answers,
    file_id,
    is_served,
    lock,
    open_lock,
)

RELEASE_S = 10.0
QUEUE_MARGIN_S = 15.0
TAIL_LINES = 5
TAIL_BYTES = 8_000
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """How to run a server.

    `command` has the argument `{port}` where the port goes and must listen on loopback; `ready_path` answers 200 once
    it serves; `what` names it in messages; `data`, if given, is the file that it keeps open while it lives: when
    another file stands there, somebody has deleted the data, and the server is restarted; `environment` is added to
    the caller's.
    """

    name: str
    command: tuple[str, ...]
    ready_path: str
    start_timeout_s: float
    what: str
    data: Path | None = None
    environment: tuple[tuple[str, str], ...] = ()


class SharedServer:
    """One user's share in a local server. Several in one process count as several users; the methods may be called
    from any thread.
    """

    def __init__(self, spec: ServerSpec, run_dir: Path) -> None:
        if sys.platform == "win32":
            raise LocalServerFailed(
                f"{spec.what} can be started on Linux and macOS only. Run it yourself and set its address"
                " (RAG_CHROMA__URL, RAG_LLM__BASE_URL)."
            )
        self._spec = spec
        self._files = RunFiles(run_dir.absolute(), spec.name)
        self._users: int | None = None
        self._mutex = threading.Lock()

    def __enter__(self) -> str:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    @property
    def log_path(self) -> Path:
        """Where the server's output goes."""
        return self._files.log

    def acquire(self) -> str:
        """Become a user; returns the server's address, `http://127.0.0.1:PORT`. Starts it where nobody has.

        Raises LocalServerFailed with the end of its log when it does not start within the spec's time, and
        InvalidSettings when the folder cannot be written.
        """
        with self._mutex:
            return self._live_address() or self._join()

    def ensure(self) -> str:
        """The address of a live server, for a user: costs about a millisecond while it lives, and replaces it
        otherwise, on another port if need be. Raises as `acquire` does.
        """
        with self._mutex:
            if self._users is None:
                raise LocalServerFailed(f"{self._spec.what} is not in use by this process any more.")
            return self._live_address() or self._join()

    def release(self) -> None:
        """Stop being a user. The last one returns when the server has ended, or after 10 s. Idempotent."""
        with self._mutex:
            users, self._users = self._users, None
            if users is None:
                return
            deadline = time.monotonic() + RELEASE_S
            with ExitStack() as share:
                share.callback(os.close, users)
                if not _same_file(users, self._files.users):  # the folder was deleted: nobody else can be in it
                    return
                with self._one_at_a_time(RELEASE_S) as alone:
                    # Leaving is done one at a time, so whoever else holds NAME.users is the keeper or a user who stays.
                    last = alone and (lock(users, shared=False) or not lock(users, shared=True))
                    share.close()
                    while last and is_served(self._files) and time.monotonic() < deadline:
                        time.sleep(POLL_S)

    def _live_address(self) -> str | None:
        """The address, if this is a user and the server is surely alive, ready and on its data; changes nothing."""
        if self._users is None or not _same_file(self._users, self._files.users) or not is_served(self._files):
            return None
        state = ServerState.read(self._files.state)
        if state is None or state.data != file_id(self._spec.data) or not answers(state.port, self._spec.ready_path):
            return None
        return f"http://{LOOPBACK}:{state.port}"

    def _join(self) -> str:
        if self._users is not None and not _same_file(self._users, self._files.users):
            self._leave()
        with self._one_at_a_time(self._spec.start_timeout_s + QUEUE_MARGIN_S) as alone:
            if not alone:
                raise self._failure("was being started by another process for too long")
            joined_before = self._users is not None
            try:
                if not joined_before:
                    self._users = open_lock(self._files.users)
                    if not lock(self._users, shared=True, timeout_s=QUEUE_MARGIN_S):  # a keeper is just leaving
                        raise self._failure("is still shutting down")
                return self._wait_until_ready()
            except BaseException:
                if not joined_before:
                    self._leave()
                raise

    def _leave(self) -> None:
        if self._users is not None:
            os.close(self._users)
            self._users = None

    def _wait_until_ready(self) -> str:
        """Share the server, or start it. Runs with NAME.lock held, so nobody else starts one."""
        deadline = time.monotonic() + self._spec.start_timeout_s
        started = False
        replaced: int | None = None
        while (address := self._live_address()) is None:
            if not is_served(self._files):
                if started:
                    raise self._failure("did not start")
                self._start_keeper()
                started = True
                continue
            state = ServerState.read(self._files.state)
            if state is not None and state.data != file_id(self._spec.data) and replaced != state.server:
                replaced = state.server
                with suppress(ProcessLookupError):
                    os.kill(state.keeper, signal.SIGHUP)
            if time.monotonic() >= deadline:
                raise self._failure(f"was not ready within {self._spec.start_timeout_s:.0f} s")
            time.sleep(POLL_S)
        return address

    def _start_keeper(self) -> None:
        order = Order(self._files, self._spec.ready_path, self._spec.data, self._spec.command)
        with self._files.log.open("wb") as begun:
            begun.close()
        with self._files.log.open("ab") as log:  # appending, so that the keeper can cut it
            keeper = subprocess.run(  # noqa: S603 - this package's own module
                [sys.executable, "-P", "-m", "rag_service.local.keeper", *order.arguments()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self._environment(),
                start_new_session=True,
                check=False,
            )
        if keeper.returncode:
            raise self._failure("did not start")

    def _environment(self) -> dict[str, str]:
        """The caller's, without this product's settings (they hold keys), and with the modules the caller sees."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("RAG_")}
        modules = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path if entry)
        return kept | {"PYTHONPATH": modules} | dict(self._spec.environment)

    @contextmanager
    def _one_at_a_time(self, timeout_s: float) -> Iterator[bool]:
        """Hold NAME.lock, and say whether that was possible in time."""
        try:
            self._files.folder.mkdir(parents=True, exist_ok=True)
            descriptor = open_lock(self._files.lock)
        except OSError as error:
            raise InvalidSettings(
                f"RAG_HOME: {self._files.folder} cannot be written by this process (uid {os.getuid()}):"
                f" {error.strerror}. Change its owner, or set RAG_HOME to a folder on a local disk that can be written."
            ) from error
        try:
            yield lock(descriptor, shared=False, timeout_s=timeout_s)
        finally:
            os.close(descriptor)

    def _failure(self, what_happened: str) -> LocalServerFailed:
        tail = _tail(self._files.log)
        said = f" It said: {tail}" if tail else ""
        return LocalServerFailed(f"{self._spec.what} {what_happened}.{said} Its log is {self._files.log}.")


def _same_file(descriptor: int, path: Path) -> bool:
    status = os.fstat(descriptor)
    opened: FileId = (status.st_dev, status.st_ino)
    return opened == file_id(path)


def _tail(log: Path) -> str:
    """The last lines of a log, in one line, without colours and without the frames of a traceback."""
    try:
        text = log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in ANSI.sub("", text).splitlines() if line.strip() and not line.startswith(" ")]
    return " | ".join(lines[-TAIL_LINES:])
