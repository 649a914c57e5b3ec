"""XML inside documents: nothing outside the file is ever read, nothing is blown up, nothing is too deep to survive."""

import codecs
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.documents import load
from ingest.loaders.xml_prolog import PROLOG_BYTES, is_past_prolog
from rag_service.errors import LoadFailed
from tests.support.archives import ARCHIVES, MAIN_PART, WORDS, Member, bomb, changed, member, part

from .conftest import LoadBytes

CANARY = "canary-7f3a in a file that no document may reach"
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 11))
HOSTILE = "hostile XML in it: a document type that declares entities (XXE or billion laughs)"

kinds = pytest.mark.parametrize("kind", ARCHIVES)


def with_prolog(kind: str, prolog: str, words: str, encoding: str = "utf-8") -> bytes:
    """A document whose main part has `prolog` before its first element and `words` in place of its own."""
    name = MAIN_PART[kind]
    text = re.sub(r"^<\?xml[^>]*\?>\s*", "", part(ARCHIVES[kind](), name).decode())
    assert WORDS in text
    source = f'<?xml version="1.0" encoding="{encoding}"?>{prolog}{text.replace(WORDS, words)}'
    data = source.encode(encoding)
    return changed(ARCHIVES[kind](), member(name, data))


def text_or_reason(load_bytes: LoadBytes, name: str, data: bytes) -> str:
    try:
        return load_bytes(name, data).text
    except LoadFailed as failure:
        return failure.message


@pytest.fixture
def canary(tmp_path: Path) -> str:
    (tmp_path / "canary.txt").write_text(CANARY)
    (tmp_path / "canary.dtd").write_text(f'<!ENTITY x "{CANARY}">')
    return tmp_path.as_uri()


@kinds
def test_br_45_no_entity_brings_a_file_into_the_text(load_bytes: LoadBytes, canary: str, kind: str) -> None:
    for prolog in (
        f'<!DOCTYPE a [<!ENTITY x SYSTEM "{canary}/canary.txt">]>',
        f'<!DOCTYPE a [<!ENTITY x PUBLIC "any" "{canary}/canary.txt">]>',
        f'<!DOCTYPE a [<!ENTITY % p SYSTEM "{canary}/canary.dtd"> %p;]>',
        f"<!DOCTYPE a [<!ENTITY % p \"<!ENTITY x SYSTEM '{canary}/canary.txt'>\"> %p;]>",
        f'<!-- {"far down " * 200} --><!DOCTYPE a [<!ENTITY x SYSTEM "{canary}/canary.txt">]>',
    ):
        assert text_or_reason(load_bytes, f"xxe.{kind}", with_prolog(kind, prolog, "&x;")) == HOSTILE


@kinds
def test_br_45_a_document_type_kept_elsewhere_is_not_fetched(load_bytes: LoadBytes, canary: str, kind: str) -> None:
    data = with_prolog(kind, f'<!DOCTYPE a SYSTEM "{canary}/canary.dtd">', f"&x; {WORDS}")
    assert CANARY not in text_or_reason(load_bytes, f"dtd.{kind}", data)


@kinds
def test_br_45_xinclude_is_not_followed(load_bytes: LoadBytes, canary: str, kind: str) -> None:
    include = f'<i:include xmlns:i="http://www.w3.org/2001/XInclude" href="{canary}/canary.txt" parse="text"/>'
    assert CANARY not in text_or_reason(load_bytes, f"include.{kind}", with_prolog(kind, "", include))


@kinds
def test_br_45_entities_that_grow_are_refused(load_bytes: LoadBytes, kind: str) -> None:
    for declared in (
        f'<!ENTITY l0 "ha">{LAUGHS}',
        f'<!ENTITY l10 "{"x" * 50_000}">',
        f'<!ATTLIST w b CDATA "{"x" * 50}">',
    ):
        data = with_prolog(kind, f"<!DOCTYPE a [{declared}]>", "&l10;" * 100)
        assert text_or_reason(load_bytes, f"laughs.{kind}", data) == HOSTILE


@kinds
def test_br_45_entities_are_found_in_other_encodings(load_bytes: LoadBytes, canary: str, kind: str) -> None:
    prolog = f'<!DOCTYPE a [<!ENTITY x SYSTEM "{canary}/canary.txt">]>'
    for encoding in ("utf-16", "latin-1", "gb18030"):
        assert text_or_reason(load_bytes, f"xxe.{kind}", with_prolog(kind, prolog, "&x;", encoding)) == HOSTILE
    for encoding in ("utf-7", "cp037", "utf-32"):  # libxml2 may read these, but resolves nothing
        text = text_or_reason(load_bytes, f"xxe.{kind}", with_prolog(kind, prolog, "&x;", encoding))
        assert CANARY not in text


@kinds
def test_a_named_character_is_no_attack(load_bytes: LoadBytes, kind: str) -> None:
    load_bytes(f"nbsp.{kind}", with_prolog(kind, '<!DOCTYPE a [<!ENTITY nbsp "&#160;">]>', WORDS))


@kinds
def test_a_part_that_never_begins_is_refused(load_bytes: LoadBytes, kind: str) -> None:
    data = with_prolog(kind, f"<!-- {'x' * PROLOG_BYTES} -->", WORDS)
    assert (
        text_or_reason(load_bytes, f"prolog.{kind}", data) == "hostile XML in it: no element in its first 65,536 bytes"
    )


@kinds
def test_br_45_deep_nesting_ends_in_text_or_a_reason(load_bytes: LoadBytes, kind: str) -> None:
    """A crash of the interpreter would fail this test; so would a hang."""
    source = part(ARCHIVES[kind](), MAIN_PART[kind]).decode()
    opening = re.search(r"<(?!\?)[^>]+>", source[source.index("<", 50) :])
    assert opening is not None
    for tag in dict.fromkeys((opening.group().strip("</>").split()[0], "a", "w:tbl", "w:sdt", "p:grpSp", "text:list")):
        prefix = tag.partition(":")[0] if ":" in tag else ""
        if prefix and f"xmlns:{prefix}=" not in source:
            continue
        deep = f"<{tag}>" * 100_000 + "deep" + f"</{tag}>" * 100_000
        data = changed(ARCHIVES[kind](), member(MAIN_PART[kind], source.replace(WORDS, deep).encode()))
        text_or_reason(load_bytes, f"deep.{kind}", data)
        whole = re.sub(r">[^<>]+<", ">x<", source)
        at = whole.rindex("</", 0, whole.rindex("</"))
        data = changed(ARCHIVES[kind](), member(MAIN_PART[kind], f"{whole[:at]}{deep}{whole[at:]}".encode()))
        text_or_reason(load_bytes, f"deep.{kind}", data)


@kinds
def test_br_45_one_huge_part_of_letters_ends_in_a_reason(load_bytes: LoadBytes, kind: str) -> None:
    source = part(ARCHIVES[kind](), MAIN_PART[kind])
    before, after = source[: len(source) // 2], source[len(source) // 2 :]
    packed = bomb(45_000_000, before=before, after=after)
    data = changed(ARCHIVES[kind](), Member(MAIN_PART[kind], packed, 45_000_000 + len(source), 0))
    assert isinstance(text_or_reason(load_bytes, f"long.{kind}", data), str)


@given(st.binary(max_size=300) | st.text(alphabet='<!?>-[]"&%;ENTITYDOCxml =', max_size=200).map(str.encode))
def test_any_beginning_is_past_or_not_or_refused(head: bytes) -> None:
    try:
        assert is_past_prolog(head) in {True, False}
    except LoadFailed:
        assert b"ENTITY" in head or b"ATTLIST" in head


@pytest.mark.parametrize("mark", [codecs.BOM_UTF8, b"\n\n  ", b"<?xml version='1.0'?>\n", b"<!-- a --><?php ?>"])
def test_what_stands_before_an_element_is_told_from_it(mark: bytes) -> None:
    assert is_past_prolog(mark + b"<a>")
    assert not is_past_prolog(mark)
    with pytest.raises(LoadFailed):
        is_past_prolog(mark + b"<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>")


@pytest.mark.parametrize("suffix", ["html", "xhtml", "svg.html"])
def test_br_45_web_pages_know_no_entities_of_their_own(load_bytes: LoadBytes, canary: str, suffix: str) -> None:
    page = (
        '<?xml version="1.0"?><!DOCTYPE html [{}]><html xmlns="http://www.w3.org/1999/xhtml"><p>&x; and {}</p></html>'
    )
    for declared in (f'<!ENTITY x SYSTEM "{canary}/canary.txt">', f'<!ENTITY l0 "ha">{LAUGHS}<!ENTITY x "&l10;">'):
        text = text_or_reason(load_bytes, f"page.{suffix}", page.format(declared, WORDS).encode())
        assert CANARY not in text
        assert len(text) < 10_000


def test_br_45_web_pages_nested_deeply_are_read_as_far_as_they_go(load_bytes: LoadBytes) -> None:
    for tag in ("div", "b", "table", "ul", "h1", "blockquote", "section", "svg", "select"):
        document = load_bytes("deep.html", (f"<html><p>{WORDS}</p>" + f"<{tag}>a" * 100_000).encode())
        assert WORDS in document.text


def test_a_document_is_read_without_looking_for_files_beside_it(tmp_path: Path, canary: str) -> None:
    (tmp_path / "a.html").write_text(f'<p>{WORDS}<img src="{canary}/canary.txt"><iframe src="canary.txt"></iframe>')
    assert CANARY not in load(tmp_path / "a.html").text
