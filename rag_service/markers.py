"""Citation markers in a stream of text: found across any split, rewritten as `[1][3]`, never sent by halves.

In: the model's text in pieces of any size, and the numbers that name sources. Out: `Piece` values whose texts, joined,
are the answer. Must not: know sources, sentences or events (pure, standard library).

A marker is a bracket (`[…]`, `【…】`, `［…］`) that holds nothing but numbers of up to four digits, lists and ranges of
them, each with an optional "source" before it and an optional `†…` at the end. A number that names no source is taken
out and counted, and so is a range unless both its ends name sources. Everything else in brackets is text, as is all
code and `[1](…)`, a Markdown link. Inline code lasts to its closing run of backticks, at most to the end of the line.
"""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

Kind = Literal["text", "marker", "code", "fence"]

MAX_HOLD = 64  # characters that are held back for one undecided bracket
_CLOSING = {"[": "]", "【": "】", "［": "］"}
_WORDS = ("sources", "quellen", "来源", "and", "und")
_NAME = r"(?:sources?|quellen?|来源)"
_NUMBER = r"(?:\d{1,4}|[①-⑳])"
_DASH = r"[-‐‑–—]"
_ITEM = rf"(?:{_NAME}[\s:#]*)?({_NUMBER})(?::\d+)?(?:\s*{_DASH}\s*({_NUMBER}))?"
_FORM = re.compile(rf"\s*{_ITEM}(?:\s*(?:[,;、，&]|and|und)\s*{_ITEM})*\s*(?:†.*)?", re.IGNORECASE)
_EACH = re.compile(_ITEM, re.IGNORECASE)
# All that a marker's inside can begin with; looser than _FORM, which decides once the bracket is closed.
_BODY = re.compile(
    rf"(?:[\d①-⑳,;、，&:# \t\u00a0\u202f‐‑–—-]|{_NAME}|and|und)*(?:†[^\[\]【】［］`~\\\n]*)?", re.IGNORECASE
)
_STOP = re.compile(r"[\[【［\n\\]|`{1,64}|~{1,64}")
_CODE_STOP = re.compile(r"\n|`{1,64}|~{1,64}")
_LEAD = re.compile(r"[\s>*+\d.)-]*")  # what may stand on a line before a code fence: quotes, bullets, numbers
_SWALLOWS_SPACE = frozenset(".,;:!?…。，、；：！？)]}»”’\"'")


class Piece(NamedTuple):
    """A stretch of the answer. A `marker` has the numbers it names in order; one that was wholly dropped has neither
    numbers nor text, but says where it stood. `code` is inline, `fence` a block.
    """

    text: str
    kind: Kind = "text"
    numbers: tuple[int, ...] = ()


class MarkerParser:
    """Reads one answer. `plain` is True while text without brackets, backticks, tildes, backslashes and newlines, and
    without a space at its end, would come out as it went in, so that the caller may pass such text by.
    """

    def __init__(self, known: Iterable[int]) -> None:
        self._known = frozenset(known)
        self._held = ""  # a bracket, a run of backticks or a backslash that cannot be judged yet
        self._space = False  # one space is held back: it goes with a dropped marker
        self._gap = False  # that marker was dropped
        self._mode: Literal["", "code", "fence"] = ""
        self._fence = ""  # the run that opened the code
        self._info = False  # on the line that opened a fence
        self._closing = False  # on a line that closes the fence unless more text follows
        self._lead = True  # nothing but _LEAD on this line so far
        self.dropped = 0
        self.plain = False

    def feed(self, text: str) -> list[Piece]:
        """What is certain now. O(len(text)) plus at most MAX_HOLD."""
        return self._scan(self._held + text, final=False)

    def finish(self) -> list[Piece]:
        """The answer is over: what was held back."""
        return self._scan(self._held, final=True)

    def _scan(self, buffer: str, *, final: bool) -> list[Piece]:
        out: list[Piece] = []
        at = 0
        while at < len(buffer):
            stop = (_CODE_STOP if self._mode else _STOP).search(buffer, at)
            if stop is None:
                self._text(out, buffer[at:], before_gap=True)
                at = len(buffer)
                break
            char, begin, end = buffer[stop.start()], stop.start(), stop.end()
            if char in _CLOSING:
                self._text(out, buffer[at:begin], before_gap=True)
                bracket = self._bracket(buffer, begin, final=final)
                at = begin
                if bracket is None:
                    break
                end, numbers = bracket
                self._marked(out, buffer[begin:end], numbers)
            elif end == len(buffer) and not final and char != "\n" and end - begin < MAX_HOLD:
                self._text(out, buffer[at:begin])
                at = begin
                break
            elif char == "\n":
                self._text(out, buffer[at:end])
                self._newline()
            elif char == "\\":
                end += 0 if buffer[end : end + 1] == "\n" else 1
                self._text(out, buffer[at:end])
            else:
                self._text(out, buffer[at:begin])
                self._run(out, buffer[begin:end])
            at = end
        self._held = buffer[at:]
        if final and self._space and not self._gap:
            out.append(Piece(" "))
        self.plain = not (self._held or self._space or self._mode or self._lead)
        return out

    def _text(self, out: list[Piece], text: str, *, before_gap: bool = False) -> None:
        """Pass text on. `before_gap`: a marker may follow, so a space at its end is held back."""
        if not text:
            return
        if self._space:
            swallowed = self._gap and (text[0].isspace() or text[0] in _SWALLOWS_SPACE)
            text = text if swallowed else " " + text
            self._space = self._gap = False
        if before_gap and not self._mode and text[-1] == " ":
            text = text[:-1]
            self._space = True
        if not text:
            return
        blank = text.isspace() if self._mode == "fence" else bool(_LEAD.fullmatch(text)) if self._lead else False
        self._lead = self._lead and blank
        self._closing = self._closing and blank
        out.append(Piece(text, self._mode or "text"))

    def _newline(self) -> None:
        if self._mode == "code" or self._closing:
            self._mode = ""
        self._info = self._closing = False
        self._lead = True

    def _run(self, out: list[Piece], run: str) -> None:
        """A run of backticks or tildes: it may open or close code."""
        was = self._mode
        if was == "fence" and not (self._info and run[0] == "`" == self._fence[0]):
            closes = self._lead and not self._info and run[0] == self._fence[0] and len(run) >= len(self._fence)
            out.append(Piece(run, "fence"))
            self._closing, self._lead = closes, False
            return
        lead = self._lead
        self._lead = False
        if was:  # inline code, or what looked like a fence and is inline code: ```x```
            self._mode = "" if run == self._fence else "code"
            out.append(Piece(run, "code" if self._mode else "text"))
            return
        self._text(out, run)
        if len(run) >= 3 and lead:
            self._mode, self._fence, self._info = "fence", run, True
        elif run[0] == "`":
            self._mode, self._fence = "code", run

    def _bracket(self, buffer: str, begin: int, *, final: bool) -> tuple[int, tuple[int | None, ...]] | None:
        """Judge the bracket at `begin`: its end and its numbers, None in place of one that names no source and no
        numbers at all for text. None: it takes more text to tell.
        """
        end = _BODY.match(buffer, begin + 1).end()  # type: ignore[union-attr]  # matches the empty string too
        rest = buffer[end : end + 8].lower()
        open_ended = end + len(rest) == len(buffer) and any(word.startswith(rest) for word in _WORDS)
        if open_ended and not final and len(buffer) - begin <= MAX_HOLD:
            return None
        if end - begin > MAX_HOLD or buffer[end : end + 1] != _CLOSING[buffer[begin]]:
            return end, ()
        if not _FORM.fullmatch(buffer, begin + 1, end):
            return end + 1, ()
        if buffer[begin] == "[":
            after = buffer[end + 1 : end + 2]
            if not after and not final:
                return None
            if after == "(":
                return end + 1, ()
        dagger = buffer.find("†", begin, end)
        return end + 1, self._numbers(buffer[begin + 1 : end if dagger < 0 else dagger])

    def _numbers(self, body: str) -> tuple[int | None, ...]:
        found: list[int | None] = []
        for match in _EACH.finditer(body):
            first = _value(match[1])
            last = _value(match[2]) if match[2] else first
            if first in self._known and last in self._known and first <= last:
                found += [n for n in sorted(self._known) if first <= n <= last]
            else:
                found.append(None)
        return tuple(found)

    def _marked(self, out: list[Piece], raw: str, numbers: tuple[int | None, ...]) -> None:
        if not numbers:
            self._text(out, raw)
            return
        kept = tuple(dict.fromkeys(n for n in numbers if n is not None))
        self.dropped += numbers.count(None)
        if kept:
            if self._space:
                self._space = self._gap = False
                out.append(Piece(" "))
            self._lead = False
        else:
            self._gap = self._space
        out.append(Piece("".join(f"[{n}]" for n in kept), "marker", kept))


def _value(number: str) -> int:
    return ord(number) - ord("①") + 1 if "①" <= number <= "⑳" else int(number)
