"""Mail: subject, correspondents and date, the body once, mails inside it as sections of their own.

In: the bytes of a .eml (or of a web page saved as .mht, which is built like one). Out: parts. Must not: read the same body
twice because it was sent as text and as HTML; read attachments, or pass them over without their names; fail because a
header or a charset is broken.
"""

from collections import Counter
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from email.utils import parsedate_to_datetime

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from ingest.loaders.eml_headers import file_name, header, in_charset
from ingest.loaders.html import WebPage, left_out_sentence
from ingest.loaders.parts import about, heading, note, part
from rag_service.errors import LoadFailed

_SHOWN = ("From", "To", "Cc", "Date")
_MAX_DEPTH = 50  # of mails and multiparts inside each other
_MAX_NAMES = 20


class EmlLoader(BaseBlobParser):
    """Raises LoadFailed when mails are nested beyond reason."""

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        data = blob.as_bytes().removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
        try:
            # The older policy reads broken headers as they are, where the newer one's parser raises on some of them.
            message: Message = BytesParser(policy=compat32).parsebytes(data)
            yield about(_described(message))
            yield from _Mail(message).parts()
        except RecursionError as error:
            raise LoadFailed("mails are nested too deeply in each other") from error


def _described(message: Message) -> dict[str, str | None]:
    try:
        created = parsedate_to_datetime(header(message, "Date")).isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        created = None
    return {
        "title": header(message, "Subject") or None,
        "author": header(message, "From") or None,
        "created": created,
    }


class _Mail:
    """One pass over a mail. Attachments, gaps and odd charsets are gathered on the way and told at the end."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self._attached: list[str] = []
        self._omitted: Counter[str] = Counter()
        self._notes: dict[str, None] = {}

    def parts(self) -> Iterator[Document]:
        yield from self._section(self._message, 1)
        if self._attached:
            names = ", ".join(self._attached[:_MAX_NAMES]) + (", …" if len(self._attached) > _MAX_NAMES else "")
            count = "1 attachment" if len(self._attached) == 1 else f"{len(self._attached)} attachments"
            yield note(f"{count} not read: {names}")
        if self._omitted:
            yield note(left_out_sentence(self._omitted))
        for sentence in self._notes:
            yield note(sentence)

    def _section(self, message: Message, depth: int) -> Iterator[Document]:
        """A mail with its header; one inside another is a level lower."""
        if len(message) or depth > 1:
            yield heading(f"{header(message, 'Subject') or '(no subject)'}\n\n", min(depth, 6))
        lines = [f"{name}: {value}\n" for name in _SHOWN if (value := header(message, name))]
        if lines:
            yield part("".join(lines) + "\n")
        yield from self._content(message, depth)

    def _content(self, message: Message, depth: int) -> Iterator[Document]:
        kind = message.get_content_type()
        if depth > _MAX_DEPTH:
            raise LoadFailed("mails are nested too deeply in each other")
        if kind == "message/delivery-status":
            yield part("".join(self._status_lines(message)) + "\n")
        elif kind.startswith("message/") and message.is_multipart():
            for inner in _children(message):
                yield from self._section(inner, depth + 1)
        elif kind == "multipart/alternative" and message.is_multipart():
            chosen = self._chosen(message)
            if chosen is not None:
                yield from self._content(chosen, depth + 1)
            else:
                self._attached.extend(map(_name, _children(message)))
        elif message.is_multipart():
            yield from self._multipart(message, depth)
        elif kind == "text/html":
            yield from self._web_page(message)
        elif kind.startswith(("text/", "multipart/")):  # a multipart without its boundary is one text
            yield from self._text(message)
        else:
            self._attached.append(_name(message))

    def _multipart(self, message: Message, depth: int) -> Iterator[Document]:
        """The first part is the body; of the others, what is no attachment goes on with it, unless it only belongs to it."""
        children = _children(message)
        is_related = message.get_content_type() == "multipart/related"
        if message.get_content_type() == "multipart/encrypted":
            self._notes["the body is encrypted and was not read"] = None
        for number, child in enumerate(children):
            is_body = number == 0 and child.get_content_disposition() != "attachment"
            if is_body or child.is_multipart() or not (is_related or _is_attachment(child)):
                yield from self._content(child, depth + 1)
            else:
                self._attached.append(_name(child))

    def _chosen(self, message: Message) -> Message | None:
        """Of several forms of one body: the plain text if it has words, else the HTML, else the last (the richest)."""
        children = [child for child in _children(message) if not _is_attachment(child)]
        for child in children:
            if child.get_content_type() == "text/plain" and _payload(child).strip():
                return child
        readable = [child for child in children if child.get_content_type() == "text/html" or child.is_multipart()]
        return next(iter(readable or reversed(children)), None)

    def _text(self, message: Message) -> Iterator[Document]:
        try:
            decoded = in_charset(_payload(message), message.get_content_charset())
        except LoadFailed:
            self._attached.append(file_name(message) or "unreadable text")
            return
        self._notes.update(dict.fromkeys(decoded.notes))
        if text := decoded.text.strip("\r\n"):
            yield part(f"{text}\n\n")

    def _web_page(self, message: Message) -> Iterator[Document]:
        try:
            text = in_charset(_payload(message), message.get_content_charset()).text
            page = WebPage(text.encode("utf-8", "replace"), "utf-8")
        except LoadFailed:
            self._attached.append(file_name(message) or "unreadable HTML")
            return
        self._notes.update(dict.fromkeys(page.notes))
        yield from page.parts(self._omitted, whole=True)
        yield part("\n\n")

    def _status_lines(self, message: Message) -> Iterator[str]:
        """Why a mail could not be delivered, as the server that gave up says."""
        for block in _children(message):
            for name, _ in block.raw_items():
                yield f"{name}: {header(block, name)}\n"


def _children(message: Message) -> list[Message]:
    payload = message.get_payload()
    return [child for child in payload if isinstance(child, Message)] if isinstance(payload, list) else []


def _is_attachment(message: Message) -> bool:
    """A mail that was forwarded as an attachment is read all the same."""
    kind = message.get_content_type()
    if kind in {"message/rfc822", "message/global"} and message.is_multipart():
        return False
    named = message.get_content_disposition() == "attachment" or bool(file_name(message))
    return named or not kind.startswith("text/")


def _name(message: Message) -> str:
    return file_name(message) or message.get_content_type()


def _payload(message: Message) -> bytes:
    """The bytes of a part; damaged base64 gives what can be read of it."""
    payload = message.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""
