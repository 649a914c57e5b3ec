"""A parser's process: reads files one after the other, under limits that the kernel enforces.

    python -P -m ingest.parsers.process MEMORY_MB PARENT_ID

In: on standard input, frames (`frames.py`): a `ParserSetup`, then a file each. Out: on standard output, `Ready`, then
an answer to each. Must not: outlive its parent; take anything a parser prints for an answer; import a library before the
limits stand.
"""

import ctypes
import gc
import os
import pickle
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingest.parsers.frames import Message
    from ingest.parsing import ParserSetup

PR_SET_PDEATHSIG = 1  # linux/prctl.h
MAX_FILES = 500  # of one process: what a library leaks with each file does not add up for ever
MAX_WRITTEN_BYTES = 16_000_000  # no parser writes files, but Python may keep what it compiles
WATCH_S = 1.0
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
_WORDS_OF_WANT = ("memory allocation", "bad_alloc", "bad allocation", "out of memory", "cannot allocate memory")
_REASON_CHARS = 120


def main(arguments: list[str]) -> int:
    memory_bytes, parent = int(arguments[0]) * 1_000_000, int(arguments[1])
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair
    requests, replies = take_pipes()
    limit(memory_bytes)
    # Several of these run beside the embedding model: one core each. They are not `nice`: what waits for them is the model,
    # their time limit is wall time, and in a session of its own many kernels heed it among its own processes only.
    for name in _ONE_THREAD:
        os.putenv(name, "1")  # for native libraries, which read it when they are loaded
    os.putenv("TOKENIZERS_PARALLELISM", "false")
    try:
        serve(requests, replies, memory_bytes)
    except BrokenPipeError:
        return 1  # nobody is left to answer to
    return 0


def die_with(parent: int) -> None:
    """Tie this life to that of the parent, or more exactly, of its thread that started this process.

    The end of standard input does it as well, but not for one that hangs.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it died before it could be watched
        sys.exit(1)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_S)
    os.kill(os.getpid(), signal.SIGKILL)


def take_pipes() -> tuple[int, int]:
    """The pipes under numbers that no library knows. What is printed goes to the errors, and there is nothing to read."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies


def limit(memory_bytes: int) -> None:
    """RLIMIT_DATA counts the private memory that may be written to; RLIMIT_AS would also count what libraries and threads
    only reserve (OpenBLAS, ONNX Runtime and glibc's arenas reserve gigabytes) and what is mapped from files."""
    for kind, value in (
        (resource.RLIMIT_DATA, memory_bytes),
        (resource.RLIMIT_FSIZE, MAX_WRITTEN_BYTES),
        (resource.RLIMIT_CORE, 0),  # it would hold the user's documents
    ):
        _, most = resource.getrlimit(kind)
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(kind, (value, value))


def serve(requests: int, replies: int, memory_bytes: int) -> None:
    """Answer until the parent has no more, or this process is worn out."""
    # Here, since the limits stand now, and the numbers of threads are set.
    from ingest.chunker import Chunker
    from ingest.parsers.frames import Done, ReadsImages, Ready, encoded, packed, read_frame, write_frame
    from ingest.parsing import ocr_seconds, parse
    from rag_service.index.embeddings import open_embedder

    def send(message: "Message") -> None:
        write_frame(replies, encoded(message))

    first = read_frame(requests)
    if first is None:
        return
    setup: ParserSetup = pickle.loads(first)  # noqa: S301  from the parent
    try:
        model = open_embedder(setup.embeddings)
        chunker = Chunker(model.count_tokens, model.max_tokens, setup.max_tokens, setup.overlap_tokens)
    except Exception as error:  # noqa: BLE001  the parent is told
        send(failure(error, is_last=True))
        return
    gc.collect()
    gc.freeze()  # what stays for good need not be looked through with each file's garbage
    send(Ready())
    for number in range(1, MAX_FILES + 1):
        request = read_frame(requests)
        if request is None:
            return
        name, version, content_hash = pickle.loads(request)  # noqa: S301  from the parent
        try:
            if seconds := ocr_seconds(Path(name), setup.options):
                send(ReadsImages(seconds))
            parsed = packed(parse(Path(name), version, content_hash, chunker, setup.options))
            is_last = is_worn(number, memory_bytes)
            send(Done(parsed, is_last))
            del parsed  # before the next is read
        except BrokenPipeError:
            raise
        except BaseException as error:  # noqa: BLE001  a parser may even call exit(), and panics of Rust are no Exception
            is_last = is_worn(number, memory_bytes)
            send(failure(error, is_last=is_last))
        if is_last:
            return


def is_worn(files: int, memory_bytes: int) -> bool:
    return files >= MAX_FILES or resident_bytes() > memory_bytes // 2


def resident_bytes() -> int:
    """What this process holds now; where that is not told, the most that it ever held."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()


def failure(error: BaseException, *, is_last: bool) -> "Message":
    """How an error is told to the parent."""
    from ingest.parsers.frames import Crashed, Failed, OutOfMemory, SystemFailed
    from rag_service.errors import RagError

    if is_want_of_memory(error):
        return OutOfMemory()
    if isinstance(error, RagError):
        # A loader may have a class of its own, which the parent does not know: the nearest in the tree.
        kind = next(kind for kind in type(error).__mro__ if kind.__module__ == RagError.__module__)
        return Failed(kind.__name__, error.message, error.details, is_last)
    if isinstance(error, OSError):
        return SystemFailed(error.errno, error.strerror or str(error), is_last)
    return Crashed(f"{type(error).__name__}: {error}"[:_REASON_CHARS])


def is_want_of_memory(error: BaseException | None) -> bool:
    """Whether it began with memory that was not to be had, however it was told further up."""
    while error is not None:
        words = str(error).lower()
        if isinstance(error, MemoryError) or any(word in words for word in _WORDS_OF_WANT):
            return True
        error = error.__cause__ or error.__context__
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
