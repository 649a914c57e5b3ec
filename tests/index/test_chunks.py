"""Ids are hashes of what they name; the fingerprint tells indexes apart."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_service.errors import FingerprintMismatch
from rag_service.index.chunks import ID_LENGTH, chunk_id, digest, document_id, embedded_text, version_id
from rag_service.index.fingerprint import Fingerprint
from rag_service.index.spans import Span

texts = st.text(st.characters(exclude_categories=[]), max_size=6)  # lone surrogates included
OURS = Fingerprint("all-MiniLM-L6-v2", "ab" * 16, 384)


@given(st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_digests_are_equal_exactly_when_the_parts_are(one: list[str], other: list[str]) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)
    assert len(digest(*one)) == ID_LENGTH
    assert set(digest(*one)) <= set("0123456789abcdef")


@given(texts, texts, texts)
def test_ids_of_different_kinds_never_meet(a: str, b: str, c: str) -> None:
    ids = [document_id(a, b), document_id(a, b, 1), version_id(a, b, c, "e"), chunk_id(a, Span(0, 1))]
    assert len(set(ids)) == len(ids)


def test_ids_do_not_change_between_releases() -> None:
    """A change here would orphan every index that people have."""
    assert document_id("documents", "file:///a.md") == "2de098a890dbf160e40d7a70d0e13390"
    assert version_id("content", "pdf/1", "chunker", "embedder") == "333f9b62cfc65c469f953bffcd091779"
    assert chunk_id("version", Span(1, 2)) == "b0ac98ca4b51cc52fa7f1ab87dec4eeb"


@pytest.mark.parametrize("part", range(4))
def test_each_fingerprint_changes_the_version(part: int) -> None:
    parts = ["content", "pdf/1", "chunker", "embedder"]
    other = [*parts]
    other[part] += "!"
    assert version_id(*parts) != version_id(*other)


def test_a_chunk_is_embedded_under_its_headings() -> None:
    assert embedded_text(("Leave", "Sick leave"), "Tell us by 9.") == "Leave > Sick leave\nTell us by 9."
    assert embedded_text((), "Tell us by 9.") == "Tell us by 9."


@pytest.mark.parametrize(
    "change",
    [{"weights": "cd" * 16}, {"dimension": 768}, {"normalised": False}, {"metric": "l2"}, {"chunk_schema": 99}],
)
def test_br_22_equal_dimensions_are_no_proof_every_field_counts(change: dict[str, object]) -> None:
    theirs = replace(OURS, **change)  # type: ignore[arg-type]
    assert theirs.id != OURS.id
    with pytest.raises(
        FingerprintMismatch, match=r"RAG_EMBEDDINGS__MODEL=all-MiniLM-L6-v2 .* `rag-ingest rebuild`"
    ) as told:
        theirs.require(OURS, "documents")
    (name,) = change
    assert [line.split()[0] for line in told.value.details["differences"]] == [name]


def test_the_same_weights_under_another_name_are_the_same_model() -> None:
    renamed = replace(OURS, model="/models/minilm")
    renamed.require(OURS, "documents")
    assert renamed.id == OURS.id


def test_a_fingerprint_survives_its_stored_form() -> None:
    assert Fingerprint.from_json(OURS.to_json()) == OURS
