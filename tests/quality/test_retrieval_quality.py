"""Retrieval on the sample corpus, through the product's own ingest and service: a floor below which it must not fall.

In: data/corpus and data/eval/questions.jsonl. Out: how many questions get their passage. Must not: ask a model.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.service import run_ingest, running_service

DATA = Path(__file__).parents[2] / "data"
LEAST_FOUND = 0.85  # of the answerable questions have their passage among the five; 67 of 75 on 2026-11-30
NOBODY = "http://127.0.0.1:9/v1"  # no model is asked, so none need be there


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[dict[str, Any], list[dict[str, Any]]]]]:
    """Each question with the sources found for it."""
    home = tmp_path_factory.mktemp("quality") / "home"
    done = run_ingest(home, "run", str(DATA / "corpus"))
    assert done.returncode == 0, done.stdout + done.stderr
    questions = [json.loads(line) for line in (DATA / "eval" / "questions.jsonl").read_text().splitlines()]
    with running_service(home, NOBODY) as url, httpx2.Client(base_url=url, timeout=30) as client:
        yield [
            (question, client.post("/retrieve", json={"question": question["question"]}).json()["sources"])
            for question in questions
        ]


def words(text: str) -> str:
    return " ".join(text.split())


def test_most_answerable_questions_get_their_passage(
    answers: list[tuple[dict[str, Any], list[dict[str, Any]]]],
) -> None:
    found = [
        any(words(question["passage"]) in words(source["text"]) for source in sources)
        for question, sources in answers
        if question["answerable"]
    ]
    assert sum(found) >= LEAST_FOUND * len(found)


def test_no_answerable_question_is_refused_and_some_of_the_others_are(
    answers: list[tuple[dict[str, Any], list[dict[str, Any]]]],
) -> None:
    refused = [question for question, sources in answers if not sources]
    assert [question["id"] for question in refused if question["answerable"]] == []
    assert refused, "what is off topic finds nothing"
