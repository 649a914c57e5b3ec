"""The order in which people read what is placed on a slide: from top to bottom, and from left to right in a line.

In: things with their places. Out: the same things in order. Must not: know a format (pure, standard library).
"""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")
SAME_LINE = 0.04  # of the height of a slide: tops so near to each other are one line


def in_reading_order(placed: Iterable[tuple[float, float, T]], height: float) -> list[T]:
    """`placed` are (top, left, thing). Equal places keep their order."""
    lines: list[list[tuple[float, float, T]]] = []
    for at in sorted(placed, key=lambda thing: thing[0]):
        if lines and at[0] - lines[-1][0][0] <= height * SAME_LINE:
            lines[-1].append(at)
        else:
            lines.append([at])
    return [thing for line in lines for _, _, thing in sorted(line, key=lambda in_line: in_line[1])]
