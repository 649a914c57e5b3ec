"""Zip-based documents (DOCX, PPTX, XLSX, ODT, EPUB) are looked through before a parser gets them.

In: a file and the limits. Out: nothing, or LoadFailed with the limit that it breaks and the setting that moves it. Must not:
believe what an archive says of itself; hold more than one block of it; write anything to disk or enter an archive inside
it, so that names such as `../../etc/passwd` and nested bombs are bytes like any other.

The libraries read members one by one into memory and parse them, so the limits are on what they would get. Sizes are
measured by unpacking unless deflate could not reach the limit at all (it packs at most 1,032 to 1).
"""

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ingest.loaders.options import LoadOptions
from ingest.loaders.xml_prolog import PROLOG_BYTES, is_past_prolog, is_xml
from rag_service.errors import LoadFailed

_DIRECTORY_BYTES = 256  # of one entry, name and extra fields included, on average at most
_LOCAL_HEADER = 30
_DEFLATE_RATIO = 1_032
_BOMB_RATIO = 200  # markup packs to a thirtieth, seldom to a hundredth
_BOMB_SHARE = 10  # a member of this part of the whole limit may not be packed like a bomb
_BLOCK = 1 << 18
_HEAD_BYTES = 1_024
_UNLIMITED = 1 << 62
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_METHOD_NAMES = {9: "deflate64", 12: "bzip2", 14: "LZMA", 93: "Zstandard", 98: "PPMd", 99: "AES"}


def check_archive(path: Path, options: LoadOptions) -> None:
    """Raises LoadFailed for what is no document but a trap, OSError. What is no zip at all is left to the parser."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with opened(path, options.max_members) as archive:
            _check(archive, options)
    except zipfile.BadZipFile as error:
        raise LoadFailed("broken file (damaged archive)") from error


@contextmanager
def opened(path: Path, max_members: int) -> Iterator[zipfile.ZipFile]:
    """An archive, with its list of files read. Raises LoadFailed when that is longer than `max_members`, BadZipFile,
    OSError."""
    with _Listed(io.FileIO(path)) as file:
        file.max_bytes = max(max_members * _DIRECTORY_BYTES, _BLOCK)
        try:
            archive = zipfile.ZipFile(file)
        except _TooLong as error:
            raise _too_many("far too many", max_members) from error
        file.max_bytes = _UNLIMITED
        if len(archive.infolist()) > max_members:
            raise _too_many(f"{len(archive.infolist()):,}", max_members)
        yield archive


class _TooLong(Exception):  # noqa: N818 - never seen outside
    pass


class _Listed(io.BufferedReader):
    """A file for zipfile, which reads an archive's whole list at once and makes an object of each entry."""

    max_bytes = _UNLIMITED

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self.max_bytes:
            raise _TooLong
        return super().read(size)


def _too_many(count: str, limit: int) -> LoadFailed:
    return LoadFailed(f"an archive of {count} files; the limit is {limit:,} (RAG_LOAD__MAX_MEMBERS)")


def _check(archive: zipfile.ZipFile, options: LoadOptions) -> None:
    members = archive.infolist()
    limit = options.max_unpacked_bytes
    for member in members:
        if member.flag_bits & 1:
            raise LoadFailed("encrypted, needs a password")
        if member.compress_type not in _METHODS:
            method = _METHOD_NAMES.get(member.compress_type, f"method {member.compress_type}")
            raise LoadFailed(f"packed with {method}, which no such document uses: save it anew")
    declared = sum(member.file_size for member in members)
    if declared > limit:
        raise _too_large(declared, limit)
    _check_overlaps(archive)
    for member in members:
        if member.file_size * _BOMB_SHARE > limit and member.file_size > _BOMB_RATIO * member.compress_size:
            raise LoadFailed(
                f"a zip bomb: a file of {_mb(member.file_size)} in it is packed to a {_BOMB_RATIO}th or less, which is"
                f" refused above {_mb(limit // _BOMB_SHARE)}, a tenth of RAG_LOAD__MAX_UNPACKED_MB"
            )
    measured = sum(_DEFLATE_RATIO * member.compress_size for member in members) > limit
    left = limit
    for member in members:
        left -= _size(archive, member, left, limit, measured)


def _check_overlaps(archive: zipfile.ZipFile) -> None:
    """Entries that share bytes make a bomb whose every file looks harmless (Fifield, "A better zip bomb", 2019)."""
    members = sorted(archive.infolist(), key=lambda member: member.header_offset)
    ends = [member.header_offset for member in members[1:]] + [archive.start_dir]
    for member, end in zip(members, ends, strict=False):  # an empty archive has one end and no member
        if member.header_offset + _LOCAL_HEADER + member.compress_size > end:
            raise LoadFailed("damaged, or a zip bomb: files in it overlap")


def _size(archive: zipfile.ZipFile, member: zipfile.ZipInfo, left: int, limit: int, measured: bool) -> int:
    """Bytes that a member unpacks to; what it says, if that need not be `measured`. One that is damaged counts as far as it
    goes: perhaps nobody reads it."""
    said, member.file_size = member.file_size, max(left, member.file_size) + _BLOCK  # zipfile stops where it is told to
    size = 0
    try:
        with archive.open(member) as file:
            block = _beginning(file)
            if not measured:
                return said
            while block:
                size += len(block)
                if size > left:
                    raise _too_large(limit - left + size, limit)
                if size > said:
                    raise LoadFailed("damaged, or a zip bomb: a file in it is larger than it says")
                block = file.read(_BLOCK)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
        return max(size, said)
    finally:
        member.file_size = said
    return size


def _beginning(file: IO[bytes]) -> bytes:
    """The first bytes, of XML up to its first element. Raises LoadFailed for hostile declarations."""
    head = file.read(_HEAD_BYTES)
    if is_xml(head) and not is_past_prolog(head):
        head += file.read(PROLOG_BYTES - len(head))
        if not is_past_prolog(head) and len(head) == PROLOG_BYTES:
            raise LoadFailed(f"hostile XML in it: no element in its first {PROLOG_BYTES:,} bytes")
    return head


def _too_large(size: int, limit: int) -> LoadFailed:
    return LoadFailed(f"unpacks to {_mb(size)} or more; the limit is {_mb(limit)} (RAG_LOAD__MAX_UNPACKED_MB)")


def _mb(size: int) -> str:
    return f"{size / 1_000_000:,.0f} MB" if size >= 10_000_000 else f"{size / 1_000_000:,.1f} MB"
