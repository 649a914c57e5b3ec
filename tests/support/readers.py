"""Strict readers of what the service sends: one for server-sent events, one for NDJSON, one for a whole native event log.

In: bytes in pieces of any size, or events. Out: events; AssertionError on anything that a client's parser could trip over.
Must not: forgive, or import the package under test.
"""

import codecs
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]
TERMINAL = ("done", "error")
STATUSES = ("verified", "weak", "misattributed", "unsupported")
# Line ends of Python's and other languages' line readers that are none in JSON or server-sent events.
ODD_LINE_ENDS = "\u2028\u2029\u0085\v\f\x1c\x1d\x1e"


@dataclass
class ServerSent:
    """One event as a browser's EventSource would give it out."""

    type: str
    data: str
    id: str


@dataclass
class SseReader:
    """Parses by the WHATWG's rules (HTML, 9.2.6), and fails where they would silently pass over something."""

    comments: list[str] = field(default_factory=list)
    _decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("strict"))
    _rest: str = ""
    _fields: dict[str, str] = field(default_factory=dict)

    def feed(self, data: bytes) -> list[ServerSent]:
        """The events that `data` completes."""
        self._rest += self._decoder.decode(data)
        *lines, self._rest = self._rest.split("\n")
        found = (self._line(line) for line in lines)
        return [event for event in found if event is not None]

    def close(self) -> None:
        """The body is over: nothing may be left unfinished."""
        self._decoder.decode(b"", final=True)
        assert (self._rest, self._fields) == ("", {}), "the stream ended inside an event"

    def _line(self, line: str) -> ServerSent | None:
        assert "\r" not in line, "carriage returns end lines too: a raw one cuts the event"
        assert not set(line) & set(ODD_LINE_ENDS), f"a line end of some readers stands raw in {line!r}"
        if line.startswith(":"):
            assert not self._fields, "a comment inside an event"
            self.comments.append(line[1:].strip())
            return None
        if line:
            name, colon, value = line.partition(":")
            assert colon, f"a line without a colon: {line!r}"
            assert name in ("event", "data", "id"), f"a field that nobody knows: {line!r}"
            assert name not in self._fields, f"two lines of {name} in one event"
            self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        if not fields:
            return None
        assert "data" in fields, "an event without data is never given out"
        return ServerSent(fields.get("event", "message"), fields["data"], fields.get("id", ""))


def native_sse(pieces: Iterable[bytes], reader: SseReader | None = None) -> list[Event]:
    """The native events of a whole SSE body."""
    reader = reader or SseReader()
    sent = [event for piece in pieces for event in reader.feed(piece)]
    reader.close()
    return [native_event(event, n) for n, event in enumerate(sent, start=1)]


def native_event(sent: ServerSent, n: int) -> Event:
    """The `n`-th event of a native stream, counted from 1."""
    event: Event = json.loads(sent.data)
    assert (sent.type, sent.id) == (event["type"], str(n))
    return event


def ndjson(pieces: Iterable[bytes]) -> list[Event]:
    """The objects of a whole NDJSON body; blank lines are passed over, as the format's rules allow."""
    text = b"".join(pieces).decode("utf-8", "strict")
    assert text.endswith("\n"), "the last line is not ended"
    assert text.splitlines() == text[:-1].split("\n"), "some readers would split a line in two"
    objects = [json.loads(line) for line in text.split("\n") if line]
    assert all(isinstance(value, dict) for value in objects)
    return objects


def answer_text(events: Iterable[Event]) -> str:
    return "".join(event["text"] for event in events if event["type"] == "delta")


def check_log(events: list[Event], text_of: Callable[[str], str]) -> str:
    """Check a whole native log and return its answer. `text_of` gives the text of a document by its id."""
    types = [event["type"] for event in events]
    assert [kind for kind in types if kind in TERMINAL] == types[-1:], "exactly one terminal event, and it comes last"
    if "delta" in types:
        assert types.count("sources") == 1
        assert types.index("sources") < types.index("delta")
    sources = {source["n"]: source for event in events if event["type"] == "sources" for source in event["sources"]}
    assert list(sources) == list(range(1, len(sources) + 1)), "sources are numbered from 1 without a gap"
    for source in sources.values():
        assert 0 <= source["score"] <= 1
        assert text_of(source["document_id"])[source["start"] : source["end"]] == source["text"]
    citations = [event for event in events if event["type"] == "citation"]
    check_citations(citations, sources, answer_text(events), text_of)
    if types[-1] == "done":
        told = events[-1]["citations"]
        assert {status: told[status] for status in STATUSES} == {
            status: sum(citation["status"] == status for citation in citations) for status in STATUSES
        }
    return answer_text(events)


def check_citations(
    citations: list[Event], sources: dict[int, Event], answer: str, text_of: Callable[[str], str]
) -> None:
    """Both ends of every citation are where it says."""
    assert len({citation["id"] for citation in citations}) == len(citations)
    for citation in citations:
        span, source = citation["answer"], citation["source"]
        assert 0 <= span["start"] < span["end"] <= len(answer)
        assert citation["n"] in sources
        assert 0 <= citation["score"] <= 1
        shown = sources[source["n"]]
        assert [source[name] for name in ("document_id", "version", "chunk_id")] == [
            shown[name] for name in ("document_id", "version", "chunk_id")
        ]
        if citation["status"] in ("verified", "misattributed"):
            assert source["quote"]
        if source["quote"] is not None:
            assert text_of(source["document_id"])[source["start"] : source["end"]] == source["quote"]
            assert shown["start"] <= source["start"] < source["end"] <= shown["end"]
