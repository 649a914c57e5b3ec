"""Documents put into a catalog without files, models or Chroma.

In: a URI, a version, texts. Out: the ids of its chunks. Must not: hide what a test is about.
"""

from ingest.documents import clean_metadata
from rag_service.index.catalog_writer import CatalogWriter
from rag_service.index.chunks import Chunk, chunk_id, document_id
from rag_service.index.fingerprint import Fingerprint
from rag_service.index.rows import DocumentRow
from rag_service.index.spans import PageStarts, Span

COLLECTION = "documents"


OURS = Fingerprint("minilm", "digest", 8)


def row(uri: str, version: str, collection: str = COLLECTION, **metadata: object) -> DocumentRow:
    return DocumentRow(
        id=document_id(collection, uri),
        collection=collection,
        uri=uri,
        title=uri.rsplit("/", 1)[-1],
        media_type="text/markdown",
        size=9,
        content_hash=f"hash of {version}",
        version=version,
        metadata=clean_metadata(metadata),
        indexed_at="2026-01-01T00:00:00+00:00",
    )


def put(
    catalog: CatalogWriter,
    uri: str,
    version: str,
    *texts: str,
    headings: tuple[str, ...] = (),
    collection: str = COLLECTION,
    **metadata: object,
) -> list[str]:
    """Commit a document whose chunks are `texts`, one on a page; returns their ids."""
    whole, chunks, starts = "", [], []
    for text in texts:
        starts.append(len(whole))
        span = Span(len(whole), len(whole) + len(text))
        chunks.append(Chunk(chunk_id(version, span), version, span, text, headings, len(starts), len(starts)))
        whole += text + "\n"
    catalog.commit(row(uri, version, collection, **metadata), whole, PageStarts(tuple(starts)), [], chunks)
    return [chunk.id for chunk in chunks]
