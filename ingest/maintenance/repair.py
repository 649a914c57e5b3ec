"""Mends what `verify` finds, from the catalog's texts.

In: an open index. Out: progress, and what is found before and after. Must not: delete a text that a document has; touch a
catalog that SQLite finds damaged.
"""

from collections.abc import Iterator
from dataclasses import replace

from ingest.maintenance.findings import Verdict
from ingest.maintenance.index import Index
from ingest.maintenance.rebuild import cut, drop_replaced
from ingest.maintenance.restore import embed, restore
from ingest.maintenance.verify import chosen_chunks, compare, recall, verify
from ingest.results import FileResult, Progress

FOR_PEOPLE = {"texts_lost"}  # still to be read again after it is mended


def repair(index: Index, sample: int) -> Iterator[Progress | FileResult | Verdict]:
    """Raises as `verify` does."""
    before = verify(index, sample)
    kinds = {found.kind for found in before.findings}
    if not kinds or "catalog_damaged" in kinds:
        yield before
        return
    mend_catalog(index, kinds)
    yield from mend_vectors(index, sample)
    drop_replaced(index.store, index.collection, index.catalog.place(index.collection))
    index.catalog.scrub(index.collection)
    after = verify(index, sample)
    left = tuple(found for found in before.findings if found.kind in FOR_PEOPLE)
    unmended = {found.kind for found in after.findings} | {found.kind for found in left}
    mended = tuple(found for found in before.findings if found.kind not in unmended)
    yield replace(after, findings=(*left, *after.findings), mended=mended)


def mend_catalog(index: Index, kinds: set[str]) -> None:
    """Rows of texts that nobody has go; chunks and words that do not fit their text are made anew."""
    catalog, collection = index.catalog, index.collection
    if "fulltext_broken" in kinds:
        catalog.rebuild_fulltext(collection)
    if "texts_lost" in kinds:
        catalog.forget_lost(collection)
    if "rows_dead" in kinds:
        catalog.drop_dead_rows(collection)
    if "chunks_wrong" in kinds:
        for version in list(catalog.badly_cut(collection)):
            catalog.replace_chunks(collection, version, cut(index, version, version))


def mend_vectors(index: Index, sample: int) -> Iterator[Progress | FileResult]:
    """Chroma holds the live chunks afterwards, and nothing else."""
    catalog, collection, store = index.catalog, index.collection, index.store
    store.open_collection(collection, catalog.place(collection))
    store.delete_ids(collection, compare(index).dead)
    for version in catalog.loose_versions(collection):
        store.delete_version(collection, version)
        catalog.settled(collection, version)
    yield from restore(collection, catalog, store, index.model, index.batch)
    changed, unfindable = recall(index, chosen_chunks(index, sample))
    again = changed + unfindable
    for first in range(0, len(again), index.batch):
        part = again[first : first + index.batch]
        embed(collection, store, index.model, part)
        yield Progress(collection, len(part), len(again) - first - len(part))
