"""Files read in processes of their own: what comes back, and what becomes of parsers that misbehave.

The processes are real; tests/support/unruly makes the loader of plain text in them do what a file says.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, wait
from pathlib import Path

import docx
import openpyxl
import pytest
from reportlab.pdfgen.canvas import Canvas

from ingest.chunker import Chunker
from ingest.discover import content_hash
from ingest.loaders.options import LoadOptions, OcrOptions
from ingest.parsers.pool import ParserPool
from ingest.parsing import CHANGED, Parsed, ParserSetup, parse
from rag_service.errors import EmbeddingsUnavailable, LoadFailed, ParserStopped, RagError, UnsupportedType
from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.settings import EmbeddingsSettings

ROOT = Path(__file__).parents[2]
UNRULY = ROOT / "tests" / "support" / "unruly"
SETUP = ParserSetup(EmbeddingsSettings(), max_tokens=60, overlap_tokens=10, options=LoadOptions())
AMPLE_S = 150.0

OpenPool = Callable[..., ParserPool]


def pool_of(
    setup: ParserSetup = SETUP, *, processes: int = 1, timeout_s: float = AMPLE_S, memory_mb: int = 2048
) -> ParserPool:
    return ParserPool(setup, processes=processes, timeout_s=timeout_s, memory_mb=memory_mb)


@pytest.fixture(scope="module")
def pool() -> Iterator[ParserPool]:
    """One process, with nothing wrong about it."""
    with pool_of() as pool:
        yield pool


@pytest.fixture
def unruly(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenPool]:
    """Opens pools whose processes do what files say."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(UNRULY), str(ROOT)]))
    opened: list[ParserPool] = []

    def open_pool(**options: object) -> ParserPool:
        opened.append(pool_of(**options))  # type: ignore[arg-type]  # as pool_of takes them
        return opened[-1]

    yield open_pool
    for pool in opened:
        pool.close()


@pytest.fixture
def told(tmp_path: Path) -> Callable[[str], Path]:
    """A file that tells its parser what to do."""

    def write(deed: str, suffix: str = ".txt") -> Path:
        path = tmp_path / f"{deed.split()[0]}{suffix}"
        path.write_text(f"unruly: {deed}\n" if suffix == ".txt" else f"%PDF-1.7\nunruly: {deed}\n", encoding="utf-8")
        return path

    return write


def read(pool: ParserPool, path: Path) -> Parsed:
    return pool.submit(path, "v", content_hash(path)).result()


def text_of(pool: ParserPool, path: Path) -> str:
    return read(pool, path).document.text


def process_of(pool: ParserPool, told: Callable[[str], Path]) -> int:
    return int(text_of(pool, told("pid")).split()[1])


def reason_for(pool: ParserPool, path: Path) -> str:
    with pytest.raises(ParserStopped) as stopped:
        read(pool, path)
    return stopped.value.message


def await_end(pid: int) -> None:
    """Until the process has ended; the test's own time limit is the deadline."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([process], [], [])
    os.close(process)


def write_samples(folder: Path) -> list[Path]:
    folder.joinpath("notes.md").write_text(
        "# Prices\n\nA tyre costs 10 EUR.\n\n## Service\n\n" + "It is free. " * 80, "utf-8"
    )
    folder.joinpath("table.csv").write_text("item,price\n" + "".join(f"tyre {n},{n} EUR\n" for n in range(90)), "utf-8")
    folder.joinpath("page.html").write_text("<title>T</title><h1>Café</h1><p hidden>no</p><p>Öl 😀 yes</p>", "utf-8")
    folder.joinpath("blank.txt").write_text(" \n\n ", "utf-8")
    document = docx.Document()
    document.add_heading("Warranty", 1)
    document.add_paragraph("Two years. " * 60)
    document.save(str(folder / "letter.docx"))
    book = openpyxl.Workbook()
    for row in (["item", "price"], ["tyre", 10], ["tube", 5]):
        book.active.append(row)
    book.save(folder / "sheet.xlsx")
    canvas = Canvas(str(folder / "two pages.pdf"))
    for words in ("The first page has words.", "The second page has others."):
        canvas.drawString(72, 700, words)
        canvas.showPage()
    canvas.save()
    return sorted(folder.iterdir())


# -- what comes back


def test_a_process_brings_what_reading_here_brings(pool: ParserPool, tmp_path: Path) -> None:
    model = EmbeddingModel(SETUP.embeddings)
    chunker = Chunker(model.count_tokens, model.max_tokens, SETUP.max_tokens, SETUP.overlap_tokens)
    paths = write_samples(tmp_path)
    for path in paths:
        here = parse(path, "version", content_hash(path), chunker, SETUP.options)
        assert pool.submit(path, "version", content_hash(path)).result() == here, path.name
        assert bool(here.chunks) == (path.name != "blank.txt")
    assert len(paths) == 7


def test_many_files_at_once_each_bring_their_own(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.txt" for number in range(60)]
    for number, path in enumerate(paths):
        path.write_text(f"Item {number} is blue.\n" * (number + 1), encoding="utf-8")
    with pool_of(processes=2) as pool:
        futures = [pool.submit(path, f"version {path.stem}", content_hash(path)) for path in paths]
        wait(futures)
    for number, future in enumerate(futures):
        parsed = future.result()
        assert parsed.document.text.count(f"Item {number} is blue.") == number + 1
        assert {chunk.version for chunk in parsed.chunks} == {f"version {number}"}


def test_a_name_that_is_no_text_is_read(pool: ParserPool, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/na\xffme\n.txt"))
    path.write_text("Words.", encoding="utf-8")
    assert text_of(pool, path).strip() == "Words."


def test_errors_keep_their_class(pool: ParserPool, tmp_path: Path) -> None:
    unknown = tmp_path / "data.xyz"
    unknown.write_bytes(b"\0\1\2\3" * 100)
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7\nnothing")
    with pytest.raises(UnsupportedType, match=r"unsupported type \.xyz"):
        read(pool, unknown)
    with pytest.raises(LoadFailed, match="not a PDF") as failed:
        read(pool, broken)
    assert type(failed.value) is LoadFailed
    with pytest.raises(LoadFailed, match="not a regular file"):
        pool.submit(tmp_path, "v", "hash").result()


def test_an_error_of_a_loaders_own_comes_as_the_nearest_that_is_known(
    unruly: OpenPool, told: Callable[[str], Path]
) -> None:
    with pytest.raises(LoadFailed, match=r"^an error of its own$") as failed:
        read(unruly(), told("fail_in_an_own_way"))
    assert type(failed.value) is LoadFailed
    assert failed.value.details == {"page": 3}


def test_a_file_that_vanished_is_told_as_that(pool: ParserPool, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as error:
        pool.submit(tmp_path / "gone.txt", "v", "hash").result()
    assert error.value.strerror == "No such file or directory"


@pytest.mark.parametrize("name", ["good.txt", "broken.pdf"])
def test_a_file_that_changed_is_told_as_that_even_when_it_looks_broken(
    pool: ParserPool, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"%PDF-1.7\nhalf a file")
    before = content_hash(path)
    path.write_bytes(b"%PDF-1.7\nhalf a fi")
    with pytest.raises(LoadFailed) as failed:
        pool.submit(path, "v", before).result()
    assert failed.value.message == CHANGED


def test_a_large_document_comes_whole(pool: ParserPool, tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    path.write_text(
        "name,value\n" + "".join(f"row {number},{number * 7}\n" for number in range(20_000)), encoding="utf-8"
    )
    parsed = read(pool, path)
    assert len(parsed.document.atoms) >= 20_000
    assert all(chunk.span.of(parsed.document.text) == chunk.text for chunk in parsed.chunks)
    assert "139993" in parsed.chunks[-1].text


# -- parsers that misbehave


def test_a_parser_that_hangs_is_stopped_and_the_next_file_is_read(
    unruly: OpenPool, told: Callable[[str], Path]
) -> None:
    pool = unruly(timeout_s=4.0)
    assert reason_for(pool, told("hang")) == "its parser was stopped after 4 s (RAG_LOAD__TIMEOUT_S)"
    assert process_of(pool, told) > 0


def test_reading_images_has_time_of_its_own(unruly: OpenPool, told: Callable[..., Path]) -> None:
    setup = ParserSetup(EmbeddingsSettings(), 60, 0, LoadOptions(ocr=OcrOptions(max_seconds=1.5)))
    pool = unruly(setup=setup, timeout_s=1.0)
    told_both = "its parser was stopped after 2.5 s (RAG_LOAD__TIMEOUT_S and RAG_OCR__MAX_SECONDS)"
    assert reason_for(pool, told("hang", ".pdf")) == told_both


def test_a_parser_that_eats_memory_is_stopped(unruly: OpenPool, told: Callable[[str], Path]) -> None:
    pool = unruly(memory_mb=400)
    before = process_of(pool, told)
    assert reason_for(pool, told("bomb")) == "its parser needed more than 400 MB (RAG_LOAD__MEMORY_MB)"
    assert process_of(pool, told) != before
    await_end(before)
    assert reason_for(pool, told("native_want_of_memory")) == "its parser needed more than 400 MB (RAG_LOAD__MEMORY_MB)"


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("segfault", "its parser crashed (SIGSEGV)"),
        ("leave 7", "its parser crashed (exit status 7)"),
        ("half_a_frame", "its parser crashed (exit status 0)"),
        ("exit_politely", "its parser crashed (SystemExit: 3)"),
        ("endless_frame", "its parser made more of it than any document is (RAG_LOAD__MAX_TEXT_MB)"),
        ("a_function_to_call", "its parser crashed (its answer makes no sense)"),
    ],
)
def test_a_parser_that_crashes_costs_its_file_only(
    unruly: OpenPool, told: Callable[[str], Path], deed: str, reason: str
) -> None:
    pool = unruly()
    assert reason_for(pool, told(deed)) == reason
    assert process_of(pool, told) > 0


def test_what_a_parser_prints_is_no_answer(unruly: OpenPool, told: Callable[[str], Path]) -> None:
    assert text_of(unruly(), told("chatter")).strip() == "read from standard input: ''"


def test_a_process_that_has_grown_is_replaced_after_its_file(unruly: OpenPool, told: Callable[[str], Path]) -> None:
    pool = unruly(memory_mb=400)
    first = process_of(pool, told)
    assert process_of(pool, told) == first
    assert text_of(pool, told("grow")).strip() == f"pid {first}"
    assert process_of(pool, told) != first


def test_a_process_killed_while_idle_costs_no_file(unruly: OpenPool, told: Callable[[str], Path]) -> None:
    pool = unruly()
    first = process_of(pool, told)
    os.kill(first, signal.SIGKILL)
    await_end(first)
    assert process_of(pool, told) != first


def test_a_process_that_cannot_start_is_no_fault_of_the_file(told: Callable[[str], Path]) -> None:
    with pool_of(memory_mb=20) as pool, pytest.raises(RagError, match="RAG_LOAD__MEMORY_MB is 20") as failed:
        read(pool, told("pid"))
    assert not isinstance(failed.value, LoadFailed)
    setup = ParserSetup(EmbeddingsSettings(model="no/such-model"), 60, 0, LoadOptions())
    with pool_of(setup) as pool, pytest.raises(EmbeddingsUnavailable, match="no/such-model"):
        read(pool, told("pid"))


# -- what a process has and is


def test_a_process_imports_only_what_it_needs(unruly: OpenPool, told: Callable[[str], Path]) -> None:
    modules = set(text_of(unruly(), told("modules")).split())
    assert "ingest.parsing" in modules
    assert not modules & {"torch", "chromadb", "typer", "sentence_transformers", "transformers", "sqlite3", "cv2"}


def test_a_process_inherits_no_open_file(unruly: OpenPool, told: Callable[[str], Path], tmp_path: Path) -> None:
    lock = os.open(tmp_path / "writer.lock", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(lock, True)
    held = text_of(unruly(), told("files"))
    os.close(lock)
    assert "pipe:" in held
    assert "writer.lock" not in held


def test_modules_beside_the_documents_are_not_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: Callable[[str], Path]
) -> None:
    (tmp_path / "ingest").mkdir()
    (tmp_path / "ingest" / "__init__.py").write_text("raise SystemExit('taken over')", encoding="utf-8")
    (tmp_path / "numpy.py").write_text("raise SystemExit('taken over')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pool_of() as pool:
        assert text_of(pool, told("pid")).strip() == "unruly: pid"


def test_ctrl_c_does_not_reach_a_process(unruly: OpenPool, told: Callable[[str], Path], tmp_path: Path) -> None:
    fifo, go = tmp_path / "fifo", tmp_path / "fifo.go"
    os.mkfifo(fifo)
    os.mkfifo(go)
    path = told(f"wait {fifo}")
    future = unruly().submit(path, "v", content_hash(path))
    pid = int(fifo.read_text(encoding="utf-8"))
    assert os.getsid(pid) == pid != os.getsid(0)
    os.kill(pid, signal.SIGINT)
    go.write_text("Finished.", encoding="utf-8")
    assert future.result().document.text.strip() == "Finished."


# -- the end


def test_nothing_is_taken_after_the_end(told: Callable[[str], Path]) -> None:
    pool = pool_of()
    pool.close()
    pool.close()
    with pytest.raises(RuntimeError):
        pool.submit(told("pid"), "v", "hash")


def test_an_idle_process_ends_with_the_pool(unruly: OpenPool, told: Callable[[str], Path]) -> None:
    pool = unruly()
    pid = process_of(pool, told)
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_closing_ends_a_parser_that_hangs_and_gives_up_what_waits(
    unruly: OpenPool, told: Callable[[str], Path], tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    pool = unruly()
    hanging, waiting = (pool.submit(path, "v", content_hash(path)) for path in (told(f"hang {fifo}"), told("pid")))
    with fifo.open("rb") as end:
        pid = int(end.readline())
        pool.close()
        assert end.read() == b""
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert waiting.cancelled()
    with pytest.raises(CancelledError):
        hanging.result()


PARENT = """
import sys
from pathlib import Path
from ingest.discover import content_hash
from tests.ingest.test_parser_pool import pool_of
paths = [Path(name) for name in sys.argv[1:]]
pool = pool_of(processes=len(paths))
for future in [pool.submit(path, "v", content_hash(path)) for path in paths]:
    future.result()
"""


def test_no_process_outlives_a_parent_that_is_killed(
    unruly: OpenPool, told: Callable[[str], Path], tmp_path: Path
) -> None:
    del unruly  # it sets the environment of the parent
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    path = told(f"hang {fifo}")
    parent = subprocess.Popen([sys.executable, "-P", "-c", PARENT, str(path)])
    with fifo.open("rb") as end:
        pid = int(end.readline())
        parent.kill()
        parent.wait()
        assert end.read() == b"", "the process still holds the FIFO"
    await_end(pid)
