"""What went wrong at the endpoint -> the UpstreamError that says so, with what to do about it.

In: an HTTP error reply, an error object inside the stream, or an exception of aiohttp or the socket. Out: an
UpstreamError. Must not: repeat a body, a key, a host, a path or a prompt. At most a cleaned one-line excerpt of a JSON
`message` is passed on, and none at all when it quotes the prompt.
"""

import email.utils
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from rag_service.errors import (
    ContextTooLong,
    UpstreamDisconnected,
    UpstreamError,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnavailable,
)

MAX_BODY_BYTES = 1 << 16
MAX_EXCERPT_CHARS = 200
# A model takes seconds to minutes to load; asking again sooner than this is of no use.
RETRY_AFTER_S = 5.0
# So many characters in common with the prompt count as quoting it. Fewer would hide ordinary words.
_QUOTE_CHARS = 12

# vLLM: "maximum context length is 4096 tokens", "maximum model length of 4096", "maximum context length (4096)";
# llama.cpp: "the available context size (4096 tokens)".
_WINDOW = re.compile(r"(?:context (?:length|size|window)|model length)\W+(?:is |of |only )*\(?(\d+)", re.IGNORECASE)
_WINDOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_MARKUP = re.compile(r"<[a-zA-Z!/]")
_SECRETS = re.compile(
    r"""\w+://\S+                                   # addresses
      | \bBearer\s+\S+                              # credentials
      | \b(?:sk|pk|hf|gsk|key|token)[-_][\w*.-]{3,}
      | (?<![\w.])/(?:[\w.@-]+/)+[\w.@-]*           # paths
      | \b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b        # hosts
      | \[?[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){3,7}\]?(?::\d+)?
      | \b(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?\b
      | \b[\w-]+:\d{2,5}\b""",
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An error as the endpoint told it. `message` is raw, for recognising it only; it must not be shown."""

    status: int
    message: str = ""
    kind: str = ""
    retry_after_s: float | None = None


async def read_reply(response: aiohttp.ClientResponse) -> ErrorReply:
    """Read an error response, at most MAX_BODY_BYTES of it. The caller bounds the time."""
    body = bytearray()
    while len(body) < MAX_BODY_BYTES and (piece := await response.content.readany()):
        body += piece
    try:
        document = orjson.loads(bytes(body[:MAX_BODY_BYTES]))
    except orjson.JSONDecodeError:
        document = None
    message, kind, _ = _told(document)
    return ErrorReply(response.status, message, kind, _retry_after(response.headers.get("Retry-After")))


def reply_fault(reply: ErrorReply, private: Sequence[str]) -> UpstreamError:
    """The error of a reply with a status of 300 and above."""
    status, details = reply.status, {"status": reply.status}
    if reply.status in {400, 413, 422} and (fault := _window_fault(reply)):
        return fault
    if status in {401, 403}:
        return UpstreamRejected(
            f"The language model's endpoint refused the service's key ({status}). Set RAG_LLM__API_KEY to the key"
            " that it was started with.",
            details=details,
        )
    if status == 429:
        wait = {} if reply.retry_after_s is None else {"retry_after_s": reply.retry_after_s}
        return UpstreamRateLimited(
            "The language model's endpoint has too many requests (429). Try again later.", details=wait
        )
    if status == 503:
        wait_s = RETRY_AFTER_S if reply.retry_after_s is None else reply.retry_after_s
        return UpstreamUnavailable(
            "The language model is not available yet (503). Try again in a moment.", details={"retry_after_s": wait_s}
        )
    hint = " Does RAG_LLM__BASE_URL end in /v1?" if status in {301, 302, 307, 308, 404, 405} else ""
    said = excerpt(reply.message, private)
    return UpstreamRejected(
        f"The language model's endpoint answered with an error ({status}){f': {said}' if said else '.'}{hint}",
        details=details,
    )


def stream_fault(document: dict[str, Any], private: Sequence[str]) -> UpstreamError:
    """The error of an `{"error": …}` object inside a stream that began with 200."""
    message, kind, status = _told(document)
    if fault := _window_fault(ErrorReply(status or 500, message, kind)):
        return fault
    said = excerpt(message, private)
    return UpstreamRejected(
        f"The language model's endpoint broke the answer off{f': {said}' if said else '.'}",
        details={"status": status} if status else None,
    )


def transport_fault(error: BaseException) -> UpstreamError:
    """The error of an exception from aiohttp, asyncio or the socket, before or inside a stream."""
    if isinstance(error, UpstreamError):
        return error
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return _unavailable("it did not accept a connection in time")
    if isinstance(error, TimeoutError):
        return UpstreamTimeout("The language model's endpoint did not answer in time. Try again later.")
    if isinstance(error, aiohttp.ClientSSLError | aiohttp.ServerFingerprintMismatch):
        return _unavailable("its TLS certificate or protocol was not accepted")
    if isinstance(error, aiohttp.ClientConnectorDNSError) or isinstance(_os_error(error), socket.gaierror):
        return _unavailable("its host name is not known")
    if isinstance(error, aiohttp.ClientConnectorError):
        refused = isinstance(_os_error(error), ConnectionRefusedError)
        return _unavailable("the connection was refused" if refused else "the network does not lead there")
    if isinstance(error, aiohttp.InvalidURL):
        return _unavailable("its address is not valid")
    return UpstreamDisconnected("The connection to the language model broke before the answer was complete. Try again.")


def excerpt(message: str, private: Sequence[str]) -> str:
    """One line of `message` fit to be shown: no markup, no secrets, nothing of `private`; "" when nothing is left."""
    # Validation reports repeat the request after these words.
    line = " ".join(re.split(r"['\"]?input(?:_value)?['\"]?\s*[=:]", message)[0].split())
    if _MARKUP.search(line):
        return ""
    for secret in private:
        if 3 < len(secret) <= MAX_EXCERPT_CHARS:
            line = line.replace(secret, "…")
    line = _SECRETS.sub("…", line)
    if len(line) > MAX_EXCERPT_CHARS:
        line = line[: MAX_EXCERPT_CHARS - 1].rstrip() + "…"
    pieces = [line[i : i + _QUOTE_CHARS] for i in range(max(1, len(line) - _QUOTE_CHARS + 1))]
    # Prompts are compared with their white space folded, as the excerpt's is.
    folded = [" ".join(text.split()) for text in private if len(text) >= _QUOTE_CHARS]
    if any(piece in text for text in folded for piece in pieces if len(piece) == _QUOTE_CHARS):
        return ""
    return line


def _unavailable(reason: str) -> UpstreamUnavailable:
    return UpstreamUnavailable(
        f"The language model is not reachable: {reason}. Is it running, and is RAG_LLM__BASE_URL right?",
        details={"retry_after_s": RETRY_AFTER_S},
    )


def _window_fault(reply: ErrorReply) -> ContextTooLong | None:
    found = _WINDOW.search(reply.message)
    if found is None and reply.kind not in _WINDOW_CODES:
        return None
    limit = int(found[1]) if found else None
    window = f" of {limit} tokens" if limit else ""
    return ContextTooLong(
        f"Question, sources and answer do not fit the model's window{window}. Ask a shorter question, or lower"
        " max_tokens or top_k.",
        details={"max_model_len": limit} if limit else None,
    )


def _os_error(error: BaseException) -> BaseException | None:
    return error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error


def _told(document: object) -> tuple[str, str, int | None]:
    """Message, kind and status of an error document: OpenAI's and vLLM's shape, the older flat one, FastAPI's."""
    if not isinstance(document, dict):
        return "", "", None
    inner = document.get("error", document)
    if isinstance(inner, str):
        return inner, "", None
    if not isinstance(inner, dict):
        return "", "", None
    message = inner.get("message") or inner.get("detail") or ""
    code = inner.get("code")
    kind = code if isinstance(code, str) else inner.get("type")
    return (
        message if isinstance(message, str) else "",
        kind if isinstance(kind, str) else "",
        code if isinstance(code, int) else None,
    )


def _retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header, which holds seconds or a date (RFC 9110, 10.2.3)."""
    if not value:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
