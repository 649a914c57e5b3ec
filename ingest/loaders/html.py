"""HTML pages: the text that a reader sees, with headings, tables and code marked.

In: bytes in any encoding (mark, `<meta charset>`, else a guess). Out: parts. Must not: take scripts, navigation or
hidden text for content, or leave anything out without a note; follow links; read style sheets, so text that only a
style sheet hides is kept.
"""

import re
from collections import Counter
from collections.abc import Iterator

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from lxml import etree

from ingest.loaders.encoding import decode
from ingest.loaders.html_tables import is_data_table, table_lines
from ingest.loaders.normalise import normalise_text
from ingest.loaders.parts import about, heading, note, part
from ingest.loaders.visibility import content_root, left_out

_DECLARED = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w:.-]+)|<\?xml[^>]{0,100}encoding=[\"']([\w:.-]+)", re.I
)
_HEADING = re.compile(r"h([1-6])")
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hgroup",
        "hr",
        "html",
        "legend",
        "li",
        "main",
        "menu",
        "nav",
        "ol",
        "optgroup",
        "option",
        "p",
        "section",
        "summary",
        "table",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "ul",
    ]
)
_TIGHT = frozenset(
    ["li", "dt", "dd", "tr", "td", "th", "caption", "option", "summary", "legend", "figcaption"]
)  # one line end, not a blank line
_APART = frozenset(["a", "img", "input", "label"])  # inline; two of them side by side are two words
_EDGE = "\x1f"
_WHITE_SPACE = re.compile(r"[ \t\n\r\f]+")


class HtmlLoader(BaseBlobParser):
    """Raises LoadFailed when the bytes are no text."""

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        data = blob.as_bytes()
        declared = _DECLARED.search(data, 0, 4096)
        names = [name.decode("ascii") for name in declared.groups() if name] if declared else []
        decoded = decode(data, names[0] if names else None)
        parser = _parser()
        root = _parsed(decoded.text, parser)
        if root is not None:
            yield about({**_described(root), "encoding": decoded.encoding})
            omitted: Counter[str] = Counter()
            yield from Walk(content_root(root, omitted), omitted).parts()
            if omitted:
                yield note("left out: " + ", ".join(f"{what} ({count})" for what, count in sorted(omitted.items())))
        if any(error.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for error in parser.error_log):
            yield note("nested too deeply: what stands inside was not read")
        for sentence in decoded.notes:
            yield note(sentence)


def _parser() -> etree.HTMLParser:
    """Reads broken pages too, and nesting down to 2,048 elements."""
    return etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)


def _parsed(text: str, parser: etree.HTMLParser) -> etree._Element | None:
    """The tree of a page; None when there is nothing in it."""
    return etree.fromstring(normalise_text(text).encode("utf-8"), parser) if text.strip() else None


def _described(root: etree._Element) -> dict[str, str]:
    found = {"title": root.findtext(".//title"), "language": root.get("lang")}
    for element in root.iterfind(".//meta[@name]"):
        if element.get("name", "").lower() in {"author", "description"}:
            found[element.get("name", "").lower()] = element.get("content")
    return {name: " ".join(value.split()) for name, value in found.items() if value and value.strip()}


class Walk:
    """One pass over a tree, without recursion: pages nest deeper than Python's stack."""

    def __init__(self, root: etree._Element, omitted: Counter[str]) -> None:
        self._root = root
        self._omitted = omitted
        self._inline: list[str] = []
        self._line_open = False  # the last part ended with one line end, not with a blank line

    def parts(self) -> Iterator[Document]:
        """Everything visible, in document order."""
        walker = etree.iterwalk(self._root, events=("start", "end"))
        for event, element in walker:
            if event == "start":
                made, whole = self._start(element)
                if whole:
                    walker.skip_subtree()
            else:
                made = self._end(element)
            yield from made
        yield from self._flush("")

    def _start(self, element: etree._Element) -> tuple[list[Document], bool]:
        """Parts that are complete when `element` begins, and whether all of it is in them."""
        if element is self._root:  # a heading or cell that is walked for its text must not meet itself again
            self._inline.append(_folded(element.text))
            return [], False
        tag = element.tag if isinstance(element.tag, str) else ""
        reason = left_out(element)
        if reason is not None:
            if reason:
                self._omitted[reason] += 1
            return [], True
        if level := _HEADING.fullmatch(tag):
            words = self._flat(element)
            return [*self._flush("\n\n"), *([heading(f"{words}\n\n", int(level[1]))] if words else [])], True
        if tag == "pre":
            code = "".join(_preformatted(element)).strip("\n")
            return [*self._flush("\n\n"), *([part(f"{code}\n\n", "code")] if code.strip() else [])], True
        if tag == "table" and is_data_table(element):
            lines = table_lines(element, self._flat)
            return [*self._flush("\n\n"), part("".join(f"{line}\n" for line in lines) + "\n", "table")], True
        made = self._flush("\n" if tag in _TIGHT else "\n\n") if tag in _BLOCKS else []
        if tag == "li":
            self._inline[:] = ["- "]
        elif tag == "br":
            self._inline.append("\v")  # survives the folding of white space, unlike a line end
        elif tag in _APART:
            self._inline.append(_EDGE)
        self._inline.append(_folded(element.text))
        return made, False

    def _end(self, element: etree._Element) -> list[Document]:
        tag = element.tag if isinstance(element.tag, str) else ""
        made = self._flush("\n" if tag in _TIGHT else "\n\n") if tag in _BLOCKS else []
        if tag in _APART:
            self._inline.append(_EDGE)
        if element is not self._root:
            self._inline.append(_folded(element.tail))
        return made

    def _flush(self, separator: str) -> list[Document]:
        """The inline text so far as a paragraph, or the blank line that ends a list or a table."""
        text = "".join(self._inline).replace(_EDGE * 2, " ").replace(_EDGE, "")
        text = "\n".join(line.strip(" ") for line in _WHITE_SPACE.sub(" ", text).split("\v")).strip()
        if text == "-" and separator:
            return []  # a bullet waits for its words
        self._inline.clear()
        if not text or text == "-":
            ends_list = separator == "\n\n" and self._line_open
            self._line_open = self._line_open and not ends_list
            return [part("\n")] if ends_list else []
        self._line_open = separator == "\n"
        return [part(text + separator)]

    def _flat(self, element: etree._Element) -> str:
        """The visible text of a heading or table cell on one line."""
        return " ".join("".join(inner.page_content for inner in Walk(element, self._omitted).parts()).split())


def _folded(text: str | None) -> str:
    return text.replace("\v", " ").replace(_EDGE, " ") if text else ""


def _preformatted(element: etree._Element) -> Iterator[str]:
    for event, node in etree.iterwalk(element, events=("start", "end")):
        if event == "start":
            yield "\n" if node.tag == "br" else ""
            yield node.text or ""
        elif node is not element:
            yield node.tail or ""
