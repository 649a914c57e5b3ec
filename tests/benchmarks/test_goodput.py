"""Overload: how many get an answer in time when more come than the model can serve, with admission and without.

In: the same crowd, at one, two and four times what the model server can answer, before the service with its limits and before
the service that passes everybody on to the model server's own queue. Out: a table, artifacts/bench-goodput.json, and the goals
as ratios. Must not: compare across runs or machines; or count an answer that came late or not whole.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.benchmarks import scripted_answer
from tests.benchmarks.batching_upstream import PLACES
from tests.benchmarks.crowd import Attempt, Crowd
from tests.benchmarks.goals import Goal
from tests.benchmarks.machine import circumstances
from tests.benchmarks.relay_services import ScriptedUpstream, scripted_upstream
from tests.support.ingest_cli import ROOT
from tests.support.service import run_ingest, service_process, wait_until

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

CORPUS = ROOT / "data" / "corpus" / "hr"
REPORT = ROOT / "artifacts" / "bench-goodput.json"
TOKENS_PER_S, TOKENS = 25, 40
ANSWERED_S = TOKENS / TOKENS_PER_S
CAPACITY_PER_S = PLACES / ANSWERED_S  # of the model server, whatever stands before it
LOADS = (1, 2, 4)  # times the capacity
# The service begins with a guess of how long an answer takes, and the first who are refused are told times made of it.
WARM_UP_S, WINDOW_S = 10.0, 30.0
FIRST_TOKEN_LIMIT_S = 2.5
SEED = 20

# Who waits no longer than the queue's limit has its first token in time, with some room for the search and the model's step.
WITH = {"MAX_RUNNING": str(PLACES), "MAX_QUEUED": "16", "QUEUE_TIMEOUT_S": "2"}
WITHOUT = {"MAX_RUNNING": "10000", "MAX_QUEUED": "100000", "QUEUE_TIMEOUT_S": "3600"}
NO_OTHER_LIMIT = {"LLM__MAX_CONNECTIONS": "65535", "LLM__FIRST_TOKEN_TIMEOUT_S": "3600"}


@dataclass(frozen=True)
class Row:
    """One load. Rates are per second; what is counted was asked in the window, or for answers ended in it."""

    admission: bool
    load: int
    offered_per_s: float  # new people
    in_time_per_s: float  # whole answers whose first token came in time
    late_per_s: float  # whole answers whose first token did not
    refused: int  # with 429
    refused_in_stream: int  # after a place in the queue had been told
    least_retry_after_s: int  # of all 429, those of the warm-up too; 0 where one has none
    came_back: int  # because they were told to, and were answered or refused again
    found_a_place: int  # of these
    first_token_p50_s: float  # of the whole answers
    first_token_p99_s: float
    left_waiting: int  # without a token when all were sent home
    upstream_late: float  # part of the tokens that the model server itself sent late

    @property
    def found(self) -> float:
        return self.found_a_place / max(1, self.came_back)


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    with scripted_upstream("batching_upstream") as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Path:
    ingested = run_ingest(tmp_path / "home", "run", str(CORPUS))
    assert ingested.returncode == 0, ingested.stderr
    return tmp_path / "home"


def measured(home: Path, upstream: ScriptedUpstream, load: int, *, admission: bool) -> Row:
    """A service of its own, and everybody gone in the end."""
    upstream.plan(TOKENS_PER_S, TOKENS)
    limits = {f"ADMISSION__{name}": value for name, value in (WITH if admission else WITHOUT).items()}
    with service_process(home, upstream.base_url, **limits, **NO_OTHER_LIMIT) as service:
        expected = "".join(scripted_answer.tokens(TOKENS))
        crowd = Crowd(
            service.url, per_s=load * CAPACITY_PER_S, seconds=WARM_UP_S + WINDOW_S, expected=expected, seed=SEED
        )
        attempts = uvloop.run(crowd.come())
        stats = upstream.stats()
        wait_until(lambda: not (upstream.stats()["open"] or upstream.stats()["waiting"]), "the model works for nobody")
    return row_of(attempts, load, admission=admission, upstream_late=stats["late"] / stats["tokens"])


def row_of(attempts: list[Attempt], load: int, *, admission: bool, upstream_late: float) -> Row:
    asked = [attempt for attempt in attempts if attempt.asked_at >= WARM_UP_S]
    refusals = [attempt.refusal for attempt in asked if attempt.refusal is not None]
    waits = [attempt.refusal.retry_after_s for attempt in attempts if attempt.refusal and not attempt.refusal.in_stream]
    in_stream = sum(refusal.in_stream for refusal in refusals)
    came_back = [attempt for attempt in asked if attempt.came_back and attempt.decided]
    first = first_tokens(attempts)
    assert first, "nobody was answered"
    in_time = sum(seconds <= FIRST_TOKEN_LIMIT_S for seconds in first)
    return Row(
        admission=admission,
        load=load,
        offered_per_s=sum(not attempt.came_back for attempt in asked) / WINDOW_S,
        in_time_per_s=in_time / WINDOW_S,
        late_per_s=(len(first) - in_time) / WINDOW_S,
        refused=len(refusals) - in_stream,
        refused_in_stream=in_stream,
        least_retry_after_s=min(waits, default=0),
        came_back=len(came_back),
        found_a_place=sum(attempt.refusal is None for attempt in came_back),
        first_token_p50_s=first[len(first) // 2],
        first_token_p99_s=first[len(first) * 99 // 100],
        left_waiting=sum(not attempt.decided for attempt in attempts),
        upstream_late=upstream_late,
    )


def first_tokens(attempts: list[Attempt]) -> list[float]:
    """Seconds to the first token of each answer that ended in the window, whole; in order of size."""
    ended = [attempt for attempt in attempts if attempt.ended_at >= WARM_UP_S and attempt.whole]
    return sorted(attempt.first_token_s for attempt in ended if attempt.first_token_s is not None)


def test_who_is_served_is_served_in_time_however_many_come(home: Path, upstream: ScriptedUpstream) -> None:
    rows = [measured(home, upstream, load, admission=admission) for admission in (True, False) for load in LOADS]
    goals = goals_of(rows)
    print("\n" + table(rows))
    for goal in goals:
        print(f"  {goal}")
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report(rows, goals), indent=2) + "\n", encoding="utf-8")
    missed = [str(goal) for goal in goals if not goal.met]
    assert not missed, "missed:\n  " + "\n  ".join(missed)


def goals_of(rows: list[Row]) -> list[Goal]:
    limited = {row.load: row for row in rows if row.admission}
    most = {row.load: row for row in rows if not row.admission}[LOADS[-1]]
    at_capacity = limited[1].in_time_per_s
    goals = []
    for load in LOADS[1:]:
        row = limited[load]
        goals += [
            Goal(f"{load}x: answers in time to those at 1x", row.in_time_per_s / at_capacity, 0.9, least=True),
            Goal(f"{load}x: found a place, of those who came back when told", row.found, 0.9, least=True),
            Goal(f"{load}x: seconds of the shortest Retry-After", row.least_retry_after_s, 1, least=True),
        ]
    # The model server is busy all the time, and what it answers comes: it is the waiting that makes it worthless.
    answered = (most.in_time_per_s + most.late_per_s) / CAPACITY_PER_S
    return [
        *goals,
        Goal(f"{most.load}x without limits: answers at any time to the capacity", answered, 0.9, least=True),
        Goal(
            f"{most.load}x without limits: answers in time to those at 1x with limits",
            most.in_time_per_s / at_capacity,
            0.5,
            least=False,
        ),
    ]


def table(rows: list[Row]) -> str:
    lines = [
        f"capacity {CAPACITY_PER_S:g}/s, first token within {FIRST_TOKEN_LIMIT_S:g} s, {WINDOW_S:g} s each;"
        " first tokens are those of whole answers",
        f"  {'':17} {'offered':>8} {'in time':>8} {'late':>8} {'429':>6} {'in stream':>9} {'came back':>9}"
        f" {'found a place':>13} {'first token':>11} {'p99':>8} {'left waiting':>12}",
    ]
    for row in rows:
        rates = " ".join(f"{rate:6.1f}/s" for rate in (row.offered_per_s, row.in_time_per_s, row.late_per_s))
        found = f"{row.found_a_place} ({row.found:.0%})" if row.came_back else ""
        late = f" (model server {row.upstream_late:.0%} late)" if row.upstream_late >= 0.01 else ""
        lines.append(
            f"  {row.load}x {'with' if row.admission else 'without':7} limits {rates} {row.refused:6}"
            f" {row.refused_in_stream:9} {row.came_back:9} {found:>13} {row.first_token_p50_s:9.2f} s"
            f" {row.first_token_p99_s:6.2f} s {row.left_waiting:12}{late}"
        )
    return "\n".join(lines)


def report(rows: list[Row], goals: list[Goal]) -> dict[str, Any]:
    return {
        **circumstances(),
        "capacity_per_s": CAPACITY_PER_S,
        "first_token_limit_s": FIRST_TOKEN_LIMIT_S,
        "window_s": WINDOW_S,
        "rows": [asdict(row) for row in rows],
        "goals": [{**asdict(goal), "met": goal.met} for goal in goals],
    }
