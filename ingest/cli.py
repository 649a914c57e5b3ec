"""The command line of `rag-ingest`: the only place of the ingest side that prints, builds and exits.

In: arguments and settings. Out: a progress bar and a summary on a terminal, JSON lines otherwise; exit codes:
0 all good (skips included), 1 some file failed, 2 wrong usage or settings, 3 the index is not usable, 130 interrupted.
Must not: decide anything about documents (pipeline.py does).
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any

import typer

from ingest.build import opened, opened_catalog
from ingest.discover import canonical_uri
from ingest.pipeline import Progress
from ingest.report import JsonLines, Report, Terminal
from ingest.settings import IngestSettings, load_settings
from rag_service.errors import EmbeddingsUnavailable, IndexUnusable, InvalidSettings, LocalServerFailed, RagError
from rag_service.index.catalog import Catalog, DocumentRow

FAILED, USAGE, UNUSABLE, INTERRUPTED = 1, 2, 3, 130

app = typer.Typer(
    name="rag-ingest",
    help="Turn documents into an index that rag-service answers from.",
    epilog="Settings come from the environment (RAG_HOME, RAG_COLLECTION, …) and .env; see .env.example.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[
    bool, typer.Option("--json", help="JSON lines, also on a terminal. The default where there is none.")
]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for another run to end.")]


@app.command(epilog="Example: rag-ingest run ./handbook ./faq.md")
def run(
    paths: Annotated[list[Path], typer.Argument(exists=True, metavar="PATH…", help="Files and folders.")],
    prune: Annotated[
        bool, typer.Option("--prune/--no-prune", help="Delete documents whose file vanished from a given folder.")
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", help="Let --prune act on a folder that is suddenly empty.")] = False,
    as_json: AsJson = False,
    wait: Wait = 0.0,
) -> None:
    """Bring the index up to date with files and folders. Unchanged files cost nothing; run it as often as you like."""
    with exit_codes():
        settings = load_settings()
        report = report_for(as_json)
        counts: Counter[str] = Counter()
        chunks = 0
        with report, opened(settings, wait, report.note) as pipeline:
            if settings.chunks.max_tokens > pipeline.model.max_tokens:
                warn(
                    f"RAG_CHUNKS__MAX_TOKENS is {settings.chunks.max_tokens}, but {settings.embeddings.model} reads no more"
                    f" than {pipeline.model.max_tokens} tokens, so chunks have at most those."
                )
            for item in pipeline.run(paths, prune=prune, prune_empty=yes):
                if isinstance(item, Progress):
                    report.progress(item)
                    continue
                report.result(item)
                counts[item.status] += 1
                chunks += item.chunks
            report.summary(summary(counts, chunks))
        if counts["failed"]:
            raise typer.Exit(FAILED)


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show what is in the index, and which files are not, and why."""
    with exit_codes():
        settings = load_settings()
        with opened_catalog(settings) as catalog:
            report_for(as_json).status(facts(catalog, settings))


@app.command(epilog="Example: rag-ingest delete ./handbook/old.md")
def delete(
    targets: Annotated[list[str], typer.Argument(metavar="PATH|URI|ID…", help="Files, folders, URIs or document ids.")],
    as_json: AsJson = False,
    wait: Wait = 0.0,
) -> None:
    """Take documents out of the index. The files themselves stay as they are."""
    with exit_codes():
        settings = load_settings()
        report = report_for(as_json)
        with report, opened(settings, wait, report.note) as pipeline:
            chosen = select(pipeline.catalog.documents(settings.collection), targets)
            pipeline.open()
            for document in chosen:
                report.result(pipeline.delete(document))
            pipeline.sweep()
            report.summary(summary(Counter(deleted=len(chosen)), 0))


def select(documents: list[DocumentRow], targets: list[str]) -> list[DocumentRow]:
    """The documents that the targets name. A target that names none is refused, before anything is deleted."""
    chosen: dict[str, DocumentRow] = {}
    for target in targets:
        if not target.strip():
            raise InvalidSettings("A target is blank (an unset variable?). Nothing was deleted.")
        uri = target if "://" in target else canonical_uri(Path(target))
        found = [
            document
            for document in documents
            if target == document.id or document.uri == uri or document.uri.startswith(uri.rstrip("/") + "/")
        ]
        if not found:
            raise InvalidSettings(
                f"{target}: no document of that path, URI or id is in the index. Nothing was deleted; `rag-ingest status"
                " --json` lists what there is."
            )
        chosen.update((document.id, document) for document in found)
    return list(chosen.values())


def summary(counts: Counter[str], chunks: int) -> dict[str, int]:
    return {name: counts[name] for name in ("indexed", "unchanged", "skipped", "failed", "deleted")} | {
        "chunks": chunks
    }


def facts(catalog: Catalog, settings: IngestSettings) -> dict[str, Any]:
    """What `status` tells. Sizes in bytes."""
    counts = catalog.counts(settings.collection)
    fingerprint = catalog.fingerprint(settings.collection)
    return {
        "collection": settings.collection,
        "home": str(settings.home),
        "documents": counts.documents,
        "versions": counts.versions,
        "chunks": counts.chunks,
        "bytes": bytes_below(settings.home),
        "embedding_model": fingerprint.model if fingerprint else None,
        "fingerprint": fingerprint.id if fingerprint else None,
        "last_run": catalog.last_run(settings.collection),
        "problems": [
            {"uri": uri, "status": kind, "reason": reason}
            for uri, kind, reason in catalog.problems(settings.collection)
        ],
        "uris": [document.uri for document in catalog.documents(settings.collection)],
    }


def bytes_below(folder: Path) -> int:
    """Bytes of all files; those that come and go meanwhile (SQLite's logs) may be missed."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):
            status = file.lstat()
            total += status.st_size if S_ISREG(status.st_mode) else 0
    return total


def report_for(as_json: bool) -> Report:
    return JsonLines(sys.stdout, sys.stderr) if as_json or not sys.stdout.isatty() else Terminal()


@contextmanager
def exit_codes() -> Iterator[None]:
    """One place that turns errors into a line on standard error and an exit code."""
    try:
        yield
    except InvalidSettings as error:
        raise fail(error, USAGE) from error
    except (IndexUnusable, EmbeddingsUnavailable, LocalServerFailed) as error:
        raise fail(error, UNUSABLE) from error
    except KeyboardInterrupt as error:
        print("Interrupted. What was indexed stays; the next run goes on from here.", file=sys.stderr)  # noqa: T201
        raise typer.Exit(INTERRUPTED) from error


def fail(error: RagError, code: int) -> typer.Exit:
    warn(error.message)
    return typer.Exit(code)


def warn(message: str) -> None:
    print(f"rag-ingest: {message}", file=sys.stderr)  # noqa: T201  the command line speaks to people
