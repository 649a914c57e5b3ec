"""The one ASGI middleware: request id, key, other sites, body limit, security headers, and the last catch.

It is pure ASGI, so that streams and disconnects pass through it untouched (a BaseHTTPMiddleware hides the client's leaving).

In: ASGI messages. Out: the same, with headers; or a refusal. Must not: buffer a body or a response.
"""

import re
import secrets
from collections.abc import Awaitable
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_service.answer import INTERNAL_ERROR
from rag_service.api.errors import body, error_response
from rag_service.errors import RagError, Unauthorized
from rag_service.settings import Settings
from rag_service.telemetry import Metrics, log, request_id

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# The same for everybody who installs this: no document, no question and no number of this service is in them.
OPEN_PATHS = ("/", "/health", "/ready", "/favicon.ico", "/docs", "/openapi.json")
OPEN_FOLDERS = ("/static/", "/docs/")
UPLOAD = ("POST", "/documents")  # has a limit of its own
GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Gate:
    """Every request passes here first."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        server = settings.server
        self._app = app
        self._metrics = metrics
        self._key = server.api_key.get_secret_value().strip().encode() if server.api_key else None
        self._origins = server.cors_origins
        self._limit = BodyLimit(server.max_body_bytes, "RAG_SERVER__MAX_BODY_BYTES")
        self._upload_limit = BodyLimit(settings.uploads.max_mb * 1_000_000, "RAG_UPLOADS__MAX_MB")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, _plainly(scope, send))
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        current = given if GIVEN_ID.fullmatch(given) else secrets.token_hex(8)
        token = request_id.set(current)
        sending = _Headed(send, current)
        try:
            await self._admit(scope, headers, receive, sending)
        except Exception:
            # Here and not in Starlette's own handler, which is outside of this and knows no request id.
            log.exception("request_failed", path=scope["path"])
            self._metrics.error_told(RagError.code)
            if sending.started:
                raise
            await error_response(RagError(INTERNAL_ERROR))(scope, receive, sending)
        finally:
            request_id.reset(token)

    async def _admit(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        if not self._authorised(scope, headers):
            refusal = Unauthorized("A key is needed: send it as `Authorization: Bearer KEY` (RAG_SERVER__API_KEY).")
            await error_response(refusal)(scope, receive, send)
            return
        if self._forged(scope, headers):
            refused = JSONResponse(body("forbidden", "Pages of other sites may not send this request."), 403)
            await refused(scope, receive, send)
            return
        limit = self._upload_limit if (scope["method"], scope["path"]) == UPLOAD else self._limit
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit.max_bytes:
            refused = JSONResponse(body("body_too_large", limit.passed()), 413)
            await refused(scope, receive, send)
            return
        await self._app(scope, _Limited(receive, limit), send)

    def _authorised(self, scope: Scope, headers: Headers) -> bool:
        path: str = scope["path"]
        if self._key is None or path in OPEN_PATHS or path.startswith(OPEN_FOLDERS) or scope["method"] == "OPTIONS":
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Header values come decoded from Latin-1.
        return scheme.lower() == "bearer" and secrets.compare_digest(given.strip().encode("latin-1"), self._key)

    def _forged(self, scope: Scope, headers: Headers) -> bool:
        """Whether a browser sends it for a page of another site: a form there needs no CORS to make a model work here."""
        if scope["method"] in SAFE_METHODS or headers.get("sec-fetch-site") != "cross-site":
            return False
        return "*" not in self._origins and headers.get("origin", "") not in self._origins


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """How large a body may be, and the setting that says so."""

    max_bytes: int
    setting: str

    def passed(self) -> str:
        return f"The body is larger than {self.max_bytes} bytes ({self.setting})."


def _plainly(scope: Scope, send: Send) -> Send:
    """Starlette tells a failed start by its traceback. Where the reason is known, people get that alone."""

    async def wrapped(message: Message) -> None:
        reason = getattr(scope["app"].state, "cannot_start", None)
        if message["type"] == "lifespan.startup.failed" and reason is not None:
            message = {**message, "message": f"rag-service cannot start: {reason}"}
        await send(message)

    return wrapped


class _Limited:
    """`receive` that counts: a body without a Content-Length is limited too. FastAPI lets the HTTPException through."""

    def __init__(self, receive: Receive, limit: BodyLimit) -> None:
        self._receive = receive
        self._limit = limit
        self._left = limit.max_bytes

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise HTTPException(413, self._limit.passed())
        return message


class _Headed:
    """`send` that adds our headers; `started` says whether the response has begun. Calling it makes no coroutine: it hands on
    the one of the server."""

    def __init__(self, send: Send, current: str) -> None:
        self._send = send
        self._request_id = current
        self.started = False

    def __call__(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(raw=message.setdefault("headers", []))
            headers["x-request-id"] = self._request_id
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        return self._send(message)
