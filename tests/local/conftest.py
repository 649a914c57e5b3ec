"""What the tests of the local servers share: users in other processes, and a look at what runs.

Every test here ends with the assertion that nothing it started is left.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rag_service.local.state import RunFiles, ServerState, is_served

DEADLINE_S = 60.0

Until = Callable[[Callable[[], object], str], None]


@pytest.fixture
def until() -> Until:
    """Wait for a condition, and fail with its name when it does not come."""
    return wait_until


def wait_until(condition: Callable[[], object], name: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"this did not happen: {name}"
        time.sleep(0.01)


def command_lines_with(text: str) -> list[str]:
    """The command lines of the live processes that mention `text`, this one's relatives excepted."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if any(text in word for word in words) and int(entry.name) != os.getpid():
                found.append(" ".join(words))
    return found


class UserProcess:
    """See user_process.py."""

    def __init__(self, kind: str, home: Path, prefix: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, str(Path(__file__).with_name("user_process.py")), kind, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        )

    def line(self) -> str:
        """What it prints next."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ensure(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("ensure\n")
        self.process.stdin.flush()
        return self.line()

    def release(self) -> None:
        """Let it release the server and end; returns when it has."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.line() == "released"
        assert self.process.wait() == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.process.wait()


StartUser = Callable[..., UserProcess]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A RAG_HOME with a name that needs care. Afterwards nothing that was started on it may be left."""
    path = tmp_path / "Ünser home {port}"
    yield path
    for name in ("chroma", "demo-model", "stand-in"):
        wait_until(lambda name=name: not is_served(RunFiles(path / "run", name)), f"{name} has ended")  # type: ignore[misc]
    wait_until(lambda: not command_lines_with(str(tmp_path)), "no process of this test is left")


@pytest.fixture
def start_user(home: Path) -> Iterator[StartUser]:
    """Starts users in processes of their own: start_user("chroma"). Those left at the end of the test leave then."""
    users: list[UserProcess] = []

    def start(kind: str = "chroma", prefix: tuple[str, ...] = ()) -> UserProcess:
        users.append(UserProcess(kind, home, prefix))
        return users[-1]

    yield start
    for user in users:
        user.close()


@pytest.fixture
def state_of(home: Path) -> Callable[[str], ServerState]:
    """The state of the server that runs now."""

    def read(name: str) -> ServerState:
        state = ServerState.read(RunFiles(home / "run", name).state)
        assert state is not None, f"{name} does not run"
        return state

    return read


@pytest.fixture
def is_alive() -> Callable[[int], bool]:
    """Whether a process runs; one that has ended and waits to be reaped does not."""

    def alive(pid: int) -> bool:
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] not in "ZX"

    return alive


@pytest.fixture
def kill() -> Callable[[int], None]:
    return lambda pid: os.kill(pid, signal.SIGKILL)


@pytest.fixture
def socket_addresses() -> Callable[[int], set[str]]:
    """The local and remote IPv4 and IPv6 addresses of a process's TCP and UDP sockets, as the kernel writes them."""

    def addresses(pid: int) -> set[str]:
        inodes = set()
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    inodes.add(target[len("socket:[") : -1])
        found: set[str] = set()
        for table in ("tcp", "tcp6", "udp", "udp6"):
            for row in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = row.split()
                if fields[9] in inodes:
                    found |= {fields[1].partition(":")[0], fields[2].partition(":")[0]}
        return found

    return addresses
