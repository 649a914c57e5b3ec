"""Put on PYTHONPATH, it makes the loader of plain text and that of PDF in a parser's process do what a file's first line says.

In: files such as `unruly: hang /path/of/a/fifo`. Out: mischief, or a text that tells about the process. Must not: be imported
by a test.
"""

import ctypes
import os
import pickle
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from ingest.loaders.parts import part
from ingest.loaders.pdf import PdfLoader
from ingest.loaders.text import TextLoader
from rag_service.errors import LoadFailed

MARK = b"unruly: "
LEAK: list[bytes] = []

read_text = TextLoader.lazy_parse
read_pdf = PdfLoader.lazy_parse


def hang(fifo: str = "") -> str:
    """Whoever reads the FIFO learns the process id, and sees its end when this process has gone."""
    if fifo:
        os.write(os.open(fifo, os.O_WRONLY), f"{os.getpid()}\n".encode())
    while True:
        signal.pause()


def wait(fifo: str) -> str:
    """Tell the process id, then wait until somebody has opened and closed `FIFO.go`."""
    Path(fifo).write_text(f"{os.getpid()}\n", encoding="utf-8")
    return Path(f"{fifo}.go").read_text(encoding="utf-8")


def bomb() -> str:
    hoard = []
    while True:
        hoard.append(bytearray(10_000_000))


def segfault() -> str:
    return str(ctypes.string_at(1))


def native_want_of_memory() -> str:
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n")
    os.abort()


def chatter() -> str:
    print("x" * 300_000)  # noqa: T201  what a chatty library does
    os.write(1, b"y" * 300_000)
    sys.stderr.write("z" * 300_000)
    sys.stderr.flush()
    return f"read from standard input: {sys.stdin.read()!r}"


def replies() -> int:
    """The pipe on which answers go: the only one that is written to and not the errors'."""
    errors = os.fstat(2).st_ino
    for number in range(3, 20):
        try:
            status = os.fstat(number)
        except OSError:
            continue
        if stat.S_ISFIFO(status.st_mode) and status.st_ino != errors:
            try:
                os.write(number, b"")
            except OSError:
                continue
            return number
    raise AssertionError("no pipe for answers")


def half_a_frame() -> str:
    os.write(replies(), (1000).to_bytes(8, "big") + b"half")
    os._exit(0)


def endless_frame() -> str:
    os.write(replies(), (1 << 60).to_bytes(8, "big"))
    return hang()


def a_function_to_call() -> str:
    content = pickle.dumps(("Crashed", os.getcwd))
    os.write(replies(), len(content).to_bytes(8, "big") + content)
    return hang()


def leave(status: str) -> str:
    os._exit(int(status))


def fail_in_an_own_way() -> str:
    class Own(LoadFailed):
        pass

    raise Own("an error of its own", details={"page": 3})


def exit_politely() -> str:
    sys.exit(3)


def grow() -> str:
    LEAK.append(b"\1" * 200_000_000)
    return pid()


def pid() -> str:
    return f"pid {os.getpid()}"


def modules() -> str:
    return "\n".join(sorted(sys.modules))


def files() -> str:
    return "\n".join(str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())


DEEDS: dict[str, Callable[..., str]] = {
    deed.__name__: deed
    for deed in (
        *(hang, wait, bomb, segfault, native_want_of_memory, chatter, half_a_frame, endless_frame, a_function_to_call),
        *(leave, fail_in_an_own_way, exit_politely, grow, pid, modules, files),
    )
}


def instead_of(read: Callable[..., Iterator[Document]]) -> Callable[..., Iterator[Document]]:
    def lazy_parse(self: object, blob: Blob) -> Iterator[Document]:
        data = blob.as_bytes()
        if MARK not in data:
            yield from read(self, blob)
            return
        name, *arguments = data.partition(MARK)[2].decode().split()
        yield part(DEEDS[name](*arguments))

    return lazy_parse


TextLoader.lazy_parse = instead_of(read_text)  # type: ignore[method-assign]
PdfLoader.lazy_parse = instead_of(read_pdf)  # type: ignore[method-assign]
