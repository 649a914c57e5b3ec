"""The real model: unit vectors, counted tokens, and what is said when there is none."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from rag_service.errors import EmbeddingsUnavailable
from rag_service.index.embeddings import EmbeddingModel, model_folder
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
    assert "_model" not in vars(fresh)


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
