"""What a web page calls itself: the title that a browser shows on its tab.

In: the file of a page. Out: its `<title>`, or None. Must not: read more than the page's beginning, or trust its words.
"""

import re
from html import unescape
from pathlib import Path

from ingest.discover import title_of
from ingest.loaders.encoding import decode
from rag_service.errors import LoadFailed

_MAX_BYTES = 256 * 1024
_MAX_CHARS = 300
_BEGINNINGS = re.compile(r"<!--|<(?:title|script|style|body)(?=[\s>/])", re.I)
_ENDS = {
    "<!--": re.compile("-->"),
    "<title": re.compile("</title", re.I),
    "<script": re.compile("</script", re.I),
    "<style": re.compile("</style", re.I),
}
_PAGES = frozenset(("text/html", "application/xhtml+xml", ""))


def page_title(path: Path, media_type: str) -> str | None:
    """Raises OSError."""
    if media_type not in _PAGES:
        return None
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES)
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return None
    try:
        text = decode(data).text
    except LoadFailed:  # the loader says what is the matter with it
        return None
    title = title_of(unescape(_words_of(text)).encode("utf-8", "replace").decode())
    return title[:_MAX_CHARS].strip() or None


def _words_of(text: str) -> str:
    """What stands in the first `<title>` of the page's head; tags in it are words. In time that grows with the text only."""
    position = 0
    while (found := _BEGINNINGS.search(text, position)) is not None:
        kind = found[0].lower()
        if kind == "<body":
            break
        end = _ENDS[kind].search(text, found.end())
        if end is None:
            break
        if kind == "<title":
            return text[found.end() : end.start()].partition(">")[2]
        position = end.end()
    return ""
