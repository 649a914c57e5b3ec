"""The command line of `rag-ingest`: where arguments become a run, and the only place that builds and exits.

In: arguments and settings. Out: what report.py and terminal.py write; exit codes (exits.py). Must not: decide anything
about documents (pipeline.py does).
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from ingest import cli_index
from ingest.build import opened, opened_catalog
from ingest.discover import discover, is_missing
from ingest.dry_run import opened_dry_run
from ingest.exits import FAILED, INTERRUPTED, UNUSABLE, USAGE, exit_codes, interrupted
from ingest.facts import Tally, facts
from ingest.metadata import Metadata, parse_pairs
from ingest.report import JsonLines, Report
from ingest.runs import Options, Runs, tell, told
from ingest.settings import IngestSettings, load_settings
from ingest.sources import Sources, sources_of
from ingest.stopping import Stopping
from ingest.targets import NotWanted, never_seen, select
from ingest.terminal import Terminal
from rag_service.errors import InvalidSettings

__all__ = ["FAILED", "INTERRUPTED", "UNUSABLE", "USAGE", "app"]

app = typer.Typer(
    name="rag-ingest",
    help="Turn documents into an index that rag-service answers from.",
    epilog="Settings come from the environment (RAG_HOME, RAG_COLLECTION, …) and .env; see .env.example.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cli_index.commands)

AsJson = Annotated[
    bool, typer.Option("--json", help="JSON lines, also on a terminal. The default where there is none.")
]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for another run to end.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Tell only what failed (and, as JSON, the summary).")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Tell unchanged files, too.")]

RUN_EXAMPLES = """Examples:

rag-ingest run ./handbook ./faq.md

rag-ingest run ./wiki --include '*.md' --exclude drafts/ --metadata team=hr

rag-ingest run ./handbook --dry-run

rag-ingest run ./handbook --watch

rag-ingest run https://example.com/sitemap.xml

pandoc notes.tex -t markdown | rag-ingest run - --name notes.md
"""


@app.command(epilog=RUN_EXAMPLES)
def run(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH|URL…", help="Files, folders, web pages, sitemaps; - is standard input."),
    ],
    name: Annotated[str | None, typer.Option(help="What the document from standard input is called: notes.md.")] = None,
    uri: Annotated[
        str | None, typer.Option(help="Its address in the index, if not stdin:///NAME: upload:///NAME.", metavar="URI")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Its title for people, if that is not the name.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and run again for what changes in the given folders.")
    ] = False,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB", help="Read only files like this, as in .gitignore: '*.md', 'docs/**'. Repeatable."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Leave out files or folders like this. Repeatable. Deletes nothing."),
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="A field of every document, to filter by. Repeatable; give it at each run."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and do nothing.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Read files again that failed before as they are.")] = False,
    prune: Annotated[
        bool, typer.Option("--prune/--no-prune", help="Delete documents whose file vanished from a given folder.")
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", help="Let --prune act on a folder that is empty or not there.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    wait: Wait = 0.0,
) -> None:
    """Bring the index up to date with files, folders and web pages. Unchanged files cost nothing; run it as often as you like.

    Below a folder, hidden names, node_modules, __pycache__ and what programs leave behind (~$…, *~, .swp, Thumbs.db, …) are
    passed over, and what a .ragignore file says (written as .gitignore; a document that it rules out is deleted from the
    index). NAME.meta.yaml, .meta.yml or .meta.json next to a file NAME holds fields of it to filter by.
    """
    with exit_codes(), Stopping() as stopping:
        settings = load_settings()
        sources = sources_of(paths, name=name, uri=uri, title=title)
        refuse_odd_mixtures(sources, watch=watch, dry_run=dry_run)
        refuse_unknown(sources.paths, settings)
        given = Metadata(parse_pairs(metadata or ()))
        options = Options(include or (), exclude or (), given, retry, prune, prune_empty=yes, stream=standard_input)
        options.selection()  # a wrong pattern is told before anything is made

        def new_report() -> Report:
            return report_for(as_json, quiet=quiet, verbose=verbose, planned=dry_run)

        if dry_run:
            tell_plan(settings, sources, options, new_report())
            return
        runs = Runs(settings, sources, options, new_report, stopping)
        if watch:
            if not runs.watch(wait):
                raise interrupted()
            return
        tally = runs.once(wait)
        if stopping.asked():
            raise interrupted()
        if tally.failed:
            raise typer.Exit(FAILED)


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show what is in the index, and which files are not, and why."""
    with exit_codes():
        settings = load_settings()
        with opened_catalog(settings) as catalog:
            report_for(as_json).status(facts(catalog, settings))


@app.command(epilog="Examples: rag-ingest delete ./handbook/old.md; rag-ingest delete https://example.com/docs/")
def delete(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="PATH|URI|ID…", help="Files, folders, URIs or their beginnings, document ids."),
    ],
    quiet: Quiet = False,
    as_json: AsJson = False,
    wait: Wait = 0.0,
) -> None:
    """Take documents out of the index. The files themselves stay as they are."""
    with exit_codes():
        settings = load_settings()
        report, tally = report_for(as_json, quiet=quiet), Tally()
        with report, opened(settings, wait, report.note) as pipeline:
            chosen = select(pipeline.catalog, settings.collection, targets)
            pipeline.open()
            tell(map(pipeline.delete, chosen), report, tally)
            pipeline.sweep()
            report.summary(tally.summary())


def refuse_unknown(paths: Sequence[Path], settings: IngestSettings) -> None:
    """A path that is not there must at least have been: its documents may be meant to go."""
    for path in never_seen(paths, settings.catalog_path, settings.collection):
        raise typer.BadParameter(f"Path '{path}' does not exist.", param_hint="'PATH…'")


def refuse_odd_mixtures(sources: Sources, *, watch: bool, dry_run: bool) -> None:
    if dry_run and (sources.addresses or sources.stdin):
        raise InvalidSettings("--dry-run looks at files and folders only: leave out addresses and -.")
    if watch and (not sources.paths or sources.stdin):
        raise InvalidSettings("--watch follows files and folders: give at least one, and no - with it.")


def tell_plan(settings: IngestSettings, sources: Sources, options: Options, report: Report) -> None:
    selection, tally = options.selection(), Tally()
    there = [path for path in sources.paths if not is_missing(path)]
    items = told(options.given.checked(discover(there, settings.catalog_path.parent, selection)), report)
    rules = {"prune": options.prune, "prune_empty": options.prune_empty}
    with report, opened_dry_run(settings, given=options.given, retry=options.retry) as plan:
        tell(plan.run(sources.paths, items, **rules, unwanted=NotWanted(selection)), report, tally)
        report.summary(tally.summary(selection.ignored, {"bytes": plan.bytes, "dry_run": True}))


def standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise InvalidSettings("-: there is no standard input.")
    return sys.stdin.buffer


def report_for(as_json: bool, *, quiet: bool = False, verbose: bool = False, planned: bool = False) -> Report:
    if as_json or not sys.stdout.isatty():
        return JsonLines(sys.stdout, sys.stderr, quiet=quiet)
    return Terminal(quiet=quiet, verbose=verbose, planned=planned)
