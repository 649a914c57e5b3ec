"""Chunks and the ids of everything in the index. All ids are hashes, so equal input means equal index.

In: spans, texts, fingerprints. Out: `Chunk` values and hex ids. Must not: do I/O (pure, standard library).
"""

import hashlib
from dataclasses import dataclass

from rag_service.index.spans import Span

ID_LENGTH = 32  # hex digits: 128 bits of SHA-256, enough that two ids never meet


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of one document version: `document.text[start:end] == text`, always.

    `heading_path` is the headings above it, outermost first, and for a chunk that begins inside a table what its first
    row cannot say itself: the column headers, or which row it goes on with. `page_start` and `page_end` count pages from
    1 or are None. `ocr` says that it was read from an image and may hold misread words.
    """

    id: str
    version: str
    span: Span
    text: str
    heading_path: tuple[str, ...] = ()
    page_start: int | None = None
    page_end: int | None = None
    ocr: bool = False

    @property
    def embedded_text(self) -> str:
        """What is embedded for it: the heading path says what the words are about when the chunk itself does not."""
        return embedded_text(self.heading_path, self.text)


def embedded_text(heading_path: tuple[str, ...], text: str) -> str:
    """One place for the form, since the chunker must count the tokens of exactly what is embedded."""
    return f"{' > '.join(heading_path)}\n{text}" if heading_path else text


def digest(*parts: str) -> str:
    """Hash of a tuple of strings; lengths go in too, so that ("ab", "c") and ("a", "bc") differ."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return hasher.hexdigest()[:ID_LENGTH]


def document_id(collection: str, uri: str, salt: int = 0) -> str:
    """Id of the document at a canonical source URI.

    `salt` is 0 but for one case: a moved document keeps its id, so a new file at its old place needs another one.
    """
    return digest("document", collection, uri) if salt == 0 else digest("document", collection, uri, str(salt))


def version_id(content_hash: str, loader: str, chunker: str, embedder: str) -> str:
    """Id of what one content becomes under one loader, chunker and embedding model (their fingerprints)."""
    return digest("version", content_hash, loader, chunker, embedder)


def chunk_id(version: str, span: Span) -> str:
    return digest("chunk", version, str(span.start), str(span.end))
