"""Where documents come from: files and folders, the web, standard input, as one stream of items for one run.

In: the arguments of `rag-ingest run`. Out: checked sources, and the outcomes of a run over them. Must not: leave files behind:
what is fetched or received lies in `RAG_HOME/incoming` for as long as the run goes on; what a killed run left there is deleted
by the next.
"""

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from ingest.discover import Found, Refused
from ingest.pipeline import Outcome, Pipeline
from ingest.prune import Unwanted, no_document_is
from ingest.results import FileResult
from ingest.stdin import Named, named, received
from ingest.web.options import WebOptions
from ingest.web_pages import WebPages
from rag_service.errors import InvalidSettings

STDIN = "-"
INCOMING = "incoming"
_ADDRESS = re.compile(r"https?://", re.I)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
Item = Found | Refused | FileResult


@dataclass(frozen=True, slots=True)
class Sources:
    """What the arguments of a run name."""

    paths: tuple[Path, ...] = ()
    addresses: tuple[str, ...] = ()
    stdin: Named | None = None


def sources_of(
    arguments: Sequence[str], *, name: str | None = None, uri: str | None = None, title: str | None = None
) -> Sources:
    """`name`, `uri` and `title` are those of the document from standard input. Raises InvalidSettings.

    Whether the paths are there is not looked at.
    """
    paths: list[Path] = []
    addresses: list[str] = []
    for argument in arguments:
        if argument == STDIN:
            continue
        if _ADDRESS.match(argument):
            addresses.append(argument)
        elif _SCHEME.match(argument):
            raise InvalidSettings(f"{argument}: name a path, or an address that begins with http:// or https://.")
        elif not argument or "\0" in argument:
            raise InvalidSettings("A path is blank (an unset variable?). Nothing was done.")
        else:
            paths.append(Path(argument))
    if STDIN in arguments:
        return Sources(tuple(paths), tuple(addresses), named(name, uri, title))
    for option, value in (("--name", name), ("--uri", uri), ("--title", title)):
        if value is not None:
            raise InvalidSettings(f"{option} describes the document from standard input: give - as a path, too.")
    return Sources(tuple(paths), tuple(addresses))


@dataclass(frozen=True, slots=True)
class Intake:
    """How what does not come from files is taken in: the web's limits, standard input and its limit. `told` is what all
    items of the run go through."""

    web: WebOptions
    max_bytes: int
    stream: Callable[[], BinaryIO]
    told: Callable[[Iterable[Item]], Iterable[Item]] = iter


def run_sources(
    pipeline: Pipeline,
    sources: Sources,
    files: Iterable[Item],
    intake: Intake,
    *,
    prune: bool = True,
    prune_empty: bool = False,
    unwanted: Unwanted = no_document_is,
) -> Iterator[Outcome]:
    """One run over all the sources; `files` are those below their paths. Raises as `Pipeline.run` does."""
    with incoming(pipeline.catalog.path.parent) as folder, ExitStack() as stack:
        items = chain(files, _from_stdin(sources, intake, folder))
        pages = None
        if sources.addresses:
            pages = WebPages(sources.addresses, pipeline, intake.web, folder, prune=prune, sure=prune_empty)
            stack.enter_context(pages.running())
            items = chain(items, pages.items())
        for outcome in pipeline.run(
            sources.paths, items=intake.told(items), prune=prune, prune_empty=prune_empty, unwanted=unwanted
        ):
            if pages is not None and isinstance(outcome, FileResult):
                pages.keep(outcome)
            yield outcome


def _from_stdin(sources: Sources, intake: Intake, folder: Path) -> Iterator[Item]:
    if sources.stdin is not None:
        yield received(sources.stdin, intake.stream(), folder, intake.max_bytes)


@contextmanager
def incoming(home: Path) -> Iterator[Path]:
    """The folder for files that are here only to be read. The caller holds the writer's lock, so what is in it is left over."""
    folder = home / INCOMING
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
