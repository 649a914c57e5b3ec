"""Runs over web pages, sitemaps and standard input: a real site, catalog and Chroma."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ingest.pipeline import Pipeline
from ingest.results import FileResult
from ingest.sources import Intake, run_sources, sources_of
from ingest.web.options import WebOptions
from tests.ingest.pipeline.conftest import Open
from tests.ingest.web.site import Page, Site, html, serving
from tests.support.ingest_parts import HashEmbedder, assert_consistent, live_texts

OPEN = WebOptions(allow_private=True, delay_s=0.0, timeout_s=20.0)


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


def run(
    pipeline: Pipeline, arguments: Sequence[str], options: WebOptions = OPEN, sent: bytes = b"", **given: object
) -> dict[str, tuple[str, str | None]]:
    """Each URI's status and reason."""
    names = {name: given.pop(name) for name in ("name", "uri", "title") if name in given}
    sources = sources_of(arguments, **names)  # type: ignore[arg-type]
    intake = Intake(options, 1000, lambda: io.BytesIO(sent))
    outcomes = run_sources(pipeline, sources, [], intake, **given)  # type: ignore[arg-type]
    found = {item.uri: (item.status, item.reason) for item in outcomes if isinstance(item, FileResult)}
    assert_consistent(pipeline)
    assert not (pipeline.catalog.path.parent / "incoming").exists()
    return found


def statuses(pipeline: Pipeline, *arguments: str, **given: object) -> dict[str, str]:
    """By the last part of the URI."""
    return {uri.rpartition("/")[2]: status for uri, (status, _) in run(pipeline, arguments, **given).items()}  # type: ignore[arg-type]


def urls(pipeline: Pipeline) -> list[str]:
    return [document.uri.rpartition("/")[2] for document in pipeline.catalog.documents(pipeline.collection)]


def sitemap(site: Site, *names: str) -> Page:
    listed = "".join(f"<url><loc>{site.base}/{name}</loc></url>" for name in names)
    return Page(f"<urlset>{listed}</urlset>".encode(), 200, {"Content-Type": "application/xml"})


def texted(words: str, title: str = "") -> Page:
    return html(f"<html><head><title>{title}</title></head><body><p>{words}</p></body></html>")


def test_a_page_is_a_document_with_its_address_and_title(open_pipeline: Open, site: Site) -> None:
    site.pages["/leave"] = texted("Annual leave is 25 days.", "Leave &amp; <i>sick</i>\n days")
    site.pages["/plain.txt"] = Page(b"Tell us by nine.", 200, {"Content-Type": "text/plain"})
    pipeline = open_pipeline()
    assert statuses(pipeline, f"{site.base}/leave#top", f"{site.base}/plain.txt") == {
        "leave": "indexed",
        "plain.txt": "indexed",
    }
    found = {document.uri: document.title for document in pipeline.catalog.documents(pipeline.collection)}
    assert found == {f"{site.base}/leave": "Leave & <i>sick</i> days", f"{site.base}/plain.txt": "plain.txt"}
    assert "25 days" in "".join(live_texts(pipeline.catalog, pipeline.collection)[f"{site.base}/leave"])


def test_an_unchanged_page_is_asked_for_and_not_fetched_embedded_or_lost(open_pipeline: Open, site: Site) -> None:
    page = texted("Annual leave is 25 days.")
    fresh = Page(page.body, 200, {**page.headers, "ETag": '"1"'})
    site.pages["/a"] = lambda headers: Page(status=304) if headers.get("if-none-match") == '"1"' else fresh
    site.pages["/b"] = page  # without any validator
    model = HashEmbedder()
    pipeline = open_pipeline(model)
    assert statuses(pipeline, f"{site.base}/a", f"{site.base}/b") == {"a": "indexed", "b": "indexed"}
    calls = model.calls
    for _ in range(2):
        assert statuses(pipeline, f"{site.base}/a", f"{site.base}/b") == {"a": "unchanged", "b": "unchanged"}
    assert model.calls == calls
    asked = [headers.get("if-none-match") for path, headers in site.requests if path == "/a"]
    assert asked == [None, '"1"', '"1"']


def test_an_unchanged_page_is_read_again_when_documents_are_cut_otherwise(open_pipeline: Open, site: Site) -> None:
    page = texted("One is here. Two is here. Three is here. Four is here.")
    fresh = Page(page.body, 200, {**page.headers, "ETag": '"1"'})
    site.pages["/a"] = lambda headers: Page(status=304) if "if-none-match" in headers else fresh
    first = open_pipeline(max_tokens=4)
    statuses(first, f"{site.base}/a")
    fine = first.catalog.counts(first.collection).chunks
    second = open_pipeline(max_tokens=200)
    assert statuses(second, f"{site.base}/a") == {"a": "updated"}
    assert second.catalog.counts(second.collection).chunks < fine
    assert statuses(second, f"{site.base}/a") == {"a": "unchanged"}


def test_a_changed_page_is_updated_under_its_old_id(open_pipeline: Open, site: Site) -> None:
    site.pages["/a"] = texted("Leave is 25 days.")
    pipeline = open_pipeline()
    statuses(pipeline, f"{site.base}/a")
    [before] = pipeline.catalog.documents(pipeline.collection)
    site.pages["/a"] = texted("Leave is 30 days.")
    assert statuses(pipeline, f"{site.base}/a") == {"a": "updated"}
    [after] = pipeline.catalog.documents(pipeline.collection)
    assert before.id == after.id
    assert "30 days" in "".join(live_texts(pipeline.catalog, pipeline.collection)[after.uri])


@pytest.mark.parametrize(("status", "kept"), [(404, False), (410, False), (500, True), (403, True), (503, True)])
def test_br_19_a_page_is_deleted_only_when_its_site_says_that_it_is_gone(
    open_pipeline: Open, site: Site, status: int, kept: bool
) -> None:
    site.pages["/a"] = texted("Leave is 25 days.")
    pipeline = open_pipeline()
    statuses(pipeline, f"{site.base}/a")
    site.pages["/a"] = Page(b"", status)
    [(told, reason)] = run(pipeline, [f"{site.base}/a"]).values()
    assert told == ("failed" if kept else "deleted")
    assert str(status) in (reason or "")
    assert urls(pipeline) == (["a"] if kept else [])
    assert statuses(pipeline, f"{site.base}/a") == {"a": "failed"}


def test_br_19_no_prune_keeps_a_page_that_is_gone(open_pipeline: Open, site: Site) -> None:
    site.pages["/a"] = texted("Leave is 25 days.")
    pipeline = open_pipeline()
    statuses(pipeline, f"{site.base}/a")
    del site.pages["/a"]
    assert statuses(pipeline, f"{site.base}/a", prune=False) == {"a": "failed"}
    assert urls(pipeline) == ["a"]


def test_br_19_pages_that_a_sitemap_lists_no_more_or_that_are_gone_are_deleted(open_pipeline: Open, site: Site) -> None:
    names = ["a", "b", "c", "d"]
    site.pages.update({f"/{name}": texted(f"The room {name} has seats.") for name in names})
    site.pages["/own"] = texted("Nobody lists this page.")
    site.pages["/sitemap.xml"] = sitemap(site, *names)
    pipeline = open_pipeline()
    assert statuses(pipeline, f"{site.base}/sitemap.xml", f"{site.base}/own") == dict.fromkeys(
        [*names, "own"], "indexed"
    )
    site.pages["/sitemap.xml"] = sitemap(site, "a", "b", "d")
    del site.pages["/b"]
    site.pages["/d"] = Page(b"", 500)
    found = run(pipeline, [f"{site.base}/sitemap.xml"])
    assert {uri.rpartition("/")[2]: status for uri, (status, _) in found.items()} == {
        "a": "unchanged",
        "b": "deleted",
        "c": "deleted",
        "d": "failed",
    }
    assert "404" in (found[f"{site.base}/b"][1] or "")
    assert "sitemap" in (found[f"{site.base}/c"][1] or "")
    assert urls(pipeline) == ["a", "d", "own"]


@pytest.mark.parametrize("now", ["empty", "missing", "broken", "all gone"])
def test_br_19_a_sitemap_that_is_suddenly_empty_or_fails_deletes_nothing_without_yes(
    open_pipeline: Open, site: Site, now: str
) -> None:
    site.pages.update({f"/{name}": texted(f"The room {name} has seats.") for name in "ab"})
    site.pages["/sitemap.xml"] = sitemap(site, "a", "b")
    pipeline = open_pipeline()
    statuses(pipeline, f"{site.base}/sitemap.xml")
    if now == "empty":
        site.pages["/sitemap.xml"] = sitemap(site)
    elif now == "missing":
        del site.pages["/sitemap.xml"]
    elif now == "broken":
        site.pages["/sitemap.xml"] = Page(
            sitemap(site, "a").body[: -len("</urlset>")], 200, {"Content-Type": "application/xml"}
        )
    else:
        del site.pages["/a"], site.pages["/b"]
    found = run(pipeline, [f"{site.base}/sitemap.xml"])
    assert urls(pipeline) == ["a", "b"]
    assert "--yes" in (found[f"{site.base}/sitemap.xml"][1] or "")
    run(pipeline, [f"{site.base}/sitemap.xml"], prune=False, prune_empty=True)
    assert urls(pipeline) == ["a", "b"]
    run(pipeline, [f"{site.base}/sitemap.xml"], prune_empty=True)
    assert urls(pipeline) == (["a"] if now == "broken" else [])


def test_br_19_a_limit_on_pages_deletes_none_of_those_beyond(open_pipeline: Open, site: Site) -> None:
    site.pages.update({f"/{name}": texted(f"The room {name} has seats.") for name in "abc"})
    site.pages["/sitemap.xml"] = sitemap(site, "a", "b", "c")
    pipeline = open_pipeline()
    statuses(pipeline, f"{site.base}/sitemap.xml")
    few = WebOptions(allow_private=True, delay_s=0.0, max_pages=1)
    run(pipeline, [f"{site.base}/sitemap.xml"], few, prune_empty=True)
    assert urls(pipeline) == ["a", "b", "c"]


def test_a_page_of_two_sitemaps_is_fetched_once_and_stays_while_one_lists_it(open_pipeline: Open, site: Site) -> None:
    site.pages.update({f"/{name}": texted(f"The room {name} has seats.") for name in "ab"})
    both = [f"{site.base}/sitemap1.xml", f"{site.base}/sitemap2.xml"]
    site.pages["/sitemap1.xml"] = site.pages["/sitemap2.xml"] = sitemap(site, "a", "b")
    pipeline = open_pipeline()
    assert statuses(pipeline, *both) == {"a": "indexed", "b": "indexed"}
    assert site.paths.count("/a") == 1
    site.pages["/sitemap1.xml"] = sitemap(site, "a")
    assert statuses(pipeline, *both) == {"a": "unchanged", "b": "unchanged"}
    site.pages["/sitemap2.xml"] = sitemap(site, "a")
    assert statuses(pipeline, *both) == {"a": "unchanged", "b": "deleted"}


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:{port}/a",
        "http://[::1]:{port}/a",
        "http://0x7f.1:{port}/a",
        "http://localhost:{port}/a",
        "http://10.0.0.1/a",
        "http://169.254.169.254/latest/meta-data",
        "http://me:secret@127.0.0.1:{port}/a",
    ],
)
def test_br_43_inner_addresses_are_not_read_unless_a_setting_says_so(
    open_pipeline: Open, site: Site, address: str
) -> None:
    site.pages["/a"] = texted("An inner secret.")
    pipeline = open_pipeline()
    found = run(pipeline, [address.format(port=site.port)], WebOptions(delay_s=0.0))
    assert {status for status, _ in found.values()} <= {"failed", "skipped"}
    assert len(found) == 1
    assert "secret" not in str(found)
    assert site.requests == []
    assert urls(pipeline) == []


def test_one_bad_page_stops_no_other(open_pipeline: Open, site: Site) -> None:
    site.pages["/good"] = texted("Leave is 25 days.")
    site.pages["/film"] = Page(b"\0\0\0\x18ftypmp42", 200, {"Content-Type": "video/mp4"})
    site.pages["/empty"] = html("")
    found = statuses(
        pipeline := open_pipeline(), *(f"{site.base}/{name}" for name in ("film", "gone", "empty", "good"))
    )
    assert found == {"film": "skipped", "gone": "failed", "empty": "skipped", "good": "indexed"}
    assert urls(pipeline) == ["good"]


def test_a_run_that_is_stopped_deletes_nothing_and_fetches_no_more(open_pipeline: Open, site: Site) -> None:
    names = [f"p{number:02}" for number in range(30)]
    site.pages.update({f"/{name}": texted(f"The room {name} has seats.") for name in names})
    site.pages["/sitemap.xml"] = sitemap(site, *names)
    pipeline = open_pipeline()
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 6

    stopped = Pipeline(
        pipeline.collection,
        pipeline.catalog,
        pipeline.store,
        pipeline.model,
        pipeline.parsers,
        pipeline.scan,
        stop=stop,
    )
    run(stopped, [f"{site.base}/sitemap.xml"])
    assert len(site.paths) < 30
    assert {*statuses(pipeline, f"{site.base}/sitemap.xml").values()} <= {"indexed", "unchanged"}
    assert urls(pipeline) == names


def test_standard_input_is_a_document_that_its_name_updates(open_pipeline: Open) -> None:
    pipeline = open_pipeline()
    assert statuses(pipeline, "-", name="n.md", sent=b"# Leave\n\nIt is 25 days.\n") == {"n.md": "indexed"}
    assert statuses(pipeline, "-", name="n.md", sent=b"# Leave\n\nIt is 25 days.\n") == {"n.md": "unchanged"}
    assert statuses(pipeline, "-", name="n.md", sent=b"# Leave\n\nIt is 30 days.\n") == {"n.md": "updated"}
    assert statuses(pipeline, "-", name="n.md", uri="upload:///n.md", title="Mine", sent=b"Other words.") == {
        "n.md": "indexed"
    }
    found = {document.uri: document.title for document in pipeline.catalog.documents(pipeline.collection)}
    assert found == {"stdin:///n.md": "n.md", "upload:///n.md": "Mine"}
    assert statuses(pipeline, "-", name="big.md", sent=b"x" * 1001) == {"big.md": "failed"}


def test_documents_that_are_no_files_stay_when_folders_are_run(open_pipeline: Open, docs: Path, site: Site) -> None:
    site.pages["/a"] = texted("Leave is 25 days.")
    (docs / "f.md").write_text("A file.")
    pipeline = open_pipeline()
    run(pipeline, [f"{site.base}/a", "-"], name="n.md", sent=b"Words.")
    for _ in pipeline.run([docs], prune_empty=True):
        pass
    assert sorted(urls(pipeline)) == ["a", "f.md", "n.md"]
