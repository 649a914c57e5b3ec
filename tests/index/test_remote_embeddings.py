"""Embeddings of an endpoint, on a real socket: the right vectors for the right texts, or an error that says what to do."""

import itertools
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_service.errors import EmbeddingsUnavailable, FingerprintMismatch
from rag_service.index import remote_embeddings
from rag_service.index.embeddings import EmbeddingModel, open_embedder
from rag_service.index.remote_embeddings import PROBES, REQUEST_BYTES, RemoteEmbeddings, requests_of
from rag_service.index.settings import EmbeddingsSettings
from tests.support.fake_embeddings import Answer, Drop, FakeEmbeddings, HashVectors, Stall

KEY = "sk-a-secret-key"
TEXTS = [f"Item {number} costs {number} EUR." for number in range(100)]


class Pauses(list[float]):
    """Waits that take no time."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def fake() -> Iterator[FakeEmbeddings]:
    with FakeEmbeddings() as server:
        yield server


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def opened(pauses: Pauses) -> Iterator[Callable[..., RemoteEmbeddings]]:
    """Opens the endpoint of a server, and closes all of them."""
    made: list[RemoteEmbeddings] = []

    def open_remote(server: FakeEmbeddings, **settings: Any) -> RemoteEmbeddings:
        made.append(RemoteEmbeddings(EmbeddingsSettings(base_url=server.base_url, **settings), pauses))
        return made[-1]

    yield open_remote
    for remote in made:
        remote.close()


Opened = Callable[..., RemoteEmbeddings]


def unit(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# -- vectors


@pytest.mark.parametrize("takes_base64", [True, False])
@pytest.mark.parametrize("like", ["vllm", "tei"])
def test_every_text_gets_its_own_vector(opened: Opened, like: str, takes_base64: bool) -> None:
    with FakeEmbeddings(like=like, takes_base64=takes_base64) as fake:
        remote = opened(fake)
        vectors = remote.embed(TEXTS)
        assert vectors.dtype == np.float32
        assert vectors == pytest.approx(unit(fake.embed(TEXTS)), abs=1e-6)
        assert remote.embed([]).shape == (0, 32)
        assert remote.embed_queries(TEXTS[:1]) == pytest.approx(vectors[:1], abs=1e-6)
        assert max(map(len, fake.inputs)) == 32
        formats = [seen.body["encoding_format"] for seen in fake.seen if seen.path == "/v1/embeddings"]
        assert formats == (["base64"] * len(formats) if takes_base64 else ["base64", *["float"] * (len(formats) - 1)])


def test_several_requests_are_in_flight(fake: FakeEmbeddings, opened: Opened) -> None:
    remote = opened(fake)
    remote.warm_up()
    both, vectors = threading.Barrier(2), fake.embed

    def together(texts: Any) -> Any:
        both.wait(30)  # broken when the second request does not come before the first is answered
        return vectors(texts)

    fake.embed = together
    assert remote.embed(TEXTS[:64]) == pytest.approx(unit(vectors(TEXTS[:64])), abs=1e-6)


def test_answers_in_another_order_are_put_right(fake: FakeEmbeddings, opened: Opened) -> None:
    fake.spoil = lambda answer: answer["data"].reverse()
    assert opened(fake).embed(TEXTS) == pytest.approx(unit(fake.embed(TEXTS)), abs=1e-6)


def test_what_is_too_many_is_halved_and_remembered(opened: Opened) -> None:
    with FakeEmbeddings(max_texts=5) as fake:
        remote = opened(fake, batch_size=64)
        assert remote.embed(TEXTS) == pytest.approx(unit(fake.embed(TEXTS)), abs=1e-6)
        before = len(fake.inputs)
        remote.embed(TEXTS[:10])
        assert sorted(len(texts) for texts in fake.inputs[before:]) == [2, 4, 4]


def test_what_tei_says_of_its_limits_is_kept(opened: Opened) -> None:
    with FakeEmbeddings(like="tei", max_texts=7) as fake:
        opened(fake).embed(TEXTS)
        assert max(map(len, fake.inputs)) == 7


def test_blank_texts_and_lone_surrogates_reach_the_endpoint_as_text(fake: FakeEmbeddings, opened: Opened) -> None:
    assert np.isfinite(opened(fake).embed_queries(["", " \n", "a\ud800b"])).all()
    assert fake.inputs[-1] == [".", ".", "a?b"]


@given(st.lists(st.integers(0, REQUEST_BYTES * 2 // 3)), st.integers(1, 5))
def test_requests_hold_the_texts_in_order_and_within_the_limits(lengths: list[int], most: int) -> None:
    texts = ["x" * length for length in lengths]
    parts = list(requests_of(texts, most))
    assert list(itertools.chain(*parts)) == texts
    assert all(1 <= len(part) <= most and sum(map(len, part)) <= REQUEST_BYTES for part in parts)


# -- prefixes


def test_br_88_questions_and_passages_get_their_own_prefix(fake: FakeEmbeddings, opened: Opened) -> None:
    remote = opened(fake, query_prefix="query: ", passage_prefix="passage: ")
    assert remote.fingerprint.id != opened(fake).fingerprint.id
    remote.embed(["leave"])
    remote.embed_queries(["how much?"])
    assert fake.inputs[-2:] == [["passage: leave"], ["query: how much?"]]
    assert remote.max_tokens < opened(fake).max_tokens


# -- the model


@pytest.mark.parametrize(
    ("like", "served", "configured", "taken"),
    [
        ("vllm", ["a/first", "b/second"], None, "a/first"),
        ("vllm", ["a/first", "b/second"], "b/second", "b/second"),
        ("vllm", ["a/first", "all-MiniLM-L6-v2"], None, "all-MiniLM-L6-v2"),
        ("tei", ["c/only"], None, "c/only"),
        ("tei", ["c/only"], "c/only", "c/only"),
    ],
)
def test_the_model_is_the_configured_or_the_first(
    opened: Opened, like: str, served: list[str], configured: str | None, taken: str
) -> None:
    with FakeEmbeddings(like=like, models=served) as fake:
        remote = opened(fake, **({"model": configured} if configured else {}))
        assert remote.fingerprint.model == taken
        assert fake.seen[-1].body["model"] == taken


def test_br_63_a_model_that_is_not_served_is_told_with_those_that_are(fake: FakeEmbeddings, opened: Opened) -> None:
    with pytest.raises(EmbeddingsUnavailable, match=r"'other'; it serves 'test/embedder'.*RAG_EMBEDDINGS__MODEL"):
        opened(fake, model="other").warm_up()


def test_an_endpoint_that_lists_nothing_is_asked_for_the_configured_model(fake: FakeEmbeddings, opened: Opened) -> None:
    fake.listing = Answer(404)
    assert opened(fake, model="mine").fingerprint.model == "mine"
    with pytest.raises(EmbeddingsUnavailable, match="RAG_EMBEDDINGS__MODEL"):
        opened(fake).warm_up()


def test_br_22_the_same_model_is_known_again_and_another_of_equal_dimension_is_not(
    fake: FakeEmbeddings, opened: Opened
) -> None:
    stored = opened(fake).fingerprint
    exact = fake.embed

    def rounded(texts: Any) -> Any:  # as another GPU or number format would have it
        return exact(texts) * 1.01 + np.random.default_rng().normal(scale=0.02, size=(len(texts), 32))

    fake.embed = lambda texts: rounded(texts).astype(np.float32)
    again = opened(fake).fingerprint
    assert again != stored
    assert again.id == stored.id
    again.require(stored, "documents")
    type(stored).from_json(stored.to_json()).require(again, "documents")

    fake.embed = HashVectors(32, seed=1)
    other = opened(fake).fingerprint
    assert other.id == stored.id
    with pytest.raises(FingerprintMismatch, match="other vectors"):
        other.require(stored, "documents")
    local = EmbeddingModel(EmbeddingsSettings()).fingerprint
    with pytest.raises(FingerprintMismatch, match="RAG_EMBEDDINGS__BASE_URL to its endpoint"):
        local.require(stored, "documents")
    with pytest.raises(FingerprintMismatch, match="RAG_EMBEDDINGS__BASE_URL to nothing"):
        stored.require(local, "documents")


@pytest.mark.parametrize("then", [HashVectors(32, seed=1), HashVectors(64)])
def test_br_22_a_model_that_changes_while_we_run_is_found_out(
    fake: FakeEmbeddings, opened: Opened, monkeypatch: pytest.MonkeyPatch, then: HashVectors
) -> None:
    monkeypatch.setattr(remote_embeddings, "CHECK_EVERY_S", 0)
    remote = opened(fake)
    assert remote.embed(TEXTS[:2]).shape == (2, 32)
    fake.embed = then
    with pytest.raises(EmbeddingsUnavailable, match="another model"):
        remote.embed(TEXTS[:2])


def test_br_22_vectors_of_another_size_are_refused_at_once(fake: FakeEmbeddings, opened: Opened) -> None:
    remote = opened(fake)
    remote.warm_up()
    fake.embed = HashVectors(64)
    with pytest.raises(EmbeddingsUnavailable, match="64 values instead of 32"):
        remote.embed(TEXTS)


# -- tokens


def test_br_12_tokens_are_counted_without_asking_and_never_beyond_what_is_read(
    fake: FakeEmbeddings, opened: Opened
) -> None:
    minilm = EmbeddingModel(EmbeddingsSettings())
    fake.max_tokens, fake.count = 256, lambda text: minilm.count_tokens([text])[0]
    exact = opened(fake, tokenizer=str(minilm.folder))
    assert exact.max_tokens == minilm.max_tokens
    assert exact.count_tokens(TEXTS) == minilm.count_tokens(TEXTS)
    exact.warm_up()
    estimated = opened(fake)
    asked = len(fake.seen)
    assert all(
        ours >= real for ours, real in zip(estimated.count_tokens(TEXTS), exact.count_tokens(TEXTS), strict=True)
    )
    assert len(fake.seen) == asked
    assert estimated.max_tokens < exact.max_tokens


def test_br_12_a_text_that_is_too_long_is_an_error_and_its_neighbours_do_not_hide_it(
    fake: FakeEmbeddings, opened: Opened
) -> None:
    with pytest.raises(EmbeddingsUnavailable, match=r"1199 characters.*RAG_EMBEDDINGS__TOKENIZER"):
        opened(fake).embed([*TEXTS[:5], " ".join(["a"] * 600), *TEXTS[5:9]])
    assert all("truncate_prompt_tokens" not in (seen.body or {}) for seen in fake.seen)


@pytest.mark.parametrize("like", ["vllm", "tei"])
def test_br_12_a_tokenizer_of_another_model_is_found_out(opened: Opened, like: str) -> None:
    with FakeEmbeddings(like=like) as fake:
        fake.count = len
        with pytest.raises(EmbeddingsUnavailable, match="RAG_EMBEDDINGS__TOKENIZER"):
            opened(fake, tokenizer=str(EmbeddingModel(EmbeddingsSettings()).folder)).warm_up()


def test_br_12_where_no_limit_is_told_one_must_be_set(fake: FakeEmbeddings, opened: Opened) -> None:
    fake.max_tokens = None
    with pytest.raises(EmbeddingsUnavailable, match="RAG_EMBEDDINGS__MAX_TOKENS"):
        _ = opened(fake).max_tokens
    assert opened(fake, max_tokens=512).max_tokens == 381


def test_br_63_a_tokenizer_that_is_not_here_is_told_with_how_to_fetch_it(fake: FakeEmbeddings, opened: Opened) -> None:
    with pytest.raises(EmbeddingsUnavailable, match=r"RAG_EMBEDDINGS__TOKENIZER.*hf download no/such"):
        opened(fake, tokenizer="no/such").count_tokens(["text"])


# -- faults


@pytest.mark.parametrize(
    ("faults", "waited"),
    [
        ([Answer(429, headers={"Retry-After": "2"})], [2.0]),
        ([Answer(503), Answer(503)], [0.25, 0.5]),
        ([Answer(500), Drop()], [0.25, 0.5]),
    ],
)
def test_what_passes_is_waited_for(
    fake: FakeEmbeddings, opened: Opened, pauses: Pauses, faults: list[Any], waited: list[float]
) -> None:
    remote = opened(fake)
    remote.warm_up()
    fake.faults += faults
    assert remote.embed(TEXTS[:3]) == pytest.approx(unit(fake.embed(TEXTS[:3])), abs=1e-6)
    assert pauses == waited


@pytest.mark.parametrize("fault", [Answer(429), Answer(500), Answer(503), Drop()])
def test_what_does_not_pass_ends_within_a_bound(
    fake: FakeEmbeddings, opened: Opened, pauses: Pauses, fault: Answer | Drop
) -> None:
    remote = opened(fake, api_key=KEY)
    remote.warm_up()
    fake.faults += [fault] * 100
    with pytest.raises(EmbeddingsUnavailable) as told:
        remote.embed(TEXTS[:3])
    assert sum(pauses) <= 60
    assert KEY not in told.value.message + str(told.value.details)
    assert TEXTS[0] not in told.value.message


def test_a_question_waits_less_than_an_ingest(fake: FakeEmbeddings, opened: Opened, pauses: Pauses) -> None:
    remote = opened(fake)
    remote.warm_up()
    fake.faults += [Answer(429, headers={"Retry-After": "20"})] * 2
    with pytest.raises(EmbeddingsUnavailable, match="429"):
        remote.embed_queries(TEXTS[:1])
    assert pauses == []
    remote.embed(TEXTS[:1])
    assert pauses == [20.0]


def test_an_endpoint_that_does_not_answer_is_given_up(fake: FakeEmbeddings, opened: Opened) -> None:
    remote = opened(fake, timeout_s=0.2)
    remote.warm_up()
    fake.faults += [Stall()] * 100
    with pytest.raises(EmbeddingsUnavailable, match="RAG_EMBEDDINGS__TIMEOUT_S"):
        remote.embed_queries(TEXTS[:1])


def test_nobody_there_is_told_with_the_setting(opened: Opened) -> None:
    with FakeEmbeddings() as gone:
        pass
    with pytest.raises(EmbeddingsUnavailable, match="RAG_EMBEDDINGS__BASE_URL"):
        opened(gone).warm_up()


def test_a_key_is_sent_and_a_wrong_one_told_without_repeating_it(opened: Opened) -> None:
    with FakeEmbeddings(key=KEY) as fake:
        opened(fake, api_key=KEY).warm_up()
        with pytest.raises(EmbeddingsUnavailable, match="RAG_EMBEDDINGS__API_KEY") as told:
            opened(fake, api_key="sk-wrong-one").warm_up()
        assert "sk-wrong" not in told.value.message
        with pytest.raises(EmbeddingsUnavailable, match="RAG_EMBEDDINGS__API_KEY"):
            opened(fake, api_key="schlüssel\n").warm_up()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda answer: answer["data"].pop(), "2 vectors for 3 texts"),
        (lambda answer: answer["data"].append(answer["data"][0]), "4 vectors for 3 texts"),
        (lambda answer: answer["data"][1].update(index=0), "indexes"),
        (lambda answer: answer["data"][1].update(embedding=[float("inf")] * 32), "form"),
        (lambda answer: answer["data"][1].update(embedding=[None] * 32), "no number"),
        (lambda answer: answer["data"][1].update(embedding=[1e300] * 32), "no number"),
        (lambda answer: answer["data"][1].update(embedding=b64encode(b"\xff" * 128).decode()), "no number"),
        (lambda answer: answer["data"][1].update(embedding=[0.0] * 32), "zero"),
        (lambda answer: answer["data"][1].update(embedding=[1.0] * 31), "same size"),
        (lambda answer: [entry.update(embedding=[]) for entry in answer["data"]], "same size"),
        (lambda answer: answer["data"][1].update(embedding=[[1.0] * 32]), "form"),
        (lambda answer: answer["data"][1].update(embedding="no base64"), "form"),
        (lambda answer: answer["data"].__setitem__(1, "text"), "form"),
        (lambda answer: answer.pop("data"), "form"),
    ],
)
def test_an_answer_that_cannot_be_the_vectors_is_refused(
    fake: FakeEmbeddings, opened: Opened, spoil: Callable[[dict[str, Any]], object], reason: str
) -> None:
    remote = opened(fake)
    remote.warm_up()
    fake.spoil = spoil
    with pytest.raises(EmbeddingsUnavailable, match=rf"{reason}.*RAG_EMBEDDINGS__BASE_URL"):
        remote.embed(TEXTS[:3])


@pytest.mark.parametrize("status", [307, 404, 418])
def test_a_wrong_address_is_told_with_the_setting(fake: FakeEmbeddings, opened: Opened, status: int) -> None:
    fake.faults += [Answer(status, b"<html>")]
    with pytest.raises(EmbeddingsUnavailable, match=r"RAG_EMBEDDINGS__BASE_URL.*/v1"):
        opened(fake).warm_up()


def test_a_model_that_embeds_nothing_is_told(fake: FakeEmbeddings, opened: Opened) -> None:
    fake.faults += [Answer(400, b'{"error": {"message": "The model does not support Embeddings API"}}')]
    with pytest.raises(EmbeddingsUnavailable, match="embedding model"):
        opened(fake).warm_up()


def test_the_settings_choose_between_the_endpoint_and_the_model_here(fake: FakeEmbeddings) -> None:
    assert isinstance(open_embedder(EmbeddingsSettings()), EmbeddingModel)
    remote = open_embedder(EmbeddingsSettings(base_url=fake.base_url))
    assert fake.seen == []
    assert remote.embed_queries(list(PROBES)).shape == (2, 32)
    remote.close()
