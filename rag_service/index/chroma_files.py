"""The files of a local Chroma: what it leaves behind in them, and how that is got rid of while its server runs.

In: the folder `RAG_HOME/chroma`. Out: fewer files and bytes. Must not: open the data as Chroma does (two of those damage it;
SQLite's own locks make what is done here safe), or be called but by the one writer.

As of chromadb 1.5.9 the server takes an operation out of its write-ahead queue once it is applied, but never shrinks its
SQLite file and does not overwrite what it frees there; a deleted vector stays in its collection's HNSW file until the
collection goes; and the HNSW folder of a deleted collection stays for good.
"""

import re
import shutil
import sqlite3
from pathlib import Path

from rag_service.errors import VectorStoreUnavailable

DATABASE = "chroma.sqlite3"
BUSY_S = 30.0
SEGMENT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def drop_orphans(folder: Path) -> int:
    """Delete the HNSW folders of collections that are gone; how many there were."""
    # In this order: the row of a segment is there before its folder.
    folders = [path for path in folder.iterdir() if SEGMENT.fullmatch(path.name)] if folder.is_dir() else []
    if not folders:
        return 0
    known = {row[0] for row in _run(folder / DATABASE, "SELECT id FROM segments")}
    orphans = [path for path in folders if path.name not in known]
    for path in orphans:
        shutil.rmtree(path, ignore_errors=True)
    return len(orphans)


def vacuum(folder: Path) -> None:
    """Write the SQLite file anew, without what was deleted. Raises VectorStoreUnavailable when it is in use all the time."""
    if (folder / DATABASE).is_file():
        _run(folder / DATABASE, "VACUUM")


def _run(path: Path, sql: str) -> list[tuple[str, ...]]:
    try:
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise VectorStoreUnavailable(
            f"{path} cannot be made compact: {error}. Run `rag-ingest compact` again."
        ) from error
