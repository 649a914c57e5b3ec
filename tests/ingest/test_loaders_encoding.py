"""Bytes in any encoding become the right text, or say what could not be read."""

from pathlib import Path

import pytest

from ingest.loaders.encoding import decode
from rag_service.errors import LoadFailed

from .conftest import LoadBytes, LoadShared

GERMAN = "Die Größe der Straße beträgt fünf Meter – „täglich“ für 5 €."
FRENCH = "L'été était très chaud cette année. J'ai acheté un café à Nîmes."
POLISH = "Zażółć gęślą jaźń. Urlop wynosi dwadzieścia pięć dni."
CZECH = "Dovolená trvá dvacet pět dnů. Přihláška musí být podána dva týdny předem."
HUNGARIAN = "Az éves szabadság huszonöt nap. A kérelmet két héttel előbb kell benyújtani űrlapon."
TURKISH = "Yıllık izin yirmi beş gündür. İşçiler iki hafta önceden başvurmalıdır."
RUSSIAN = "Ежегодный отпуск составляет двадцать пять дней. Заявление подают за две недели."
GREEK = "Η ετήσια άδεια είναι είκοσι πέντε ημέρες."
CHINESE = "年假为二十五天，请提前两周申请。"
TAIWANESE = "年假為二十五天，請提前兩週申請。"
JAPANESE = "年次休暇は二十五日です。二週間前に申請してください。カタカナ"
KOREAN = "연차 휴가는 25일입니다. 두 주 전에 신청하세요."


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("text", [GERMAN, RUSSIAN, KOREAN, f"{CHINESE}\n{JAPANESE}"])
def test_br_78_unicode_reads_with_and_without_a_mark(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)).text == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "cp1252"), (FRENCH, "cp1252"), (FRENCH, "latin-1"), ("Señor, ¿qué tal? Año nuevo.", "cp1252"),
        (POLISH, "cp1250"), (CZECH, "cp1250"), (HUNGARIAN, "cp1250"), (TURKISH, "cp1254"), (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8_r"), (GREEK, "cp1253"), (CHINESE, "gbk"), (CHINESE, "gb18030"), (TAIWANESE, "big5"),
        (JAPANESE, "shift_jis"), (JAPANESE, "euc_jp"), (KOREAN, "euc_kr"),
    ],
)  # fmt: skip
def test_br_78_legacy_charsets_are_told_apart(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)).text == text


def test_br_78_one_latin_letter_after_100_kb_of_ascii(load_bytes: LoadBytes) -> None:
    document = load_bytes("prices.csv", b"name,price\n" + b"tea,2\n" * 20_000 + b"caf\xe9,3\n")
    assert document.text.endswith("name: café; price: 3\n")
    assert document.notes == ()


def test_br_78_damaged_utf_8_is_counted_and_the_rest_is_right() -> None:
    decoded = decode(("Größe über alles. " * 20).encode() + b"\xe9\xff" + " schöne Grüße".encode())
    assert decoded.text.endswith("schöne Grüße")
    assert decoded.replaced == decoded.text.count("\ufffd") == 2
    assert decoded.notes == ("2 characters could not be decoded as utf-8 and read as \ufffd",)


def test_br_78_a_replacement_character_of_the_source_is_not_counted() -> None:
    assert decode("a \ufffd b".encode()).replaced == 0
    assert decode("a \ufffd b".encode("utf-16") + b"\x00").replaced == 1


def test_br_78_a_declared_charset_is_believed_if_it_fits() -> None:
    assert decode("年假".encode("gbk"), "gbk").text == "年假"
    assert decode("schöne Grüße aus Köln".encode("cp1252"), "utf-8").text == "schöne Grüße aus Köln"
    assert decode(b"plain", "no-such-charset").text == "plain"


def test_br_78_bytes_that_are_no_text_are_refused() -> None:
    for data in (bytes(range(256)) * 10, b"\x89PNG\r\n\x1a\n" + b"\x00\x01\x02\xff" * 100):
        with pytest.raises(LoadFailed, match="binary data"):
            decode(data)


def test_br_78_real_files_of_other_types_are_no_text(shared_documents: Path) -> None:
    for name in ("slides.pptx", "subtables.xlsx", "winter-sports.epub", "scanned-page.pdf", "tables.docx"):
        with pytest.raises(LoadFailed, match="binary data"):
            decode((shared_documents / name).read_bytes())


def test_stray_zero_bytes_do_not_make_text_binary() -> None:
    assert decode(b"words " * 500 + b"\x00").text == "words " * 500


def test_br_78_real_files(load_shared: LoadShared) -> None:
    assert load_shared("latin1-umlauts.md").text == "## können\n\nkönnen\n\näöüß\n"
    assert load_shared("utf-32.txt").text.startswith("This is a test document to use for unit tests.\n\n    Doylestown")
