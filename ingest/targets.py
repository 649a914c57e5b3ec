"""What the arguments name: paths that are there or were, and documents in the index.

In: arguments, the catalog. Out: checked paths, document rows. Must not: delete, or let a mistyped name pass.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ingest.discover import canonical_uri, is_missing, path_of
from ingest.metadata import is_good_sidecar, why_no_document
from ingest.selection import Selection
from rag_service.errors import InvalidSettings
from rag_service.index.catalog import Catalog
from rag_service.index.rows import DocumentRow


def never_seen(paths: Sequence[Path], catalog: Path, collection: str) -> list[Path]:
    """Those that do not exist, and that no document of the index was read from: mistyped, most likely."""
    missing = [path for path in paths if is_missing(path)]
    if not missing or not catalog.is_file():
        return missing
    index = Catalog(catalog)
    try:
        return [path for path in missing if next(at_or_below(index, collection, canonical_uri(path)), None) is None]
    finally:
        index.close()


def at_or_below(catalog: Catalog, collection: str, uri: str) -> Iterator[DocumentRow]:
    """The document of a URI, and those below it: of a folder, or of a web address."""
    document = catalog.document_at(collection, uri)
    if document is not None:
        yield document
    yield from catalog.each_document(collection, uri.rstrip("/") + "/")


def select(catalog: Catalog, collection: str, targets: Sequence[str]) -> list[DocumentRow]:
    """The documents that the targets name. A target that names none is refused, before anything is deleted."""
    chosen: dict[str, DocumentRow] = {}
    for target in targets:
        if not target.strip():
            raise InvalidSettings("A target is blank (an unset variable?). Nothing was deleted.")
        uri = target if "://" in target else canonical_uri(Path(target))
        found = [*at_or_below(catalog, collection, uri)]
        if not found and catalog.has_document(target):
            named = catalog.document(target)
            found = [named] if named.collection == collection else []
        if not found:
            raise InvalidSettings(
                f"{target}: no document of that path, URI or id is in the index. Nothing was deleted; `rag-ingest status"
                " --json` lists what there is."
            )
        chosen.update((document.id, document) for document in found)
    return list(chosen.values())


class NotWanted:
    """An `Unwanted` for a run: what a `.ragignore` rules out, and what describes another file."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def __call__(self, root: Path, uri: str) -> str | None:
        reason = why_no_document(uri)
        if reason is not None:
            return reason if is_good_sidecar(uri) else None  # a broken one stays told
        path = path_of(uri)
        if not path.is_relative_to(root) or path == root:
            return None
        rule = self._selection.ruled_out(root, path.relative_to(root).as_posix())
        return None if rule is None else f"ignored by {rule}"
