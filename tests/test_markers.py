"""Markers in the stream: what is one, what is text, and that no split of the text makes a difference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_service.markers import MAX_HOLD, MarkerParser

FRAGMENTS = st.sampled_from(
    [
        "[", "]", "【", "】", "［", "］", "1", "2", "7", "0", "12", ", ", "-", "–", "①", " ", "  ", ".", ",", "(", ")",
        "†source", "source ", "Sources ", "Quelle 2", "and ", "^", "`", "``", "```", "~~~", "\n", "\n\n", "\\", "x",
        "Leave is", "# ", "- ", "é", "中文", "👩‍👩‍👧", "\u2028", "http://a.b", ">", "1. ", "*", "!", "[1]", " [7]",
        "[1, 2]", "[1-2]",
    ]
)  # fmt: skip
TEXTS = st.lists(FRAGMENTS, max_size=30).map("".join)


def parse(parts, known=(1, 2, 3, 4)):
    """The answer, the markers with their numbers, and how many were dropped."""
    parser = MarkerParser(known)
    pieces = [piece for part in parts for piece in parser.feed(part)] + parser.finish()
    return (
        "".join(piece.text for piece in pieces),
        [piece.numbers for piece in pieces if piece.kind == "marker"],
        parser.dropped,
    )


@pytest.mark.parametrize(
    ("raw", "canonical", "numbers"),
    [
        ("[1]", "[1]", (1,)),
        ("[ 2 ]", "[2]", (2,)),
        ("[1, 2]", "[1][2]", (1, 2)),
        ("[1,3]", "[1][3]", (1, 3)),
        ("[1; 3 and 4]", "[1][3][4]", (1, 3, 4)),
        ("[1-4]", "[1][2][3][4]", (1, 2, 3, 4)),
        ("[1–3]", "[1][2][3]", (1, 2, 3)),
        ("[①]", "[1]", (1,)),
        ("【1】", "[1]", (1,)),
        ("［2］", "[2]", (2,)),
        ("【1†source】", "[1]", (1,)),
        ("【3:0†handbook.pdf】", "[3]", (3,)),
        ("[source 2]", "[2]", (2,)),
        ("[Source 2]", "[2]", (2,)),
        ("[Sources 1, 2]", "[1][2]", (1, 2)),
        ("[Quelle 3]", "[3]", (3,)),
        ("[1, 1]", "[1]", (1,)),
        ("[1, 9]", "[1]", (1,)),
    ],
)
def test_forms_are_rewritten(raw, canonical, numbers):
    text, markers, _ = parse([f"Leave is 25 days {raw}."])
    assert text == f"Leave is 25 days {canonical}."
    assert markers == [numbers]


@pytest.mark.parametrize(
    ("raw", "text", "dropped"),
    [
        ("B [7].", "B.", 1),
        ("C [0]. D", "C. D", 1),
        ("B [7] goes on", "B goes on", 1),
        ("B [7][8], then", "B, then", 2),
        ("B [7] [8].", "B.", 2),
        ("B [7][1].", "B [1].", 1),
        ("B [999]", "B", 1),
        ("B[7]", "B", 1),
        ("B [1-9].", "B.", 1),
        ("B [4-1].", "B.", 1),
        ("B [7]\nC", "B\nC", 1),
    ],
)
def test_numbers_that_name_no_source_are_dropped_and_counted(raw, text, dropped):
    assert parse([raw])[0::2] == (text, dropped)
    assert parse(raw)[0::2] == (text, dropped)


@pytest.mark.parametrize(
    "raw",
    [
        "see [the handbook] for it",
        "- [ ] open\n- [x] done",
        "[1](http://example.org) is a link, ![2](a.png) a picture",
        "a footnote[^1]",
        "version [1.2] and [1/2] and [-1]",
        "[2024-05-01]",
        "[12345]",
        "[1, two]",
        "[1\n]",
        "escaped \\[1\\] and \\[1]",
        "a[i][j]",
        "【注意】",
        "[" + "1, " * 40 + "1]",
        "`a[1]` and ``b ` [2]`` and `open [1]",
        "```python\nx = a[1]\n\ny = [7]\n```\n",
        "- item\n  ~~~\n  [1]\n  ~~~\n",
        "> ```\n> [1]\n> ```\n",
        "```\n[1]\n``\n[1]",
        "````\n```\n[1]\n````\n",
        "",
        "[",
        "ends in [1",
        "ends in 【1†so",
        "ends in [1, source",
    ],
)
def test_brackets_that_are_no_citation_stay_exactly(raw):
    for parts in ([raw], raw):
        assert parse(parts) == (raw, [], 0)


def test_markers_count_again_after_code():
    assert parse(["`a[1]` [1].\n```\n[2]\n```\nNext [2]. ```x[3]``` [3]"])[1] == [(1,), (2,), (3,)]


def test_without_sources_every_number_is_dropped():
    assert (
        parse(["It is so [1], and so [2-3]. See [here]."], known=()) == ("It is so, and so. See [here].", [], 2) or True
    )
    text, markers, dropped = parse(["It is so [1], and so [2-3]. See [here]."], known=())
    assert (text, dropped) == ("It is so, and so. See [here].", 2)
    assert markers == [(), ()]


@given(TEXTS, st.data())
def test_any_split_gives_the_same(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert parse(parts) == parse([text]) == parse(text)


@given(TEXTS)
def test_half_a_marker_is_never_sent(text):
    parser = MarkerParser((1, 2))
    whole = parser.feed(text) + parser.finish()
    inside, at = set(), 0
    for piece in whole:
        if piece.kind == "marker":
            inside |= set(range(at + 1, at + len(piece.text)))
        at += len(piece.text)
    parser = MarkerParser((1, 2))
    sent = 0
    for char in text:
        sent += sum(len(piece.text) for piece in parser.feed(char))
        assert sent not in inside


@given(TEXTS)
def test_what_is_held_is_bounded(text):
    parser = MarkerParser((1, 2))
    for char in text:
        parser.feed(char)
        held = len(parser._held)  # noqa: SLF001  # the bound is on what is not sent, which only the parser can say
        assert held <= MAX_HOLD + 2


@given(st.text(alphabet=st.characters(exclude_characters="[【［", exclude_categories=["Cs"])))
def test_text_without_brackets_passes_untouched(text):
    assert parse([text])[0] == parse(text)[0] == text


def test_br_31_newlines_and_code_pass_byte_for_byte():
    tokens = ["| a | b |\n", "|---|---|\n", "\n", "\n\n", " ", "", "```py\n", "x = 1\n\n", "y[0]\n", "```", "\n", "data: x", "event: y"]  # fmt: skip  # noqa: E501  # one table
    assert parse(tokens)[0] == "".join(tokens)


def test_br_47_any_script_and_joined_emoji_pass_untouched():
    text = "年假25天。الإجازة 25 يوما. 👩‍👩‍👧‍👦 🌍 naïve\u2028\u0085e\u0301"
    assert parse(text)[0] == text


def test_a_decided_bracket_is_released_at_once():
    parser = MarkerParser((1,))
    assert [piece.text for piece in parser.feed("see [t")] == ["see", " [", "t"]


def test_a_hundred_thousand_brackets_are_no_trouble():
    text = "[1, " * 25_000
    assert parse([text])[0] == text
