"""Paragraphs and tables of WordprocessingML as text (ECMA-376 part 1, chapter 17).

In: XML elements of a document's body. Out: strings. Must not: repeat what the format holds twice (merged cells, the
fallback of a text box) or show deleted text.
"""

from collections.abc import Iterator

from docx.oxml.ns import nsmap, qn
from lxml import etree

from ingest.loaders.rows import Cell, labelled_rows

_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_TEXT = qn("w:t")
_WHITE = {qn("w:tab"): "\t", qn("w:ptab"): "\t", qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-"}
_APART = {
    *(qn(name) for name in ("w:pPr", "w:rPr", "w:del", "w:moveFrom", "w:txbxContent", "w:instrText")),
    f"{_MC}Fallback",
}
_TABS_ARE_SETTINGS = qn("w:tabs")


def paragraph_text(paragraph: etree._Element) -> str:
    """The words of one paragraph, without its text boxes; line breaks and tabs as such."""
    pieces: list[str] = []
    walker = etree.iterwalk(paragraph, events=("start",))
    for _, node in walker:
        if node.tag in _APART or node.tag == _TABS_ARE_SETTINGS:
            walker.skip_subtree()
        elif node.tag == _TEXT:
            pieces.append(node.text or "")
        elif node.tag in _WHITE:
            pieces.append(_WHITE[node.tag])
        elif node.tag == qn("w:sym"):
            pieces.append(_symbol(node))
    return "".join(pieces)


def _symbol(node: etree._Element) -> str:
    """Characters of symbol fonts lie in the private area; the rest are Unicode."""
    try:
        code = int(node.get(qn("w:char"), ""), 16)
    except ValueError:
        return ""
    return chr(code) if 0x20 <= code < 0xD800 else ""


def text_boxes(paragraph: etree._Element) -> Iterator[etree._Element]:
    """Contents of the boxes anchored in a paragraph, each once: Word writes a second form for old readers."""
    walker = etree.iterwalk(paragraph, events=("start",))
    for _, node in walker:
        if node.tag == f"{_MC}Fallback":
            walker.skip_subtree()
        elif node.tag == qn("w:txbxContent"):
            yield node
            walker.skip_subtree()


def is_layout(table: etree._Element) -> bool:
    """A table of one column is a frame around text."""
    return all(len(list(_cell_elements(row))) <= 1 for row in _row_elements(table))


def table_rows(table: etree._Element) -> Iterator[str]:
    """The header row, then `header: value | header: value` for each row. A merged cell stands once, where it begins."""
    return labelled_rows(list(_cells(row)) for row in _row_elements(table))


def _cells(row: etree._Element) -> Iterator[Cell]:
    column = _grid_before(row)
    for element in _cell_elements(row):
        width = _number(element.find(f"{qn('w:tcPr')}/{qn('w:gridSpan')}"), 1)
        yield Cell(column, width, "" if _continues_above(element) else _cell_text(element))
        column += width


def _cell_text(cell: etree._Element) -> str:
    """All on one line: paragraphs apart by a space, the rows of a table within by a semicolon."""
    pieces: list[str] = []
    for block in _blocks(cell):
        if block.tag == qn("w:tbl"):
            pieces.append("; ".join(table_rows(block)))
        else:
            pieces.append(paragraph_text(block))
            pieces.extend(_cell_text(box) for box in text_boxes(block))
    return " ".join(" ".join(pieces).split())


def _blocks(container: etree._Element) -> Iterator[etree._Element]:
    for child in container:
        if child.tag in {qn("w:p"), qn("w:tbl")}:
            yield child
        elif child.tag in {qn("w:sdt"), qn("w:sdtContent"), qn("w:customXml"), qn("w:ins")}:
            yield from _blocks(child)


def _row_elements(table: etree._Element) -> Iterator[etree._Element]:
    """Rows of this table and not of those within, also where content controls wrap them."""
    yield from table.xpath("./w:tr | ./w:sdt/w:sdtContent/w:tr | ./w:ins/w:tr", **_namespaces(table))


def _cell_elements(row: etree._Element) -> Iterator[etree._Element]:
    yield from row.xpath("./w:tc | ./w:sdt/w:sdtContent/w:tc", **_namespaces(row))


def _namespaces(element: etree._Element) -> dict[str, dict[str, str]]:
    """python-docx's own elements bring the prefixes along and refuse to be given them."""
    return {} if hasattr(element, "xml") else {"namespaces": {"w": nsmap["w"]}}


def _continues_above(cell: etree._Element) -> bool:
    merge = cell.find(f"{qn('w:tcPr')}/{qn('w:vMerge')}")
    return merge is not None and merge.get(qn("w:val"), "continue") == "continue"


def _grid_before(row: etree._Element) -> int:
    return _number(row.find(f"{qn('w:trPr')}/{qn('w:gridBefore')}"), 0)


def _number(element: etree._Element | None, default: int) -> int:
    value = element.get(qn("w:val"), "") if element is not None else ""
    return int(value) if value.isdecimal() else default
