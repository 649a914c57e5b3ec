"""Rich text: paragraphs, headings by style or outline level, tables as rows with their headers beside the values.

In: the bytes of a .rtf. Out: parts. Must not: show hidden or deleted text, running headers, notes and comments, or leave
them out without saying so.
"""

import re
from collections.abc import Iterator

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from ingest.loaders.html import left_out_sentence
from ingest.loaders.parts import about, heading, note, part
from ingest.loaders.rows import Cell, labelled_rows
from ingest.loaders.rtf_reader import Paragraph, Row, RtfReader
from rag_service.errors import LoadFailed

_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{\\rtf")


class RtfLoader(BaseBlobParser):
    """Raises LoadFailed when the bytes are no RTF."""

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        data = blob.as_bytes()
        start = _START.match(data)
        if start is None:
            if not data.strip():
                return
            raise LoadFailed("not an RTF document: it does not begin with {\\rtf")
        reader = RtfReader(data[start.end() - len(b"{\\rtf") :])
        table: list[Row] = []
        for block in reader.blocks():
            if isinstance(block, Row):
                table.append(block)
                continue
            yield from _table(table)
            table.clear()
            yield _paragraph(block)
        yield from _table(table)
        yield about({"title": reader.title.strip() or None, "author": reader.author.strip() or None})
        if reader.omitted:
            yield note(left_out_sentence(reader.omitted))


def _paragraph(block: Paragraph) -> Document:
    if block.level is not None:
        return heading(f"{' '.join(f'{block.label} {block.text}'.split())}\n\n", block.level)
    if block.label:
        bullet = block.label if any(c.isalnum() for c in block.label) else "-"
        return part(f"{bullet} {block.text}\n")
    return part(f"{block.text}\n\n")


def _table(rows: list[Row]) -> Iterator[Document]:
    """Rows of one cell are frames around text."""
    if not rows:
        return
    if all(len(row.cells) == 1 for row in rows):
        yield from (part(f"{row.cells[0]}\n\n") for row in rows)
        return
    lines = labelled_rows([Cell(column, 1, text) for column, text in enumerate(row.cells)] for row in rows)
    yield part("".join(f"{line}\n" for line in lines), "table")
    yield part("\n")
