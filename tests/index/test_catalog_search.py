"""Filters and BM25: the right subset, and no question that is an error."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.documents import clean_metadata
from rag_service.index.catalog_writer import CatalogWriter
from rag_service.index.chunks import document_id
from tests.support.catalog_rows import COLLECTION, put

AWKWARD = {
    "none": None,
    "list": [],
    "dict": {},
    "nested": {"a": {"b": [1, None]}},
    "nan": float("nan"),
    "big": 2**70,
    "bytes": b"\xff\x00",
    "long": "x" * 100_000,
    "$where": "dollar",
    "schlüssel": "ä",
    'quo"te': 1,
    "year": 2024,
    "price": 2.5,
    "draft": True,
}


names = st.text(st.characters(exclude_categories=[]), max_size=8) | st.sampled_from(['a"b', "$.a", "a'b", "[0]", "%"])


values = st.lists(
    st.text(st.characters(exclude_categories=[]), max_size=8)
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.booleans(),
    max_size=3,
)


def test_br_57_awkward_metadata_is_kept_clean_and_filters_on_kept_keys_work(catalog: CatalogWriter) -> None:
    put(catalog, "file:///a.md", "v1", "text", **AWKWARD)
    put(catalog, "file:///b.md", "v2", "text", year=2025, draft=False)
    document = catalog.document(document_id(COLLECTION, "file:///a.md"))
    assert document.metadata == clean_metadata(AWKWARD)
    for key, value in document.metadata.items():
        assert catalog.versions_where(COLLECTION, {key: [value]}) == ["v1"], key
    assert catalog.versions_where(COLLECTION, {"big": [2**70]}) == ["v1"]
    assert catalog.versions_where(COLLECTION, {"year": [2024, 2025]}) == ["v1", "v2"]
    assert catalog.versions_where(COLLECTION, {"year": [2024, 2025], "draft": [False]}) == ["v2"]
    assert catalog.versions_where(COLLECTION, {"uri": ["file:///b.md"], "year": [2024]}) == []
    assert catalog.versions_where(COLLECTION, {}) == ["v1", "v2"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.dictionaries(names, values, min_size=1, max_size=3))
def test_br_101_no_filter_is_an_error(
    catalog: CatalogWriter, filters: dict[str, list[str | int | float | bool]]
) -> None:
    assert catalog.versions_where(COLLECTION, filters) == []


def test_words_of_a_heading_find_what_stands_below_it(catalog: CatalogWriter) -> None:
    (chunk,) = put(catalog, "file:///a.md", "v1", "Tell us by nine.", headings=("Sick leave",))
    assert [*catalog.bm25(COLLECTION, "sick", 9)] == [chunk]


def test_the_best_match_comes_first_and_the_limit_holds(catalog: CatalogWriter) -> None:
    ids = put(catalog, "file:///a.md", "v1", "leave is leave", "leave or stay and much else besides", "nothing of that")
    found = catalog.bm25(COLLECTION, "leave", 9)
    assert [*found] == ids[:2]
    assert sorted(found.values(), reverse=True) == [*found.values()]
    assert [*catalog.bm25(COLLECTION, "leave", 1)] == ids[:1]


def test_versions_restrict_the_search(catalog: CatalogWriter) -> None:
    (one,) = put(catalog, "file:///a.md", "v1", "the word")
    (other,) = put(catalog, "file:///b.md", "v2", "the word")
    assert [*catalog.bm25(COLLECTION, "word", 9, ["v2"])] == [other]
    assert {*catalog.bm25(COLLECTION, "word", 9, ["v1", "v2", "v3"])} == {one, other}
    assert catalog.bm25(COLLECTION, "word", 9, []) == {}


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("What is the price?", True),
        ("PRICE", True),
        ('"price"', True),
        ('price" OR "', True),
        ("price AND nothing NOT x", True),
        ("price*", True),
        ("text:price", True),
        ("NEAR(price)", True),
        ("{price} ^price -price +price", True),
        ("pri\x00ce price", True),
        ("istanbul", True),
        ("İstanbul", True),
        ("u\u0308bung", True),
        ("Übung", True),
        ("ubung", True),
        ("天地玄黃", True),
        ("what is it", False),
        ("🦜🦜", False),
        ("\x00", False),
        ("'; DROP TABLE chunks; --", False),
        ("_ __", False),
        ("", False),
        ("   \n", False),
        ("\ud800", False),
    ],
)
def test_br_89_odd_questions_are_words_or_nothing(catalog: CatalogWriter, question: str, found: bool) -> None:
    (chunk,) = put(catalog, "file:///a.md", "v1", "The price in İstanbul; die Übung kostet. 天地玄黃")
    assert [*catalog.bm25(COLLECTION, question, 9)] == ([chunk] if found else [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(st.text(st.characters(exclude_categories=[]), max_size=30))
def test_no_question_is_an_error(catalog: CatalogWriter, question: str) -> None:
    catalog.bm25(COLLECTION, question, 3)


def test_a_question_of_stop_words_alone_is_searched_with_them(catalog: CatalogWriter) -> None:
    (chunk,) = put(catalog, "file:///a.md", "v1", "To be or not to be")
    assert [*catalog.bm25(COLLECTION, "to be", 9)] == [chunk]
