"""Plain text: .txt, .text, .log, .rst.

In: bytes in any encoding. Out: the source itself as one part. Must not: interpret anything.
"""

from collections.abc import Iterator

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from ingest.loaders.encoding import decode
from ingest.loaders.parts import about, note, part


class TextLoader(BaseBlobParser):
    """Raises LoadFailed when the bytes are no text."""

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        decoded = decode(blob.as_bytes())
        yield about({"encoding": decoded.encoding})
        yield part(decoded.text)
        for sentence in decoded.notes:
            yield note(sentence)
