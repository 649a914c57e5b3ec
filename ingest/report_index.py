"""How maintenance of the index is told: a bar and tables for people, one JSON object a line for programs.

In: progress, plans, verdicts, what was done. Out: text on a stream. Must not: decide anything, or let a file's name steer
the terminal.
"""

import json
import sys
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ingest.discover import STEERING
from ingest.maintenance.compact import Compacted
from ingest.maintenance.findings import Finding, Verdict
from ingest.maintenance.rebuild import Plan, Rebuilt
from ingest.report import waiting_for
from ingest.results import FileResult, Progress
from ingest.terminal import name_of

Told = Plan | Rebuilt | Compacted | Verdict


class Working:
    """What people see while a command is at work: what it does, for how long, and the chunks that it has made vectors of."""

    def __init__(self, doing: str) -> None:
        self._console = Console(highlight=False)
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._doing = doing
        self._task = self._bar.add_task(doing, start=False, total=None)
        self._chunks = 0

    def __enter__(self) -> Self:
        self._bar.start_task(self._task)
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def note(self, holder: str) -> None:
        self._console.print(waiting_for(holder))

    def progress(self, item: Progress) -> None:
        self._chunks += item.chunks
        self._bar.update(self._task, description=f"{self._doing}: {self._chunks:,} chunks done, {item.waiting:,} to do")

    def result(self, item: FileResult) -> None:
        self._console.print(Text(f"~ {name_of(item.uri)}  ({item.reason})", style="green"), soft_wrap=True)

    def tell(self, item: Told) -> None:
        tell(self._console, item)


def tell_as_json(item: Told) -> None:
    line: dict[str, Any] = {type(item).__name__.lower(): asdict(item)}
    if isinstance(item, Verdict):
        for name in ("findings", "mended"):
            line["verdict"][name] = [
                {**asdict(found), "meaning": found.meaning, "remedy": found.remedy} for found in getattr(item, name)
            ]
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def tell(console: Console, item: Told) -> None:
    match item:
        case Plan():
            what = "cut anew and embedded" if item.cut_anew else "embedded"
            kept = item.chunks - item.to_embed
            again = f" ({kept:,} were done by an earlier rebuild)" if kept else ""
            console.print(
                f"{item.documents:,} documents, {item.chunks:,} chunks to be {what} with {item.model}{again},"
                f" about {duration(item.seconds)}. The index goes on answering as it is until then.",
                markup=False,
            )
        case Rebuilt():
            earlier = f", {item.kept:,} by the rebuild that broke off" if item.kept else ""
            console.print(
                f"Rebuilt: {item.documents:,} documents, {item.chunks:,} chunks; {item.embedded:,} embedded now{earlier}."
                " The index answers from the new vectors."
            )
        case Compacted():
            console.print(f"RAG_HOME took {item.before / 1e6:,.1f} MB before and takes {item.after / 1e6:,.1f} MB now.")
            if not item.undone and not item.notes:
                console.print("What was deleted is gone from all its files.")
            for line in (*item.undone, *item.notes):
                console.print(Text(line, style="yellow"))
        case Verdict():
            tell_verdict(console, item)


def tell_verdict(console: Console, verdict: Verdict) -> None:
    console.print(
        f"{verdict.documents:,} documents, {verdict.versions:,} versions, {verdict.chunks:,} chunks in the catalog;"
        f" {verdict.vectors:,} vectors in Chroma; {verdict.sampled:,} chunks embedded again and looked for."
    )
    if verdict.mended:
        console.print(table("Mended", verdict.mended, remedies=False))
    if verdict.findings:
        console.print(table("Left to do" if verdict.mended else "Found", verdict.findings, remedies=True))
    else:
        console.print("All in order.")


def table(title: str, findings: tuple[Finding, ...], *, remedies: bool) -> Table:
    made = Table("", "what", *(("what to do",) if remedies else ()), title=title, title_justify="left", box=None)
    for found in findings:
        what = Text(found.meaning)
        for example in found.examples:
            what.append(f"\n  {STEERING.sub(chr(0xFFFD), example)}", style="dim")
        made.add_row(Text(f"{found.count:,}", style="yellow"), what, *((Text(found.remedy),) if remedies else ()))
    return made


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
