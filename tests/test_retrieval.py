"""Fusing and trimming what the two searches bring."""

from hypothesis import given
from hypothesis import strategies as st

from rag_service.index.rows import LiveChunk
from rag_service.index.spans import PageStarts, Span
from rag_service.question import Question, Turn
from rag_service.retrieval import as_document, chunk_of, fuse, trim

UNIT = st.floats(0, 1)
IDS = st.sampled_from([f"c{n}" for n in range(12)])


def chunk(name: str, text: str) -> LiveChunk:
    span = Span(0, len(text))
    return LiveChunk(name, f"d-{name}", "v", f"{name}.md", f"file:///{name}.md", span, text, (), PageStarts())


@given(st.dictionaries(IDS, UNIT), st.dictionaries(IDS, st.floats(-5, 50)))
def test_fused_scores_are_in_0_to_1_and_keep_both_orders(dense: dict[str, float], lexical: dict[str, float]) -> None:
    scores = fuse(dense, lexical)
    assert set(scores) == set(dense) | set(lexical)
    assert all(0 <= score <= 1 for score in scores.values())
    for a in scores:
        for b in scores:
            if dense.get(a, 0) >= dense.get(b, 0) and lexical.get(a, 0) >= lexical.get(b, 0):
                assert scores[a] >= scores[b]


@given(
    texts=st.dictionaries(IDS, st.text("ab \n", min_size=1, max_size=8)),
    top_k=st.integers(1, 6),
    max_chars=st.none() | st.integers(1, 20),
    data=st.data(),
)
def test_br_61_the_best_few_and_no_text_twice(
    texts: dict[str, str], top_k: int, max_chars: int | None, data: st.DataObject
) -> None:
    live = {name: chunk(name, text) for name, text in texts.items()}
    scores = {name: data.draw(UNIT) for name in live}
    chosen = [chunk_of(document) for document in trim(live, scores, top_k, max_chars)]
    words = [" ".join(found.text.split()) for found, _ in chosen]
    assert len(chosen) <= top_k
    assert len(set(words)) == len(words)
    assert max_chars is None or sum(len(found.text) for found, _ in chosen) <= max_chars
    assert [score for _, score in chosen] == sorted((score for _, score in chosen), reverse=True)
    if max_chars is None:
        assert len(chosen) == min(top_k, len({" ".join(text.split()) for text in texts.values()}))


def test_a_document_carries_its_chunk() -> None:
    found = chunk("c1", "Leave is 25 days.")
    document = as_document(found, 0.123456)
    assert chunk_of(document) == (found, 0.1235)
    assert (document.page_content, document.id) == (found.text, "c1")
    assert document.metadata["source"] == found.uri


def test_br_58_a_follow_up_is_searched_with_the_question_before_it() -> None:
    history = (Turn("user", "How much is a tyre change?"), Turn("assistant", "18 euros."))
    asked = Question("And a service?", "documents", history=history)
    assert asked.search_text == "How much is a tyre change?\nAnd a service?"
    assert Question("A service?", "documents").search_text == "A service?"
