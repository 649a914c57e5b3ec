"""What a document from the web is: its media type, its charset, the suffix for its file, and a name for people.

In: an answer's headers and its address. Out: words. Must not: decide what reads it; the file's first bytes do that later, and
the suffix only where they say nothing.
"""

import mimetypes
import re
from collections.abc import Mapping
from email.message import Message
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from ingest.discover import title_of
from ingest.loaders import BY_SUFFIX, FAMILIES

# Types by which servers mean "some file" or "some text": the address tells more, if its suffix is one that is read here.
_VAGUE = frozenset(
    ("", "application/octet-stream", "binary/octet-stream", "application/x-download", "application/force-download")
) | frozenset(("text/plain", "application/zip", "application/x-zip-compressed", "application/xml", "text/xml"))
_SUFFIXES = {
    "text/html": ".html",
    "application/xhtml+xml": ".xhtml",
    "text/plain": ".txt",
    "text/x-markdown": ".md",
    "text/markdown": ".md",
    "text/csv": ".csv",
    "application/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/x-pdf": ".pdf",
    "text/xml": ".xml",
    "application/xml": ".xml",
    "application/json": ".json",
}


def media_type_of(headers: Mapping[str, str]) -> str:
    """Lower case, without parameters; empty where the server does not say."""
    return _message(headers).get_content_type() if headers.get("content-type", "").strip() else ""


def charset_of(headers: Mapping[str, str]) -> str | None:
    """The charset that the server declares."""
    charset = _message(headers).get_param("charset")
    return charset.strip() if isinstance(charset, str) and charset.strip() else None


def suffix_of(media_type: str, url: str, headers: Mapping[str, str]) -> str:
    """With its dot, as the loaders know it."""
    names = (_message(headers).get_filename() or "", _last_segment(url))
    named = [suffix for name in names if (suffix := PurePosixPath(name).suffix.lower()) in BY_SUFFIX]
    if media_type in _VAGUE and named:
        return named[0]
    known = {family.media_type: family.suffixes[0] for family in FAMILIES} | _SUFFIXES
    guessed = known.get(media_type) or mimetypes.guess_extension(media_type)
    if guessed is not None:
        return guessed
    return named[0] if named else ".bin"


def title_hint(url: str, headers: Mapping[str, str]) -> str:
    """The file's name as the server or the address gives it, else the host."""
    name = PurePosixPath((_message(headers).get_filename() or "").replace("\\", "/")).name
    return title_of(name or _last_segment(url) or urlsplit(url).netloc)[:200]


def _last_segment(url: str) -> str:
    return unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2], errors="replace")


def _message(headers: Mapping[str, str]) -> Message:
    """Read as mail does; HTTP took its headers from there. A second `filename*` form (RFC 6266) is understood too."""
    message = Message()
    for name in ("content-type", "content-disposition"):
        if value := headers.get(name):
            message[name] = re.sub(r"[\x00-\x1f\x7f]", " ", value)
    return message
