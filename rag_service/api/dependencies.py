"""The parts that routes work with: built by app.py, found in the app's state, never global.

In: a request. Out: the parts, typed. Must not: build anything.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from rag_service.admission import Admission, Permit
from rag_service.answer import Answerer, failures_told
from rag_service.errors import RagError
from rag_service.events import Citation, Done, Event, Failed, Status
from rag_service.index.async_catalog import AsyncCatalog
from rag_service.readiness import Readiness
from rag_service.settings import Settings
from rag_service.telemetry import Metrics, log


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a route may use."""

    settings: Settings
    answerer: Answerer
    admission: Admission
    catalog: AsyncCatalog
    readiness: Readiness
    metrics: Metrics
    demo: bool

    def admitted(self, work: Callable[[Permit], AsyncGenerator[Event, None]]) -> AsyncGenerator[Event, None]:
        """The events of `work`, begun once there is a place for it; the place in the queue is told until then.

        Raises Overloaded at once, before the first event. The place is given up when the generator is closed.
        """
        return self._counted(failures_told(self._run(work)))

    async def _run(self, work: Callable[[Permit], AsyncGenerator[Event, None]]) -> AsyncGenerator[Event, None]:
        async with self.admission.join() as ticket:
            async with aclosing(ticket.positions()) as positions:
                async for position in positions:
                    yield Status("queued", position)
            assert ticket.permit is not None  # noqa: S101  positions() ends only then
            async with aclosing(work(ticket.permit)) as events:
                async for event in events:
                    yield event

    async def _counted(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        async with aclosing(events):
            try:
                async for event in events:
                    if isinstance(event, Citation | Done | Failed):
                        self._count(event)
                    yield event
            except RagError as error:
                self.metrics.errors.labels(error.code).inc()
                log.warning("request_refused", code=error.code)
                raise

    def _count(self, event: Citation | Done | Failed) -> None:
        if isinstance(event, Citation):
            self.metrics.citations.labels(event.status).inc()
        elif isinstance(event, Failed):
            self.metrics.answers.labels("failed").inc()
            self.metrics.errors.labels(event.code).inc()
        else:
            self.metrics.answers.labels(event.finish_reason).inc()
            for stage, milliseconds in event.timings_ms.items():
                self.metrics.stage_seconds.labels(stage).observe(milliseconds / 1000)
            if event.usage:
                self.metrics.tokens.labels("prompt").inc(event.usage.prompt_tokens)
                self.metrics.tokens.labels("completion").inc(event.usage.completion_tokens)
            told = {f"{stage}_ms": milliseconds for stage, milliseconds in event.timings_ms.items()}
            log.info("answered", finish_reason=event.finish_reason, **told)


def parts(request: Request) -> Parts:
    found: Parts = request.app.state.parts
    return found


PartsDep = Annotated[Parts, Depends(parts)]

# Tells OpenAPI, and so the page at /docs, that these routes may want a key. The Gate is what asks for it.
KEY = Depends(HTTPBearer(auto_error=False, description="RAG_SERVER__API_KEY, where the service has one."))
