"""The service about itself: /health, /ready, /metrics, /info, and the chat page.

In: requests. Out: JSON, Prometheus text, files of `web/`. Must not: ask for anything slow in /health.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import FileResponse, JSONResponse, Response

from rag_service.api.dependencies import KEY, PartsDep
from rag_service.errors import RagError
from rag_service.local.demo_model import DEMO_NOTICE

router = APIRouter(tags=["service"])

WEB = Path(__file__).parent.parent / "web"


@router.get("/health")
async def health() -> dict[str, str]:
    """The process is alive. It says nothing about what it needs; /ready does."""
    return {"status": "ok"}


@router.get("/ready", responses={503: {"description": "Something is missing; `checks` names it."}})
async def ready(parts: PartsDep) -> Response:
    """Whether a question can be answered now: Chroma, catalog, fingerprint, model endpoint."""
    checks = await parts.readiness.checks()
    content = {
        "ready": all(check.problem is None for check in checks),
        "checks": {check.name: {"ok": check.problem is None, "problem": check.problem} for check in checks},
    }
    return JSONResponse(content, 200 if content["ready"] else 503)


@router.get("/metrics", response_class=Response, dependencies=[KEY])
async def metrics(parts: PartsDep) -> Response:
    """Prometheus metrics, of all workers together."""
    return Response(await parts.metrics.text(), media_type=CONTENT_TYPE_LATEST)


@router.get("/info", dependencies=[KEY])
async def info(parts: PartsDep) -> dict[str, Any]:
    """What the page shows about the service: collection, model, number of documents."""
    collection = parts.settings.collection
    try:
        documents = (await parts.catalog.read(lambda catalog: catalog.counts(collection))).documents
    except RagError:
        documents = 0
    try:
        model = (await parts.answerer.served_model()).id
    except RagError:
        model = None
    return {
        "collection": collection,
        "model": model,
        "demo": parts.demo,
        "notice": DEMO_NOTICE if parts.demo else None,
        "documents": documents,
        "uploads": parts.settings.uploads_enabled,
        "version": version("rag-service"),
    }


@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    """The chat page."""
    return FileResponse(WEB / "index.html", headers={"cache-control": "no-cache"})


@router.get("/favicon.ico", include_in_schema=False)
async def favicon() -> FileResponse:
    return FileResponse(WEB / "favicon.svg", media_type="image/svg+xml")
