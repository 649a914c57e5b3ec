"""The parts that routes work with: built by app.py, found in the app's state, never global.

In: a request. Out: the parts, typed. Must not: build anything.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from rag_service.admission import Admission, Permit
from rag_service.answer import Answerer, failures_told
from rag_service.api.write_turn import WriteTurn
from rag_service.errors import RagError
from rag_service.events import Citation, Delta, Done, Event, Failed, Status
from rag_service.index.async_catalog import AsyncCatalog
from rag_service.readiness import Readiness
from rag_service.settings import Settings
from rag_service.telemetry import Metrics, log
from rag_service.uploads import Uploads


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a route may use."""

    settings: Settings
    answerer: Answerer
    admission: Admission
    catalog: AsyncCatalog
    readiness: Readiness
    uploads: Uploads
    metrics: Metrics
    demo: bool
    turn: WriteTurn
    caller: str = ""  # whose request it is: callers take turns

    async def admitted(self, work: Callable[[Permit], AsyncGenerator[Event, None]]) -> AsyncGenerator[Event, None]:
        """The events of `work`, begun once there is a place for it; the place in the queue is told until then.

        Raises Overloaded at once, before the first event; or after places were told, when it has waited too long or given way
        to another caller. Any other failure after the first event of `work` is an event. The place is given up when the
        generator is closed.
        """
        try:
            async with self.admission.join(self.caller) as ticket:
                async with aclosing(ticket.positions()) as positions:
                    async for position in positions:
                        yield Status("queued", position)
                assert ticket.permit is not None  # noqa: S101  positions() ends only then
                async with aclosing(failures_told(work(ticket.permit))) as events:
                    async for event in events:
                        if type(event) is not Delta:  # most are
                            ticket.broken_off = isinstance(event, Failed)
                            self._count(event)
                        yield event
        except RagError as error:
            self.metrics.error_told(error.code)
            log.warning("request_refused", code=error.code)
            raise

    def _count(self, event: Event) -> None:
        if isinstance(event, Citation):
            self.metrics.citations.labels(event.status).inc()
        elif isinstance(event, Failed):
            self.metrics.answers.labels("failed").inc()
            self.metrics.error_told(event.code)
        elif isinstance(event, Done):
            self.metrics.answers.labels(event.finish_reason).inc()
            for stage, milliseconds in event.timings_ms.items():
                self.metrics.stage_seconds.labels(stage).observe(milliseconds / 1000)
            if event.usage:
                self.metrics.tokens.labels("prompt").inc(event.usage.prompt_tokens)
                self.metrics.tokens.labels("completion").inc(event.usage.completion_tokens)
            told = {f"{stage}_ms": milliseconds for stage, milliseconds in event.timings_ms.items()}
            log.info("answered", finish_reason=event.finish_reason, **told)


async def parts(request: Request) -> Parts:
    # Not a plain function: FastAPI would call that in a thread.
    found: Parts = request.app.state.parts
    return replace(found, caller=caller_of(request))


def caller_of(request: Request) -> str:
    """The client's address: there is one key at most, so it tells nobody apart. Behind a proxy that uvicorn trusts (its
    FORWARDED_ALLOW_IPS, else loopback) it is the one that the proxy names."""
    return request.client.host if request.client is not None else ""


PartsDep = Annotated[Parts, Depends(parts)]

# Tells OpenAPI, and so the page at /docs, that these routes may want a key. The Gate is what asks for it.
KEY = Depends(HTTPBearer(auto_error=False, description="RAG_SERVER__API_KEY, where the service has one."))
