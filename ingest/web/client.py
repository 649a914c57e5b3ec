"""One GET request, its redirects followed by hand: every hop is a new address that has to pass every check.

In: a canonical address. Out: the answer, its body still to be read. Must not: take a proxy, credentials or cookies from
anywhere, or go from https to http.

Certificates are checked against certifi's list and the system's (OpenSSL's SSL_CERT_FILE adds a company's own authority). A
proxy of the environment is not used: it would look names up itself, and so decide what is reached.
"""

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpcore

from ingest.web.addresses import is_public
from ingest.web.connections import Deadline, GuardedBackend
from ingest.web.options import WebOptions
from ingest.web.refusals import Refusal
from ingest.web.system import System
from ingest.web.urls import joined, netloc, same_site

_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_CONDITIONS = frozenset(("If-None-Match", "If-Modified-Since"))


@dataclass(frozen=True, slots=True)
class Answer:
    """`url` is where the redirects ended, `headers` have lower-case names (of repeated ones, the first), `body` is as sent:
    read it once, while the request lasts."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: Iterator[bytes]


class Client:
    """Sends one request at a time. Every method raises Refusal."""

    def __init__(self, options: WebOptions, system: System) -> None:
        self.deadline = Deadline(system.clock, options.timeout_s)
        self._options = options
        context = httpcore.default_ssl_context()
        # Two pools: a connection that was made with more rights is never used with less.
        self._pools = {
            inside: httpcore.ConnectionPool(
                ssl_context=context,
                max_connections=8,
                keepalive_expiry=10.0,
                network_backend=GuardedBackend(options, system, self.deadline, allow_private=inside),
            )
            for inside in {False, options.allow_private}
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for pool in self._pools.values():
            pool.close()

    @contextmanager
    def get(
        self, url: str, *, before: Callable[[str], None], headers: Mapping[str, str] | None = None
    ) -> Iterator[Answer]:
        """`before(url)` is asked at each hop and may raise. Conditions (`If-None-Match`) are sent to the same site only:
        another one's ETag means nothing there."""
        wanted = dict(headers or {})
        inside = self._options.allow_private
        current = url
        for _ in range(self._options.max_redirects + 1):
            before(current)
            if not same_site(url, current):
                wanted = {name: value for name, value in wanted.items() if name not in _CONDITIONS}
            with _plain_words(self.deadline), self._sent(current, wanted, inside) as response:
                answer = _answer(current, response)
                target = answer.headers.get("location") if answer.status in _REDIRECTS else None
                if target is None:
                    yield answer
                    return
                inside = inside and not _came_from_outside(response)
            following = joined(current, target)
            if current.startswith("https:") and following.startswith("http:"):
                raise Refusal(f"a redirect from https to http ({following})", "skipped")
            current = following
        raise Refusal(f"more than {self._options.max_redirects} redirects (RAG_WEB__MAX_REDIRECTS)")

    @contextmanager
    def _sent(self, url: str, headers: Mapping[str, str], inside: bool) -> Iterator[httpcore.Response]:
        sent = {"Host": netloc(url), "User-Agent": self._options.user_agent, "Accept": "*/*", "Accept-Encoding": "gzip"}
        request = httpcore.Request(
            "GET",
            _wire_url(url),
            headers=[
                (name.encode("ascii"), value.encode("latin-1", "replace"))
                for name, value in (sent | {**headers}).items()
            ],
            extensions={"timeout": {"connect": self._options.connect_timeout_s}},
        )
        try:
            response = self._pools[inside].handle_request(request)
        except (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError):
            # A server may close a kept connection while a request is under way; then nothing is wrong with either.
            response = self._pools[inside].handle_request(request)
        try:
            yield response
        finally:
            response.close()


def _wire_url(url: str) -> httpcore.URL:
    """httpcore's own reading of a string drops what follows a ";" in the path."""
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return httpcore.URL(scheme=parts.scheme, host=parts.hostname or "", port=parts.port, target=target)


def _answer(url: str, response: httpcore.Response) -> Answer:
    headers: dict[str, str] = {}
    for name, value in response.headers:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return Answer(url, response.status, headers, response.iter_stream())


def _came_from_outside(response: httpcore.Response) -> bool:
    place = response.extensions["network_stream"].get_extra_info("server_addr")
    return is_public(ip_address(str(place[0])))


@contextmanager
def _plain_words(deadline: Deadline) -> Iterator[None]:
    """httpcore's errors as reasons for people."""
    try:
        yield
    except httpcore.ConnectTimeout:
        deadline.left()
        raise Refusal("no connection in time (RAG_WEB__CONNECT_TIMEOUT_S)") from None
    except httpcore.TimeoutException:
        raise deadline.passed() from None
    except httpcore.ConnectError as error:
        raise Refusal(_connect_reason(error)) from error
    except httpcore.RemoteProtocolError as error:
        raise Refusal(f"the connection ended early, or what came is no HTTP: {error}") from error
    except httpcore.NetworkError as error:
        raise Refusal(f"the connection broke: {error}") from error
    except httpcore.ProtocolError as error:
        raise Refusal(f"the request could not be sent: {error}") from error


def _connect_reason(error: httpcore.ConnectError) -> str:
    cause = error.args[0] if error.args else None  # httpcore hands on the error that it replaces
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"no TLS connection: {cause.reason or 'the other side closed it'}"
    if isinstance(cause, OSError) and cause.strerror:
        return f"no connection: {cause.strerror}"
    return "no connection"
