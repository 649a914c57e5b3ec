"""Bodies, counted while they come: what a server says of their length is believed only to refuse early.

In: an answer. Out: its unpacked bytes, piece by piece. Must not: hold more than a piece, or unpack past the limit.
"""

import zlib
from collections.abc import Iterable, Iterator

from ingest.web.client import Answer
from ingest.web.refusals import Refusal

_PIECE = 65_536
_GZIP = 16 + zlib.MAX_WBITS
GZIP_MAGIC = b"\x1f\x8b"


def pieces(answer: Answer, max_bytes: int) -> Iterator[bytes]:
    """The document's bytes. Raises Refusal when they are too many, packed or unpacked, or packed in an unknown way."""
    length = answer.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > max_bytes:
        raise too_large(max_bytes)
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    sent = limited(answer.body, max_bytes)
    if encoding in {"", "identity"}:
        return sent
    if encoding in {"gzip", "x-gzip"}:
        return limited(unpacked(sent), max_bytes)
    raise Refusal(f"sent packed as {encoding[:40]!r}, which was not asked for")


def limited(data: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    total = 0
    for piece in data:
        total += len(piece)
        if total > max_bytes:
            raise too_large(max_bytes)
        yield piece


def unpacked(data: Iterable[bytes]) -> Iterator[bytes]:
    """Gzip's members one after the other, never more than a small piece at once: 1 KB may unpack to 1 MB."""
    unpacker = zlib.decompressobj(_GZIP)
    begun = False
    try:
        for piece in data:
            rest = piece
            while rest:
                if unpacker.eof:
                    unpacker = zlib.decompressobj(_GZIP)  # gzip files may follow each other (RFC 1952, section 2.2)
                begun = True
                if out := unpacker.decompress(rest, _PIECE):
                    yield out
                rest = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
    except zlib.error:
        raise Refusal("broken: it is not the gzip data that it should be") from None
    if begun and not unpacker.eof:
        raise Refusal("broken: its gzip data end too early")


def too_large(max_bytes: int) -> Refusal:
    return Refusal(f"larger than {max_bytes / 1_000_000:g} MB (RAG_WEB__MAX_MB)")
