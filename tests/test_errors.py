"""The error tree: drawn as it is, codes that differ, and a status for each in one table."""

import re
from collections.abc import Iterator

import pytest

from rag_service import errors
from rag_service.api.errors import STATUS, error_response, field_name, status_of, status_of_code
from rag_service.errors import RagError


def family(kind: type[RagError], depth: int = 0) -> Iterator[tuple[int, type[RagError]]]:
    yield depth, kind
    for child in kind.__subclasses__():
        yield from family(child, depth + 1)


KINDS = [kind for _, kind in family(RagError)]


def test_the_drawing_shows_the_tree() -> None:
    assert errors.__doc__ is not None
    lines = re.findall(r"^    ([│ ]*[├└]── )?([A-Z]\w+)", errors.__doc__, re.MULTILINE)
    drawn = [(len(branch) // 4, name) for branch, name in lines]
    assert sorted(drawn) == sorted((depth, kind.__name__) for depth, kind in family(RagError))


def test_codes_are_stable_words_and_differ() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_has_a_status_by_itself_and_by_its_code(kind: type[RagError]) -> None:
    status = status_of(kind("Something."))
    assert status in {401, 403, 404, 409, 413, 422, 429, 500, 502, 503, 504}
    assert status_of_code(kind.code) == status


def test_an_unknown_code_is_a_fault_of_our_own() -> None:
    assert status_of_code("no_such_code") == 500


def test_the_table_holds_nothing_that_is_not_raised() -> None:
    assert set(STATUS) <= set(KINDS)


@pytest.mark.parametrize(
    ("error", "retry_after"),
    [
        (errors.Overloaded("Full.", details={"retry_after_s": 0.2}), "1"),
        (errors.UpstreamRateLimited("Slow down.", details={"retry_after_s": 6.1}), "7"),
        (errors.UpstreamUnavailable("Not there."), "5"),
        (errors.NotFound("Nowhere."), None),
    ],
)
def test_retry_after_is_whole_seconds_and_only_where_it_helps(error: RagError, retry_after: str | None) -> None:
    assert error_response(error).headers.get("retry-after") == retry_after


def test_a_field_of_the_callers_own_is_cut_and_cleaned() -> None:
    assert field_name(("body", "history", 3, "role")) == "history.3.role"
    assert field_name(("body",)) == "body"
    assert field_name(("body", "x\ud835")) == "x?"
    assert len(field_name(("body", "k" * 5000))) == 100
