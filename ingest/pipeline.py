"""The ingest path on one page: discover, load, chunk, embed, commit; one result for each file.

In: paths, and the parts built by the command line. Out: `Progress` and `FileResult` values, as they come.
Must not: print, read settings, or stop for one bad file.

The commit protocol of one document (nothing is lost or doubled, whatever is killed when):
  1. note the new version as loose, then write its vectors into Chroma;
  2. one SQLite transaction makes it live and the old version loose;
  3. delete the old version's vectors from Chroma and forget that they were loose.
A killed run leaves loose versions behind: the next one reuses the vectors that are already there, and `sweep` at its end
deletes the rest. Retrieval takes only what is live in the catalog, so none of this is ever visible.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ingest.chunker import Chunker
from ingest.discover import Found, Refused, content_hash, discover, has_vanished, title_of
from ingest.documents import LoadedDocument, fingerprint_for, load, normalise_text, unsupported
from rag_service.errors import LoadFailed, UnsupportedType
from rag_service.index.catalog import DocumentRow
from rag_service.index.catalog_writer import CatalogWriter, now
from rag_service.index.chunks import Chunk, document_id, version_id
from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.vector_store import VectorStore

FileStatus = Literal["indexed", "unchanged", "skipped", "failed", "deleted"]

EMBED_AT_ONCE = 256  # chunks between two progress reports; vectors are in Chroma before the next are made


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of one file. `reason` is for people; `chunks` counts those made in this run; `seconds` of wall time."""

    uri: str
    status: FileStatus
    reason: str | None = None
    chunks: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """So many of a file's chunks are embedded and stored."""

    uri: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The parts, built in one place and passed in. The caller holds the writer's lock."""

    collection: str
    catalog: CatalogWriter
    store: VectorStore
    model: EmbeddingModel
    chunker: Chunker

    def run(
        self, paths: Sequence[Path], *, prune: bool = True, prune_empty: bool = False
    ) -> Iterator[Progress | FileResult]:
        """Bring the index up to date with `paths`. Raises IndexUnusable when the index itself fails.

        With `prune`, documents whose file has vanished from below a given folder are deleted; a folder in which no file is
        left at all deletes nothing (an unmounted share looks like that) unless `prune_empty`.
        """
        self.open()
        kept: set[str] = set()
        for item in discover(paths, leave_out=self.catalog.path.parent):
            kept.add(item.uri)
            if isinstance(item, Refused):
                yield self._refuse(item.uri, item.status, item.reason)
            else:
                yield from self._timed(item)
        if prune:
            yield from self._prune(paths, kept, prune_empty)
        self.sweep()
        yield from self._restore()
        self.catalog.finish_run(self.collection)

    def open(self) -> None:
        """Make the collection in both stores, or check that it is ours. Raises FingerprintMismatch, IndexUnusable."""
        self.catalog.open_collection(self.collection, self.model.fingerprint)
        self.store.open_collection(self.collection, self.catalog.identity)

    def delete(self, document: DocumentRow) -> FileResult:
        """Take one document out of the index, vectors and all."""
        self._forget_vectors(self.catalog.delete(document))
        self.catalog.clear_problem(self.collection, document.uri)
        return FileResult(document.uri, "deleted")

    def sweep(self) -> None:
        """Delete what is not live for good: vectors that killed runs and half-done deletions left, words of deleted texts."""
        for version in self.catalog.loose_versions(self.collection):
            self._forget_vectors(version)
        self.catalog.scrub(self.collection)

    # -- one file

    def _timed(self, found: Found) -> Iterator[Progress | FileResult]:
        started = time.monotonic()
        for item in self._file(found):
            yield item if isinstance(item, Progress) else replace(item, seconds=round(time.monotonic() - started, 3))

    def _file(self, found: Found) -> Iterator[Progress | FileResult]:
        try:
            loader = fingerprint_for(found.path)
            if loader is None:
                raise unsupported(found.path)
            content = content_hash(found.path)
            document = self._document(
                found, content, version_id(content, loader, self.chunker.fingerprint, self.model.fingerprint.id)
            )
            current = self.catalog.document_at(self.collection, found.uri)
            if current is not None and current.version == document.version:
                self.catalog.clear_problem(self.collection, found.uri)
                yield FileResult(found.uri, "unchanged")
            elif self.catalog.version_is_live(self.collection, document.version):
                yield self._share(document)
            else:
                yield from self._index(found, document)
        except UnsupportedType as error:
            yield self._refuse(found.uri, "skipped", error.message)
        except LoadFailed as error:
            yield self._refuse(found.uri, "failed", error.message)
        except FileNotFoundError:
            yield self._refuse(found.uri, "failed", "it vanished during the run")
        except OSError as error:
            yield self._refuse(found.uri, "failed", f"unreadable: {error.strerror or error}")

    def _document(self, found: Found, content: str, version: str) -> DocumentRow:
        """The row as it will be committed. A moved file keeps the id it had, so links to it stay good."""
        return DocumentRow(
            id=self._id_for(found.uri, content),
            collection=self.collection,
            uri=found.uri,
            title=title_of(found.path.name),
            media_type="",  # known once it is loaded
            size=found.size,
            content_hash=content,
            version=version,
            metadata={},
            indexed_at=now(),
        )

    def _id_for(self, uri: str, content: str) -> str:
        current = self.catalog.document_at(self.collection, uri)
        if current is not None:
            return current.id
        for twin in self.catalog.documents_with_content(self.collection, content):
            if has_vanished(twin.uri):
                return twin.id  # same content, and the old place is empty: this file was moved here
        salt = 0
        while self.catalog.has_document(document_id(self.collection, uri, salt)):
            salt += 1  # the id belongs to a document that was moved away from this very place
        return document_id(self.collection, uri, salt)

    def _share(self, document: DocumentRow) -> FileResult:
        """A copy or a moved file: its content is indexed already, so nothing is loaded or embedded."""
        twins = self.catalog.documents_with_content(self.collection, document.content_hash)
        twin = next(twin for twin in twins if twin.version == document.version)
        document = replace(document, media_type=twin.media_type, metadata=twin.metadata)
        self._forget_vectors(self.catalog.share(document))
        self.catalog.clear_problem(self.collection, document.uri)
        return FileResult(document.uri, "indexed", "same content as an indexed document; nothing embedded")

    def _index(self, found: Found, document: DocumentRow) -> Iterator[Progress | FileResult]:
        loaded = load(found.path)
        if content_hash(found.path) != document.content_hash:
            raise LoadFailed("it changed while it was read; run again")
        notes = "; ".join(loaded.notes) or None
        if not loaded.text.strip():
            yield self._skip_empty(document, notes)
            return
        chunks = self.chunker.chunks(
            loaded.text, document.version, pages=loaded.pages, headings=loaded.headings, atoms=loaded.atoms
        )
        self.catalog.begin(self.collection, document.version)
        yield from self._write_vectors(document.uri, document.version, chunks)
        self._commit(document, loaded, chunks)
        yield FileResult(document.uri, "indexed", notes, len(chunks))

    def _write_vectors(self, uri: str, version: str, chunks: Sequence[Chunk]) -> Iterator[Progress]:
        """Embed and store what is not stored yet (step 1)."""
        stored = self.store.ids_of(self.collection, version)
        missing = [chunk for chunk in chunks if chunk.id not in stored]
        for first in range(0, len(missing), EMBED_AT_ONCE):
            part = missing[first : first + EMBED_AT_ONCE]
            vectors = self.model.embed([chunk.embedded_text for chunk in part])
            self.store.upsert(self.collection, version, [chunk.id for chunk in part], vectors)
            yield Progress(uri, len(chunks) - len(missing) + first + len(part), len(chunks))

    def _commit(self, document: DocumentRow, loaded: LoadedDocument, chunks: Sequence[Chunk]) -> None:
        """Steps 2 and 3."""
        live = replace(document, metadata=loaded.metadata, media_type=loaded.media_type)
        replaced = self.catalog.commit(live, loaded.text, loaded.pages, loaded.notes, chunks)
        self._forget_vectors(replaced)
        self.catalog.clear_problem(self.collection, document.uri)

    def _skip_empty(self, document: DocumentRow, notes: str | None) -> FileResult:
        """Nothing to index. An earlier version with text must not go on answering for a file that is empty now."""
        reason = notes or "it has no text"
        earlier = self.catalog.document_at(self.collection, document.uri)
        if earlier is not None:
            self.delete(earlier)
            reason += "; its earlier version was removed"
        return self._refuse(document.uri, "skipped", reason)

    def _refuse(self, uri: str, status: FileStatus, reason: str) -> FileResult:
        """A file that is not taken keeps the version it has, if any: a broken save must not take an answer away."""
        reason = normalise_text(reason)  # a parser's message may hold what neither SQLite nor a terminal takes
        self.catalog.note_problem(self.collection, uri, status, reason)
        return FileResult(uri, status, reason)

    def _forget_vectors(self, version: str | None) -> None:
        if version is not None:
            self.store.delete_version(self.collection, version)
            self.catalog.settled(self.collection, version)

    # -- what has vanished

    def _restore(self) -> Iterator[Progress | FileResult]:
        """Make anew the vectors of live chunks that Chroma has lost: its folder was deleted, or put back from a backup."""
        if self.store.count(self.collection) >= self.catalog.counts(self.collection).chunks:
            return
        restored: set[str] = set()
        for document in self.catalog.documents(self.collection):
            if document.version in restored:
                continue
            restored.add(document.version)
            chunks = self.catalog.chunks_of(self.collection, document.version)
            missing = 0
            for progress in self._write_vectors(document.uri, document.version, chunks):
                missing += 1
                yield progress
            if missing:
                yield FileResult(document.uri, "indexed", "Chroma had lost its vectors; made anew", len(chunks))

    def _prune(self, paths: Sequence[Path], kept: set[str], prune_empty: bool) -> Iterator[FileResult]:
        for root in [path.resolve() for path in paths if path.is_dir()]:
            prefix = root.as_uri().rstrip("/") + "/"
            gone = [
                document
                for document in self.catalog.documents(self.collection)
                if document.uri.startswith(prefix) and document.uri not in kept and has_vanished(document.uri)
            ]
            if gone and not prune_empty and not any(uri.startswith(prefix) for uri in kept):
                yield FileResult(
                    root.as_uri(),
                    "skipped",
                    f"the folder is empty now; its {len(gone)} documents stay in the index. If they are really gone, run with"
                    " --yes",
                )
                continue
            for document in gone:
                yield self.delete(document)
            for uri, _, _ in self.catalog.problems(self.collection):
                if uri.startswith(prefix) and uri not in kept and has_vanished(uri):
                    self.catalog.clear_problem(self.collection, uri)
