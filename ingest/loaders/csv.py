"""Delimited tables: .csv and .tsv, each row one line with the headers beside the values.

In: bytes in any encoding, delimited by comma, semicolon, tab or bar. Out: table parts of some hundred rows each.
Must not: hold all rows; let one unbalanced quote swallow the rows after it; yield a row without its headers.
"""

import csv
import sys
from collections import Counter, deque
from collections.abc import Iterator
from itertools import chain, islice

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from ingest.loaders.encoding import decode
from ingest.loaders.normalise import normalise_text
from ingest.loaders.parts import about, note, part
from ingest.loaders.rows import batches, column_names, flat, header_position

DELIMITERS = (",", ";", "\t", "|")
SNIFFED_LINES = 50
MAX_LINES_PER_ROW = 1_000  # a quoted cell with more line breaks is taken for an unbalanced quote


class CsvLoader(BaseBlobParser):
    """Raises LoadFailed when the bytes are no text."""

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        csv.field_size_limit(sys.maxsize)  # the module's own limit of 131,072 characters fails whole files
        decoded = decode(blob.as_bytes())
        yield about({"encoding": decoded.encoding})
        text, notes = normalise_text(decoded.text), decoded.notes
        del decoded  # of a large file, each copy counts
        rows = _Rows(text, sniff_delimiter(text))
        for batch in batches(_lines(rows)):
            yield part(batch, "table")
        if rows.mended:
            yield note(f"{rows.mended} rows with unbalanced quotes were split at every delimiter")
        for sentence in notes:
            yield note(sentence)


def sniff_delimiter(text: str) -> str:
    """The delimiter that cuts the first lines into the most even rows; comma where there is only one column."""
    head = list(islice(_text_lines(text), SNIFFED_LINES))
    return max(DELIMITERS, key=lambda delimiter: _evenness(head, delimiter))


def _evenness(head: list[str], delimiter: str) -> tuple[float, int]:
    try:
        widths = Counter(len(row) for row in csv.reader(head, delimiter=delimiter) if row)
    except csv.Error:
        return 0.0, 0
    several = [(count, width) for width, count in widths.items() if width > 1]
    if not several:
        return 0.0, 0
    count, width = max(several)
    return count / widths.total(), width


def _text_lines(text: str) -> Iterator[str]:
    """Lines with their ends, one at a time."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


class _Rows:
    """The rows of a table, read one by one. `mended` counts those whose quotes do not balance.

    csv's strict mode says where a quote goes wrong; reading then goes on at the very next line.
    """

    def __init__(self, text: str, delimiter: str) -> None:
        self._lines = _text_lines(text)
        self._again: deque[str] = deque()  # lines to read once more, before the others
        self._delimiter = delimiter
        self._consumed: list[str] = []
        self.mended = 0

    def __iter__(self) -> Iterator[list[str]]:
        while True:
            self._consumed = []
            try:
                row = next(csv.reader(self._feed(), delimiter=self._delimiter, strict=True), None)
            except csv.Error:
                row = self._mend()
            if row is None:
                return
            if any(cell.strip() for cell in row):
                yield row

    def _feed(self) -> Iterator[str]:
        while len(self._consumed) < MAX_LINES_PER_ROW:
            line = self._again.popleft() if self._again else next(self._lines, None)
            if line is None:
                return
            self._consumed.append(line)
            yield line

    def _mend(self) -> list[str]:
        """The first line alone; the others that the quote had swallowed are read again."""
        first, *others = self._consumed
        self._again.extendleft(reversed(others))
        if first.count('"') % 2 == 0:  # only misplaced: csv's lenient mode reads it as people would
            return next(csv.reader([first], delimiter=self._delimiter))
        self.mended += 1
        return [cell.strip().strip('"') for cell in first.split(self._delimiter)]


def _lines(rows: _Rows) -> Iterator[str]:
    """Title lines above the table as they are, then `header: value; header: value` for each row."""
    source = iter(rows)
    head = [[flat(cell) for cell in row] for row in islice(source, SNIFFED_LINES)]
    header_at = header_position(head)
    for row in head[:header_at]:
        yield " ".join(filter(None, row))
    if header_at == len(head) - 1:  # nothing but a header: its words are all there is
        yield "; ".join(filter(None, head[header_at]))
        return
    headers = column_names(head[header_at]) if head else []
    for row in chain(head[header_at + 1 :], source):
        cells = [flat(cell) for cell in row]
        yield "; ".join(
            f"{headers[i] if i < len(headers) else f'column {i + 1}'}: {cell}" for i, cell in enumerate(cells) if cell
        )
