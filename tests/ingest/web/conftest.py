"""A site, and ways to fetch from it: as a person's own (private addresses allowed), or as a stranger's."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.web.fetching import Fetched, FetchRefused, NotModified, WebFetcher
from ingest.web.options import WebOptions
from ingest.web.system import System
from tests.ingest.web.site import Site, serving

Fetch = Callable[..., Fetched | NotModified | FetchRefused]


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    """One fetch by a fetcher of its own; options are those of `WebOptions`, private addresses allowed."""

    def fetch_it(
        url: str,
        *,
        etag: str | None = None,
        last_modified: str | None = None,
        system: System | None = None,
        **options: Any,
    ) -> Fetched | NotModified | FetchRefused:
        with WebFetcher(WebOptions(**{"allow_private": True, "delay_s": 0.0, **options}), system) as fetcher:
            return fetcher.fetch(url, etag=etag, last_modified=last_modified, into=tmp_path)

    return fetch_it


@pytest.fixture
def refused(fetch: Fetch, tmp_path: Path) -> Callable[..., FetchRefused]:
    """A fetch that must be refused, and leave no file."""

    def refused_one(url: str, **options: Any) -> FetchRefused:
        outcome = fetch(url, **options)
        assert isinstance(outcome, FetchRefused), outcome
        assert list(tmp_path.iterdir()) == []
        return outcome

    return refused_one


@pytest.fixture
def fetched(fetch: Fetch) -> Callable[..., Fetched]:
    def fetched_one(url: str, **options: Any) -> Fetched:
        outcome = fetch(url, **options)
        assert isinstance(outcome, Fetched), outcome
        return outcome

    return fetched_one
