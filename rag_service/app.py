"""Builds the service and closes it: the only place that does.

In: settings. Out: a FastAPI app whose lifespan owns every part. Must not: read the environment, or build at import.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.staticfiles import StaticFiles

from rag_service.admission import Admission
from rag_service.answer import Answerer
from rag_service.api import errors as api_errors
from rag_service.api import (
    routes_answers,
    routes_docs,
    routes_documents,
    routes_listing,
    routes_service,
    routes_uploads,
)
from rag_service.api.dependencies import Parts
from rag_service.api.middleware import Gate
from rag_service.api.write_turn import WriteTurn
from rag_service.errors import RagError
from rag_service.index.async_catalog import AsyncCatalog
from rag_service.index.async_vector_store import AsyncVectorStore
from rag_service.index.embeddings import open_embedder
from rag_service.index.query_embeddings import QueryEmbeddings
from rag_service.job_runner import JobRunner
from rag_service.jobs import JobStore
from rag_service.llm import ChatVLLM
from rag_service.local.chroma import chroma_server
from rag_service.local.demo_model import DEMO_ANSWER_TOKENS, DEMO_NOTICE, demo_model_server
from rag_service.local.server import SharedServer
from rag_service.readiness import Readiness, check
from rag_service.retrieval import HybridRetriever
from rag_service.settings import LlmSettings, Settings
from rag_service.telemetry import Metrics, log, trace_headers
from rag_service.uploads import Uploads
from rag_service.upstream import Sampling, Upstream, client_session

# FastAPI's OpenTelemetry wraps every message, and the environment can make it report elsewhere; /metrics is what there is.
NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}

FOLLOW_S = 2.0  # between two looks at a local model server, each of about a millisecond


def create_app(settings: Settings) -> FastAPI:
    """The app. Nothing is opened or started before its lifespan begins."""
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                app.state.parts = await build(settings, metrics, stack)
            except RagError as error:
                app.state.cannot_start = error.message  # for the Gate, which tells it without a traceback
                raise
            yield

    app = FastAPI(
        title="rag-service",
        version=version("rag-service"),
        summary="Answers over your own documents, streamed, with citations that were checked.",
        lifespan=lifespan,
        middleware=middleware(settings, metrics),
        docs_url=None,  # FastAPI's own pages load from another host; routes_docs.py has ours
        redoc_url=None,
        telemetry=NO_TELEMETRY,
    )
    api_errors.install(app, metrics)
    for routes in (routes_answers, routes_uploads, routes_listing, routes_documents, routes_service, routes_docs):
        app.include_router(routes.router)
    app.mount("/static", StaticFiles(directory=routes_service.WEB), name="static")
    return app


def middleware(settings: Settings, metrics: Metrics) -> list[Middleware]:
    """From the outside in. CORS answers preflights itself and is there only when origins are named."""
    gate = Middleware(Gate, settings=settings, metrics=metrics)
    if not settings.server.cors_origins:
        return [gate]
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(settings.server.cors_origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "X-Request-Id"],
        expose_headers=["X-Request-Id", "Retry-After", "Location"],
    )
    return [cors, gate]


async def build(settings: Settings, metrics: Metrics, stack: AsyncExitStack) -> Parts:
    """Every part, each closed by `stack` in reverse order. Raises RagError for what the service cannot be without."""
    model = await asyncio.to_thread(open_embedder, settings.embeddings, trace_headers)
    stack.push_async_callback(asyncio.to_thread, model.close)
    # In threads: reading and loading the model takes seconds, the child servers too; they do not wait for each other.
    demo = demo_model_server(settings.home) if settings.llm.base_url is None else None
    address, base_url, _, _ = await asyncio.gather(
        chroma_address(settings, stack),
        llm_base_url(settings, demo, stack),
        asyncio.to_thread(lambda: model.fingerprint),
        asyncio.to_thread(model.warm_up),
    )
    embeddings = QueryEmbeddings(model)
    stack.push_async_callback(embeddings.close)
    catalog = AsyncCatalog(settings.catalog_path)
    stack.push_async_callback(catalog.close)
    store = AsyncVectorStore(settings.chroma, address)
    stack.push_async_callback(store.close)
    # Chroma's client reads files while it is made: here, and not on the event loop while answers are streaming.
    await check("chroma", store.check())
    llm = llm_settings(settings)
    session = await stack.enter_async_context(client_session(llm))
    upstream = Upstream(session, base_url, llm, settings.stream.flush_interval_ms / 1000)
    if demo is not None:
        await stack.enter_async_context(followed(demo, upstream))
    retriever = HybridRetriever(
        embeddings=embeddings,
        store=store,
        catalog=catalog,
        settings=settings.retrieval,
        collection=settings.collection,
    )
    limits = settings.admission
    admission = Admission(limits.max_running, limits.max_queued, limits.queue_timeout_s)
    metrics.watch(admission)
    jobs = JobStore(settings.home)
    runner = JobRunner(settings, catalog, jobs)
    await stack.enter_async_context(runner.running())
    return Parts(
        settings=settings,
        answerer=Answerer(retriever, ChatVLLM(upstream=upstream, sampling=Sampling()), llm),
        admission=admission,
        catalog=catalog,
        readiness=Readiness(settings.collection, store, catalog, model, upstream),
        uploads=Uploads(settings, catalog, jobs, runner.wake),
        metrics=metrics,
        demo=settings.llm.base_url is None,
        turn=WriteTurn(),
    )


async def chroma_address(settings: Settings, stack: AsyncExitStack) -> Callable[[], Awaitable[str]]:
    """How to find Chroma: the configured server, or the local one, which is started or shared now."""
    if settings.chroma.url is not None:
        url = str(settings.chroma.url)

        async def configured() -> str:
            return url

        return configured
    server = chroma_server(settings.home)
    await started("Chroma", server, stack)

    async def local() -> str:
        return await asyncio.to_thread(server.ensure)

    return local


async def llm_base_url(settings: Settings, demo: SharedServer | None, stack: AsyncExitStack) -> str:
    """The configured endpoint, or the demo model's, which is started or shared now."""
    if demo is None:
        return str(settings.llm.base_url)
    log.warning("demo_model", notice=DEMO_NOTICE)
    return f"{await started('demo model', demo, stack)}/v1"


@asynccontextmanager
async def followed(server: SharedServer, upstream: Upstream) -> AsyncIterator[None]:
    """While in use, a local model server that has died is replaced, and `upstream` told where the new one is."""

    async def follow() -> None:
        while True:
            await asyncio.sleep(FOLLOW_S)
            try:
                upstream.move(f"{await asyncio.to_thread(server.ensure)}/v1")
            except RagError as error:
                log.warning("local_server_lost", problem=error.message)

    task = asyncio.create_task(follow(), name="follow-local-server")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def llm_settings(settings: Settings) -> LlmSettings:
    """As they are set. The demo model rambles, so it gets less room where nobody has set how much."""
    if settings.llm.base_url is not None or "max_tokens" in settings.llm.model_fields_set:
        return settings.llm
    return settings.llm.model_copy(update={"max_tokens": DEMO_ANSWER_TOKENS})


async def started(what: str, server: SharedServer, stack: AsyncExitStack) -> str:
    """Acquire a local server; `stack` gives it back."""
    url = await asyncio.to_thread(server.acquire)
    stack.push_async_callback(asyncio.to_thread, server.release)
    log.info("local_server", what=what, url=url, log=str(server.log_path))
    return url
