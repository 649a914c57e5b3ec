"""Whether catalog and Chroma hold the same, and whether what they hold is found and true.

In: an open index. Out: findings and numbers. Must not: change anything (repair.py does), or hold more than a page of what it
compares, the ids of what is not live apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ingest.maintenance.findings import EXAMPLES, Finding, Verdict, finding
from ingest.maintenance.index import Index
from rag_service.index.chunks import Chunk
from rag_service.index.rows import Place

SAME_VECTOR = 0.999  # cosine; bfloat16 sums in another order give 0.9999 and more
NEARLY = 1e-3  # between similarities that count as equal
NEIGHBOURS = 10


@dataclass(slots=True)
class Vectors:
    """What Chroma holds, compared with the live chunks."""

    stored: int = 0
    right: int = 0
    mislabelled: list[str] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)


def verify(index: Index, sample: int) -> Verdict:
    """Raises NotFound, FingerprintMismatch, CatalogUnavailable, VectorStoreUnavailable."""
    index.require_collection()
    index.require_model()
    damage = index.catalog.damage()
    if damage:  # nothing that is read from it then says anything
        return Verdict(0, 0, 0, 0, 0, tuple(finding("catalog_damaged", damage)))
    counts = index.catalog.counts(index.collection)
    findings = [*catalog_findings(index)]
    place = index.catalog.place(index.collection)
    stored = sampled = 0
    if index.store.made_by(index.collection, place) is None:  # opening it would make an empty one
        findings += finding("vectors_missing", (), index.catalog.live_chunk_count(index.collection))
    else:
        index.store.open_collection(index.collection, place)
        vectors = compare(index)
        stored = vectors.stored
        findings += vector_findings(index, vectors)
        chosen = chosen_chunks(index, sample)
        sampled = len(chosen)
        changed, unfindable = recall(index, chosen)
        findings += finding("vectors_changed", [chunk.id for chunk in changed])
        findings += finding("chunks_unfindable", [chunk.id for chunk in unfindable])
    findings += left_behind(index, place)
    return Verdict(counts.documents, counts.versions, counts.chunks, stored, sampled, tuple(findings))


def catalog_findings(index: Index) -> Iterator[Finding]:
    catalog, collection = index.catalog, index.collection
    yield from finding("texts_lost", catalog.documents_without_version(collection))
    yield from finding("rows_dead", catalog.dead_rows(collection))
    badly_cut = [catalog.uri_of(collection, version) for version in catalog.badly_cut(collection)]
    yield from finding("chunks_wrong", badly_cut)
    if not catalog.fulltext_is_sound(collection):
        yield Finding("fulltext_broken", 1)


def compare(index: Index) -> Vectors:
    """Page by page: which vectors are those of live chunks."""
    found = Vectors()
    loose = set(index.catalog.loose_versions(index.collection))
    for page in index.store.labels(index.collection):
        chunks = index.catalog.chunk_versions(index.collection, page.ids)
        live = index.catalog.live_among(index.collection, set(chunks.values()))
        found.stored += len(page.ids)
        for chunk, version in zip(page.ids, page.versions, strict=True):
            if chunks.get(chunk) in live:
                if chunks[chunk] == version:
                    found.right += 1
                else:
                    found.mislabelled.append(chunk)
            elif version in loose:
                found.loose.append(chunk)
            else:
                found.dead.append(chunk)
    return found


def vector_findings(index: Index, vectors: Vectors) -> Iterator[Finding]:
    missing = index.catalog.live_chunk_count(index.collection) - vectors.right - len(vectors.mislabelled)
    yield from finding("vectors_missing", list(without_vectors(index)) if missing else (), missing)
    yield from finding("vectors_mislabelled", vectors.mislabelled)
    yield from finding("vectors_loose", vectors.loose)
    yield from finding("vectors_dead", vectors.dead)


def without_vectors(index: Index) -> Iterator[str]:
    """Some of the documents that lack vectors."""
    found = 0
    for version, _ in index.catalog.live_versions(index.collection):
        there = index.store.ids_of(index.collection, version)
        if not index.catalog.has_chunks_beyond(index.collection, version, there):
            continue
        yield index.catalog.uri_of(index.collection, version)
        found += 1
        if found == EXAMPLES:
            return


def left_behind(index: Index, place: Place) -> Iterator[Finding]:
    """What killed runs and rebuilds have left."""
    collection = index.collection
    yield from finding("versions_loose", index.catalog.loose_versions(collection))
    following = Place(place.generation + 1, place.owner)
    if index.catalog.staged(collection) or index.store.made_by(collection, following) is not None:
        yield Finding("rebuild_unfinished", 1)
    if place.generation and index.store.is_ours(collection, Place(place.generation - 1, place.owner)):
        yield Finding("vectors_replaced", 1)


def chosen_chunks(index: Index, sample: int) -> list[Chunk]:
    """Live chunks at random, whose text is there."""
    wanted: dict[str, set[str]] = {}
    for chunk, version in index.catalog.sample(index.collection, sample):
        wanted.setdefault(version, set()).add(chunk)
    lost = set(index.catalog.documents_without_version(index.collection))
    return [
        chunk
        for version, ids in wanted.items()
        if index.catalog.uri_of(index.collection, version) not in lost
        for chunk in index.catalog.chunks_of(index.collection, version)
        if chunk.id in ids
    ]


def recall(index: Index, chosen: list[Chunk]) -> tuple[list[Chunk], list[Chunk]]:
    """Chunks whose stored vector is not the one that the model makes now, and chunks that an ordinary query with it does not
    find, though it finds what is less near (others that say the same may come first)."""
    changed: list[Chunk] = []
    unfindable: list[Chunk] = []
    for first in range(0, len(chosen), index.batch):
        part = chosen[first : first + index.batch]
        fresh = index.model.embed([chunk.embedded_text for chunk in part])
        stored = index.store.vectors_of(index.collection, [chunk.id for chunk in part])
        found = index.store.nearest(index.collection, fresh, NEIGHBOURS)
        for chunk, vector, near in zip(part, fresh, found, strict=True):
            if chunk.id not in stored:
                continue  # told as missing
            own = stored[chunk.id]
            similarity = float(np.dot(vector, own) / (np.linalg.norm(vector) * np.linalg.norm(own)))
            if similarity < SAME_VECTOR:
                changed.append(chunk)
            elif chunk.id not in near and min(near.values(), default=0.0) < similarity - NEARLY:
                unfindable.append(chunk)
    return changed, unfindable
