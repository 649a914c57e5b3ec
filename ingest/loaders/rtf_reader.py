"""The control language of RTF: bytes become paragraphs and table rows (Rich Text Format specification 1.9.1).

In: the bytes of a .rtf. Out: `Paragraph` and `Row` values in document order, and what was left out. Must not: recurse
(groups nest without limit); show what the document hides; take the instructions of a field, or a picture, for text.

Written here because the libraries at hand give one string: no headings, no cells, and hidden text among the rest.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ingest.loaders import rtf_words as words

_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n\x00]+|([^\\{}\r\n\x00]+)|(\\)",
    re.S,
)
_HEADING_STYLE = re.compile(r"heading (\d)\b", re.I)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """`level` is 1 to 9 for headings; `label` is the number or bullet of a list."""

    text: str
    level: int | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a table's row, each on one line."""

    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Group:
    """What holds until the group's closing brace. After a `\\u`, `fallback` characters repeat it for old readers; what is
    `counted` (a footnote, say) is left out with all that stands in it."""

    destination: words.Destination = "body"
    hidden: bool = False
    deleted: bool = False
    font: int | None = None
    fallback: int = 1
    counted: bool = False


@dataclass(slots=True)
class _Style:
    number: int = 0
    name: str = ""
    level: int | None = None


@dataclass(slots=True)
class RtfReader:
    """One pass over a document; `title`, `author` and `omitted` are complete when `blocks` has ended."""

    data: bytes
    title: str = ""
    author: str = ""
    omitted: Counter[str] = field(default_factory=Counter)
    _group: _Group = field(default_factory=_Group)
    _stack: list[_Group] = field(default_factory=list)
    _codepage: str = "cp1252"
    _fonts: dict[int, str] = field(default_factory=dict)
    _default_font: int | None = None
    _styles: dict[int, int] = field(default_factory=dict)  # style number to heading level
    _style: _Style = field(default_factory=_Style)
    _starred: bool = False
    _to_skip: int = 0  # characters that repeat the last Unicode one for old readers
    _bytes: bytearray = field(default_factory=bytearray)
    _text: list[str] = field(default_factory=list)
    _label: list[str] = field(default_factory=list)
    _cell: list[str] = field(default_factory=list)
    _cells: list[str] = field(default_factory=list)
    _in_table: bool = False
    _level: int | None = None
    _was_hidden: bool = False

    def blocks(self) -> Iterator[Paragraph | Row]:
        """Everything visible in document order, up to the brace that closes the document."""
        at = 0
        while match := _TOKEN.match(self.data, at):
            at = match.end()
            word, number, octet, symbol, brace, plain, _ = match.groups()
            if word is not None:
                name = word.decode("ascii")
                if name == "bin":  # so many bytes follow that are no RTF
                    at += max(int(number or 0), 0)
                    continue
                yield from self._word(name, int(number) if number is not None else None)
            elif octet is not None:
                self._octets(bytes.fromhex(octet.decode("ascii")))
            elif symbol is not None:
                yield from self._symbol(symbol.decode("latin-1"))
            elif brace == b"{":
                self._settle()
                self._stack.append(self._group)
                self._starred, self._to_skip = False, 0
            elif brace == b"}":
                self._settle()
                if self._stack:
                    self._close(self._stack.pop())
                if not self._stack:
                    break
            elif plain is not None:
                self._octets(plain)
        self._settle()
        yield from self._paragraph()
        yield from self._row()

    # -- characters

    def _octets(self, data: bytes) -> None:
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            data = data[skipped:]
        self._starred = False
        if self._group.destination != "skip":
            self._bytes += data

    def _settle(self) -> None:
        """Decode the bytes so far: what follows may be in another charset, or another place."""
        if self._bytes:
            font = self._group.font if self._group.font is not None else self._default_font
            encoding = self._fonts.get(font, self._codepage) if font is not None else self._codepage
            text = self._bytes.decode(encoding, "replace")
            self._bytes.clear()
            self._put(text)

    def _put(self, text: str) -> None:
        match self._group.destination:
            case "body" if self._group.hidden or self._group.deleted:
                if text.strip() and not self._was_hidden:
                    self.omitted["hidden passages" if self._group.hidden else "deleted passages"] += 1
                    self._was_hidden = True
            case "body":
                self._was_hidden = False
                self._text.append(text)
            case "label":
                self._label.append(text)
            case "styles":
                self._style.name += text
            case "title" | "author" as name:
                setattr(self, name, getattr(self, name) + text)

    # -- control words

    def _symbol(self, symbol: str) -> Iterator[Paragraph | Row]:
        if symbol == "*":
            self._starred = True
            return
        if self._to_skip and symbol not in "\r\n":
            self._to_skip -= 1
            return
        meaning = words.SYMBOLS.get(symbol, "")
        if meaning is None:
            yield from self._word("par", None)
        elif meaning and self._group.destination != "skip":
            self._settle()
            self._put(meaning)

    def _word(self, word: str, number: int | None) -> Iterator[Paragraph | Row]:
        starred, self._starred = self._starred, False
        if word == "u" and number is not None:
            self._unicode(number)
            return
        self._settle()
        self._to_skip = 0
        if word in words.DESTINATIONS or starred:
            self._enter(word)
        elif self._group.destination == "fonts":
            self._font(word, number)
        elif self._group.destination == "styles":
            self._in_stylesheet(word, number)
        elif not self._format(word, number) and self._group.destination == "body":
            yield from self._layout(word, number)
        elif word in words.CHARACTERS:
            self._put(words.CHARACTERS[word])

    def _unicode(self, number: int) -> None:
        self._settle()
        if self._group.destination != "skip":
            self._put(chr(number % 0x10000) if number < 0x10000 else chr(min(number, 0x10FFFF)))
        self._to_skip = self._group.fallback

    def _enter(self, word: str) -> None:
        group = self._group
        if word in words.COUNTED and group.destination == "body":
            self.omitted[words.COUNTED[word]] += 1
            group = replace(group, counted=True)
        revived = group.destination == "skip" and word in words.REVIVING and not group.counted
        if group.destination != "skip" or revived:
            self._group = replace(group, destination=words.DESTINATIONS.get(word, "skip"))
        if revived and self._group.destination == "body" and self._text:
            self._text.append("\n")  # a text box stands apart from the words that it is anchored to

    def _close(self, outer: _Group) -> None:
        if self._group.destination == "styles" and outer.destination == "styles":
            self._keep_style()
        self._group = outer
        self._to_skip = 0

    def _font(self, word: str, number: int | None) -> None:
        if word == "f" and number is not None:
            self._group = replace(self._group, font=number)
        elif self._group.font is not None and word == "fcharset" and number in words.CHARSETS:
            self._fonts[self._group.font] = words.CHARSETS[number]
        elif self._group.font is not None and word == "cpg" and (encoding := words.codec(number)):
            self._fonts[self._group.font] = encoding

    def _in_stylesheet(self, word: str, number: int | None) -> None:
        if word == "s":
            self._style.number = number or 0
        elif word == "outlinelevel" and number is not None and 0 <= number < 9:
            self._style.level = number + 1

    def _keep_style(self) -> None:
        named = _HEADING_STYLE.match(self._style.name.strip())
        level = int(named[1]) if named else self._style.level
        if level:
            self._styles[self._style.number] = level
        self._style = _Style()

    def _format(self, word: str, number: int | None) -> bool:
        """Whether the word sets what holds from here on, and not a character or the end of something."""
        on = number != 0
        match word:
            case "v":
                self._group = replace(self._group, hidden=on)
            case "deleted":
                self._group = replace(self._group, deleted=on)
            case "plain":
                self._group = replace(self._group, hidden=False, deleted=False, font=None)
            case "f":
                self._group = replace(self._group, font=number)
            case "uc":
                self._group = replace(self._group, fallback=max(0, min(number if number is not None else 1, 16)))
            case "deff":
                self._default_font = number
            case "ansicpg":
                self._codepage = words.codec(number) or self._codepage
            case "mac" | "pc" | "pca":
                self._codepage = words.SYSTEMS[word]
            case _:
                return False
        return True

    def _layout(self, word: str, number: int | None) -> Iterator[Paragraph | Row]:
        match word:
            case "par" | "sect" | "page":
                yield from self._paragraph()
            case "cell":
                self._end_of_cell()
            case "row":
                yield from self._row()
            case "pard":
                self._in_table, self._level = False, None
            case "intbl":
                self._in_table = True
            case "s":
                self._level = self._styles.get(number or 0)
            case "outlinelevel" if number is not None:
                self._level = number + 1 if 0 <= number < 9 else None
            case _ if word in words.CHARACTERS:
                self._put(words.CHARACTERS[word])

    # -- blocks

    def _paragraph(self) -> Iterator[Paragraph | Row]:
        text, label = "".join(self._text).strip(), "".join(self._label).strip()
        self._text.clear()
        self._label.clear()
        if self._in_table:
            self._cell.append(f"{label} {text}")
            return
        yield from self._row()
        if text:
            yield Paragraph(text, self._level, label)

    def _end_of_cell(self) -> None:
        self._cell.extend(("".join(self._label), "".join(self._text)))
        self._text.clear()
        self._label.clear()
        self._cells.append(" ".join(" ".join(self._cell).split()))
        self._cell.clear()

    def _row(self) -> Iterator[Row]:
        if self._cell:
            self._end_of_cell()
        if any(self._cells):
            yield Row(tuple(self._cells))
        self._cells.clear()
