"""What the users of a local server and its keeper tell each other: files in one folder, and locks on them.

In: a folder on a local disk and a server's name. Out: paths, locks, the state of a running server, a free port.
Must not: start or stop anything; import more than the standard library, since the keeper must start quickly.

The files of server NAME, all in one folder (`RAG_HOME/run`):

    NAME.lock     locked exclusively for moments, by users that start, join or leave
    NAME.users    locked shared by each user for as long as it lives; the kernel drops the lock however it dies. The
                  keeper waits for it exclusively: when it gets it, nobody is left
    NAME.serving  locked exclusively by the keeper and, through inheritance, by the server itself: while it is held, the
                  data has an owner and no second server may be started on it
    NAME.json     `ServerState`: there only while the server is ready
    NAME.log      what keeper and server print, begun anew with each keeper
"""

import http.client
import json
import os
import socket
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

if sys.platform != "win32":  # so that importing works everywhere and SharedServer can say what is missing
    import fcntl

LOOPBACK = "127.0.0.1"
POLL_S = 0.02

FileId = tuple[int, int]
"""Device and inode: tells a file from another one that was put in its place."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The paths above. `folder` is absolute, since the keeper runs elsewhere."""

    folder: Path
    name: str

    @property
    def lock(self) -> Path:
        return self.folder / f"{self.name}.lock"

    @property
    def users(self) -> Path:
        return self.folder / f"{self.name}.users"

    @property
    def serving(self) -> Path:
        return self.folder / f"{self.name}.serving"

    @property
    def state(self) -> Path:
        return self.folder / f"{self.name}.json"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server that is ready. `keeper` and `server` are process ids, `started` is in Unix seconds, `data` is the
    identity of the file that the server was ready with (None where it has none to watch).
    """

    port: int
    keeper: int
    server: int
    started: float
    data: FileId | None = None

    def write(self, path: Path) -> None:
        """Replace the file in one step, so that no reader sees half of it."""
        draft = path.with_suffix(".json.new")
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(path)

    @staticmethod
    def read(path: Path) -> "ServerState | None":
        """The state in the file; None where there is none, or something else."""
        try:
            fields = json.loads(path.read_text())
            data = fields["data"]
            return ServerState(
                port=int(fields["port"]),
                keeper=int(fields["keeper"]),
                server=int(fields["server"]),
                started=float(fields["started"]),
                data=(int(data[0]), int(data[1])) if data is not None else None,
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None


def open_lock(path: Path) -> int:
    """A descriptor to lock `path` by. Each call gives an independent one, even within one process."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)


def lock(descriptor: int, *, shared: bool, timeout_s: float = 0.0) -> bool:
    """Lock, waiting up to `timeout_s` seconds; False where others held it that long.

    It asks again and again instead of waiting in the kernel, because that wait has no limit and a thread in it cannot
    be interrupted.
    """
    mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        else:
            return True


def lock_when_alone(descriptor: int) -> None:
    """Lock exclusively, however long that takes."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def is_served(files: RunFiles) -> bool:
    """Whether a keeper or a server is alive, ready or not."""
    try:
        descriptor = os.open(files.serving, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not lock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def file_id(path: Path | None) -> FileId | None:
    """The identity of the file now at `path`; None where there is none."""
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def answers(port: int, path: str, *, timeout_s: float = 2.0) -> bool:
    """Whether a server on loopback answers `GET path` with 200."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def reserve_port() -> int:
    """A free loopback port that the system hands to nobody else for about a minute.

    A connection is made and closed on it. What remains of that (TIME_WAIT) keeps the port from those who ask for any
    free one, as other keepers do at the same moment, but not from a server that asks for it by number with
    SO_REUSEADDR, as servers do.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, 0))
        listener.listen(1)
        port: int = listener.getsockname()[1]
        with socket.create_connection((LOOPBACK, port)) as client:
            accepted, _ = listener.accept()
            # The side that closes first keeps the TIME_WAIT, and it has to be the one on this port.
            accepted.close()
            client.recv(1)
    return port


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True
