"""Tables and code in chunks: rows and lines whole, and every part of one with the headers that say what it is."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents.base import Blob

from ingest.chunker import Chunker
from ingest.documents import LoadedDocument, assemble
from ingest.loaders.csv import CsvLoader
from ingest.loaders.markdown import MarkdownLoader
from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.settings import EmbeddingsSettings
from rag_service.index.spans import Span
from tests.support.chunking import assert_whole, code_points, cut, cut_document, lines, words


def markdown(source: str) -> LoadedDocument:
    return assemble(MarkdownLoader().lazy_parse(Blob.from_data(source)), "text/markdown", "markdown/2")


def csv(source: str) -> LoadedDocument:
    return assemble(CsvLoader().lazy_parse(Blob.from_data(source)), "text/csv", "csv/1")


def test_a_row_is_not_cut_at_its_full_stops_while_it_fits() -> None:
    row = "Name: Dr. No. Plan: B. Price: 25."
    text = f"Before it. {row} After."
    start = text.index(row)
    chunks = cut(text, 8, atoms=[Span(start, start + len(row))])
    assert any(row in chunk.text for chunk in chunks)


ROWS = [f"| {n} | {n * n} | odd |" for n in range(60)]
TABLE = "| n | square | kind |\n|---|---:|---|\n" + "\n".join(ROWS)


def test_br_81_table_chunks_repeat_the_header_row() -> None:
    document = markdown(f"# Squares\n\nSome words before.\n\n{TABLE}\n\nSome words after.\n")
    chunks = cut_document(document, 60)
    assert_whole(document.text, chunks)
    for row in ROWS:
        (holder,) = [chunk for chunk in chunks if row in chunk.text]  # whole, and once
        head = "| n | square | kind |\n" in holder.text
        assert holder.heading_path == (("Squares",) if head else ("Squares", "n | square | kind"))
    assert sum(len(chunk.heading_path) == 2 for chunk in chunks) > 3
    assert "n | square | kind\n" in chunks[-1].embedded_text  # which is what is counted and embedded


def test_br_81_the_head_of_a_table_stands_with_its_first_row() -> None:
    document = markdown(f"One two three four five six seven.\n\n{TABLE}\n")
    first, second, *_ = cut_document(document, 20)
    assert first.text == "One two three four five six seven."
    assert second.text.startswith(f"| n | square | kind |\n|---|---:|---|\n{ROWS[0]}")


def test_br_81_text_after_a_table_is_not_told_its_headers() -> None:
    prose = "Alone it stands here now, and is long enough to be so."
    document = markdown(f"{TABLE}\n\n{prose}\n\n| x | y |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |\n")
    told = {chunk.text: chunk.heading_path for chunk in cut_document(document, 16)}
    assert told[prose] == ()
    assert told["| 3 | 4 |\n| 5 | 6 |"] == ("x | y",)


def test_br_81_a_row_too_long_for_a_chunk_is_cut_at_its_cells_and_told_what_they_are() -> None:
    cells = [f"{name} says" + f" {name}" * 9 for name in ("alpha", "beta", "gamma")]
    document = markdown(
        f"| id | first | second | third |\n|---|---|---|---|\n| 7 | {' | '.join(cells)} |\n| 8 | a | b | c |\n"
    )
    chunks = cut_document(document, 21)
    assert_whole(document.text, chunks)
    told = {chunk.text: chunk.heading_path for chunk in chunks}
    assert told[f"| {cells[1]}"] == ("id: 7", "second | third")
    assert told[f"| {cells[2]} |"] == ("id: 7", "third")  # and the next row, to which that does not apply, is elsewhere
    assert told["| 8 | a | b | c |"] == ("id | first | second | third",)


@pytest.mark.parametrize("count", range(20, 28))  # in some of them the closing fence is one line too many
def test_br_81_chunks_do_not_begin_or_end_within_a_line_of_code(count: int) -> None:
    code = [f"value_{n} = compute(value_{n - 1}, 'a. b. c')" for n in range(1, count)]
    document = markdown(
        "# Real\n\nRun this:\n\n```python\n# comment\n" + "\n".join(code) + "\n```\n\n" + "Done it is.\n\n" * 20
    )
    chunks = cut_document(document, 24)
    assert_whole(document.text, chunks)
    assert {chunk.heading_path for chunk in chunks} == {("Real",)}
    for chunk in chunks:
        assert set(chunk.text.split("\n")) <= set(document.text.split("\n"))
        assert not chunk.text.startswith("```\n")  # the closing fence stands with the last line
        assert not chunk.text.endswith("```python")  # and the opening one with the first


def test_br_81_front_matter_and_odd_fences_lose_nothing() -> None:
    source = (
        "---\ntitle: A\n---\n# T\n\n~~~\n# no heading\n```\n~~~\n\n```sh\n# neither\n`````\n\n```\n# never closed\n"
    )
    document = markdown(source)
    chunks = cut_document(document, 4)
    assert_whole(source, chunks)
    assert {chunk.heading_path for chunk in chunks} == {(), ("T",)}


def test_br_80_a_huge_cell_is_cut_and_every_part_says_which_row_and_column_it_is() -> None:
    huge = " ".join(f"Word {n} of it." for n in range(5_000))
    document = csv(f"id,note,price\n17,short,3\n18,{huge},4\n19,next,5\n")
    chunks = cut_document(document, 60)
    assert_whole(document.text, chunks)
    assert chunks[0].text.startswith("id: 17; note: short; price: 3")
    middle = chunks[len(chunks) // 2]
    assert middle.text.startswith("Word ")
    assert middle.heading_path == ("id: 18", "note")
    assert chunks[-2].text.endswith("price: 4")
    assert (chunks[-1].text, chunks[-1].heading_path) == ("id: 19; note: next; price: 5", ())  # not a part of row 18


def test_br_80_a_long_row_is_cut_between_its_cells_first() -> None:
    row = "; ".join(f"header {n}: value {n}. And more." for n in range(40))
    chunks = cut(row, 20, atoms=[Span(0, len(row))])
    assert len(chunks) > 5
    for chunk in chunks:
        assert re.match(r"header \d+: ", chunk.text)
    assert {chunk.heading_path for chunk in chunks[1:]} == {("header 0: value 0. And more.",)}
    assert chunks[0].heading_path == ()


def test_headers_never_take_more_than_their_share_of_a_chunk() -> None:
    names = [f"a rather long header of column {n}" for n in range(200)]
    table = f"| {' | '.join(names)} |\n{'|---' * 200}|\n" + f"{'| 1 ' * 200}|\n" * 3
    model = EmbeddingModel(EmbeddingsSettings())
    document = markdown(table)
    chunks = Chunker(model.count_tokens, model.max_tokens, 200).chunks(document.text, "v", atoms=document.atoms)
    assert_whole(table, chunks)
    for chunk in chunks:
        told = model.count_tokens(["\n".join(chunk.heading_path)])[0]
        assert told <= 200 // 3
        assert model.count_tokens([chunk.embedded_text])[0] <= model.max_tokens
    assert chunks[-1].heading_path[0] == f"{names[0]}: 1"
    assert set(chunks[-1].heading_path[1].split(" | ")[:2]) <= set(names)


cells = st.text(st.sampled_from("ab1 .|:;-`~#\\"), max_size=12)


@given(st.lists(st.lists(cells, min_size=1, max_size=4), max_size=12), st.integers(1, 30))
def test_whatever_stands_in_rows_nothing_is_lost_and_no_row_that_fits_is_cut(table: list[list[str]], room: int) -> None:
    text = "\n".join(f"| {' | '.join(row)} |" for row in table)
    atoms = lines(text)
    chunks = cut(text, room, code_points, atoms=atoms)
    assert_whole(text, chunks)
    assert all(before.span.end <= after.span.start for before, after in pairwise(chunks))
    assert all(len(chunk.embedded_text) <= room for chunk in chunks)
    told = max((len("".join(chunk.heading_path)) + 4 for chunk in chunks), default=0)
    for atom in atoms:
        if len(atom) <= room - told:
            inside = [chunk for chunk in chunks if chunk.span.start < atom.end and atom.start < chunk.span.end]
            assert len(inside) <= 1, words([atom.of(text)])
