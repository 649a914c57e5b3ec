"""One file to its chunks: what a parser's process does with it.

In: a file, its version and the hash of the content that is meant. Out: the document and its chunks. Must not: start
threads or processes; let a file that changed meanwhile pass for the one that was asked for.
"""

import stat
from dataclasses import dataclass
from pathlib import Path

from ingest.chunker import Chunker
from ingest.discover import content_hash as hash_of
from ingest.documents import LoadedDocument, family_for, load
from ingest.loaders.options import LoadOptions
from rag_service.errors import LoadFailed
from rag_service.index.chunks import Chunk
from rag_service.index.settings import EmbeddingsSettings

CHANGED = "it changed while it was read; run again"


@dataclass(frozen=True, slots=True)
class ParserSetup:
    """What every parser's process is told once: whose tokens to count, how to cut, and the limits of one file."""

    embeddings: EmbeddingsSettings
    max_tokens: int
    overlap_tokens: int
    options: LoadOptions


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document and its chunks; none when its text is blank."""

    document: LoadedDocument
    chunks: tuple[Chunk, ...]


def parse(path: Path, version: str, content_hash: str, chunker: Chunker, options: LoadOptions) -> Parsed:
    """Load and cut. Raises UnsupportedType or LoadFailed; OSError when the file has vanished or may not be read."""
    try:
        document = load(path, options)
    except LoadFailed:
        # A file that was replaced halfway looks broken, and one without permission has nothing wrong with its content:
        # either would be set aside until it changes.
        status = path.stat()
        if stat.S_ISREG(status.st_mode) and status.st_size <= options.max_file_bytes:
            _check(path, content_hash)
        raise
    _check(path, content_hash)
    if not document.text.strip():
        return Parsed(document, ())
    chunks = chunker.chunks(
        document.text,
        version,
        pages=document.pages,
        headings=document.headings,
        atoms=document.atoms,
        ocr=document.ocr,
    )
    return Parsed(document, tuple(chunks))


def _check(path: Path, content_hash: str) -> None:
    if hash_of(path) != content_hash:
        raise LoadFailed(CHANGED)


def ocr_seconds(path: Path, options: LoadOptions) -> float:
    """Seconds that reading images may take on top of everything else; none for what `parse` is going to refuse."""
    try:
        family = family_for(path, options) if options.ocr.enabled else None
    except (LoadFailed, OSError):
        return 0.0
    return options.ocr.max_seconds if family is not None and family.reads_images else 0.0
