"""What embedding here gains: beside bare `encode`, beside what a plain LangChain script does, and by the number format.

In: chunks of the sample corpus. Out: a table, and ratios within one run. Must not: compare across runs or machines.

Each way takes its turn in every round, so that what else the machine does falls on all of them.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.model_files import cpu_computes_bfloat16
from rag_service.index.settings import EmbeddingsSettings

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1200)]

CORPUS = Path(__file__).parents[2] / "data" / "corpus"
CHUNK_CHARS = (300, 600, 900)  # the last are about 200 tokens of English prose
ROUNDS = 3
AT_ONCE = 256  # as ingest hands them over
LANGCHAIN_BATCH = 32  # what HuggingFaceEmbeddings leaves to encode

Way = Callable[[list[str]], Any]


def chunks() -> list[str]:
    """Pieces of several sizes, short ends of documents among them: a chunk ends with its section."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(CORPUS.rglob("*.md"))]
    return [text[start : start + size] for text in texts for size in CHUNK_CHARS for start in range(0, len(text), size)]


def bare_encode(model: EmbeddingModel, dtype: str) -> Way:
    import torch
    from sentence_transformers import SentenceTransformer

    bare = SentenceTransformer(
        str(model.folder),
        device="cpu",
        local_files_only=True,
        model_kwargs={"dtype": torch.bfloat16 if dtype == "bfloat16" else torch.float32},
    )
    return lambda texts: (
        bare.encode(
            texts,
            batch_size=LANGCHAIN_BATCH,
            convert_to_tensor=True,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        .float()
        .numpy()
    )


def ours(model: EmbeddingModel) -> Way:
    return lambda texts: np.vstack([model.embed(texts[at : at + AT_ONCE]) for at in range(0, len(texts), AT_ONCE)])


def measured(ways: dict[str, Way], texts: list[str]) -> tuple[dict[str, float], dict[str, Any]]:
    """For each way its best seconds of some rounds, and its vectors."""
    seconds: dict[str, float] = {}
    vectors: dict[str, Any] = {}
    for name, way in ways.items():
        way(texts[:8])
        seconds[name] = float("inf")
    for _ in range(ROUNDS):
        for name, way in ways.items():
            started = time.perf_counter()
            rows = way(texts)
            seconds[name] = min(seconds[name], time.perf_counter() - started)
            vectors[name] = rows / np.linalg.norm(
                rows, axis=1, keepdims=True
            )  # encode leaves bfloat16 rows a little off 1
    return seconds, vectors


def test_embedding_beside_encode_and_a_langchain_script() -> None:
    texts = chunks()
    exact, fast = (EmbeddingModel(EmbeddingsSettings(dtype=dtype)) for dtype in ("float32", "auto"))
    native = cpu_computes_bfloat16()
    ways = {"encode float32 (LangChain)": bare_encode(exact, "float32"), "embed float32": ours(exact)}
    if native:
        ways |= {"encode bfloat16": bare_encode(fast, "bfloat16"), "embed bfloat16": ours(fast)}
    seconds, vectors = measured(ways, texts)
    base = seconds["encode float32 (LangChain)"]
    reference = vectors["encode float32 (LangChain)"]
    print(f"\nEmbedding {len(texts)} chunks of up to {max(CHUNK_CHARS)} characters, best of {ROUNDS} rounds")
    for name, spent in seconds.items():
        least = float((vectors[name] * reference).sum(axis=1).min())
        print(f"  {name:27} {len(texts) / spent:6.1f} chunks/s  {base / spent:4.2f}x  least cosine {least:.5f}")
        assert least >= 0.9998
    for dtype in ("float32", "bfloat16") if native else ("float32",):
        encode = seconds["encode float32 (LangChain)" if dtype == "float32" else f"encode {dtype}"]
        assert encode / seconds[f"embed {dtype}"] >= 0.85, f"{dtype}: slower than bare encode"
    assert base / seconds["embed bfloat16" if native else "embed float32"] >= (2.0 if native else 1.0)
