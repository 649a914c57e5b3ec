"""What a benchmark wants of its figures.

In: a ratio of two figures of one run, and how large it must, or may, be. Out: whether it is, and a line for the reader. Must
not: measure.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """A ratio of two figures of this run and how large it must, or may, be."""

    what: str
    ratio: float
    limit: float
    least: bool  # else at most

    @property
    def met(self) -> bool:
        return self.ratio >= self.limit if self.least else self.ratio <= self.limit

    def __str__(self) -> str:
        bound = f"at {'least' if self.least else 'most'} {self.limit:g}"
        return f"{'met   ' if self.met else 'MISSED'} {self.what}: {self.ratio:.2f} ({bound})"
