"""Whole answers from a running service: what is asked for is what comes, on every route."""

from collections.abc import Callable

import httpx2
import pytest

from tests.e2e.corpus import LEAVE, LEAVE_QUESTION, OFF_TOPIC, TYRE_QUESTION
from tests.e2e.routes import GROUNDED, JSON, NDJSON, ROUTES, SSE, Route
from tests.support.fake_vllm import FakeVllm, prompt_of
from tests.support.readers import check_log
import re


def number_of(fact: str, prompt: str) -> int:
    """The number that stands beside the source with `fact` in the prompt."""
    return int(re.findall(r'<source id="(\d+)"', prompt.partition(fact)[0])[-1])


def test_smoke(client: httpx2.Client, fake: FakeVllm, text_of: Callable[[str], str]) -> None:
    fake.respond(lambda body: f"Full-time staff have 25 days of annual leave [{number_of(LEAVE, prompt_of(body))}].")
    for route in ROUTES:
        if not route.grounded:
            fake.answer("Hi there.")
        outcome = route.ask(client, LEAVE_QUESTION)
        print(route, outcome.status, outcome.text, outcome.ended, outcome.events[-1:] or outcome.body)
        if outcome.events and route.grounded:
            check_log(outcome.events, text_of)
