"""Pieces to chunks: neighbours joined while they fit, with what belongs together kept together.

In: pieces that fit by themselves, and the room of a chunk that begins with one. Out: ranges of pieces.
Must not: lose or reorder a piece; do I/O (pure, standard library).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rag_service.index.spans import Span

Range = tuple[int, int]  # half-open, of indices

SMALL = 1 / 3  # a last chunk that fills less of its room takes from the one before


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch that fits. A chunk that begins with it is told `context`; if `joined`, it stays with the next one where both
    fit; a `heading` and a table's row are not cut for the sake of others. A chunk that begins with a later part of a row
    (`within` is where that starts) ends where the row does, since what it is told is not true of the next row."""

    span: Span
    tokens: int
    context: tuple[str, ...] = ()
    joined: bool = False
    heading: bool = False
    is_row: bool = False
    within: int | None = None

    def may_begin(self, last: "Piece") -> bool:
        """Whether one chunk may begin with this and end with `last`."""
        return self.within is None or self.within == last.within


RoomOf = Callable[[Piece], int]


def pack(pieces: Sequence[Piece], room_of: RoomOf, overlap: int = 0) -> list[Range]:
    """Ranges that cover all pieces, in order. Up to `overlap` tokens of whole pieces are repeated at the start of the next."""
    ranges = list(_greedy(pieces, room_of, overlap))
    if len(ranges) > 1 and ranges[-2][1] == ranges[-1][0]:
        ranges[-2:] = _evened(pieces, ranges[-2], ranges[-1], room_of)
    return ranges


def _greedy(pieces: Sequence[Piece], room_of: RoomOf, overlap: int) -> Iterator[Range]:
    first = 0
    while first < len(pieces):
        room = room_of(pieces[first])
        end, total = first + 1, pieces[first].tokens
        while end < len(pieces) and total + pieces[end].tokens <= room and pieces[first].may_begin(pieces[end]):
            total += pieces[end].tokens
            end += 1
        if end == len(pieces):
            yield first, end
            return
        end = _kept_together(pieces, first, end, room_of)
        yield first, end
        first = _overlap_start(pieces, first, end, room_of, overlap)


def _kept_together(pieces: Sequence[Piece], first: int, end: int, room_of: RoomOf) -> int:
    """The end of a chunk, moved back over what stays with the next piece, if all that fits together there."""
    back, tokens = end, pieces[end].tokens
    while back > first and pieces[back - 1].joined:
        back -= 1
        tokens += pieces[back].tokens
    fits = tokens <= room_of(pieces[back]) and pieces[back].may_begin(pieces[end])
    return back if back > first and fits else end


def _overlap_start(pieces: Sequence[Piece], first: int, end: int, room_of: RoomOf, overlap: int) -> int:
    """Where the next chunk begins: always after `first`, so that it moves on, and with room for the piece at `end`."""
    start, repeated = end, 0
    while start - 1 > first:
        piece = pieces[start - 1]
        repeated += piece.tokens
        fits = repeated + pieces[end].tokens <= room_of(piece) and piece.may_begin(pieces[end])
        if repeated > overlap or not fits:
            break
        start -= 1
    return start


def _evened(pieces: Sequence[Piece], before: Range, last: Range, room_of: RoomOf) -> list[Range]:
    """The last two ranges, made about equal if the last is small: a few words alone say too little to be found."""
    (first, middle), (_, end) = before, last
    left = sum(piece.tokens for piece in pieces[first:middle])
    right = sum(piece.tokens for piece in pieces[middle:end])
    if right >= SMALL * room_of(pieces[middle]):
        return [before, last]
    best, most = middle, max(left, right)
    for at in range(middle - 1, first, -1):
        left -= pieces[at].tokens
        right += pieces[at].tokens
        if max(left, right) >= most:
            break
        allowed = not pieces[at - 1].joined and pieces[at].may_begin(pieces[end - 1])
        if allowed and right <= room_of(pieces[at]):
            best, most = at, max(left, right)
    return [(first, best), (best, end)]
