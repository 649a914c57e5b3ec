"""Files read by several processes at once; one that hangs, eats memory or crashes costs its file and nothing else.

In: files, each with its version and the hash of the content that is meant. Out: futures of `Parsed`. Must not: load a
parser in this process; outlast `close`, or leave a process behind, however this one ends.
"""

import os
import pickle
import queue
import signal
import threading
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from ingest.parsers.child import Ended, ParserProcess, TooLarge, TooLate
from ingest.parsers.frames import (
    BadMessage,
    Crashed,
    Done,
    Failed,
    Message,
    OutOfMemory,
    ReadsImages,
    Ready,
    SystemFailed,
    unpacked,
)
from ingest.parsing import Parsed, ParserSetup
from rag_service import errors
from rag_service.errors import ParserStopped, RagError

MOST_BY_ITSELF = 8  # processes, when their number goes by the cores: the embedding model keeps up with no more
START_S = 120.0  # a busy machine with cold disks
FRAME_BYTES = 32_000_000  # of one document, beside what goes with its length: table rows and chunks
FRAME_BYTES_PER_CHAR = 24
_WANT_OF_MEMORY = (b"memory allocation", b"bad_alloc", b"out of memory", b"MemoryError", b"annot allocate memory")


class ParserPool:
    """A thread for each process, which it starts when there is something to read, and a context manager.

    The threads stay until `close`, and must: the kernel ends a process together with the thread that started it.
    """

    def __init__(self, setup: ParserSetup, *, processes: int, timeout_s: float, memory_mb: int) -> None:
        """`processes` 0 goes by the cores; `timeout_s` and `memory_mb` are for one file and one process."""
        self.processes = processes or min(_cores(), MOST_BY_ITSELF)
        text_bytes = FRAME_BYTES + FRAME_BYTES_PER_CHAR * setup.options.max_text_chars
        frame_bytes = min(text_bytes, memory_mb * 1_000_000)
        pickled = pickle.dumps(setup)
        self._parsers = [_Parser(pickled, timeout_s, memory_mb, frame_bytes) for _ in range(self.processes)]
        self._free: queue.SimpleQueue[_Parser] = queue.SimpleQueue()
        for parser in self._parsers:
            self._free.put(parser)
        self._own = threading.local()
        self._threads = ThreadPoolExecutor(self.processes, "parser", initializer=self._take_one)

    def submit(self, path: Path, version: str, content_hash: str) -> "Future[Parsed]":
        """Its error is LoadFailed for a file that cannot be read (ParserStopped where its parser was cut off), OSError for
        one that has vanished or may not be opened, another RagError when no process starts, CancelledError after `close`.
        Raises RuntimeError after `close`."""
        return self._threads.submit(self._parse, path, version, content_hash)

    def close(self) -> None:
        """End all processes at once, whatever they are doing."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for parser in self._parsers:
            parser.stop()
        self._threads.shutdown()
        for parser in self._parsers:
            parser.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take_one(self) -> None:
        self._own.parser = self._free.get_nowait()

    def _parse(self, path: Path, version: str, content_hash: str) -> Parsed:
        parser: _Parser = self._own.parser
        return parser.parse(path, version, content_hash)


class _Parser:
    """One process after the other, each for as long as it is good. Used by one thread; only `stop` is for others."""

    def __init__(self, setup: bytes, timeout_s: float, memory_mb: int, frame_bytes: int) -> None:
        self._setup = setup
        self._timeout_s = timeout_s
        self._memory_mb = memory_mb
        self._frame_bytes = frame_bytes
        self._process: ParserProcess | None = None
        self._is_stopped = False
        self._lock = threading.Lock()  # no process is started after `stop`

    def parse(self, path: Path, version: str, content_hash: str) -> Parsed:
        if self._process is not None and not self._process.is_alive:
            self.close()  # killed while it had nothing to do: not the fault of this file
        process = self._process or self._start()
        is_good = False
        try:
            message = self._ask(process, pickle.dumps((os.fspath(path), version, content_hash)))
            is_good = isinstance(message, Done | Failed | SystemFailed) and not message.is_last
            return self._result(message)
        except BadMessage as error:
            is_good = False
            raise ParserStopped("its parser crashed (its answer makes no sense)") from error
        finally:
            if not is_good:
                self.close()

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            process = self._process  # its thread may forget it meanwhile
        if process is not None:
            process.kill()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close(kill=True)

    def _start(self) -> ParserProcess:
        with self._lock:
            if self._is_stopped:
                raise CancelledError
            try:
                process = self._process = ParserProcess(self._memory_mb, self._frame_bytes)
            except OSError as error:
                raise RagError(f"No process that reads files can be started: {error.strerror or error}.") from error
        try:
            process.send(self._setup)
            message = process.receive(time.monotonic() + START_S)
        except (Ended, TooLate, TooLarge, BadMessage) as error:
            process.close(kill=not isinstance(error, Ended))
            message = Crashed(_last_line(process.tail) or type(error).__name__)
        if isinstance(message, Ready):
            return process
        self.close()
        self._unless_stopped()
        if isinstance(message, Failed):
            raise _error(message)
        why = message.reason if isinstance(message, Crashed) else type(message).__name__
        raise RagError(
            f"The process that reads files does not start ({why}). RAG_LOAD__MEMORY_MB is {self._memory_mb}: raise it if"
            " that is too little."
        )

    def _ask(self, process: ParserProcess, request: bytes) -> Message:
        """The answer. Raises ParserStopped, BadMessage, CancelledError."""
        started, allowed_s, settings = time.monotonic(), self._timeout_s, "RAG_LOAD__TIMEOUT_S"
        try:
            process.send(request)
            message = process.receive(started + allowed_s)
            if isinstance(message, ReadsImages):
                allowed_s, settings = allowed_s + message.seconds, f"{settings} and RAG_OCR__MAX_SECONDS"
                message = process.receive(started + allowed_s)
        except TooLate:
            raise ParserStopped(f"its parser was stopped after {allowed_s:g} s ({settings})") from None
        except TooLarge:
            raise ParserStopped("its parser made more of it than any document is (RAG_LOAD__MAX_TEXT_MB)") from None
        except Ended:
            status = process.close(kill=False)
            self._unless_stopped()
            raise ParserStopped(self._why_ended(status, process.tail)) from None
        return message

    def _unless_stopped(self) -> None:
        if self._is_stopped:
            raise CancelledError

    def _result(self, message: Message) -> Parsed:
        match message:
            case Done():
                return unpacked(message.parsed)
            case Failed():
                raise _error(message)
            case SystemFailed(number, words):
                raise OSError(number, words) if number is not None else OSError(words)
            case OutOfMemory():
                raise ParserStopped(self._too_much_memory)
            case Crashed(reason):
                raise ParserStopped(f"its parser crashed ({reason})")
            case _:
                raise BadMessage(type(message).__name__)

    @property
    def _too_much_memory(self) -> str:
        return f"its parser needed more than {self._memory_mb} MB (RAG_LOAD__MEMORY_MB)"

    def _why_ended(self, status: int | None, tail: bytes) -> str:
        """Native code prints a word before it gives up for want of memory; nothing else of what it prints is told."""
        if status != 0 and any(word in tail for word in _WANT_OF_MEMORY):
            return self._too_much_memory
        if status is None:
            return "its parser crashed"
        if status >= 0:
            return f"its parser crashed (exit status {status})"
        if status == -signal.SIGKILL:
            return "its parser was killed (SIGKILL), as a machine does that runs out of memory"
        name = f"signal {-status}"
        with suppress(ValueError):  # real-time signals have no name
            name = signal.Signals(-status).name
        return f"its parser crashed ({name})"


def _error(message: Failed) -> RagError:
    kind = getattr(errors, message.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, RagError)):
        raise BadMessage(message.kind)
    return kind(message.message, details=message.details)


def _last_line(printed: bytes) -> str:
    lines = printed.decode("utf-8", "replace").split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
