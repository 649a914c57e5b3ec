"""The chunker's rules as properties: exact spans, nothing lost, never more tokens than the model reads."""

from itertools import pairwise

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.chunker import Chunker, Heading
from ingest.chunking.graphemes import is_edge
from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.settings import EmbeddingsSettings
from rag_service.index.spans import PageStarts, Span
from tests.support.chunking import assert_whole, code_points, cut, lines, words

MODEL = EmbeddingModel(EmbeddingsSettings())

texts = st.text(st.sampled_from("ab .!?\n\t。界é|"), max_size=300)
# What has to stay together: accents, vowel signs, joined emoji, flags, Hangul letters, conjuncts, Arabic number signs.
clusters = st.lists(
    st.sampled_from(
        ["a", "e\u0301", " ", "\n", "ก", "กำ", "เก้", "คุ", "👩‍👩‍👧", "👍🏽", "🇩🇪", "🇫", "क्षि", "한", "\u1112\u1161", "\u0600",
         "1", "\u0308", "\u200d", "。", "x. ", "ខ្ញុံ", "က္က", "ﾊﾞ", "❤️", "🏴\U000e0067\U000e007f"]
    ),
    max_size=60,
).map("".join)  # fmt: skip


@given(texts, st.integers(1, 20))
def test_chunks_are_the_text_at_their_spans_and_only_white_space_lies_between(text: str, room: int) -> None:
    chunks = cut(text, room)
    assert_whole(text, chunks)
    assert all(before.span.end <= after.span.start for before, after in pairwise(chunks))
    assert all(chunk.text.strip() == chunk.text for chunk in chunks)


@given(texts | clusters, st.integers(1, 20), st.integers(0, 10))
def test_overlapping_chunks_move_on_lose_nothing_and_repeat_no_more_than_they_may(
    text: str, room: int, overlap: int
) -> None:
    chunks = cut(text, room, overlap=overlap)
    assert_whole(text, chunks)
    for before, after in pairwise(chunks):
        assert before.span.start < after.span.start
        assert before.span.end < after.span.end
        repeated = text[after.span.start : max(after.span.start, before.span.end)]
        assert words([repeated])[0] <= min(overlap, room // 2)


def test_an_overlap_repeats_whole_sentences() -> None:
    chunks = cut("One two. Three four. Five six. Seven eight.", 4, overlap=2)
    assert [chunk.text for chunk in chunks] == [
        "One two. Three four.",
        "Three four. Five six.",
        "Five six. Seven eight.",
    ]


@given(texts | clusters, st.integers(1, 20))
def test_no_chunk_passes_the_limit(text: str, room: int) -> None:
    assert all(words([chunk.text])[0] <= room for chunk in cut(text, room))


@given(texts | clusters, st.integers(1, 30), st.lists(st.integers(0, 300), max_size=4))
def test_no_chunk_passes_the_limit_where_a_joined_text_counts_more_than_its_parts(
    text: str, room: int, starts: list[int]
) -> None:
    headings = [Heading(start, 1, "Long heading") for start in sorted(starts) if start < len(text)]
    chunks = cut(text, room, code_points, headings=headings)
    assert_whole(text, chunks)
    assert all(len(chunk.embedded_text) <= room for chunk in chunks)


@settings(max_examples=300)
@given(clusters, st.integers(1, 30))
def test_nothing_that_a_reader_sees_as_one_character_is_cut(text: str, room: int) -> None:
    found = [Span(*match.span()) for match in regex.finditer(r"\X", text)]
    fitting = [c for c in found if len(c) <= room and is_edge(text, c.start) and is_edge(text, c.end)]
    for chunk in cut(text, room, code_points):
        for edge in (chunk.span.start, chunk.span.end):
            inside = [cluster.of(text) for cluster in fitting if cluster.start < edge < cluster.end]
            assert not inside or text[edge].isspace(), (inside, edge)


@given(texts)
def test_equal_input_gives_equal_ids_and_no_id_twice(text: str) -> None:
    ids = [chunk.id for chunk in cut(text, 5)]
    assert ids == [chunk.id for chunk in cut(text, 5)]
    assert len(set(ids)) == len(ids)


def test_other_settings_are_another_version_and_a_limit_that_the_model_has_anyway_is_not() -> None:
    fingerprints = [Chunker(words, 254, *rest).fingerprint for rest in ((200,), (200, 20), (100,), (254,), (9_999,))]
    assert len(set(fingerprints[:4])) == 4
    assert fingerprints[3] == fingerprints[4]


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


bodies = st.sampled_from(["", "\n", "one", "One two. Three four five.", "a b c d e f g h i j k l m n"])


@given(st.lists(st.tuples(st.integers(1, 3), bodies), max_size=8), st.integers(15, 25))
def test_a_chunk_holds_a_second_heading_only_below_one_without_a_text(built: list[tuple[int, str]], room: int) -> None:
    text, headings = "before\n", []
    for n, (level, body) in enumerate(built):
        headings.append(Heading(len(text), level, f"H{n}"))
        text += f"{'#' * level} H{n}\n{body}\n"
    chunks = Chunker(words, 4 * room, room).chunks(text, "v", headings=headings)
    assert_whole(text, chunks)
    for chunk in chunks:
        inside = [heading for heading in headings if chunk.span.start <= heading.start < chunk.span.end]
        assert [heading.text for heading in inside] == list(chunk.heading_path)[-len(inside) :] * bool(inside)
        for heading in inside[1:]:
            assert all(line.startswith("#") for line in text[chunk.span.start : heading.start].split("\n") if line)


def test_a_heading_is_never_left_alone_above_a_long_sentence() -> None:
    text = "# Rules\n" + " ".join(f"word{n}" for n in range(11)) + ".\n# Next\nDone."
    headings = [Heading(0, 1, "Rules"), Heading(text.index("# Next"), 1, "Next")]
    chunks = Chunker(words, 99, 12).chunks(text, "v", headings=headings)
    assert_whole(text, chunks)
    assert chunks[0].text.startswith("# Rules\nword0 word1")


def test_an_announced_list_stays_with_the_line_that_announces_it() -> None:
    chunks = cut("Some words stand here first. The steps are:\n- open the lid\n- close it\n", 10)
    assert [chunk.text for chunk in chunks] == [
        "Some words stand here first.",
        "The steps are:\n- open the lid\n- close it",
    ]


def test_a_small_last_chunk_takes_from_the_one_before() -> None:
    sentences = [f"Number {n} has come." for n in range(11)]
    sizes = [words([chunk.text])[0] for chunk in cut(" ".join(sentences), 40)]
    assert sizes == [24, 20]


@given(st.lists(st.tuples(st.booleans(), texts), max_size=6), st.integers(1, 12), st.booleans())
def test_a_chunk_is_read_from_an_image_or_not_and_never_both(
    parts: list[tuple[bool, str]], room: int, heading: bool
) -> None:
    text, ocr = "", []
    for is_image, part in parts:
        if is_image:
            ocr.append(Span(len(text), len(text) + len(part)))
        text += part
    headings = [Heading(len(text) // 2, 1, "H")] if heading else []
    chunks = cut(text, room, headings=headings, ocr=ocr)
    assert_whole(text, chunks)
    read = {at for stretch in ocr for at in range(stretch.start, stretch.end)}
    for chunk in chunks:
        letters = {at for at in range(chunk.span.start, chunk.span.end) if not text[at].isspace()}
        assert letters <= read if chunk.ocr else not letters & read


def test_an_image_read_line_by_line_is_not_a_chunk_for_each_line() -> None:
    text = "Before.\nRead from\nan image.\nAfter."
    (before, image, after) = cut(text, 99, ocr=lines(text, "(Read|an).*"))
    assert (before.ocr, image.ocr, after.ocr) == (False, True, False)
    assert image.text == "Read from\nan image."


def test_pages_of_a_chunk_are_those_it_touches() -> None:
    text = "First page. " * 3 + "Second page. " * 3
    pages = PageStarts((0, 36))
    chunks = cut(text, 4, pages=pages)
    assert [(chunk.page_start, chunk.page_end) for chunk in chunks] == [(1, 1), (1, 2), (2, 2)]


def test_a_long_line_without_a_space_is_cut_and_not_lost() -> None:
    line = "x" * 20_000
    chunks = Chunker(MODEL.count_tokens, MODEL.max_tokens, 200).chunks(line, "v")
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
        "吾輩は猫である。名前はまだ無い。" * 200,
        "ภาษาไทยไม่มีช่องว่างระหว่างคำ และไม่มีจุดจบประโยค" * 200,
        "".join(f"{letter}" * 7_000 for letter in "x-é"),
        "👩‍👩‍👧🇩🇪" * 2_000,
        "the end of a line that was wrapped\n" * 300,
    ],
    ids=["english", "german", "code", "base64", "numbers", "chinese", "japanese", "thai", "long-line", "emoji", "wrapped"],
)  # fmt: skip
@pytest.mark.parametrize("are_rows", [False, True], ids=["prose", "rows"])
def test_br_12_no_chunk_passes_what_the_model_reads(text: str, are_rows: bool) -> None:
    headings = [Heading(0, 1, "A rather long heading about the many things that are written below it " * 3)]
    atoms = lines(text) if are_rows else []
    chunks = Chunker(MODEL.count_tokens, MODEL.max_tokens, 10_000, 50).chunks(text, "v", headings=headings, atoms=atoms)
    assert_whole(text, chunks)
    assert max(MODEL.count_tokens([chunk.embedded_text for chunk in chunks])) <= MODEL.max_tokens
    assert len(chunks) > 1


@settings(max_examples=100, deadline=None)  # the tokenizer is loaded in the first
@given(st.text(max_size=400) | clusters | texts, st.integers(16, 10_000))
def test_br_12_nor_does_any_other_text(text: str, max_tokens: int) -> None:
    chunks = Chunker(MODEL.count_tokens, 16, max_tokens, 4).chunks(text, "v", headings=[Heading(0, 1, "Above")])
    assert_whole(text, chunks)
    assert max(MODEL.count_tokens([chunk.embedded_text for chunk in chunks]), default=0) <= 16


def test_br_12_the_last_sentence_of_the_longest_chunk_is_read() -> None:
    text = "The committee met and talked about many things of little weight. " * 40
    first = Chunker(MODEL.count_tokens, MODEL.max_tokens, 10_000).chunks(text, "v")[0]
    fact = "Zebras sleep standing up."
    filled = first.text[: -len("The committee met and talked about many things of little weight.")]
    vectors = MODEL.embed([filled + fact, filled, "How do zebras sleep?"])
    assert len(Chunker(MODEL.count_tokens, MODEL.max_tokens, 10_000).chunks(filled + fact, "v")) == 1
    assert np.dot(vectors[0], vectors[2]) > np.dot(vectors[1], vectors[2]) + 0.05


def test_br_12_a_fact_at_the_end_of_the_longest_chunk_is_found_among_two_hundred_others() -> None:
    sentence = "The committee met and talked about many things of little weight."
    fact = "Zebras sleep standing up."
    filled = Chunker(MODEL.count_tokens, MODEL.max_tokens, 10_000).chunks(f"{sentence} " * 40, "v")[0]
    text = filled.text[: -len(sentence)] + fact
    (chunk,) = Chunker(MODEL.count_tokens, MODEL.max_tokens, 10_000).chunks(text, "v")
    assert MODEL.count_tokens([chunk.text])[0] > MODEL.max_tokens - 16
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
    things = ("lamp", "door", "kettle", "lift", "printer", "window", "heater", "bicycle", "chair", "boiler")
    others = [f"The {thing} of house {n} was mended on {day}." for day in days for thing in things for n in range(4)]
    assert len(others) == 200
    question = MODEL.embed_queries(["How do zebras sleep?"])[0]
    near = MODEL.embed([*others, chunk.embedded_text]) @ question
    assert int(np.argmax(near)) == 200
