"""Events to bytes: the native dialect (WIRE.md) as SSE and NDJSON, and its fold into one JSON answer.

In: events. Out: bytes, or a dictionary. Must not: hold state between events beyond a counter, or know the transport.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol

import orjson

from rag_service.events import Citation, Delta, Done, Event, Failed, Source, Sources, Status
from rag_service.telemetry import request_id

# Line readers of some clients split at these; written as escapes, they cannot stand raw in a line.
SEPARATORS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))


class Encoder(Protocol):
    """A dialect: its content type, an event's bytes, and what is sent while there is nothing to say."""

    content_type: str
    ping: bytes

    def encode(self, event: Event) -> bytes: ...


class SseEncoder:
    """Server-sent events: `event:` repeats the type, `id:` counts from 1, one `data:` line."""

    content_type = "text/event-stream; charset=utf-8"
    ping = b": ping\n\n"

    def __init__(self) -> None:
        self._id = 0

    def encode(self, event: Event) -> bytes:
        self._id += 1
        if type(event) is Delta:  # most of them: the same bytes as below, without the dictionary
            return b'event: delta\nid: %d\ndata: {"type":"delta","text":%b}\n\n' % (self._id, to_json(event.text))
        content = native(event)
        return b"event: %b\nid: %d\ndata: %b\n\n" % (content["type"].encode(), self._id, to_json(content))


class NdjsonEncoder:
    """One JSON object a line. An empty line keeps the connection alive; readers of NDJSON pass over it."""

    content_type = "application/x-ndjson"
    ping = b"\n"

    def encode(self, event: Event) -> bytes:
        return to_json(native(event)) + b"\n"


class PartialResultEncoder:
    """The lines of `/api/llm-request`: PARTIAL_RESULT for text, then DONE or ERROR."""

    content_type = "application/x-ndjson"
    ping = b"\n"

    def encode(self, event: Event) -> bytes:
        if isinstance(event, Delta):
            return to_json({"status": "PARTIAL_RESULT", "result": event.text}) + b"\n"
        if isinstance(event, Done):
            return to_json({"status": "DONE"}) + b"\n"
        if isinstance(event, Failed):
            return to_json({"status": "ERROR", "result": event.message}) + b"\n"
        return b""


def to_json(content: Any) -> bytes:
    """One line of JSON in which no line separator stands raw."""
    data = orjson.dumps(content)
    if not data.isascii():
        for raw, escaped in SEPARATORS:
            if raw in data:
                data = data.replace(raw, escaped)
    return data


def native(event: Event) -> dict[str, Any]:
    """An event as a JSON-ready dictionary, its `type` first."""
    return ENCODE[type(event)](event)


def source_json(source: Source) -> dict[str, Any]:
    first, last = source.pages.pages_of(source.span)
    return {
        "n": source.n,
        "document_id": source.document_id,
        "version": source.version,
        "chunk_id": source.chunk_id,
        "title": source.title,
        "uri": source.uri,
        "url": source.url,
        "heading": " > ".join(source.heading_path) or None,
        "page_start": first,
        "page_end": last,
        "page_unit": source.page_unit,
        "start": source.span.start,
        "end": source.span.end,
        "score": source.score,
        "ocr": source.ocr,
        "also_at": list(source.also_at),
        "text": source.text,
    }


def citation_json(citation: Citation) -> dict[str, Any]:
    first, last = citation.pages
    source = citation.source
    span = citation.span
    return {
        "id": citation.id,
        "n": citation.n,
        "answer": {"start": citation.answer.start, "end": citation.answer.end},
        "source": {
            "n": source.n,
            "document_id": source.document_id,
            "version": source.version,
            "chunk_id": source.chunk_id,
            "title": source.title,
            "page_start": first,
            "page_end": last,
            "page_unit": source.page_unit,
            "ocr": source.ocr,
            "start": span.start if span else None,
            "end": span.end if span else None,
            "quote": citation.quote,
        },
        "status": citation.status,
        "score": round(citation.score, 4),
    }


def _status(event: Status) -> dict[str, Any]:
    position = {} if event.position is None else {"position": event.position}
    return {"type": "status", "stage": event.stage, **position}


def _done(event: Done) -> dict[str, Any]:
    return {
        "type": "done",
        "finish_reason": event.finish_reason,
        "usage": asdict(event.usage) if event.usage else None,
        "citations": asdict(event.citations),
        "timings_ms": event.timings_ms,
    }


def _failed(event: Failed) -> dict[str, Any]:
    return {
        "type": "error",
        "code": event.code,
        "message": event.message,
        "request_id": request_id.get(),
        "retryable": event.retryable,
    }


ENCODE: dict[type[Any], Callable[[Any], dict[str, Any]]] = {
    Status: _status,
    Sources: lambda event: {"type": "sources", "sources": [source_json(source) for source in event.sources]},
    Delta: lambda event: {"type": "delta", "text": event.text},
    Citation: lambda event: {"type": "citation", **citation_json(event)},
    Done: _done,
    Failed: _failed,
}


class Fold:
    """The non-streamed answer: the same events, added up."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.sources: tuple[Source, ...] = ()
        self._citations: list[Citation] = []
        self._done: Done | None = None

    def add(self, event: Event) -> None:
        if isinstance(event, Delta):
            self._texts.append(event.text)
        elif isinstance(event, Sources):
            self.sources = event.sources
        elif isinstance(event, Citation):
            self._citations.append(event)
        elif isinstance(event, Done):
            self._done = event

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def answer(self) -> dict[str, Any]:
        """WIRE.md's JSON answer. Call it after `Done`."""
        return {
            "answer": self.text,
            "response": self.text,
            "sources": [source_json(source) for source in self.sources],
            "citations": [citation_json(citation) for citation in self._citations],
            "citation_counts": asdict(self.done.citations),
            **self._outcome(),
            "request_id": request_id.get(),
        }

    def retrieved(self) -> dict[str, Any]:
        """WIRE.md's answer of /retrieve."""
        return {
            "sources": [source_json(source) for source in self.sources],
            "timings_ms": self.done.timings_ms,
            "request_id": request_id.get(),
        }

    def generated(self) -> dict[str, Any]:
        """WIRE.md's answer of /generate."""
        return {"response": self.text, **self._outcome(), "request_id": request_id.get()}

    @property
    def done(self) -> Done:
        """How it ended; every stream of events ends with Done or Failed, and after Failed nobody asks."""
        assert self._done is not None  # noqa: S101
        return self._done

    def _outcome(self) -> dict[str, Any]:
        done = _done(self.done)
        return {name: done[name] for name in ("finish_reason", "usage", "timings_ms")}
