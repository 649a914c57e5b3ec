"""Chroma anew from the catalog, without the files, while the service goes on answering; another model or cut if configured.

In: an open index. Out: what is going to be done, progress, what was done. Must not: touch what is read before all of the new
is there; change a text.

The vectors are written into the next generation of the collection in Chroma; with another model or chunker, new versions and
their full-text rows are staged in the catalog. One transaction of the catalog then makes both the ones that are read: the
service looks into the catalog for each question, so it uses all of the old or all of the new. Only then the old goes.

Killed before that moment, the next rebuild goes on with what is there, and `rag-ingest compact` throws it away; killed after
it, the next rebuild, compaction or run deletes the old vectors.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ingest.maintenance.index import Index
from ingest.results import Progress
from ingest.structure import structure_of
from rag_service.errors import IndexUnusable
from rag_service.index.chroma_files import drop_orphans
from rag_service.index.chunks import Chunk
from rag_service.index.rows import Place, Recipe
from rag_service.index.schema import STAGING
from rag_service.index.vector_store import VectorStore

MEASURED = 32  # chunks embedded to tell how long all will take


@dataclass(frozen=True, slots=True)
class Plan:
    """What is going to be done: `to_embed` of `chunks` have no vector yet, and take about `seconds`. `cut_anew` says that
    the texts are in new chunks; `model` is the one that embeds."""

    documents: int
    chunks: int
    to_embed: int
    seconds: float
    cut_anew: bool
    model: str


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was done: `embedded` in this run, `kept` from an earlier one or copied."""

    documents: int
    chunks: int
    embedded: int
    kept: int


def rebuild(index: Index, *, copy: bool = False) -> Iterator[Plan | Progress | Rebuilt]:
    """With `copy` the vectors of the present generation are taken over, and only what it lacks is embedded.

    Raises NotFound, FingerprintMismatch (only with `copy`), and IndexUnusable when the collection's next place in Chroma is
    another catalog's.
    """
    index.require_collection()
    collection, catalog, store = index.collection, index.catalog, index.store
    place = catalog.place(collection)
    drop_replaced(store, collection, place)
    if copy:
        index.require_model()
        store.open_collection(collection, place)
        catalog.discard_staging(collection)
        versions = None
    else:
        versions = stage(index)
    source = collection + STAGING if versions is not None else collection
    target = Place(place.generation + 1, place.owner, "compact" if copy else made_by(index))
    if store.made_by(collection, target) not in (None, target.made_by):
        store.drop(collection, target)
    staging = store.beside(collection, target)
    try:
        embedded = 0
        forget_unwanted(index, staging, source)
        for item in fill(index, staging, source, cut_anew=versions is not None, copy=copy):
            embedded += item.chunks if isinstance(item, Progress) else 0
            yield item
        require_all(index, staging, source)
    finally:
        staging.close()
    catalog.switch(collection, target.generation, index.model.fingerprint, versions)
    now = catalog.place(collection)
    store.open_collection(collection, now)
    drop_replaced(store, collection, now)
    if index.chroma is not None:
        drop_orphans(index.chroma)
    catalog.scrub(collection)
    counts = catalog.counts(collection)
    yield Rebuilt(counts.documents, counts.chunks, embedded, counts.chunks - embedded)


def made_by(index: Index) -> str:
    """Whose vectors a killed rebuild has left: those of another model are of no use."""
    return f"rebuild {index.model.fingerprint.id}{'' if has_same_model(index) else ' of other weights'}"


def has_same_model(index: Index) -> bool:
    stored = index.catalog.fingerprint(index.collection)
    return stored is not None and not index.model.fingerprint.differences(stored)


def drop_replaced(store: VectorStore, collection: str, place: Place) -> None:
    """Delete the generation before the one that is read, if a killed rebuild has left it."""
    if place.generation:
        store.drop(collection, Place(place.generation - 1, place.owner))


def stage(index: Index) -> Mapping[str, str] | None:
    """Cut the texts anew where the configured model or chunker asks for that: each version's new one. None: all stays."""
    collection, catalog = index.collection, index.catalog
    wanted = dict(new_versions(index))
    if all(old == new for old, new in wanted.items()):
        catalog.discard_staging(collection)
        return None
    catalog.begin_staging(collection, index.model.fingerprint)
    staged = catalog.staged_versions(collection)
    for version in staged - set(wanted.values()):
        catalog.unstage(collection, version)
    for old, new in wanted.items():
        if new not in staged:
            making = catalog.making(collection, old)
            recipe = replace(making.recipe, chunker=index.chunker.fingerprint)
            catalog.stage(collection, old, new, replace(making, recipe=recipe), cut(index, old, new))
            staged.add(new)
    return wanted


def new_versions(index: Index) -> Iterator[tuple[str, str]]:
    """Each live version, and the one that its content becomes now. A version whose recipe nobody noted (an older catalog)
    keeps its cut for as long as the model is the same."""
    same_model = has_same_model(index)
    for version, content in index.catalog.live_versions(index.collection):
        recipe = index.catalog.making(index.collection, version).recipe
        if same_model and (recipe == Recipe() or recipe.chunker == index.chunker.fingerprint):
            yield version, version
        else:
            recipe = replace(recipe, chunker=index.chunker.fingerprint)
            yield version, recipe.version_id(content, index.model.fingerprint.id)


def cut(index: Index, version: str, becomes: str) -> list[Chunk]:
    """The chunks of a version's text, from what was kept of the document's structure."""
    text, pages = index.catalog.text(index.collection, version)
    structure = structure_of(index.catalog.making(index.collection, version))
    return index.chunker.chunks(
        text, becomes, pages=pages, headings=structure.headings, atoms=structure.atoms, ocr=structure.ocr
    )


def fill(index: Index, staging: VectorStore, source: str, *, cut_anew: bool, copy: bool) -> Iterator[Plan | Progress]:
    """All vectors of the live (or staged) chunks into the next generation; those that are there are not made again."""
    counts = index.catalog.counts(source)
    there = staging.count(index.collection)
    told = copy  # a copy takes no time worth telling
    pending: list[Chunk] = []
    done = 0
    for chunk in to_make(index, staging, source, resumed=there > 0, copy=copy):
        pending.append(chunk)
        if len(pending) < (index.batch if told else min(MEASURED, index.batch)):
            continue
        if not told:
            told = True
            yield measured(index, pending, counts.chunks, counts.chunks - there, cut_anew=cut_anew)
        write(index, staging, pending)
        done += len(pending)
        yield Progress(index.collection, len(pending), max(0, counts.chunks - there - done))
        pending = []
    if not told:
        yield measured(index, pending, counts.chunks, len(pending), cut_anew=cut_anew)
    if pending:
        write(index, staging, pending)
        yield Progress(index.collection, len(pending), 0)


def to_make(index: Index, staging: VectorStore, source: str, *, resumed: bool, copy: bool) -> Iterator[Chunk]:
    """The chunks that have no vector in the next generation yet, after copying those that may be."""
    for version in versions_in(index, source):
        there = staging.ids_of(index.collection, version) if resumed else set()
        missing = [chunk for chunk in index.catalog.chunks_of(source, version) if chunk.id not in there]
        for first in range(0, len(missing), index.batch):
            part = missing[first : first + index.batch]
            if copy:
                vectors = index.store.vectors_of(index.collection, [chunk.id for chunk in part])
                staging.put(index.collection, version, vectors)
                part = [chunk for chunk in part if chunk.id not in vectors]
            yield from part


def versions_in(index: Index, source: str) -> Iterator[str]:
    if source == index.collection:
        for version, _ in index.catalog.live_versions(source):
            yield version
    else:
        yield from sorted(index.catalog.staged_versions(index.collection))


def measured(index: Index, chunks: list[Chunk], total: int, to_embed: int, *, cut_anew: bool) -> Plan:
    """Embeds the first chunks once more than is needed, which tells how long the rest takes."""
    seconds = 0.0
    if chunks:
        index.model.warm_up()
        started = time.monotonic()
        index.model.embed([chunk.embedded_text for chunk in chunks[:MEASURED]])
        seconds = (time.monotonic() - started) / len(chunks[:MEASURED]) * to_embed
    documents = index.catalog.counts(index.collection).documents
    return Plan(documents, total, to_embed, round(seconds, 1), cut_anew, index.model.fingerprint.model)


def write(index: Index, staging: VectorStore, chunks: list[Chunk]) -> None:
    vectors = index.model.embed([chunk.embedded_text for chunk in chunks])
    staging.upsert(index.collection, [chunk.id for chunk in chunks], [chunk.version for chunk in chunks], vectors)


def forget_unwanted(index: Index, staging: VectorStore, source: str) -> None:
    """Delete what an earlier, killed rebuild wrote for documents that have changed since."""
    unwanted: list[str] = []
    for page in staging.labels(index.collection):
        wanted = index.catalog.chunk_versions(source, page.ids)
        unwanted += [chunk for chunk in page.ids if chunk not in wanted]
    staging.delete_ids(index.collection, unwanted)


def require_all(index: Index, staging: VectorStore, source: str) -> None:
    """Raises IndexUnusable unless the next generation has as many vectors as there are chunks."""
    found, wanted = staging.count(index.collection), index.catalog.counts(source).chunks
    if found != wanted:
        raise IndexUnusable(
            f"Chroma has {found} vectors of the {wanted} that were written into it, so nothing was switched. Run `rag-ingest"
            " verify` to see whether the catalog is in order, then `rag-ingest rebuild` again."
        )
