"""Rich text: what a reader sees, in the right letters, with headings and rows; what is hidden is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents.base import Blob

from ingest.documents import LoadedDocument, assemble
from ingest.loaders.rtf import RtfLoader
from rag_service.errors import LoadFailed

from .conftest import LoadBytes


def loaded(source: str | bytes) -> LoadedDocument:
    data = source if isinstance(source, bytes) else source.encode("latin-1")
    return assemble(RtfLoader().lazy_parse(Blob.from_data(data)), "application/rtf", "rtf/1")


def body(source: str) -> str:
    return loaded(rf"{{\rtf1\ansi\ansicpg1252 {source}}}").text.rstrip()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (r"die sch\'f6ne Frau", "die schöne Frau"),
        (r"\u8364?100 und \u-10179?\u-8694?", "€100 und 😊"),
        (r"{\uc2\u20320\'c4\'e3\u22909\'ba\'c3} after", "你好 after"),
        (r"{\upr{plain}{\*\ud{\u8364?}}}", "€"),
        (r"a\~b\_c\{d\}\\e\emdash f\tab g", "a\xa0b‑c{d}\\e—f\tg"),
        (r"one\line two", "one\ntwo"),
        ("one\\\ntwo", "one\n\ntwo"),
        ("br\noken in\r\nto lines", "broken into lines"),
        (r"{\field{\*\fldinst HYPERLINK \"http://x\"}{\fldrslt a link}}", "a link"),
        (r"{\pict\wmetafile8 0102abcdef}text", "text"),
        (r"{\*\unknown stuff}{\*\bkmkstart mark}text", "text"),
        (r"anchor{\shp{\*\shpinst{\sp{\sn a}{\sv b}}{\shptxt In a box.}}{\shprslt drawn}}", "anchor\nIn a box."),
        (r"{\listtext\'b7\tab}First\par{\listtext 2.\tab}Second\par", "- First\n2. Second"),
    ],
)
def test_characters_are_those_that_a_reader_sees(source: str, words: str) -> None:
    assert body(source) == words


@pytest.mark.parametrize(
    ("head", "text", "words"),
    [
        (r"\ansi\ansicpg1251", r"\'cf\'f0\'e8\'e2\'e5\'f2", "Привет"),
        (
            r"\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset204 B;}}",
            r"Hi \f1\'cf\'f0\'e8\f0  \'f6",
            "Hi При ö",
        ),
        (r"\ansi\ansicpg932", r"\'93\'fa\'96\'7b", "日本"),
        (r"\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset128 A;}}", r"\'93\'fa\'96{", None),
        (r"\mac", r"sch\'9an", "schön"),
        (r"\ansi\ansicpg65001", r"sch\'c3\'b6n", "schön"),
        (r"\ansi\ansicpg99999", r"sch\'f6n", "schön"),
    ],
)
def test_letters_follow_the_code_page_and_the_font(head: str, text: str, words: str | None) -> None:
    read = loaded(rf"{{\rtf1{head} {text}\par}}").text
    assert words is None or read.strip() == words


def test_hidden_and_deleted_text_is_left_out_and_counted() -> None:
    document = loaded(
        r"{\rtf1 seen {\v secret }and \v more\v0  plain {\v all\plain  shown}{\deleted gone}"
        r"{\header Running {\shp{\shptxt box}}}{\footnote small print}\par}"
    )
    assert document.text.split() == ["seen", "and", "plain", "shown"]
    assert document.notes == (
        "left out: deleted passages (1), footnotes (1), hidden passages (3), running headers (1)",
    )


def test_headings_follow_styles_and_outline_levels() -> None:
    document = loaded(
        r"{\rtf1{\stylesheet{\s0 Normal;}{\s1 heading 1;}{\s5\outlinelevel2 Chapter;}}{\info{\title T\'fcr}{\author Ann}}"
        r"\pard\s1 One\par\pard Text.\par\pard\s5 Two\par\pard\outlinelevel1 Three\par}"
    )
    assert [(h.level, h.text) for h in document.headings] == [(1, "One"), (3, "Two"), (2, "Three")]
    assert document.metadata == {"title": "Tür", "author": "Ann"}


def test_tables_are_rows_with_their_headers() -> None:
    document = loaded(
        r"{\rtf1 Before.\par\trowd\cellx1\cellx2\pard\intbl Name\cell Price\cell\row"
        r"\trowd\pard\intbl Tea\par green\cell 3 EUR\cell\row\trowd\intbl Milk\cell\cell\row\pard After.\par}"
    )
    assert document.text == ("Before.\n\nName | Price\nName: Tea green | Price: 3 EUR\nName: Milk\n\nAfter.\n\n")
    assert [atom.of(document.text) for atom in document.atoms][1] == "Name: Tea green | Price: 3 EUR"


def test_a_table_of_one_column_is_a_frame() -> None:
    assert body(r"\pard\intbl A notice.\cell\row\pard After.") == "A notice.\n\nAfter."


def test_binary_data_is_passed_over() -> None:
    assert loaded(rb"{\rtf1 a{\pict\bin5 }}}}}}b}").text.split() == ["ab"]


def test_nesting_without_end_is_read() -> None:
    assert loaded(b"{\\rtf1 " + b"{" * 200_000 + b"deep" + b"}" * 200_000 + b" end}").text.split() == ["deep", "end"]
    assert loaded(b"{\\rtf1 " + b"{" * 50_000 + b"open").text.split() == ["open"]


def test_what_stands_after_the_end_is_no_text() -> None:
    assert loaded(r"{\rtf1 inside}outside").text.split() == ["inside"]


def test_br_21_what_is_no_rtf_says_so(load_bytes: LoadBytes) -> None:
    with pytest.raises(LoadFailed, match="not an RTF document"):
        load_bytes("a.rtf", b"only words")
    assert load_bytes("b.rtf", b"").text == ""
    assert load_bytes("letter.doc", rb"{\rtf1 words}").loader == "rtf/1"


tokens = st.sampled_from(
    [*(rb"{ } \par \cell \row \intbl \pard \v \v0 \u8364 \uc0 \'e9 \' \* \f1 \fonttbl \stylesheet \s1 \bin3 \upr \ud".split()),
     b"word ", b" ", b"\\", b"\n", b"\\u-1 ", b"\\u99999999 ", b"\\uc-5 ", b"\\fcharset128 ", b"\\ansicpg0 ", b"\xff"]
)  # fmt: skip


@given(st.lists(tokens, max_size=40).map(b"".join) | st.binary(max_size=100))
def test_no_tokens_fail(source: bytes) -> None:
    document = loaded(b"{\\rtf1 " + source)
    document.text.encode()
    assert document.text.count("word") <= source.count(b"word")
