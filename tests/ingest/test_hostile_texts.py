"""Texts made to take for ever or to fill the memory: each ends, by its text or by a limit.

No test measures time; what went wrong here before took minutes to hours, and the time limit of the suite tells.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.loaders.encoding import decode
from ingest.loaders.markdown import markdown_parts
from ingest.loaders.pdf_words import Hyphens
from ingest.loaders.rows import CHARS_PER_BATCH, batches
from rag_service.errors import LoadFailed
from tests.support.archives import a_docx, changed, member, part

from .conftest import LoadBytes

HALF_A_MEGABYTE = 500_000


def filled(unit: str, size: int = HALF_A_MEGABYTE) -> str:
    return unit * (size // len(unit))


ADVERSARIES: dict[str, str] = {
    "comments-before-nothing.html": filled("<!-- a -->"),
    "comments-before-nothing.txt": filled("<!-- a -->"),
    "comments-before-a-drawing.unknown": filled("<!-- a -->"),
    "open-comments.html": filled("<!--"),
    "deep.html": filled("<div>"),
    "headings-in-headings.html": filled("<h1><div>a"),
    "many-mains.html": filled("<main>a</main>"),
    "menus-in-menus.html": filled("<div class=nav>" * 1_000 + "<b>a" * 2_000 + "</div>" * 1_000),
    "white-in-white.html": "<div>" * 2_000 + filled("<p style='color:white'>a"),
    "footers.html": "<b>" * 2_000 + filled("<i><footer>a</footer></i>"),
    "a-bullet-and-blank-blocks.html": "<ul><li>" + filled("<div> </div>"),
    "spans.html": "<table>" + filled("<tr><td colspan=1000 rowspan=1000>a<td colspan=1000 rowspan=1000>b"),
    "spans-in-one-row.html": "<table><tr>" + filled("<td colspan=1000 rowspan=1000>b"),
    "only-headers.html": "<table>" + filled("<tr><th colspan=1000>a<th>b"),
    "brackets.md": filled("["),
    "quotes.md": filled(">>>>>>>>\n"),
    "front-matter-without-end.md": "---\n" + filled("--- x\n", 300_000),
    "one-fence.md": "```\n" + filled("# a\n"),
    "misplaced-quotes.csv": "a,b\n" + filled('a,"b"c\n'),
    "open-quotes.csv": "a,b\n" + filled('a,"b\n'),
    "one-open-quote.csv": '"' + filled("a\n"),
    "quotes.csv": filled('"'),
    "line-ends.csv": filled("\r", 300_000),
    "brackets.json": filled("["),
    "objects.json": filled('{"a":'),
    "groups.rtf": r"{\rtf1 " + filled("{"),
    "docstrings.py": filled('"""'),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ADVERSARIES)
def test_br_82_half_a_megabyte_made_to_take_for_ever_ends(load_bytes: LoadBytes, name: str) -> None:
    try:
        load_bytes(name, ADVERSARIES[name].encode()).text.encode()
    except LoadFailed as failure:
        assert failure.message.isprintable()  # noqa: PT017 - which of the two it is, is for the other tests


# -- CSV


def test_br_80_a_cell_of_two_hundred_kilobytes_is_kept_whole(load_bytes: LoadBytes) -> None:
    cell = "word " * 40_000
    document = load_bytes("cell.csv", f'a,b\n1,"{cell}"\n2,x\n'.encode())
    assert document.text == f"a: 1; b: {cell.strip()}\na: 2; b: x\n"


def test_br_80_a_million_columns_keep_their_headers(load_bytes: LoadBytes) -> None:
    count = 1_000_000
    header = ",".join(f"c{n}" for n in range(count))
    document = load_bytes("wide.csv", f"{header}\n{','.join('1' * count)}\n".encode())
    assert document.text.startswith("c0: 1; c1: 1; ")
    assert document.text.endswith(f"; c{count - 1}: 1\n")


def test_br_80_rows_with_quotes_gone_wrong_are_all_kept(load_bytes: LoadBytes) -> None:
    rows = 20_000
    document = load_bytes("open.csv", ("a,b\n" + 'x,"y\n' * rows).encode())
    assert document.text == "a: x; b: y\n" * rows
    assert document.notes == (f"{rows} rows with unbalanced quotes were split at every delimiter",)


@pytest.mark.parametrize("name", ["long.csv", "long.html"])
def test_br_80_a_long_header_beside_many_values_meets_the_limit_and_not_the_memory(
    load_bytes: LoadBytes, name: str
) -> None:
    """Half a megabyte of header times 100,000 rows would be 50 GB."""
    header = "h" * 500_000
    text = (
        f"{header},b\n" + "1,2\n" * 100_000
        if name == "long.csv"
        else f"<table><tr><th>{header}<th>b" + "<tr><td>1<td>2" * 100_000
    )
    with pytest.raises(LoadFailed, match="RAG_LOAD__MAX_TEXT_MB"):
        load_bytes(name, text.encode())


@given(st.lists(st.text(max_size=30), max_size=60))
def test_batches_join_to_all_lines(lines: list[str]) -> None:
    assert "".join(batches(lines)) == "".join(f"{line}\n" for line in lines)


def test_batches_are_bounded_by_rows_and_characters() -> None:
    assert [batch.count("\n") for batch in batches(["x"] * 1_200)] == [500, 500, 200]
    assert all(len(batch) <= 2 * CHARS_PER_BATCH for batch in batches(["x" * 400_000] * 20))


# -- Markdown in windows

markdown_lines = st.lists(
    st.sampled_from(
        ["# Head", "text", "more text", "", "", "===", "---", "- item", "  inner", "* other", "1. one", "2) two", "    code",
         "```", "~~~", "````", "> quote", "> # in quote", "a | b", "- | -", "1 | 2", "<div>", "</div>", "<!-- x", "-->",
         "[a]: b", "## Two", "- # in item", "\tcode"]
    ),
    max_size=40,
)  # fmt: skip


def shape(parts: list) -> list[tuple[str, str, int]]:
    """Parts without the cuts between prose and prose."""
    found: list[tuple[str, str, int]] = []
    for one in parts:
        kind, level = one.metadata["kind"], one.metadata.get("level", 0)
        if kind == "prose" and found and found[-1][0] == "prose":
            found[-1] = ("prose", found[-1][1] + one.page_content, 0)
        elif one.page_content:
            found.append((kind, one.page_content, level))
    return found


@given(markdown_lines, st.integers(1, 40))
@settings(max_examples=300)
def test_markdown_read_in_windows_is_read_as_a_whole(lines: list[str], window: int) -> None:
    text = "\n".join(lines)
    in_windows = list(markdown_parts(text, window))
    assert "".join(one.page_content for one in in_windows) == text
    if not any(len(block) > 2 * window for block in text.split("\n\n")):
        assert shape(in_windows) == shape(list(markdown_parts(text)))


def test_a_fence_larger_than_a_window_stays_code(load_bytes: LoadBytes) -> None:
    code = "# no heading\n" * 60_000
    document = load_bytes("log.md", f"# One\n\n````\n{code}```\n{code}````\n\n# Two\n".encode())
    assert [heading.text for heading in document.headings] == ["One", "Two"]
    assert len(document.atoms) == 120_003


# -- encodings, words, other formats


@pytest.mark.timeout(60)
def test_br_78_one_legacy_byte_at_the_end_of_one_long_line(load_bytes: LoadBytes) -> None:
    text = "caf" * 2_000_000 + "é"
    assert load_bytes("line.txt", text.encode("cp1252")).text == text
    assert load_bytes("rows.csv", f"a;b\n{'x;caf' * 400_000}é".encode("cp1252")).text.endswith("café\n")


@given(st.binary(max_size=400))
def test_br_78_any_bytes_are_text_or_refused(data: bytes) -> None:
    try:
        decoded = decode(data)
    except LoadFailed as failure:
        assert failure.message == "binary data, not text"  # noqa: PT017 - any other reason is wrong
    else:
        assert decoded.replaced <= decoded.text.count("\ufffd")


@pytest.mark.timeout(60)
def test_a_line_of_a_pdf_that_is_one_word_is_joined_all_the_same() -> None:
    assert Hyphens().joint("a" * 300_000 + "1", "b") == "-"
    assert Hyphens().joint("x " + "a" * 100, "b" * 100_000) == ""


def test_br_82_a_cell_that_claims_a_billion_columns_is_one_cell(load_bytes: LoadBytes) -> None:
    source = part(a_docx(), "word/document.xml").decode()
    wide = '<w:tc><w:tcPr><w:gridSpan w:val="1000000000"/></w:tcPr><w:p><w:r><w:t>wide</w:t></w:r></w:p></w:tc>'
    row = f"<w:tr>{wide * 3}</w:tr>"
    at = source.index("<w:sectPr")
    data = changed(
        a_docx(), member("word/document.xml", f"{source[:at]}<w:tbl>{row * 2}</w:tbl>{source[at:]}".encode())
    )
    assert "wide" in load_bytes("wide.docx", data).text


# -- memory

MEASURE = """
import sys
from pathlib import Path
from ingest.documents import load
def peak(): return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) * 1024
path = Path(sys.argv[1])
small = path.with_name("small" + path.suffix)
load(small)  # what a loader needs once: modules, tables
before = peak()
load(path)
print((peak() - before) / path.stat().st_size)
"""
PROSE = "The kettle holds two litres, and the tea is never cold before four. "
LONG: dict[str, Callable[[int], str]] = {
    "txt": lambda n: (PROSE * 9 + "\n\n") * (n // 600),
    "md": lambda n: ("# Kettles\n\n" + (PROSE * 9 + "\n\n") * 9) * (n // 5_600),
    "csv": lambda n: "id,name,text\n" + "".join(f"{i},name {i},{PROSE}\n" for i in range(n // 90)),
    "html": lambda n: "<html>" + f"<p>{PROSE * 5}<b>bold</b> and <a href='/x'>a link</a></p>\n" * (n // 400),
    "jsonl": lambda n: "".join(f'{{"id": {i}, "text": "{PROSE}"}}\n' for i in range(n // 90)),
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", LONG)
def test_br_82_memory_for_a_long_text_is_a_small_multiple_of_it(tmp_path: Path, kind: str) -> None:
    """15 times is what a text with one character beyond the usual planes may take: each character then has four bytes."""
    (tmp_path / f"small.{kind}").write_text(LONG[kind](20_000))
    path = tmp_path / f"long.{kind}"
    path.write_text(LONG[kind](8_000_000))
    told = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    assert float(told.stdout) < 15
