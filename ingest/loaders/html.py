"""HTML pages: the text that a reader sees, with headings, tables and code marked.

In: bytes in any encoding (mark, `<meta charset>`, else a guess). Out: parts. Must not: take scripts, navigation or
hidden text for content, or leave anything out without a note; follow links; read style sheets, so text that only a
style sheet hides is kept.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape
from html.entities import html5
from itertools import chain

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from lxml import etree

from ingest.loaders.encoding import decode
from ingest.loaders.html_tables import is_data_table, table_lines
from ingest.loaders.normalise import normalise_text
from ingest.loaders.parts import about, heading, note, part
from ingest.loaders.rows import batches
from ingest.loaders.visibility import content_root, left_out

_DECLARED = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w:.-]+)|<\?xml[^>]{0,100}encoding=[\"']([\w:.-]+)", re.I
)
_XML_DECLARATION = re.compile(r"\s*<\?xml[^>]*\?>")
_NAMED_CHARACTER = re.compile(r"&([A-Za-z][A-Za-z0-9]{0,40});")
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
        page = WebPage(data, xhtml=data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<?xml"))
        yield about(page.metadata)
        omitted: Counter[str] = Counter()
        yield from page.parts(omitted)
        if omitted:
            yield note(left_out_sentence(omitted))
        for sentence in page.notes:
            yield note(sentence)


class WebPage:
    """A page, a chapter of a book or a mail's body. `charset` is what is known of it from elsewhere; `xhtml` says that it
    should be XML, which it then is read as if it is well-formed. Raises LoadFailed when the bytes are no text."""

    def __init__(self, data: bytes, charset: str | None = None, *, xhtml: bool = False) -> None:
        declared = _DECLARED.search(data, 0, 4096)
        names = [name.decode("ascii") for name in declared.groups() if name] if declared else []
        self._decoded = decode(data, charset or (names[0] if names else None))
        self._too_deep = False
        self.root = _parsed_as_xml(self._decoded.text) if xhtml else None
        if self.root is None:
            parser = _parser()
            self.root = _parsed(self._decoded.text, parser)
            self._too_deep = any(error.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for error in parser.error_log)

    @property
    def metadata(self) -> dict[str, str]:
        """What the page says of itself; nothing when it is empty."""
        return {} if self.root is None else {**_described(self.root), "encoding": self._decoded.encoding}

    @property
    def notes(self) -> tuple[str, ...]:
        """What people must be told, apart from what was left out."""
        too_deep = ("nested too deeply: what stands inside was not read",) if self._too_deep else ()
        return (*too_deep, *self._decoded.notes)

    def parts(self, omitted: Counter[str], *, whole: bool = False) -> Iterator[Document]:
        """What a reader sees, and in `omitted` what was left out. `whole` reads what stands beside the main text too."""
        if self.root is not None:
            yield from Walk(self.root if whole else content_root(self.root, omitted), omitted).parts()


def left_out_sentence(omitted: Counter[str]) -> str:
    return "left out: " + ", ".join(f"{what} ({count})" for what, count in sorted(omitted.items()))


def _parser() -> etree.HTMLParser:
    """Reads broken pages too, and nesting down to 2,048 elements."""
    return etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)


def _parsed(text: str, parser: etree.HTMLParser) -> etree._Element | None:
    """The tree of a page; None when there is nothing in it."""
    return etree.fromstring(normalise_text(text).encode("utf-8"), parser) if text.strip() else None


def _parsed_as_xml(text: str) -> etree._Element | None:
    """The tree with HTML's own names for its elements; None when the text is not well-formed, or defines entities.

    To an HTML parser `<title/>` and `<script/>` begin what never ends, and the whole page is in them.
    """
    if "<!ENTITY" in text:
        return None
    source = _NAMED_CHARACTER.sub(_character, _XML_DECLARATION.sub("", normalise_text(text), count=1))
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True, huge_tree=True
    )
    try:
        root = etree.fromstring(source.strip().encode("utf-8"), parser)
    except etree.XMLSyntaxError:
        return None
    for element in root.iter(etree.Element):
        element.tag = etree.QName(element).localname.lower()
    return root


def _character(match: re.Match[str]) -> str:
    """XML knows five of HTML's names for characters; those stay as they are, and so do unknown ones."""
    known = None if match[1] in {"amp", "lt", "gt", "quot", "apos"} else html5.get(f"{match[1]};")
    return escape(known) if known else match[0]


def _described(root: etree._Element) -> dict[str, str]:
    found = {"title": root.findtext(".//title"), "language": root.get("lang")}
    for element in root.iterfind(".//meta[@name]"):
        if element.get("name", "").lower() in {"author", "description"}:
            found[element.get("name", "").lower()] = element.get("content")
    return {name: " ".join(value.split()) for name, value in found.items() if value and value.strip()}


class Walk:
    """One pass over a tree, without recursion: pages nest deeper than Python's stack."""

    def __init__(self, root: etree._Element, omitted: Counter[str], *, on_one_line: bool = False) -> None:
        self._root = root
        self._omitted = omitted
        self._on_one_line = on_one_line  # the text of a heading or cell, in which headings are nothing special
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

    def _start(self, element: etree._Element) -> tuple[Iterable[Document], bool]:
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
        level = _HEADING.fullmatch(tag)
        if level and not self._on_one_line:
            words = self._flat(element)
            return [*self._flush("\n\n"), *([heading(f"{words}\n\n", int(level[1]))] if words else [])], True
        if tag == "pre":
            code = "".join(_preformatted(element)).strip("\n")
            return [*self._flush("\n\n"), *([part(f"{code}\n\n", "code")] if code.strip() else [])], True
        if tag == "table" and is_data_table(element):
            return chain(self._flush("\n\n"), self._table(element)), True
        made = self._flush("\n" if tag in _TIGHT else "\n\n") if tag in _BLOCKS or level else []
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
        made = self._flush("\n" if tag in _TIGHT else "\n\n") if tag in _BLOCKS or _HEADING.fullmatch(tag) else []
        if tag in _APART:
            self._inline.append(_EDGE)
        if element is not self._root:
            self._inline.append(_folded(element.tail))
        return made

    def _table(self, table: etree._Element) -> Iterator[Document]:
        for batch in batches(table_lines(table, self._flat)):
            yield part(batch, "table")
        yield part("\n", "table")

    def _flush(self, separator: str) -> list[Document]:
        """The inline text so far as a paragraph, or the blank line that ends a list or a table."""
        text = "".join(self._inline).replace(_EDGE * 2, " ").replace(_EDGE, "")
        text = "\n".join(line.strip(" ") for line in _WHITE_SPACE.sub(" ", text).split("\v")).strip()
        if text == "-" and separator:
            self._inline[:] = ["- "]  # a bullet waits for its words
            return []
        self._inline.clear()
        if not text or text == "-":
            ends_list = separator == "\n\n" and self._line_open
            self._line_open = self._line_open and not ends_list
            return [part("\n")] if ends_list else []
        self._line_open = separator == "\n"
        return [part(text + separator)]

    def _flat(self, element: etree._Element) -> str:
        """The visible text of a heading or table cell on one line."""
        inner = Walk(element, self._omitted, on_one_line=True)
        return " ".join("".join(piece.page_content for piece in inner.parts()).split())


def _folded(text: str | None) -> str:
    return text.replace("\v", " ").replace(_EDGE, " ") if text else ""


def _preformatted(element: etree._Element) -> Iterator[str]:
    for event, node in etree.iterwalk(element, events=("start", "end")):
        if event == "start":
            yield "\n" if node.tag == "br" else ""
            yield node.text or ""
        elif node is not element:
            yield node.tail or ""
