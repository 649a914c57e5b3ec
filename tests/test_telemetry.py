"""Logs, timings and metrics: what they show, and what they never do."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from prometheus_client import generate_latest

from rag_service.admission import Admission
from rag_service.settings import ServerSettings
from rag_service.telemetry import Clock, Metrics, configure_logging, log, request_id


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


SECRET = "canary-91"


def fail(secret: str) -> None:
    question = f"question {secret}"
    raise ValueError(f"about {len(question)} characters")


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_br_62_a_traceback_shows_no_values(capsys: pytest.CaptureFixture[str], log_format: str) -> None:
    configure_logging(ServerSettings.model_validate({"log_format": log_format}))
    try:
        fail(SECRET)
    except ValueError:
        log.exception("answer_failed")
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    told = capsys.readouterr().err
    assert "in fail" in told
    assert "ValueError: about 18 characters" in told
    assert SECRET not in told


def test_lines_are_json_with_the_request_they_belong_to(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(ServerSettings(log_format="json", log_level="INFO"))
    token = request_id.set("r-1")
    log.info("answered", finish_reason="stop", lines="a\nb")
    logging.getLogger("uvicorn.error").warning("of a library")
    log.debug("not shown")
    request_id.reset(token)
    log.info("outside")
    first, second, third = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["event"], first["request_id"], first["level"], first["lines"]) == ("answered", "r-1", "info", "a\nb")
    assert (second["event"], second["request_id"], second["level"]) == ("of a library", "r-1", "warning")
    assert "request_id" not in third


def test_the_clock_counts_from_when_it_was_asked() -> None:
    clock = Clock(queued_s=2.0)
    with clock.stage("embed"):
        pass
    clock.mark("first_token")
    first = clock.timings_ms["first_token"]
    clock.mark("first_token")
    assert clock.timings_ms["queue"] == 2000.0
    assert clock.timings_ms["first_token"] == first >= 2000.0
    assert clock.timings_ms["embed"] >= 0.0


def test_a_stage_that_fails_is_measured_too() -> None:
    clock = Clock()
    with pytest.raises(ValueError, match="broken"), clock.stage("search"):
        raise ValueError("broken")
    assert "search" in clock.timings_ms


async def test_gauges_show_what_the_admission_holds() -> None:
    metrics, admission = Metrics(), Admission(1, 1)
    metrics.watch(admission)

    def shown() -> tuple[bool, bool]:
        text = generate_latest(metrics.registry).decode()
        return "rag_in_flight 1.0" in text, "rag_queued 1.0" in text

    assert shown() == (False, False)
    async with admission.join():
        assert shown() == (True, False)
        async with admission.join():
            assert shown() == (True, True)
    assert shown() == (False, False)
