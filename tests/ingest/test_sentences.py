"""Where sentences end, in many scripts, and where a text is cut that has none."""

import itertools

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.chunking.graphemes import is_edge
from ingest.chunking.sentences import evenly, sentences
from rag_service.index.spans import Span


def split(text: str) -> list[str]:
    return [span.of(text) for span in sentences(text, Span(0, len(text)))]


@settings(max_examples=50)
@given(st.text(max_size=200))
def test_sentences_cover_all_but_white_space(text: str) -> None:
    assert "".join("".join(split(text)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    "marked",  # a bar stands where a sentence ends
    [
        "It rains. |Take a coat! |Do you hear? |Yes.",
        "He said “Stop.” |She did. |(It was late.) |**Bold.** |“Why?” she asked.",
        "See e.g. Dr. J. Smith, i.e. the vet, or Fig. 3 vs. No. 5 or so. |It costs approx. 3.50. |Twice.",
        "Das gilt z. B. am 3. Mai, d. h. nach § 5 Abs. 2 Nr. 400. |Danach usw. nicht. |Ja.",
        "Well… perhaps... not. |Go to https://example.com/a.b?c=day. |Then stop.",
        "in lower case. |all of it. |even this? |yes.",
        "A line that was only\nwrapped, so it\ngoes on. |Next.",
        "- apples\n|- pears\n|1. First\n|2. Second",
        "A paragraph\n\n|another one",
        "雨です。|「行くな！」|彼は言った。|本当？！|ええ；|はい",
        "هل تسمع؟ |نعم. |یہ اردو ہے۔ |ہاں",
        "वह आया। |वह गया॥ |अंत",
        "ไปไหนมา |ไปตลาด |ซื้อผัก",
        "ភាសាខ្មែរ។ |ទៅផ្សារ |ទិញ",
    ],
)
def test_sentences_end_where_a_reader_sees_it(marked: str) -> None:
    expected = [sentence.strip() for sentence in marked.split("|")]
    assert split(marked.replace("|", "")) == expected


def test_a_mark_on_a_space_stays_with_it() -> None:
    assert split("One. \u0308 two.") == ["One. \u0308 two."]
    assert split("One.\n\u0308 two") == ["One.", "\u0308 two"]


# Every kind of code point that the standard's rules tell apart, and its neighbours.
KINDS = [
    *"a1 .\n\t\r語กำเๆຳ한각ᄒ\u1161\u11a8ﾊﾞ🇩👩❤©\ufe0f\U0001f3fd\U000e0067",
    *("\u0301", "\u0903", "\u094d", "\u0915", "\u200c", "\u200d", "\u0600", "\u0d4e", "\u200b", "\u17d2", "\u1780"),
    *("\u1039", "\u1000", "\u0e31", "\u0640", "\ua9c0", "\U000113d1", "\U000110bd", "\ua960", "\ud7b0"),
]


@pytest.mark.parametrize("length", [2, 3])
def test_no_edge_lies_within_what_the_standard_takes_for_one_character(length: int) -> None:
    for characters in itertools.product(KINDS, repeat=length):
        text = "".join(characters)
        edges = {0, *itertools.accumulate(map(len, regex.findall(r"\X", text)))}
        assert not {at for at in range(len(text) + 1) if is_edge(text, at)} - edges, characters


def test_flags_are_cut_between_pairs() -> None:
    text = "🇩🇪🇫🇷🇯🇵"
    assert [at for at in range(len(text)) if is_edge(text, at)] == [0, 2, 4]
    assert [at for at in range(2, len(text)) if is_edge(text, at, known=2)] == [2, 4]


characters = st.lists(
    st.sampled_from(["a", " ", "e\u0301", "ที่", "เ", "🇩🇪", "👩‍👩‍👧", "\n", "。"]), min_size=2, max_size=50
)


@given(characters.map("".join), st.integers(2, 9))
def test_an_even_cut_loses_nothing_and_makes_progress(text: str, parts: int) -> None:
    found = evenly(text, Span(0, len(text)), parts)
    assert "".join("".join(span.of(text) for span in found).split()) == "".join(text.split())
    assert all(len(span) < len(text) for span in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two three, four five six", ["one two three,", "four five six"]),
        ("word after word after word after", ["word after word", "after word after"]),
        ("กินข้าวกับปลาเค็มและผัก", ["กินข้าวกับปลา", "เค็มและผัก"]),
        ("a/path/of/many/folders/to/a.file", ["a/path/of/many/", "folders/to/a.file"]),
        ("x" * 10, ["x" * 5, "x" * 5]),
        ("👩‍👩‍👧👩‍👩‍👧", ["👩‍👩‍👧", "👩‍👩‍👧"]),
        ("a" + "\u0308" * 9, ["a" + "\u0308" * 4, "\u0308" * 5]),  # one character, too long for a chunk
    ],
)
def test_a_sentence_too_long_is_cut_at_the_best_place_near_its_middle(text: str, expected: list[str]) -> None:
    assert [span.of(text) for span in evenly(text, Span(0, len(text)), 2)] == expected
