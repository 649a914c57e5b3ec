"""The one table from errors to HTTP statuses, and the one form in which an error is told before the first byte.

In: a RagError, or what FastAPI raises. Out: `{"error": {"code", "message", "request_id", "details"?}}`.
Must not: repeat the caller's input, or say more of an unknown failure than that it happened.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from rag_service import errors
from rag_service.errors import RagError
from rag_service.telemetry import Metrics, log, request_id

# The most special class wins; a subclass that is not listed takes its parent's status.
STATUS: dict[type[RagError], int] = {
    RagError: 500,
    errors.InvalidSettings: 500,
    errors.InvalidRequest: 422,
    errors.QuestionTooLong: 413,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Overloaded: 429,
    errors.ShuttingDown: 503,
    errors.UploadsUnavailable: 503,
    errors.IndexUnusable: 503,
    errors.FingerprintMismatch: 409,
    errors.EmbeddingsUnavailable: 503,
    errors.LocalServerFailed: 503,
    errors.UpstreamError: 502,
    errors.UpstreamUnavailable: 503,
    errors.UpstreamTimeout: 504,
    errors.UpstreamRateLimited: 429,
    errors.ContextTooLong: 413,
}

HTTP_CODES = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
}

MAX_FIELD_CHARS = 100
RETRY_AFTER_S = 5.0  # told with 503 where nothing better is known


def status_of(error: RagError) -> int:
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def status_of_code(code: str) -> int:
    """The status of an error that was told as an event; 500 for one that is no RagError."""
    kinds: list[type[RagError]] = [RagError]
    while kinds:
        kind = kinds.pop()
        if kind.code == code:
            return next(STATUS[parent] for parent in kind.__mro__ if parent in STATUS)
        kinds.extend(kind.__subclasses__())
    return 500


def error_response(error: RagError) -> JSONResponse:
    """The error as JSON, with `Retry-After` (whole seconds) where trying again can help."""
    status = status_of(error)
    headers = {}
    wait = error.retry_after_s if error.retry_after_s is not None else RETRY_AFTER_S if status == 503 else None
    if wait is not None:
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(body(error.code, error.message, error.details), status, headers)


def body(code: str, message: str, details: Any = None) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message, "request_id": request_id.get()}
    if details:
        error["details"] = details
    return {"error": error}


def field_name(path: Sequence[str | int]) -> str:
    """Where in the body it is wrong. A caller's own keys stand in it, so it is cut short and free of lone surrogates."""
    name = ".".join(str(part) for part in path if part != "body") or "body"
    return name[:MAX_FIELD_CHARS].encode("utf-8", "replace").decode()


def field_problem(item: Mapping[str, Any]) -> dict[str, str]:
    """One entry of Pydantic's report as a field and what is wrong with it; the value itself is not repeated."""
    if item["type"] == "json_invalid":
        return {"field": "body", "problem": f"it is not JSON: {item['ctx']['error']} at character {item['loc'][-1]}"}
    return {"field": field_name(item["loc"]), "problem": item["msg"].removeprefix("Value error, ")}


def install(app: FastAPI, metrics: Metrics) -> None:
    """Let every error of the app be told in this form. What is not expected is told by the Gate, which is outermost."""

    async def on_rag_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RagError)  # noqa: S101  registered for this class only
        metrics.error_told(error.code)
        log.warning("request_refused", code=error.code, path=request.url.path)
        return error_response(error)

    async def on_invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)  # noqa: S101  registered for this class only
        metrics.error_told("invalid_request")
        fields = [field_problem(item) for item in error.errors()]
        told = "; ".join(f"{item['field']}: {item['problem']}" for item in fields[:5])
        return JSONResponse(body("invalid_request", told, {"fields": fields[:20]}), 422)

    async def on_http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)  # noqa: S101  registered for this class only
        code = HTTP_CODES.get(error.status_code, "http_error")
        return JSONResponse(body(code, str(error.detail)), error.status_code, dict(error.headers or {}))

    app.add_exception_handler(RagError, on_rag_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)
