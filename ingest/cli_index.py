"""The commands of `rag-ingest` that keep the index in order: verify, rebuild, compact.

In: arguments and settings. Out: what report_index.py writes; exit codes (exits.py), where 1 says that differences were found,
or that something could not be done. Must not: decide anything about the index (ingest/maintenance does).
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ingest.build import opened_index
from ingest.exits import FAILED, UNUSABLE, exit_codes, warn
from ingest.maintenance.compact import Compacted, compact
from ingest.maintenance.findings import Verdict
from ingest.maintenance.index import Index
from ingest.maintenance.rebuild import Plan, rebuild
from ingest.maintenance.repair import repair
from ingest.maintenance.verify import verify
from ingest.report import JsonLines
from ingest.report_index import Told, Working, tell_as_json
from ingest.results import FileResult, Progress
from ingest.settings import load_settings
from rag_service.errors import NotFound

commands = typer.Typer()

Report = JsonLines | Working

AsJson = Annotated[
    bool, typer.Option("--json", help="JSON lines, also on a terminal. The default where there is none.")
]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for another run to end.")]


@commands.command("verify", epilog="Example: rag-ingest verify --repair")
def verify_index(
    mend: Annotated[bool, typer.Option("--repair", help="Mend what can be mended without the files.")] = False,
    sample: Annotated[
        int, typer.Option("--sample", min=0, metavar="N", help="Embed so many chunks again, and look for each.")
    ] = 100,
    as_json: AsJson = False,
    wait: Wait = 0.0,
) -> None:
    """Compare catalog and Chroma both ways, and try whether chunks are found. Exits with 1 when something is wrong."""
    with at_work("Comparing catalog and Chroma", as_json, wait) as (index, report):
        outcomes: Iterable[Progress | FileResult | Verdict] = (
            repair(index, sample) if mend else iter([verify(index, sample)])
        )
        verdict = told(outcomes, report)
    if isinstance(verdict, Verdict) and verdict.findings:
        raise typer.Exit(FAILED)


@commands.command("rebuild")
def rebuild_index(as_json: AsJson = False, wait: Wait = 0.0) -> None:
    """Make all vectors anew from the stored texts, while the service goes on answering. No document is read.

    This is how an index gets another embedding model or other chunks: set RAG_EMBEDDINGS__MODEL (or RAG_CHUNKS__…), rebuild,
    restart the service with the same settings. Killed, it goes on from there when it is run again.
    """
    with at_work("Making the vectors anew", as_json, wait) as (index, report):
        told(rebuild(index), report)


@commands.command("compact")
def compact_index(as_json: AsJson = False, wait: Wait = 0.0) -> None:
    """Get rid of deleted text and vectors in every file of the index, and of the room they took. The service may run."""
    with at_work("Writing the files anew", as_json, wait) as (index, report):
        done = told(compact(index), report)
    if isinstance(done, Compacted) and done.undone:
        raise typer.Exit(FAILED)


@contextmanager
def at_work(doing: str, as_json: bool, wait: float) -> Iterator[tuple[Index, Report]]:
    """The open index, and where to tell what happens to it; `doing` is for people."""
    with exit_codes():
        settings = load_settings()
        is_for_programs = as_json or not sys.stdout.isatty()
        report: Report = JsonLines(sys.stdout, sys.stderr) if is_for_programs else Working(doing)
        try:
            with opened_index(settings, wait, report.note) as index:
                yield index, report
        except NotFound as error:
            warn(error.message)
            raise SystemExit(UNUSABLE) from error


def told(outcomes: Iterable[Progress | FileResult | Told], report: Report) -> Told | None:
    """Tell everything as it comes; returns the last, which is what was done."""
    last: Told | None = None
    say = report.tell if isinstance(report, Working) else tell_as_json
    with report:
        for item in outcomes:
            if isinstance(item, Progress):
                report.progress(item)
            elif isinstance(item, FileResult):
                report.result(item)
            elif isinstance(item, Plan):
                say(item)
            else:
                last = item
    if last is not None:
        say(last)
    return last
