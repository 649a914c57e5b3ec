"""Pages from the web as items of a run, and what becomes of those that are gone.

In: addresses that the command line names, and an open pipeline. Out: items for `Pipeline.run`, in its own thread. Must not:
delete because a site is down: only a site that says so (404, 410), or a sitemap that was read whole, means that a page is gone.

A page that its server calls unchanged is not fetched. Of a page that vanished from a sitemap the rules are those of a file that
vanished from a folder: a sitemap that lists nothing, or cannot be read, deletes nothing unless the person says `--yes`.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from ingest.discover import Found, Refused
from ingest.pipeline import Pipeline
from ingest.results import FileResult
from ingest.stdin import held
from ingest.web.ahead import Ahead, Drained, Listed, Page, Remembered, Validators
from ingest.web.fetching import Fetched, FetchRefused, NotModified
from ingest.web.options import WebOptions
from ingest.web.urls import without_password
from rag_service.index.catalog import Catalog
from rag_service.index.rows import DocumentRow, WebPage

NOT_LISTED = "its sitemap does not list it any more"
Item = Found | Refused | FileResult


class WebPages:
    """Of one run. `prune` lets pages be deleted, `sure` also when a sitemap is suddenly empty or cannot be read."""

    def __init__(
        self,
        addresses: Sequence[str],
        pipeline: Pipeline,
        options: WebOptions,
        folder: Path,
        *,
        prune: bool = True,
        sure: bool = False,
    ) -> None:
        self._pipeline = pipeline
        self._catalog = pipeline.catalog
        self._collection = pipeline.collection
        self._folder = folder
        self._prune = prune
        self._sure = sure
        self._ahead = Ahead(addresses, options, folder, lambda: memory_of(self._catalog.path, self._collection))
        self._answers: dict[str, WebPage] = {}  # of pages under way
        self._again: list[Page] = []
        self._there: set[str] = set()
        self._gone: dict[str, dict[str, str]] = {}  # sitemap -> page -> what its site says
        self._listed: list[Listed] = []

    def running(self) -> "AbstractContextManager[Ahead]":
        """Fetching begins with this context, and ends with it."""
        return self._ahead.running()

    def items(self) -> Iterator[Item]:
        while (event := self._ahead.next(self._pipeline.stop)) is not None:
            match event:
                case Page():
                    yield from self._page(event)
                case Listed():
                    self._listed.append(event)
                case FetchRefused():
                    yield FileResult(without_password(event.uri), event.status, event.reason)
                case Drained():
                    self._ahead.again(self._again)
                    if not self._again:
                        break
                    self._again = []
        if self._prune and not self._pipeline.stop():
            for listed in self._listed:
                yield from self._vanished(listed)

    def keep(self, result: FileResult) -> None:
        """Remember what the server said of a page, once the index has that page."""
        answer = self._answers.pop(result.uri, None)
        if answer is not None and result.status in ("indexed", "updated", "unchanged"):
            self._catalog.put_web_page(self._collection, result.uri, answer)

    def _page(self, page: Page) -> Iterator[Item]:
        document = self._catalog.document_at(self._collection, page.uri)
        match page.outcome:
            case FetchRefused(gone=True, reason=reason) if self._prune and document is not None:
                if page.sitemap is None:
                    yield self._pipeline.delete(document, reason)
                else:
                    self._gone.setdefault(page.sitemap, {})[page.uri] = reason
                return
            case FetchRefused(status=status, reason=reason, gone=gone):
                if not gone:
                    self._there.add(page.uri)
                yield Refused(page.uri, status, reason)
                return
            case NotModified():
                self._there.add(page.uri)
                known = self._catalog.web_page(self._collection, page.uri)
                if (
                    document is None
                    or known is None
                    or self._pipeline.scan.would_change(document, self._unread(document))
                ):
                    self._again.append(page)
                    return
                self._answers[page.uri] = replace(known, sitemap=page.sitemap)
                self._catalog.clear_problem(self._collection, page.uri)
                yield FileResult(page.uri, "unchanged")
            case Fetched(path=path, etag=etag, last_modified=last_modified):
                self._there.add(page.uri)
                self._answers[page.uri] = WebPage(etag, last_modified, page.sitemap)
                yield held(path, page.uri, page.title)

    def _unread(self, document: DocumentRow) -> Found:
        """What stands for a page that was not fetched, since it has not changed."""
        return Found(self._folder / "unread", document.uri, document.title, document.size, "", 0, 0, temporary=True)

    def _vanished(self, listed: Listed) -> Iterator[FileResult]:
        gone = dict(self._gone.get(listed.sitemap, {}))
        if not listed.cut_short:
            for uri in self._catalog.pages_of_sitemap(self._collection, listed.sitemap):
                if uri not in self._there:
                    gone.setdefault(uri, NOT_LISTED)
        documents = [(self._catalog.document_at(self._collection, uri), reason) for uri, reason in gone.items()]
        there = [(document, reason) for document, reason in documents if document is not None]
        if not there:
            return
        if not self._sure and (listed.failed or not listed.pages & self._there):
            what = "cannot be read in full" if listed.failed else "lists no page that is there"
            reason = (
                f"the sitemap {what}; {len(there)} documents that may be gone stay in the index. If they are really gone, run"
                " with --yes"
            )
            yield FileResult(listed.sitemap, "failed" if listed.failed else "skipped", reason)
            return
        for document, reason in there:
            yield self._pipeline.delete(document, reason)


@contextmanager
def memory_of(path: Path, collection: str) -> Iterator[Remembered]:
    """What the catalog remembers of pages, over a connection of its own: the run's belongs to the run's thread."""
    catalog = Catalog(path)

    def remembered(uri: str) -> Validators | None:
        page = catalog.web_page(collection, uri)
        if page is None or catalog.document_at(collection, uri) is None:
            return None
        return Validators(page.etag, page.last_modified)

    try:
        yield remembered
    finally:
        catalog.close()
