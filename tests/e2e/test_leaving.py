"""A client that leaves stops the work down to the model; a service that is told to stop does, and says so.

All of it over real sockets, through every middleware (BR-35).
"""

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.conftest import client_of
from tests.e2e.corpus import LEAVE_QUESTION
from tests.e2e.routes import JSON, ROUTES, SSE, STREAMED, Route, live
from tests.support.fake_vllm import END, FakeVllm, Role, Stall, Step, Token, Wait
from tests.support.readers import SseReader
from tests.support.service import Running, service_process, wait_until

ENDLESS: list[Step] = [Role(), *(Token(f"token{i} ") for i in range(3000))]
LIMIT_S = 20


def send(client: httpx2.Client, route: Route, question: str = LEAVE_QUESTION) -> socket.socket:
    """Ask over a socket of the test's own, so that the test decides when it closes."""
    request = client.build_request("POST", **route.request(question))
    lines = [f"POST {request.url.raw_path.decode()} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    host = urlsplit(str(client.base_url))
    connection = socket.create_connection((host.hostname, host.port), timeout=LIMIT_S)
    connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + request.read())
    return connection


def gauge(client: httpx2.Client, name: str) -> float:
    families = text_string_to_metric_families(client.get("/metrics").text)
    return next(sample.value for family in families for sample in family.samples if sample.name == name)


def idle(client: httpx2.Client, fake: FakeVllm) -> None:
    wait_until(lambda: fake.in_flight == 0, "the model is at rest")
    wait_until(lambda: gauge(client, "rag_in_flight") == 0, "no place is taken")
    assert gauge(client, "rag_queued") == 0


@pytest.mark.parametrize("route", STREAMED, ids=str)
def test_br_06_closing_in_the_middle_stops_the_model(client: httpx2.Client, fake: FakeVllm, route: Route) -> None:
    fake.script(ENDLESS)
    fake.pace = 0.02
    with route.open(client, LEAVE_QUESTION) as response:
        pieces = response.iter_bytes()
        for _ in range(3):
            assert next(pieces)
        response.close()
    assert fake.requests[0].gone_sync.wait(LIMIT_S)
    assert fake.requests[0].tokens_sent < 2000
    idle(client, fake)


@pytest.mark.parametrize("script", [[Stall()], [Role(), Stall()], [Role(), Token("Leave"), Stall()]])
@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_br_06_closing_before_anything_came_stops_the_model(
    client: httpx2.Client, fake: FakeVllm, route: Route, script: list[Step]
) -> None:
    fake.script(script)
    with contextlib.closing(send(client, route)):
        wait_until(lambda: fake.requests, "the model is asked")
    assert fake.requests[0].gone_sync.wait(LIMIT_S)
    idle(client, fake)


@pytest.mark.parametrize("route", [SSE, JSON], ids=str)
def test_br_06_fifty_clients_leave_at_once(client: httpx2.Client, fake: FakeVllm, route: Route) -> None:
    fake.script(ENDLESS)
    fake.pace = 0.02
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(contextlib.closing(send(client, route)))
        wait_until(lambda: fake.in_flight == 50, "all are being answered")
        assert gauge(client, "rag_in_flight") == 50
    assert all(request.gone_sync.wait(LIMIT_S) for request in fake.requests)
    idle(client, fake)


def test_br_06_a_client_that_shuts_only_its_sending_side_is_gone_or_served(
    client: httpx2.Client, fake: FakeVllm
) -> None:
    with contextlib.closing(send(client, SSE)) as connection:
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    idle(client, fake)


@contextlib.contextmanager
def one_place_taken(client: httpx2.Client, fake: FakeVllm) -> Iterator[threading.Event]:
    """An answer that takes the narrow service's only place until the event is set."""
    go_on = threading.Event()
    fake.script([Role(), Token("one"), Wait(go_on), *END])
    with contextlib.closing(send(client, SSE)):
        wait_until(lambda: fake.in_flight == 1, "the place is taken")
        try:
            yield go_on
        finally:
            go_on.set()


def test_a_full_service_tells_places_and_refuses_the_rest(narrow_client: httpx2.Client, fake: FakeVllm) -> None:
    with one_place_taken(narrow_client, fake) as go_on, SSE.open(narrow_client, LEAVE_QUESTION) as waiting:
        events = live(waiting)
        assert next(events) == {"type": "status", "stage": "queued", "position": 1}
        for route in ROUTES:
            refused = route.ask(narrow_client, LEAVE_QUESTION)
            assert (refused.status, refused.code) == (429, "overloaded")
            assert int(refused.headers["retry-after"]) >= 1
        refused_search = narrow_client.post("/retrieve", json={"question": LEAVE_QUESTION})
        assert refused_search.status_code == 429
        assert gauge(narrow_client, "rag_queued") == 1
        fake.answer("Now it is your turn.")
        go_on.set()
        assert [event["type"] for event in events][-1] == "done"
    idle(narrow_client, fake)


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_br_06_leaving_the_queue_gives_the_place_up(narrow_client: httpx2.Client, fake: FakeVllm, route: Route) -> None:
    with one_place_taken(narrow_client, fake):
        with contextlib.closing(send(narrow_client, route)):
            wait_until(lambda: gauge(narrow_client, "rag_queued") == 1, "it waits")
        wait_until(lambda: gauge(narrow_client, "rag_queued") == 0, "it has left")
        assert len(fake.requests) == 1
        assert gauge(narrow_client, "rag_in_flight") == 1
    idle(narrow_client, fake)


def test_br_46_sigterm_ends_open_streams_within_the_grace_time(home: Path, fake: FakeVllm) -> None:
    fake.script(ENDLESS)
    fake.pace = 0.05
    with service_process(home, fake.base_url, SERVER__SHUTDOWN_GRACE_S="1") as running, client_of(running) as client:
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(SSE.open(client, LEAVE_QUESTION)) for _ in range(3)]
            readers = [(stream.iter_bytes(), SseReader()) for stream in streams]
            for pieces, reader in readers:
                assert reader.feed(next(pieces))
            waiting = stack.enter_context(contextlib.closing(send(client, JSON)))
            wait_until(lambda: fake.in_flight == 4, "all are being answered")
            running.process.send_signal(signal.SIGTERM)
            for pieces, reader in readers:
                events = [event for piece in pieces for event in reader.feed(piece)]
                reader.close()
                assert events[-1].type == "error"
                assert '"shutting_down"' in events[-1].data
            assert waiting.recv(65536).startswith(b"HTTP/1.1 503 ")
        assert running.process.wait(LIMIT_S) == 0
        assert "Traceback" not in running.log()
    assert all(request.gone_sync.wait(LIMIT_S) for request in fake.requests)


def test_br_46_an_idle_service_stops_at_once_and_without_complaint(home: Path, fake: FakeVllm) -> None:
    with service_process(home, fake.base_url) as running:
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(LIMIT_S) == 0
        assert "Traceback" not in running.log()


def test_br_46_a_second_service_on_the_same_home_goes_on(service: Running, fake: FakeVllm) -> None:
    """Those before shared the local Chroma with this one, and left it running."""
    with client_of(service) as client:
        assert SSE.ask(client, LEAVE_QUESTION).ended == "done"
