"""Documents whose files have vanished, and how sure that is.

In: folders, what a run found in them, the catalog. Out: documents to delete, or the reason to delete nothing.
Must not: delete, or take an unmounted share for an emptied folder.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ingest.discover import has_vanished, path_of
from rag_service.index.catalog import Catalog
from rag_service.index.rows import DocumentRow

# A folder and a URI below it: the reason why that is not to be in the index, though its file is there.
Unwanted = Callable[[Path, str], str | None]


def no_document_is(root: Path, uri: str) -> str | None:
    """The `Unwanted` that has nothing against any document."""
    return None


def below(root: Path) -> str:
    """How the URIs of everything below a folder begin."""
    return root.as_uri().rstrip("/") + "/"


class Roots:
    """The folders of a run, and whether anything was seen below each."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self.seen = dict.fromkeys(folders, False)
        self._unseen = {below(folder): folder for folder in self.seen}

    def saw(self, uri: str) -> None:
        for prefix in [prefix for prefix in self._unseen if uri.startswith(prefix)]:
            self.seen[self._unseen.pop(prefix)] = True


@dataclass(frozen=True, slots=True)
class Kept:
    """Documents that stay although their files are not there, since that may pass."""

    uri: str
    reason: str
    status: Literal["skipped", "failed"] = "skipped"


def gone_below(
    root: Path, catalog: Catalog, collection: str, *, is_alive: bool, sure: bool
) -> Iterator[DocumentRow | Kept]:
    """Documents below `root` whose files have vanished. Unless `sure`, none when the folder is missing or has no file left
    at all (`is_alive`: some file was found there), and none from a file system that is not mounted now."""
    gone = [document for document in catalog.each_document(collection, below(root)) if has_vanished(document.uri)]
    itself = catalog.document_at(collection, root.as_uri())
    if itself is not None and has_vanished(itself.uri):
        gone.append(itself)
    if not gone:
        return
    if sure:
        yield from gone
        return
    if not is_alive:
        is_there = root.is_dir()
        state = "the folder is empty now" if is_there else "there is no such file or folder now"
        kept_ones = "its document stays" if len(gone) == 1 else f"its {len(gone)} documents stay"
        reason = f"{state}; {kept_ones} in the index. To delete what is really gone, run again with --yes"
        yield Kept(root.as_uri(), reason, "skipped" if is_there else "failed")
        return
    unmounted = [document for document in gone if _on_another_device(catalog, document)]
    if unmounted:
        yield Kept(
            root.as_uri(),
            f"{len(unmounted)} documents come from a file system that is not mounted now and stay in the index. If they are"
            " really gone, run with --yes",
        )
    kept = {document.id for document in unmounted}
    yield from (document for document in gone if document.id not in kept)


def unwanted_below(
    root: Path, catalog: Catalog, collection: str, unwanted: Unwanted
) -> Iterator[tuple[DocumentRow, str]]:
    """Documents below `root` whose files are there but are not to be in the index, each with the reason."""
    for document in catalog.each_document(collection, below(root)):
        reason = unwanted(root, document.uri)
        if reason is not None and not has_vanished(document.uri):
            yield document, reason


def _on_another_device(catalog: Catalog, document: DocumentRow) -> bool:
    """Whether the place of a vanished file is on another file system than the file was."""
    stamp = catalog.stamp(document.collection, document.uri)
    if stamp is None:
        return False
    for folder in path_of(document.uri).parents:
        try:
            return os.stat(folder).st_dev != stamp.device  # noqa: PTH116  the path may hold any bytes
        except OSError:
            continue
    return False
