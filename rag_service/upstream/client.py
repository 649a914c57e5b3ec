"""Requests to the endpoint: which models it serves, and one streamed completion.

In: chat messages, sampling values. Out: `ServedModel`s; an open `ModelStream`. Every error up to the response's
headers is raised on entering `open`, before there is any event. Must not: send a prompt twice, save where a kept-alive
connection broke before any answer, or leave a connection open that the endpoint could still be working for.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from rag_service.errors import ContextTooLong, UpstreamError, UpstreamModelNotFound, UpstreamRejected
from rag_service.settings import LlmSettings
from rag_service.telemetry import observation, trace_headers
from rag_service.upstream.faults import read_reply, reply_fault, transport_fault
from rag_service.upstream.parser import ChunkParser
from rag_service.upstream.stream import ModelStream

MODELS_TIMEOUT_S = 10.0
ERROR_BODY_TIMEOUT_S = 5.0
# uvicorn, and so vLLM, drops a connection after 5 s without a request; ours must be the first to let go.
KEEPALIVE_S = 4.0
# The end of the body follows `[DONE]` at once. Waiting for it keeps the connection for the next answer.
END_OF_BODY_S = 0.05
# Bounds what one read can bring, and so how long parsing it holds the loop.
READ_BUFFER_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model of the endpoint. `max_model_len` is its window in tokens (prompt and answer), None where not told."""

    id: str
    max_model_len: int | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample one answer. None leaves a value to the settings, or to the endpoint where they have none."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()


def client_session(settings: LlmSettings) -> aiohttp.ClientSession:
    """A session for `Upstream`. Make it in the running loop, and close it."""
    trace = aiohttp.TraceConfig()
    trace.on_connection_reuseconn.append(_note_reuse)
    connector = aiohttp.TCPConnector(limit=settings.max_connections, keepalive_timeout=KEEPALIVE_S)
    return aiohttp.ClientSession(connector=connector, trace_configs=[trace], cookie_jar=aiohttp.DummyCookieJar())


class Upstream:
    """The endpoint at `base_url`. `flush_interval_s` is the least time between two deltas of a stream, 0 for none.

    `session` comes from `client_session`; None is for synchronous callers, who get one a call (`with_session`).
    """

    def __init__(
        self, session: aiohttp.ClientSession | None, base_url: str, settings: LlmSettings, flush_interval_s: float
    ) -> None:
        self._session = session
        self._base_url = base_url.rstrip("/")
        self._settings = settings
        self._flush_interval_s = flush_interval_s
        key = settings.api_key.get_secret_value().strip() if settings.api_key else ""
        self._headers = {"Accept-Encoding": "identity", **({"Authorization": f"Bearer {key}"} if key else {})}
        host = urlsplit(self._base_url).hostname
        self._private = tuple(text for text in (key, host) if text)
        self._served: ServedModel | None = None

    @property
    def settings(self) -> LlmSettings:
        return self._settings

    def with_session(self, session: aiohttp.ClientSession) -> "Upstream":
        """The same endpoint over another session, such as one of another event loop."""
        return Upstream(session, self._base_url, self._settings, self._flush_interval_s)

    def move(self, base_url: str) -> None:
        """The endpoint is at another address from now on; streams that are open go on."""
        if base_url.rstrip("/") != self._base_url:
            self._base_url = base_url.rstrip("/")
            self._served = None

    async def models(self) -> tuple[ServedModel, ...]:
        """What the endpoint lists. Raises UpstreamError."""
        timeout = aiohttp.ClientTimeout(total=MODELS_TIMEOUT_S, connect=self._settings.connect_timeout_s)
        try:
            async with self._open_session().get(
                f"{self._base_url}/models", headers=self._headers, timeout=timeout, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise reply_fault(await read_reply(response), self._private)
                document = orjson.loads(await response.read())
        except orjson.JSONDecodeError:
            document = None
        except (aiohttp.ClientError, OSError) as error:
            raise transport_fault(error) from None
        listed = document.get("data") if isinstance(document, dict) else None
        if not isinstance(listed, list):
            raise UpstreamRejected("What RAG_LLM__BASE_URL leads to lists no models. Does it end in /v1?")
        return tuple(_served_model(entry) for entry in listed if isinstance(entry, dict) and "id" in entry)

    async def served_model(self) -> ServedModel:
        """The configured model, else the first listed; its window is the configured one, else what is told.

        Asked once, then remembered until the endpoint no longer knows the model. Raises UpstreamModelNotFound, naming
        the model asked for and those served, or another UpstreamError.
        """
        if self._served is None:
            listed = await self.models()
            asked = self._settings.model
            found = next((model for model in listed if asked in (None, model.id)), None)
            if found is None:
                raise _model_not_found(asked, listed)
            self._served = replace(found, max_model_len=self._settings.max_model_len or found.max_model_len)
        return self._served

    async def check(self) -> None:
        """Ask the endpoint anew whether it serves the model. Raises UpstreamError."""
        self._served = None
        await self.served_model()

    def open(
        self, messages: Sequence[Mapping[str, str]], sampling: Sampling, *, request_id: str | None = None
    ) -> AbstractAsyncContextManager[ModelStream]:
        """Ask for a completion. Leaving the block before the stream's end makes the endpoint stop at once."""
        return self._opened(messages, sampling, request_id)

    @asynccontextmanager
    async def _opened(
        self, messages: Sequence[Mapping[str, str]], sampling: Sampling, request_id: str | None
    ) -> AsyncIterator[ModelStream]:
        settings = self._settings
        started = asyncio.get_running_loop().time()
        model = settings.model or (await self.served_model()).id
        private = (*self._private, *(message["content"] for message in messages))
        due = min(settings.first_token_timeout_s, settings.total_timeout_s)
        try:
            async with asyncio.timeout_at(started + due):
                response = await self._post(self._body(model, messages, sampling), request_id)
        except (aiohttp.ClientError, OSError) as error:
            raise transport_fault(error) from None
        stream = None
        try:
            if response.status != 200:
                raise await self._refusal(response, model, private)
            if response.content_type != "text/event-stream":
                raise UpstreamRejected("What RAG_LLM__BASE_URL leads to does not stream an answer. Does it end in /v1?")
            stream = ModelStream(
                response.content,
                ChunkParser(private),
                flush_interval_s=self._flush_interval_s,
                first_token_due=started + settings.first_token_timeout_s,
                token_timeout_s=settings.token_timeout_s,
                total_due=started + settings.total_timeout_s,
                model=model,
            )
            yield stream
            if stream.complete:
                await _read_end(response)
        finally:
            # Nothing here waits, so no cancellation can come between. Closing is a no-op where the body was read to its
            # end; elsewhere it closes the socket, and vLLM aborts.
            if stream is not None:
                stream.close()
            response.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("this Upstream has no session: pass one from client_session(), made in the running loop")
        return self._session

    def _body(self, model: str, messages: Sequence[Mapping[str, str]], sampling: Sampling) -> bytes:
        settings = self._settings
        fields: dict[str, Any] = {
            "model": model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": settings.temperature if sampling.temperature is None else sampling.temperature,
            "max_tokens": settings.max_tokens if sampling.max_tokens is None else sampling.max_tokens,
        }
        optional = {"top_p": sampling.top_p, "seed": sampling.seed, "stop": list(sampling.stop) or None}
        fields.update((name, value) for name, value in optional.items() if value is not None)
        try:
            return orjson.dumps(fields)
        except orjson.JSONEncodeError:
            # A lone surrogate has no UTF-8. JSON can carry one in from a client; it must not become a server error.
            fields["messages"] = [
                {name: text.encode("utf-8", "replace").decode() for name, text in message.items()}
                for message in messages
            ]
            return orjson.dumps(fields)

    async def _post(self, body: bytes, request_id: str | None) -> aiohttp.ClientResponse:
        headers = {
            **self._headers,
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            **trace_headers(),
        }
        if request_id is not None:
            headers["X-Request-Id"] = request_id
        connection = SimpleNamespace(reused=False)
        timeout = aiohttp.ClientTimeout(total=None, connect=self._settings.connect_timeout_s)
        while True:
            try:
                return await self._open_session().post(
                    f"{self._base_url}/chat/completions",
                    data=body,
                    headers=headers,
                    timeout=timeout,
                    allow_redirects=False,
                    read_bufsize=READ_BUFFER_BYTES,
                    trace_request_ctx=connection,
                )
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
                # Most likely an idle connection that the endpoint dropped as we took it. A completion changes nothing
                # there, so that sending it once more is safe (RFC 9112, 9.3.1).
                if not connection.reused:
                    raise
                connection.reused = False
                if (seen := observation.get()) is not None:
                    seen.upstream_retries += 1

    async def _refusal(self, response: aiohttp.ClientResponse, model: str, private: Sequence[str]) -> UpstreamError:
        try:
            async with asyncio.timeout(ERROR_BODY_TIMEOUT_S):
                reply = await read_reply(response)
        except (aiohttp.ClientError, OSError) as error:
            return transport_fault(error)
        fault = reply_fault(reply, private)
        if reply.status == 404 or isinstance(fault, ContextTooLong):
            self._served = None  # it may have been started anew, with another model or window
        if reply.status == 404:
            with suppress(UpstreamError):
                listed = await self.models()
                if all(served.id != model for served in listed):
                    return _model_not_found(model, listed)
        return fault


async def _note_reuse(_session: aiohttp.ClientSession, context: SimpleNamespace, _params: object) -> None:
    if context.trace_request_ctx is not None:
        context.trace_request_ctx.reused = True


async def _read_end(response: aiohttp.ClientResponse) -> None:
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(END_OF_BODY_S):
            await response.content.wait_eof()


def _served_model(entry: Mapping[str, Any]) -> ServedModel:
    """vLLM tells `max_model_len`, llama.cpp the window that it runs with in `meta.n_ctx`."""
    meta = entry.get("meta")
    window = entry.get("max_model_len") or (meta.get("n_ctx") if isinstance(meta, dict) else None)
    return ServedModel(str(entry["id"]), window if isinstance(window, int) and window > 0 else None)


def _model_not_found(asked: str | None, listed: Sequence[ServedModel]) -> UpstreamModelNotFound:
    served = [model.id for model in listed]
    named = ", ".join(repr(name) for name in served[:10]) or "no model at all"
    wanted = f"does not serve the model {asked!r}" if asked else "serves no model yet"
    return UpstreamModelNotFound(
        f"The language model's endpoint {wanted}; it serves {named}. Set RAG_LLM__MODEL to one of those, or unset it.",
        details={"model": asked, "served": served},
    )
