"""The chunker's rules as properties: exact spans, nothing lost, never more tokens than the model reads."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.chunker import Chunker, Heading, sentences
from rag_service.index.chunks import Chunk
from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.settings import EmbeddingsSettings
from rag_service.index.spans import PageStarts, Span


def words(texts: list[str]) -> list[int]:
    """A tokenizer for tests: a token is a word."""
    return [len(text.split()) for text in texts]


def cut(text: str, room: int, **kwargs: object) -> list[Chunk]:
    chunker = Chunker(words, model_max_tokens=room, max_tokens=room, overlap_tokens=kwargs.pop("overlap", 0))  # type: ignore[arg-type]
    return chunker.chunks(text, "v", **kwargs)  # type: ignore[arg-type]


texts = st.text(st.sampled_from("ab .!?\n\t。界é|"), max_size=300)


@given(texts, st.integers(1, 20))
def test_chunks_are_the_text_at_their_spans_and_only_white_space_lies_between(text: str, room: int) -> None:
    chunks = cut(text, room)
    position = 0
    for chunk in chunks:
        assert chunk.span.of(text) == chunk.text
        assert not text[position : chunk.span.start].strip()
        position = chunk.span.end
    assert not text[position:].strip()
    assert all(chunk.text.strip() == chunk.text != "" for chunk in chunks)


@given(texts, st.integers(1, 20), st.integers(0, 10))
def test_overlapping_chunks_move_on_and_lose_nothing(text: str, room: int, overlap: int) -> None:
    chunks = cut(text, room, overlap=overlap)
    for before, after in pairwise(chunks):
        assert before.span.start < after.span.start
        assert before.span.end < after.span.end
        assert not text[before.span.end : max(before.span.end, after.span.start)].strip()


@given(texts, st.integers(1, 20))
def test_no_chunk_passes_the_limit(text: str, room: int) -> None:
    assert all(words([chunk.text])[0] <= room for chunk in cut(text, room))


@given(texts)
def test_equal_input_gives_equal_ids_and_no_id_twice(text: str) -> None:
    ids = [chunk.id for chunk in cut(text, 5)]
    assert ids == [chunk.id for chunk in cut(text, 5)]
    assert len(set(ids)) == len(ids)


def test_a_heading_starts_a_chunk_and_its_path_goes_with_every_chunk_below() -> None:
    text = "Intro.\n# Leave\nOne two three.\n## Sick leave\nA b c d e f. G h i j k l."
    headings = [Heading(text.index("# Leave"), 1, "Leave"), Heading(text.index("## Sick"), 2, "Sick leave")]
    chunks = Chunker(words, 40, 12).chunks(text, "v", headings=headings)
    assert [(chunk.heading_path, chunk.text) for chunk in chunks] == [
        ((), "Intro."),
        (("Leave",), "# Leave\nOne two three."),
        (("Leave", "Sick leave"), "## Sick leave\nA b c d e f."),
        (("Leave", "Sick leave"), "G h i j k l."),
    ]


def test_a_row_is_not_cut_at_its_full_stops_while_it_fits() -> None:
    row = "Name: Dr. No. Plan: B. Price: 25."
    text = f"Before it. {row} After."
    start = text.index(row)
    chunks = cut(text, 8, atoms=[Span(start, start + len(row))])
    assert any(row in chunk.text for chunk in chunks)


def test_pages_of_a_chunk_are_those_it_touches() -> None:
    text = "First page. " * 3 + "Second page. " * 3
    pages = PageStarts((0, 36))
    chunks = cut(text, 4, pages=pages)
    assert [(chunk.page_start, chunk.page_end) for chunk in chunks] == [(1, 1), (1, 2), (2, 2)]


def test_a_long_line_without_a_space_is_cut_and_not_lost() -> None:
    model = EmbeddingModel(EmbeddingsSettings())
    line = "x" * 20_000
    chunks = Chunker(model.count_tokens, model.max_tokens, 200).chunks(line, "v")
    assert "".join(chunk.text for chunk in chunks) == line
    assert len(chunks) > 10


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over the lazy dog. " * 200,
        "Donaudampfschifffahrtsgesellschaftskapitän übernimmt die Verantwortung. " * 100,
        "def f(x):\n    return {'a': [x ** 2 for x in range(10)]}\n" * 150,
        "QmFzZTY0IGlzIGEgZ3JvdXAgb2YgYmluYXJ5LXRvLXRleHQgZW5jb2Rpbmcgc2NoZW1lcw" * 100,
        "1,234.56 | 7,890.12 | 3.1415 | -42 | 1e-9\n" * 200,
        "天地玄黃宇宙洪荒日月盈昃辰宿列張" * 200,
    ],
    ids=["english", "german", "code", "base64", "numbers", "chinese"],
)
def test_br_12_no_chunk_passes_what_the_model_reads(text: str) -> None:
    model = EmbeddingModel(EmbeddingsSettings())
    headings = [Heading(0, 1, "A rather long heading about the many things that are written below it " * 3)]
    chunks = Chunker(model.count_tokens, model.max_tokens, 10_000).chunks(text, "v", headings=headings)
    assert max(model.count_tokens([chunk.embedded_text for chunk in chunks])) <= model.max_tokens
    assert len(chunks) > 1


@settings(max_examples=50)
@given(st.text(max_size=200))
def test_sentences_cover_all_but_white_space(text: str) -> None:
    kept = "".join(span.of(text) for span in sentences(text, Span(0, len(text))))
    assert "".join(kept.split()) == "".join(text.split())
