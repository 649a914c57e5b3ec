"""A document from standard input: `rag-ingest run - --name notes.md`.

In: a stream of bytes, and what it is called. Out: a `Found` in the folder for such files, or a `Refused`. Must not: let a
name become a path (it is data: the file's own name is made up, and only a plain suffix is taken over), or read more than the
limit.
"""

import os
import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import quote
from uuid import uuid4

from ingest.discover import Found, Refused, title_of
from rag_service.errors import InvalidSettings

_CHUNK = 1 << 20
_MAX_CHARS = 1000
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,16}")
_URI = re.compile(r"(?:stdin|upload):///[!-~]{1,3000}")


@dataclass(frozen=True, slots=True)
class Named:
    """What is to be read from standard input: its canonical URI, a title for people, and the suffix that tells its type
    where the content does not."""

    uri: str
    title: str
    suffix: str


def named(name: str | None, uri: str | None = None, title: str | None = None) -> Named:
    """Raises InvalidSettings that names the option. A name is any words: `../x.txt` is a document of that name, nowhere."""
    shown = title_of(name[-_MAX_CHARS:]) if name and _is_encodable(name) else ""
    if not name or not shown or name in {".", ".."}:
        raise InvalidSettings(
            "--name: say what the document from standard input is called, for example --name notes.md."
        )
    if len(name) > _MAX_CHARS:
        raise InvalidSettings(f"--name: {len(name)} characters are too many; take at most {_MAX_CHARS}.")
    if uri is None:
        uri = f"stdin:///{quote(os.fsencode(name), safe='')}"
    elif not _URI.fullmatch(uri) or PurePosixPath(uri).name in {".", ".."}:
        raise InvalidSettings("--uri: write it as upload:///NAME or stdin:///NAME, percent-encoded.")
    if title is not None:
        shown = title_of(title)[:_MAX_CHARS] if _is_encodable(title) else ""
        if not shown:
            raise InvalidSettings("--title: it is blank.")
    suffix = PurePosixPath(name).suffix
    return Named(uri, shown, suffix if _SUFFIX.fullmatch(suffix) else "")


def received(wanted: Named, stream: BinaryIO, folder: Path, max_bytes: int) -> Found | Refused:
    """Read all of the stream into a file of the folder."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix="stdin-", suffix=wanted.suffix, delete=False) as file:
        path, size = Path(file.name), 0
        while data := stream.read(_CHUNK):
            size += len(data)
            if size > max_bytes:
                break
            file.write(data)
    if size > max_bytes:
        path.unlink()
        reason = f"more than {max_bytes // 1_000_000} MB from standard input (RAG_LOAD__MAX_FILE_MB)"
        return Refused(wanted.uri, "failed", reason)
    return held(path, wanted.uri, wanted.title)


def held(path: Path, uri: str, title: str) -> Found:
    """A file that is here only to be read. Its mark never matches: its time says nothing about where it came from."""
    found = Found.at(path, path.stat(), uri=uri, title=title, temporary=True)
    return replace(found, mark=f"temporary:{uuid4().hex}")


def _is_encodable(text: str) -> bool:
    """Whether it is text, or bytes of a name as Python reads them from the command line."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
