"""A web site of real sockets, in threads: each page is what a test says, down to a lie in a header."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO


@dataclass(frozen=True)
class Page:
    """`stream` writes the body itself, for as long as the client listens. Headers replace those that are made up."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    stream: Callable[[BinaryIO], None] | None = None


@dataclass
class Site:
    base: str
    pages: dict[str, Page | Callable[[dict[str, str]], Page]] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    server_names: list[str | None] = field(default_factory=list)  # that clients asked for by TLS
    speak_tls: Callable[[Path, Path], None] = lambda certificate, key: None

    @property
    def port(self) -> int:
        return int(self.base.rpartition(":")[2])

    @property
    def paths(self) -> list[str]:
        """What was asked for, robots.txt aside."""
        return [path for path, _ in self.requests if path != "/robots.txt"]


@contextmanager
def serving() -> Iterator[Site]:
    site = Site("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            site.requests.append((self.path, headers))
            found = site.pages.get(self.path, Page(b"not here", 404))
            page = found(headers) if callable(found) else found
            self.send_response(page.status)
            given = {name.lower() for name in page.headers}
            if page.stream is None and "content-length" not in given:
                self.send_header("Content-Length", str(len(page.body)))
            for name, value in page.headers.items():
                self.send_header(name, value)
            if page.stream is not None or "content-length" in given:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            try:
                self.wfile.write(page.body)
                if page.stream is not None:
                    page.stream(self.wfile)
            except OSError:
                self.close_connection = True  # the client had enough

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that hangs up is what many tests are about

    server = Server(("127.0.0.1", 0), Handler)

    def speak_tls(certificate: Path, key: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        context.sni_callback = lambda _, name, __: site.server_names.append(name)
        server.socket = context.wrap_socket(server.socket, server_side=True)

    site.speak_tls = speak_tls
    site.base = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def redirect(to: str, status: int = 302) -> Page:
    return Page(b"", status, {"Location": to})


def html(text: str = "<p>Twenty-five days of leave.</p>", **headers: str) -> Page:
    return Page(text.encode(), 200, {"Content-Type": "text/html", **headers})
