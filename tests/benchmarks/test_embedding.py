"""What the choice of number format gains: bfloat16 beside float32 in the same run, on a CPU that computes it.

In: the sample corpus, cut into chunks. Out: a table, and the ratio. Must not: compare across runs or machines.
"""

import time
from pathlib import Path
from typing import Literal

import pytest

from rag_service.index.embeddings import EmbeddingModel, Vectors, cpu_computes_bfloat16
from rag_service.index.settings import EmbeddingsSettings

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

CORPUS = Path(__file__).parents[2] / "data" / "corpus"
CHUNK_CHARS = 900  # about 200 tokens of English prose
ROUNDS = 3
LEAST_RATIO = 1.2


def chunks() -> list[str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(CORPUS.rglob("*.md")))
    return [text[start : start + CHUNK_CHARS] for start in range(0, len(text), CHUNK_CHARS)]


def measured(dtype: Literal["float32", "bfloat16"], texts: list[str]) -> tuple[float, Vectors]:
    """Chunks a second, the best of some rounds; and the vectors."""
    model = EmbeddingModel(EmbeddingsSettings(dtype=dtype))
    model.warm_up()
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        vectors = model.embed(texts)
        seconds.append(time.perf_counter() - started)
    return len(texts) / min(seconds), vectors


@pytest.mark.skipif(not cpu_computes_bfloat16(), reason="this CPU has no bfloat16 arithmetic (AVX512-BF16, AMX)")
def test_bfloat16_is_faster_and_points_the_same_way() -> None:
    texts = chunks()
    slow, exact = measured("float32", texts)
    fast, rounded = measured("bfloat16", texts)
    least = float((exact * rounded).sum(axis=1).min())
    print(f"\nEmbedding {len(texts)} chunks of {CHUNK_CHARS} characters")
    print(f"  float32    {slow:5.0f} chunks/s")
    print(
        f"  bfloat16   {fast:5.0f} chunks/s   {fast / slow:.1f} times as many; least cosine between the two {least:.5f}"
    )
    assert least > 0.999
    assert fast / slow >= LEAST_RATIO
