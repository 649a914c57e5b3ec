"""The parent's end of one parser's process: start it, send to it, receive no longer than until a deadline, end it.

In: frames and deadlines. Out: messages (`frames.py`), or an exception that tells what became of the process. Must not:
wait without a deadline; take in more than a bound, be it of answers or of what is printed; know files.
"""

import io
import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress

from ingest.parsers.frames import HEADER_BYTES, Message, decoded, write_frame

REAP_S = 5.0
READ_BYTES = 1_000_000
TAIL_BYTES = 4_000


class Ended(Exception):  # noqa: N818  it never leaves the pool
    """The process has closed its end of the pipe."""


class TooLate(Exception):  # noqa: N818  the same
    """The deadline has passed."""


class TooLarge(Exception):  # noqa: N818  the same
    """It announced more than any document is."""


class ParserProcess:
    """One running process and its pipes."""

    def __init__(self, memory_mb: int, max_frame_bytes: int) -> None:
        """Raises OSError when the machine starts no more processes."""
        # A session of its own: Ctrl-C does not reach it, and all that it may start is killed together. -P: the folder that
        # somebody ingests from must not bring modules of its own.
        self._popen = subprocess.Popen(  # noqa: S603 - the command is the product's own
            [sys.executable, "-P", "-m", "ingest.parsers.process", str(memory_mb), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert self._popen.stdin and self._popen.stdout and self._popen.stderr  # noqa: S101 PT018  as asked for
        self._requests, self._replies, self._errors = self._popen.stdin, self._popen.stdout, self._popen.stderr
        self._max_frame_bytes = max_frame_bytes
        self.tail = b""  # of what it printed
        self._selector = selectors.DefaultSelector()
        for pipe in (self._replies, self._errors):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ)

    @property
    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def send(self, content: bytes) -> None:
        """Raises Ended. Requests are small and one at a time: the pipe has room for them."""
        try:
            write_frame(self._requests.fileno(), content)
        except BrokenPipeError:
            raise Ended from None

    def receive(self, deadline: float) -> Message:
        """The next message. Raises Ended, TooLate, TooLarge, BadMessage."""
        header = self._read(HEADER_BYTES, deadline).getvalue()
        size = int.from_bytes(header, "big")
        if size > self._max_frame_bytes:
            raise TooLarge
        return decoded(self._read(size, deadline))

    def _read(self, size: int, deadline: float) -> io.BytesIO:
        got = io.BytesIO()
        while got.tell() < size:
            rest = deadline - time.monotonic()
            ready = [key.fileobj for key, _ in self._selector.select(max(0.0, rest))]
            if self._errors in ready:
                self._listen()
            if self._replies in ready:
                part = self._replies.read(min(READ_BYTES, size - got.tell()))
                if part == b"":
                    raise Ended
                got.write(part or b"")
            elif (
                rest <= 0
            ):  # an answer that is there counts, however late this process (it may have been stopped) looks
                raise TooLate
        got.seek(0)
        return got

    def _listen(self) -> bool:
        """Keep the end of what it prints; nobody else reads it, and it must not block. False when there is no more."""
        part = self._errors.read(READ_BYTES)
        if part == b"":
            with suppress(KeyError):  # told before
                self._selector.unregister(self._errors)
        self.tail = (self.tail + (part or b""))[-TAIL_BYTES:]
        return bool(part)

    def kill(self) -> None:
        """With all that it started. The only method that other threads may call."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)

    def close(self, *, kill: bool) -> int | None:
        """Its exit status, negative for a signal; with `kill`, its own time to end is not waited for. None while the kernel
        does not let go of it (it reads from a network share that is gone): it is left behind, and dead when that returns."""
        status = None if kill else self._wait()
        if status is None:
            self.kill()
            status = self._wait()
        with suppress(OSError, ValueError):
            while self._listen():
                pass
        self._selector.close()
        for pipe in (self._requests, self._replies, self._errors):
            pipe.close()
        return status

    def _wait(self) -> int | None:
        try:
            return self._popen.wait(REAP_S)
        except subprocess.TimeoutExpired:
            return None
