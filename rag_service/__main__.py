"""Entry point of `rag-service` and `python -m rag_service`: reads the settings and runs uvicorn.

In: the environment. Out: a served app; exit code 2 for wrong settings, 3 when a needed part does not start.
Must not: build parts (app.py does).
"""

import argparse
import gc
import ipaddress
import math
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_service.app import create_app
from rag_service.errors import InvalidSettings, RagError
from rag_service.settings import ServerSettings, Settings, load_settings
from rag_service.telemetry import Observed, configure_logging, join_workers, start_tracing
from rag_service.telemetry.tracing import require_exporter

KEEP_ALIVE_S = 30
GC_THRESHOLDS = (10_000, 10, 10)  # an answer makes few cycles and thousands of short-lived values
WORKERS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client looks at it when it is imported
OTLP_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="rag-service",
        description="Answer questions over the documents that rag-ingest has indexed, streamed with checked citations.",
        epilog="Everything else is set by the environment (RAG_LLM__BASE_URL, RAG_HOME, …) or .env; see .env.example."
        " Example: RAG_LLM__BASE_URL=http://gpu-box:8000/v1 rag-service --port 8080",
    )
    parser.add_argument("--host", help="overrides RAG_SERVER__HOST")
    parser.add_argument("--port", type=int, help="overrides RAG_SERVER__PORT; 0 takes a free one")
    arguments = parser.parse_args()
    # Workers are processes of their own and read the environment again, so that is where the overrides go.
    for name, value in (("RAG_SERVER__HOST", arguments.host), ("RAG_SERVER__PORT", arguments.port)):
        if value is not None:
            os.environ[name] = str(value)
    try:
        settings = load_settings()
        require_guard(settings.server)
        require_free_port(settings.server)
        if wants_traces(settings):
            require_exporter()
    except RagError as error:
        print(f"rag-service: {error.message}", file=sys.stderr)  # noqa: T201  the command line speaks to people
        raise SystemExit(2) from error
    configure_logging(settings.server)
    with folder_for(settings.server.workers):
        serve(settings)


def serve(settings: Settings) -> None:
    # uvicorn raises the signal again once it has shut down in order; being asked to stop is no failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    uvicorn.run(
        "rag_service.__main__:app_from_environment",
        factory=True,
        host=settings.server.host,
        port=settings.server.port,
        workers=settings.server.workers,
        loop="uvloop",
        http="httptools",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=math.ceil(settings.server.shutdown_grace_s),
    )


@contextmanager
def folder_for(workers: int) -> Iterator[None]:
    """While in use, several workers have a folder in which they put their metrics together."""
    if workers == 1:
        yield
        return
    folder = tempfile.mkdtemp(prefix="rag-service-metrics-")
    os.environ[WORKERS_FOLDER] = folder
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def app_from_environment() -> ASGIApp:
    """What each uvicorn worker runs."""
    settings = load_settings()
    configure_logging(settings.server)
    if folder := os.environ.get(WORKERS_FOLDER):
        join_workers(Path(folder))
    if wants_traces(settings):
        endpoint = settings.telemetry.otlp_endpoint
        start_tracing(None if endpoint is None else str(endpoint))
    app = create_app(settings)
    return settled(Observed(app, lambda: app.state.parts.metrics))


def settled(app: ASGIApp) -> ASGIApp:
    """`app`, out of the garbage collector's sight once it has started: what was built by then (models, routes, clients) stays
    until the end, and walking through it again and again takes time from the answers.
    """

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                gc.collect()
                gc.freeze()
                gc.set_threshold(*GC_THRESHOLDS)
            await send(message)

        await app(scope, receive, sending if scope["type"] == "lifespan" else send)

    return wrapped


def wants_traces(settings: Settings) -> bool:
    return settings.telemetry.otlp_endpoint is not None or any(os.environ.get(name) for name in OTLP_ENDPOINTS)


def require_guard(server: ServerSettings) -> None:
    """Refuse to listen beyond loopback without a key. Raises InvalidSettings."""
    if server.api_key is not None or server.allow_open or is_loopback(server.host):
        return
    raise InvalidSettings(
        f"RAG_SERVER__HOST is {server.host}, which others can reach, and no key is set. Set RAG_SERVER__API_KEY; or, where a"
        " proxy or a closed network guards the port, RAG_SERVER__ALLOW_OPEN=true."
    )


def require_free_port(server: ServerSettings) -> None:
    """Refuse a port that cannot be had now, and not after the models are loaded. Raises InvalidSettings."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as uvicorn does: a port just left is free
        try:
            probe.bind((server.host.strip("[]"), server.port))
        except OSError as error:
            raise InvalidSettings(
                f"RAG_SERVER__HOST, RAG_SERVER__PORT: {server.host} port {server.port} cannot be listened on"
                f" ({error.strerror}). Choose another, such as RAG_SERVER__PORT={server.port + 1}."
            ) from error


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


if __name__ == "__main__":
    main()
