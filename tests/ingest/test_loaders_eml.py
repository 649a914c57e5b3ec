"""A mail: its subject, its sender, its body once; what it carries beside is named."""

from email.message import EmailMessage
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents.base import Blob

from ingest.documents import LoadedDocument, assemble
from ingest.loaders.eml import EmlLoader
from rag_service.errors import LoadFailed

from .conftest import LoadShared


def loaded(source: bytes | EmailMessage | MIMEMultipart) -> LoadedDocument:
    data = source if isinstance(source, bytes) else source.as_bytes()
    return assemble(EmlLoader().lazy_parse(Blob.from_data(data)), "message/rfc822", "eml/1")


def mail(body: str = "Words.", subject: str = "Hello") -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = subject
    message["From"] = "Zoë Ä. <zoe@example.com>"
    message["To"] = "bob@example.com"
    message["Date"] = "Fri, 16 Dec 2022 17:04:16 -0500"
    message.set_content(body)
    return message


def test_a_real_mail_has_subject_sender_and_its_body_once(load_shared: LoadShared) -> None:
    document = load_shared("mail.eml")
    assert [(h.level, h.text) for h in document.headings] == [(1, "Test Email")]
    assert (
        "From: Sam Sender <sender@example.com>\nTo: Rae Reader <reader@example.com>\nDate: Fri, 16 Dec" in document.text
    )
    assert document.text.count("Roses are red") == 1
    assert document.metadata["title"] == "Test Email"
    assert document.metadata["created"] == "2022-12-16T17:04:16-05:00"


def test_the_header_is_decoded() -> None:
    document = loaded(mail(subject="Größe und Maß: " + "sehr lang " * 20))
    assert document.headings[0].text.startswith("Größe und Maß: sehr lang")
    assert "From: Zoë Ä. <zoe@example.com>" in document.text


@pytest.mark.parametrize("plain", ["", "  \n"])
def test_html_is_read_where_the_text_is_empty_and_hidden_text_is_not(plain: str) -> None:
    message = mail(plain)
    message.add_alternative('<p>Seen</p><div style="display:none">preview</div><ul><li>one</li></ul>', subtype="html")
    document = loaded(message)
    assert document.text.endswith("Seen\n\n- one\n\n\n\n")
    assert document.notes == ("left out: hidden blocks (1)",)


def test_text_wins_over_html_with_pictures() -> None:
    message = mail("Plain words.\n> quoted history\n")
    message.add_alternative("<p>HTML words</p>", subtype="html")
    related = message.get_payload()[1]
    related.add_related(b"png", "image", "png", filename="logo.png")  # type: ignore[union-attr]
    document = loaded(message)
    assert "Plain words.\n> quoted history" in document.text
    assert "HTML words" not in document.text


def test_attachments_are_named_and_counted_and_not_read() -> None:
    message = mail()
    message.add_attachment(b"%PDF-1.4 secret", "application", "pdf", filename="Grüße.pdf")
    message.add_attachment("secret notes", filename="notes.txt")
    document = loaded(message)
    assert document.text.endswith("\n\nWords.\n\n")
    assert document.notes == ("2 attachments not read: Grüße.pdf, notes.txt",)


def test_a_mail_inside_a_mail_is_a_section_below_it() -> None:
    outer, inner, innermost = mail("See below.", "Fwd"), mail("Inner words.", "Middle"), mail("Deep words.", "Bottom")
    inner.add_attachment(innermost)
    outer.add_attachment(inner)
    document = loaded(outer)
    assert [(h.level, h.text) for h in document.headings] == [(1, "Fwd"), (3, "Middle"), (5, "Bottom")]
    assert document.text.index("See below.") < document.text.index("Inner words.") < document.text.index("Deep words.")
    assert document.notes == ()


def test_a_report_says_why_a_mail_came_back() -> None:
    data = (
        b"Subject: Undelivered\nMIME-Version: 1.0\nContent-Type: multipart/report; boundary=b\n\n--b\n\nIt came back.\n"
        b"--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; x@y\n"
        b"Status: 5.1.1\n\n--b\nContent-Type: message/rfc822\n\nSubject: Original\n\nHello\n--b--\n"
    )
    document = loaded(data)
    assert "Status: 5.1.1" in document.text
    assert [h.text for h in document.headings] == ["Undelivered", "Original"]


@pytest.mark.parametrize(
    ("head", "body", "words"),
    [
        (b"Content-Type: text/plain; charset=no-such-charset", "Größe".encode(), "Größe"),
        (b"Content-Type: text/plain; charset=us-ascii", "Größe".encode("cp1252"), "Größe"),
        (b"Content-Type: text/plain; charset=iso-2022-jp", "日本語".encode("iso-2022-jp"), "日本語"),
        (b"Content-Type: text/plain; charset=utf-7", "Größe".encode("utf-7"), "Größe"),
        (b"Content-Type: text/plain; charset=koi8-r", "Привет, это письмо".encode("koi8-r"), "Привет, это письмо"),
        (b"Content-Transfer-Encoding: base64", b"V29yZHM=!!=", "Words"),
        (b"Content-Transfer-Encoding: no-such", b"Words", "Words"),
        (b"Content-Type: multipart/mixed", b"Words without a boundary", "Words without a boundary"),
        (b"Content-Type: multipart/alternative; boundary=x", b"Words before any part", "Words before any part"),
        (b"Content-Type: ///;;;=", b"Words", "Words"),
        (b"Content-Disposition: attachment; filename*=no-such''%ff%fe", b"Words", "Words"),
    ],
)
def test_broken_charsets_and_structures_do_not_fail_the_file(head: bytes, body: bytes, words: str) -> None:
    assert words in loaded(b"Subject: x\n" + head + b"\n\n" + body).text


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("Größe".encode(), "Größe"),
        ("Größe".encode("cp1252"), "Größe"),
        (b"=?no-such?B?V29yZHM=?=", "Words"),
        (b"=?utf-8?B?!!!?=", ""),
        (b"=?utf-8?Q?Gr=C3=B6=C3=9Fe?= =?utf-8?Q?_zwei?=", "Größe zwei"),
        (b"folded\n  line", "folded line"),
        (b"", ""),
    ],
)
def test_broken_headers_are_read_as_well_as_can_be(subject: bytes, words: str) -> None:
    document = loaded(b"From: a@b\nSubject: " + subject + b"\n\nBody.\n")
    assert words in document.headings[0].text
    assert document.text.endswith("Body.\n\n")


def test_a_date_that_is_none_is_shown_as_it_is() -> None:
    document = loaded(b"Subject: x\nDate: yesterday at 99:99\n\nBody.")
    assert "Date: yesterday at 99:99" in document.text
    assert "created" not in document.metadata


def test_an_encrypted_body_is_told() -> None:
    encrypted = MIMEMultipart("encrypted")
    encrypted["Subject"] = "Secret"
    encrypted.attach(MIMEText("Version: 1", "plain"))
    document = loaded(encrypted)
    assert "the body is encrypted and was not read" in document.notes


def test_nesting_without_end_is_one_clear_failure() -> None:
    levels = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (i, i) for i in range(60))
    with pytest.raises(LoadFailed, match="nested too deeply"):
        loaded(b"Subject: x\n" + levels + b"\nwords")
    with pytest.raises(LoadFailed, match="nested too deeply"):
        loaded(b"Content-Type: message/rfc822\n\n" * 5_000 + b"words")


@given(st.binary(max_size=300) | st.lists(st.sampled_from([
    b"Content-Type: multipart/mixed; boundary=b\n", b"Content-Type: message/rfc822\n", b"Subject: x\n", b"\n", b"--b\n",
    b"--b--\n", b"From: =?utf-8?q?=ff?=\n", b"words\n", b"Content-Transfer-Encoding: base64\n", b"Date: 1\n",
]), max_size=20).map(b"".join))  # fmt: skip
def test_no_bytes_fail(data: bytes) -> None:
    try:
        loaded(data).text.encode()
    except LoadFailed:
        assert data.count(b"multipart") + data.count(b"rfc822") > 2
