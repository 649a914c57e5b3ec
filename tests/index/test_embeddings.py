"""The real model: unit vectors, counted tokens, and what is said when there is none. Small made ones for what others have."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_service.errors import EmbeddingsUnavailable, FingerprintMismatch
from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.model_files import model_folder
from rag_service.index.passes import CPU_PASS_TOKENS, Passes, cut
from rag_service.index.settings import EmbeddingsSettings


@pytest.fixture(scope="module")
def model() -> EmbeddingModel:
    return EmbeddingModel(EmbeddingsSettings())


def test_vectors_are_of_length_one_and_near_where_meaning_is(model: EmbeddingModel) -> None:
    vectors = model.embed(["Annual leave is 25 days.", "How much vacation do I get?", "The pump needs oil.", ""])
    assert vectors.shape == (4, model.fingerprint.dimension)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    assert model.embed([]).shape == (0, model.fingerprint.dimension)


def test_br_12_the_limit_is_what_the_model_reads(model: EmbeddingModel) -> None:
    words = "pump " * model.max_tokens
    assert model.count_tokens([words, ""]) == [model.max_tokens, 0]
    within, beyond = model.embed([words, words + "annual leave is 25 days"])
    assert within == pytest.approx(beyond, abs=1e-2)


def test_neither_fingerprint_nor_counting_loads_the_weights() -> None:
    fresh = EmbeddingModel(EmbeddingsSettings())
    assert fresh.fingerprint.dimension == 384
    assert fresh.max_tokens == 254
    assert fresh.count_tokens(["word"]) == [1]
    assert "_passes" not in vars(fresh)


def test_br_63_a_model_that_is_not_here_is_told_with_how_to_fetch_it() -> None:
    with pytest.raises(EmbeddingsUnavailable, match=r"hf download intfloat/no-such-model"):
        EmbeddingModel(EmbeddingsSettings(model="intfloat/no-such-model"))
    with pytest.raises(EmbeddingsUnavailable, match="RAG_EMBEDDINGS__MODEL"):
        EmbeddingModel(EmbeddingsSettings(model="/no/such/folder"))


def test_a_folder_that_is_half_a_model_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 8}')
    with pytest.raises(EmbeddingsUnavailable, match="holds no weights"):
        EmbeddingModel(EmbeddingsSettings(model=str(tmp_path))).fingerprint  # noqa: B018  a property that reads files
    (tmp_path / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(EmbeddingsUnavailable, match=r"no tokenizer\.json"):
        EmbeddingModel(EmbeddingsSettings(model=str(tmp_path))).count_tokens(["text"])
    with pytest.raises(EmbeddingsUnavailable, match="failed on 'cpu'"):
        EmbeddingModel(EmbeddingsSettings(model=str(tmp_path))).embed(["text"])


def test_a_device_that_is_not_there_is_told() -> None:
    with pytest.raises(EmbeddingsUnavailable, match="RAG_EMBEDDINGS__DEVICE"):
        EmbeddingModel(EmbeddingsSettings(device="no-such-device")).embed(["text"])


def test_br_22_the_same_weights_at_another_path_are_the_same_model(tmp_path: Path, model: EmbeddingModel) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model.folder, copy)
    other = EmbeddingModel(EmbeddingsSettings(model=str(copy)))
    assert other.fingerprint.id == model.fingerprint.id
    tokenizer = copy / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + " ")
    changed = tmp_path / "changed"
    copy.rename(changed)
    assert EmbeddingModel(EmbeddingsSettings(model=str(changed))).fingerprint.id != model.fingerprint.id


def test_the_default_model_is_found_under_both_of_its_names() -> None:
    assert model_folder("all-MiniLM-L6-v2") == model_folder("sentence-transformers/all-MiniLM-L6-v2")


# -- passes of the model

TEXTS = [
    "",
    "pump",
    "  Annual LEAVE\n",
    "Müller’s 年假 😀",
    "a b c",
    *(f"word {n} " * (n * 9 % 140) for n in range(40)),
]


def passes_of(model: EmbeddingModel) -> Passes:
    model.warm_up()
    passes: Passes = vars(model)["_passes"]
    return passes


def cosines(one: Any, other: Any) -> Any:
    return (one * other).sum(axis=1) / (np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1))


@pytest.mark.parametrize("threads", [1, 3])
def test_passes_by_length_give_the_vectors_of_encode(model: EmbeddingModel, threads: int) -> None:
    from sentence_transformers import SentenceTransformer

    exact = SentenceTransformer(str(model.folder), device="cpu", local_files_only=True).encode(TEXTS)
    for dtype, least in (("float32", 0.999999), ("bfloat16", 0.9998)):
        ours = EmbeddingModel(EmbeddingsSettings(dtype=dtype, threads=threads, batch_size=7))  # type: ignore[arg-type]
        assert passes_of(ours).bypasses_encode
        assert cosines(ours.embed(TEXTS), exact).min() > least
        alone = np.vstack([ours.embed([text]) for text in TEXTS[-8:]])
        assert cosines(alone, ours.embed(TEXTS)[-8:]).min() > least
        ours.close()
        assert ours.embed(TEXTS[:1]).shape == (1, 384)


@given(st.lists(st.integers(1, 3000)), st.integers(1, 40), st.integers(1, CPU_PASS_TOKENS))
def test_every_text_is_in_one_pass_and_no_pass_is_too_large(lengths: list[int], most: int, budget: int) -> None:
    parts = list(cut(lengths, most, budget))
    assert sorted(row for part in parts for row in part) == list(range(len(lengths)))
    for part in parts:
        assert 1 <= len(part) <= most
        assert len(part) == 1 or len(part) * max(lengths[row] for row in part) <= budget


Made = Callable[..., EmbeddingModel]


@pytest.fixture
def made(tmp_path: Path, model: EmbeddingModel) -> Made:
    """Makes a small model with random weights, from sentence-transformers' own parts."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import AutoTokenizer, BertConfig, BertModel

    def make(name: str, *, dense: int = 0, prompts: Any = None, pooling: Any = None, **settings: Any) -> EmbeddingModel:
        torch.manual_seed(0)
        base, folder = tmp_path / f"{name}-base", tmp_path / name
        config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
        BertModel(config).save_pretrained(base)
        AutoTokenizer.from_pretrained(model.folder).save_pretrained(base)
        parts: list[Any] = [Transformer(str(base), max_seq_length=64), Pooling(32, **(pooling or {}))]
        if dense:
            parts.append(Dense(parts[1].get_embedding_dimension(), dense))
        SentenceTransformer(modules=parts, prompts=prompts, device="cpu").save(str(folder), create_model_card=False)
        return EmbeddingModel(EmbeddingsSettings(model=str(folder), dtype="float32", **settings))

    return make


@pytest.mark.parametrize(
    ("options", "dimension", "bypasses"),
    [
        ({}, 32, True),
        ({"pooling": {"pooling_mode": "cls"}}, 32, True),
        ({"pooling": {"pooling_mode": ["cls", "max"]}}, 64, True),
        ({"dense": 16}, 16, True),
        ({"dense": 16, "pooling": {"pooling_mode": ["mean", "max"]}}, 16, True),
        ({"prompts": {"query": "ask: ", "document": "read this: "}}, 32, True),
        ({"prompts": {"query": "ask: ", "passage": "read: "}, "pooling": {"include_prompt": False}}, 32, False),
    ],
)
def test_br_88_other_models_get_what_sentence_transformers_gives_them(
    made: Made, options: dict[str, Any], dimension: int, bypasses: bool
) -> None:
    from sentence_transformers import SentenceTransformer

    ours = made("other", **options)
    theirs = SentenceTransformer(str(ours.folder), device="cpu", local_files_only=True)
    assert passes_of(ours).bypasses_encode is bypasses
    assert ours.fingerprint.dimension == dimension
    texts = TEXTS[1:]
    passages, questions = ours.embed(texts), ours.embed_queries(texts)
    assert passages.shape == (len(texts), dimension)
    assert cosines(passages, theirs.encode_document(texts)).min() > 0.99999
    assert cosines(questions, theirs.encode_query(texts)).min() > 0.99999
    assert np.allclose(passages, questions, atol=1e-4) is ("prompts" not in options)


def test_br_88_prefixes_are_the_models_own_unless_set_and_part_of_the_fingerprint(made: Made) -> None:
    plain = made("plain")
    set_here = made("set", query_prefix="ask: ", passage_prefix="read this: ")
    own = made("own", prompts={"query": "ask: ", "document": "read this: "})
    assert own.fingerprint.id == set_here.fingerprint.id != plain.fingerprint.id
    assert own.embed(["leave"]) == pytest.approx(set_here.embed(["leave"]), abs=1e-5)
    assert own.embed(["leave"]) == pytest.approx(plain.embed(["read this: leave"]), abs=1e-5)
    assert own.embed_queries(["leave"]) == pytest.approx(plain.embed(["ask: leave"]), abs=1e-5)
    assert made("over", prompts={"query": "ask: "}, query_prefix="find: ").fingerprint.query_prefix == "find: "
    with pytest.raises(FingerprintMismatch, match='RAG_EMBEDDINGS__QUERY_PREFIX="ask: "'):
        plain.fingerprint.require(own.fingerprint, "documents")


def test_br_12_the_prefix_takes_its_tokens_from_the_text(made: Made) -> None:
    ours = made("prefixed", passage_prefix="read this passage:")
    assert ours.max_tokens == 64 - 2 - 4 - 1
    words = "pump " * ours.max_tokens
    assert ours.count_tokens(["read this passage:" + words])[0] <= 62
    assert made("plain").max_tokens == 62


def test_br_22_an_index_without_prefixes_keeps_its_fingerprint(model: EmbeddingModel) -> None:
    assert model.fingerprint.id == "3bbd89045ba885ece11031b1ee5c10a3"
    assert set(json.loads(model.fingerprint.to_json())) == {
        "chunk_schema",
        "dimension",
        "metric",
        "model",
        "normalised",
        "weights",
    }
