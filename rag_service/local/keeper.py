"""The keeper: a small process that runs one local server for as long as anybody uses it.

    python -m rag_service.local.keeper FOLDER NAME READY_PATH DATA COMMAND...

In: where the run files are, what to ask to see that the server is ready, the file that tells whether its data was
replaced ("-" for none), and the server's command with `{port}` for the port. Out: a server on loopback, and its
`ServerState` while it is ready. Must not: import more than the standard library and `state`, or know which server it
is.

Its life is that of its users: signals to stop are ignored, because Ctrl-C or a service manager sends them to the whole
group while users still finish their work. SIGHUP restarts the server on the same port. A server that dies is restarted;
one that dies `DEATHS` times within `DEATHS_WINDOW_S` seconds is given up.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rag_service.local.state import (
    POLL_S,
    RunFiles,
    ServerState,
    answers,
    file_id,
    is_free,
    lock,
    lock_when_alone,
    open_lock,
    reserve_port,
)

PORT = "{port}"
"""The argument of a server's command that stands for the port."""

DEATHS = 3
DEATHS_WINDOW_S = 30.0
STOP_GRACE_S = 5.0
PREDECESSOR_S = 5.0
LOG_CHECK_S = 60.0
LOG_LIMIT_BYTES = 4_000_000

Outcome = Literal["nobody left", "replace", "died"]


@dataclass(frozen=True, slots=True)
class Order:
    """What to run. `command` has the argument `{port}` where the port goes."""

    files: RunFiles
    ready_path: str
    data: Path | None
    command: tuple[str, ...]

    @staticmethod
    def parse(arguments: list[str]) -> "Order":
        folder, name, ready_path, data, *command = arguments
        return Order(RunFiles(Path(folder), name), ready_path, None if data == "-" else Path(data), tuple(command))

    def arguments(self) -> list[str]:
        """The inverse of `parse`."""
        data = "-" if self.data is None else str(self.data)
        return [str(self.files.folder), self.files.name, self.ready_path, data, *self.command]


class Keeper:
    """Runs the server. `serving` is the locked descriptor of NAME.serving, which the server inherits."""

    def __init__(self, order: Order, serving: int) -> None:
        self._order = order
        self._serving = serving
        self._port = reserve_port()
        self._deaths: deque[float] = deque(maxlen=DEATHS)
        # SimpleQueue.put may be called in a signal handler that interrupts its get; Queue.put may not.
        self._events: queue.SimpleQueue[Outcome | subprocess.Popen[bytes]] = queue.SimpleQueue()

    def run(self) -> int:
        """Serve until nobody is left (0) or the server keeps dying (1)."""
        users = open_lock(self._order.files.users)
        _in_background(self._await_departures, users)
        signal.signal(signal.SIGHUP, lambda *_: self._events.put("replace"))
        while True:
            server = self._start()
            outcome = self._watch(server)
            self._withdraw()
            if outcome == "nobody left":
                _stop(server)
                return 0
            if outcome == "replace":
                _stop(server)
            elif self._keeps_dying():
                _say(f"the server ended {DEATHS} times within {DEATHS_WINDOW_S:.0f} s (last: {_ending(server)})")
                return 1

    def _start(self) -> "subprocess.Popen[bytes]":
        # The old port first: those who know it need not learn another.
        if not is_free(self._port):
            self._port = reserve_port()
        # Whole arguments only: a path of the user's may hold the same letters.
        command = [str(self._port) if part == PORT else part for part in self._order.command]
        child = Path(__file__).with_name("child.py")
        server = subprocess.Popen(  # noqa: S603 - the command is the product's own
            [sys.executable, "-I", "-S", str(child), str(os.getpid()), *command], pass_fds=(self._serving,)
        )
        _in_background(self._await_end, server)
        return server

    def _await_departures(self, users: int) -> None:
        lock_when_alone(users)
        self._events.put("nobody left")

    def _await_end(self, server: "subprocess.Popen[bytes]") -> None:
        server.wait()
        self._events.put(server)

    def _watch(self, server: "subprocess.Popen[bytes]") -> Outcome:
        """Tell the users when the server is ready, and return when something has to happen."""
        ready = False
        while True:
            try:
                event = self._events.get(timeout=LOG_CHECK_S if ready else POLL_S)
            except queue.Empty:
                if ready:
                    _limit_log()
                elif answers(self._port, self._order.ready_path):
                    ready = True
                    self._publish(server)
                continue
            if not isinstance(event, subprocess.Popen):
                return event
            if event is server:  # and not one that was replaced
                return "died"

    def _publish(self, server: "subprocess.Popen[bytes]") -> None:
        if self._owns_folder():
            data = file_id(self._order.data)
            state = ServerState(self._port, os.getpid(), server.pid, time.time(), data)
            state.write(self._order.files.state)

    def _withdraw(self) -> None:
        if self._owns_folder():
            self._order.files.state.unlink(missing_ok=True)

    def _owns_folder(self) -> bool:
        """False once somebody has deleted the folder: what may be there now belongs to another keeper."""
        own = os.fstat(self._serving)
        return file_id(self._order.files.serving) == (own.st_dev, own.st_ino)

    def _keeps_dying(self) -> bool:
        self._deaths.append(time.monotonic())
        return len(self._deaths) == DEATHS and self._deaths[-1] - self._deaths[0] < DEATHS_WINDOW_S


def _in_background(work: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()


def _stop(server: "subprocess.Popen[bytes]") -> None:
    server.terminate()
    try:
        server.wait(timeout=STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        _say(f"the server did not end within {STOP_GRACE_S:.0f} s of SIGTERM and was killed")
        server.kill()
        server.wait()


def _ending(server: "subprocess.Popen[bytes]") -> str:
    code = server.wait()
    return f"signal {-code}" if code < 0 else f"exit status {code}"


def _limit_log() -> None:
    """Begin the log anew when it has grown too long. Its writers append, so they go on at the new end."""
    if os.fstat(sys.stderr.fileno()).st_size > LOG_LIMIT_BYTES:
        os.ftruncate(sys.stderr.fileno(), 0)


def _say(line: str) -> None:
    sys.stderr.write(f"keeper: {line}\n")
    sys.stderr.flush()


def main(arguments: list[str]) -> int:
    """Returns to the caller (with 0) when the keeper runs on its own and holds NAME.serving, or with 1."""
    order = Order.parse(arguments)
    serving = open_lock(order.files.serving)
    # A server whose keeper was killed may need a moment to die. Two servers on the same data would destroy it.
    if not lock(serving, shared=False, timeout_s=PREDECESSOR_S):
        _say("another server still runs on this data")
        return 1
    order.files.state.unlink(missing_ok=True)  # of a predecessor that was killed
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # The keeper belongs to no user: whoever started it may leave before the others, and must not have to reap it.
    if os.fork():
        return 0
    try:
        return Keeper(order, serving).run()
    except Exception as error:  # noqa: BLE001 - whatever it is, the log must name it; the server dies with its keeper
        _say(f"{type(error).__name__}: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
