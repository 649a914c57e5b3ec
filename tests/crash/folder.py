"""A folder of documents that keeps changing, and what may be answered from each at any moment.

In: a seed. Out: files on disk, and for each document the texts that a reader may see. Must not: look into the index.

Every document is about an animal of its own and says in each sentence which version of it this is, so that a passage tells
by itself where it comes from and how old it is.
"""

import random
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

SENTENCE = "The heron called {name} carries ring {version} and was seen {number} times near pond {pond}."
SEEN = re.compile(r"heron called (\w+) carries ring (\d+)")
SYLLABLES = ("ba", "do", "fe", "gu", "hi", "ka", "lo", "mi", "nu", "po", "ra", "se", "ti", "vu", "wo", "za")


def name_of(number: int) -> str:
    """A made-up word for each document, unlike all others: 4,096 of them."""
    digits = (number // 256 % 16, number // 16 % 16, number % 16)
    return "".join(SYLLABLES[digit] for digit in digits).capitalize() + "x"


@dataclass
class Heron:
    """A document: its places (copies have several), its version, and those that a reader may still meet.

    One that is moved and edited between two runs is, for everybody but its author, a new document and one that vanished: until
    a run has come to its end (`has_moved`), both may be met.
    """

    name: str
    places: list[Path]
    version: int = 0
    admissible: set[int] = field(default_factory=set)
    may_be_absent: bool = True
    has_moved: bool = False


MOURNED = 10  # deleted documents that are still asked about


class Folder:
    """`untouched` documents stay as they are; the others are added, edited, shrunk, moved, copied and deleted."""

    def __init__(self, root: Path, seed: int, untouched: int = 12, changing: int = 12) -> None:
        self.root = root
        self._random = random.Random(seed)
        self._next = 0
        self.untouched = [self._new(f"kept/{number:02}.md") for number in range(untouched)]
        self.changing = [self._new(f"live/{number:02}.md") for number in range(changing)]
        self.gone: list[Heron] = []

    @property
    def herons(self) -> list[Heron]:
        return [*self.untouched, *self.changing]

    def ask(self, heron: Heron) -> str:
        return f"Which ring does the heron called {heron.name} carry, and near which pond was it seen?"

    def change(self) -> str:
        """Some changes at once, as a day of work leaves them; returns their names."""
        moves = (self._add, self._edit, self._edit, self._edit, self._delete, self._move, self._copy)
        return ", ".join(self._random.choice(moves)() for _ in range(self._random.randint(1, 5)))

    def settled(self) -> None:
        """A run has ended well: only what is on disk may be met from now on."""
        for heron in self.herons:
            heron.admissible = {heron.version}
            heron.may_be_absent = heron.has_moved = False
        for heron in self.gone:
            heron.admissible = set()
        del self.gone[:-MOURNED]

    def judge(self, heron: Heron, passages: Iterable[tuple[str, str]]) -> str | None:
        """What is wrong with these passages (the URI and the text of each) as an answer about `heron`; None when nothing is."""
        by_uri: defaultdict[str, set[int]] = defaultdict(set)
        for uri, text in passages:
            by_uri[uri].update(int(version) for name, version in SEEN.findall(text) if name == heron.name)
        met = set().union(*by_uri.values())
        if len(met) > 1 and not (heron.has_moved and all(len(versions) <= 1 for versions in by_uri.values())):
            return f"{heron.name}: two versions at once, {dict(by_uri)}"
        if met - heron.admissible:
            return f"{heron.name}: version {met} is none of {sorted(heron.admissible)}"
        if not met and not heron.may_be_absent:
            return f"{heron.name}: not found, though it never left"
        return None

    # -- changes

    def _new(self, place: str) -> Heron:
        heron = Heron(name_of(self._next), [self.root / place])
        self._next += 1
        self._write(heron)
        return heron

    def _write(self, heron: Heron) -> None:
        heron.version += 1
        heron.admissible.add(heron.version)
        lines = [
            SENTENCE.format(name=heron.name, version=heron.version, number=number, pond=self._random.randint(1, 99))
            for number in range(self._random.randint(1, 40))
        ]
        for place in heron.places:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _add(self) -> str:
        heron = self._new(f"live/new-{self._next}.md")
        self.changing.append(heron)
        return f"add {heron.name}"

    def _edit(self) -> str:
        # Copies are documents of their own: edited one after the other, they are two versions for a while, and rightly so.
        heron = self._random.choice([heron for heron in self.changing if len(heron.places) == 1])
        self._write(heron)
        return f"edit {heron.name}"

    def _delete(self) -> str:
        if len(self.changing) < 6:
            return self._add()
        heron = self.changing.pop(self._random.randrange(len(self.changing)))
        for place in heron.places:
            place.unlink()
        heron.may_be_absent = True
        self.gone.append(heron)
        return f"delete {heron.name}"

    def _move(self) -> str:
        heron = self._random.choice(self.changing)
        new = self.root / "moved" / f"{heron.name}-{self._random.randint(1, 9_999)}.md"
        new.parent.mkdir(exist_ok=True)
        heron.places[0].rename(new)
        heron.places[0] = new
        heron.has_moved = True
        return f"move {heron.name}"

    def _copy(self) -> str:
        heron = self._random.choice(self.changing)
        copy = self.root / "copies" / f"{heron.name}-{self._random.randint(1, 9_999)}.md"
        copy.parent.mkdir(exist_ok=True)
        if copy not in heron.places:
            shutil.copy(heron.places[0], copy)
            heron.places.append(copy)
        return f"copy {heron.name}"
