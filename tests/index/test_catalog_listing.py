"""Listing documents and problems: every one once, page by page, and found by the words people know."""

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_service.index.catalog_writer import CatalogWriter
from rag_service.index.listing_sql import fold, mentions
from tests.support.catalog_rows import COLLECTION, OURS, put

NAMES = ["Ärger.md", "a b.md", "bee.md", "BEE notes.pdf", "Straße.txt", "100%_sure.txt", "z.md"]


@pytest.fixture
def catalog(tmp_path: Path) -> CatalogWriter:
    catalog = CatalogWriter(tmp_path / "catalog.sqlite3")
    for collection in (COLLECTION, "other"):
        catalog.open_collection(collection, OURS)
    for number, name in enumerate(NAMES):
        put(catalog, f"upload:///{quote(name)}", f"v{number}", *["text"] * (number + 1))
        catalog.note_problem(COLLECTION, f"file:///bad/{quote(name)}", "failed", f"reason {number}")
    put(catalog, "upload:///elsewhere.md", "v0", "text", collection="other")
    return catalog


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_the_pages_hold_every_document_and_problem_once(catalog: CatalogWriter, size: int) -> None:
    documents, problems, after = [], [], ""
    while page := catalog.listed_documents(COLLECTION, "", after, size):
        documents += page
        after = page[-1].document.uri
    after = ""
    while found := catalog.listed_problems(COLLECTION, "", after, size):
        problems += found
        after = found[-1].uri
    assert {listed.document.uri: listed.chunks for listed in documents} == {
        f"upload:///{quote(name)}": number + 1 for number, name in enumerate(NAMES)
    }
    assert len(documents) == len(problems) == len(NAMES)
    assert {problem.reason for problem in problems} == {f"reason {number}" for number in range(len(NAMES))}
    assert catalog.count_listed(COLLECTION, "") == (len(NAMES), len(NAMES))


@pytest.mark.parametrize(
    ("mentioned", "names"),
    [
        ("bee", ["bee.md", "BEE notes.pdf"]),
        ("ärger", ["Ärger.md"]),
        ("A\u0308RGER", ["Ärger.md"]),
        ("STRASSE", ["Straße.txt"]),
        ("a b", ["a b.md"]),
        ("a%20b", ["a b.md"]),
        ("%_", ["100%_sure.txt"]),
        ("x' OR 1=1 --", []),
        ("elsewhere", []),
    ],
)
def test_a_text_is_found_whatever_its_case_and_nothing_in_it_is_a_pattern(
    catalog: CatalogWriter, mentioned: str, names: list[str]
) -> None:
    uris = {f"upload:///{quote(name)}" for name in names}
    assert {found.document.uri for found in catalog.listed_documents(COLLECTION, mentioned, "", 100)} == uris
    assert len(catalog.listed_problems(COLLECTION, mentioned, "", 100)) == len(names)
    assert catalog.count_listed(COLLECTION, mentioned) == (len(names), len(names))


@given(st.text(), st.text(), st.text())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_what_stands_in_a_title_or_name_is_found(before: str, text: str, after: str) -> None:
    whole = fold(before + text + after)
    assert mentions(before + text + after, "", whole)
    assert mentions("", f"upload:///{quote(whole, errors='replace')}", fold(whole))
