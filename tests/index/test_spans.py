"""Spans and pages: what is cut out of a text, and on which page it stands."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rag_service.index.spans import PageStarts, Span

offsets = st.integers(0, 60)
spans = st.tuples(offsets, offsets).map(lambda ends: Span(min(ends), max(ends)))
pages = st.builds(
    lambda starts, first: PageStarts(tuple(sorted(starts)), first),
    st.lists(offsets, min_size=1, max_size=6),
    st.integers(1, 9),
)


@pytest.mark.parametrize(("start", "end"), [(3, 2), (-1, 2), (-2, -1)])
def test_a_backward_or_negative_span_is_refused(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="not a span"):
        Span(start, end)


@given(st.text(), spans)
def test_a_span_within_a_text_covers_as_many_code_points_as_it_is_long(text: str, span: Span) -> None:
    assume(span.end <= len(text))
    assert len(span.of(text)) == len(span)


@given(spans, spans, offsets)
def test_shifting_keeps_length_and_relations(one: Span, other: Span, offset: int) -> None:
    assert len(one.shift(offset)) == len(one)
    assert one.shift(offset).shift(-offset) == one
    assert one.shift(offset).contains(other.shift(offset)) == one.contains(other)
    assert one.overlaps(other) == other.overlaps(one)
    if one.contains(other) and len(other):
        assert one.overlaps(other)


def test_page_starts_that_go_backwards_are_refused() -> None:
    with pytest.raises(ValueError, match="backwards"):
        PageStarts((0, 10, 5))


def test_a_text_without_pages_has_none() -> None:
    assert PageStarts().page_at(5) is None
    assert PageStarts().pages_of(Span(0, 9)) == (None, None)
    assert PageStarts().within(Span(3, 4)) == PageStarts()


def test_an_empty_page_begins_where_the_next_one_does_and_holds_nothing() -> None:
    starts = PageStarts((0, 10, 10, 20))
    assert [starts.page_at(offset) for offset in (0, 9, 10, 19, 20, 99)] == [1, 1, 3, 3, 4, 4]
    assert starts.pages_of(Span(5, 10)) == (1, 1)
    assert starts.pages_of(Span(5, 11)) == (1, 3)


@given(pages, offsets, offsets)
def test_pages_never_go_backwards(starts: PageStarts, one: int, other: int) -> None:
    low, high = sorted((one, other))
    first, last = starts.page_at(low), starts.page_at(high)
    assert first is not None
    assert last is not None
    assert starts.first <= first <= last < starts.first + len(starts.offsets)


@given(pages, spans, st.data())
def test_the_part_of_the_pages_within_a_span_tells_the_same_pages_there(
    starts: PageStarts, span: Span, data: st.DataObject
) -> None:
    part = starts.within(span)
    assert part.pages_of(span) == starts.pages_of(span)
    if len(span):
        inside = data.draw(st.integers(span.start, span.end - 1))
        assert part.page_at(inside) == starts.page_at(inside)
    assert set(part.offsets) <= set(starts.offsets)
