"""Texts of like length through a sentence-transformers model together: little padding, and one CPU thread for each pass.

In: a loaded model and its tokenizer file. Out: vectors in the order of the texts, not normalised. Must not: stand in for
`encode` where it would give other vectors: what is not known to be the same goes through `encode` itself.

`encode` sorts by characters and takes a fixed number of texts, so a pass is as long as its longest text, and a CPU's caches
hold a few thousand tokens, not thirty chunks. Here texts are sorted by their tokens and a pass ends at a number of tokens.
Several passes run side by side, each on one thread: a product that is shared among threads waits for the slowest at every
layer, which costs most where other processes want the same cores.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rag_service.index.model_files import open_tokenizer

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Encoding, Tokenizer

Rows = NDArray[np.float32]

CPU_PASS_TOKENS = 2048  # the fastest of 256 to 8192 on a CPU with 1 MiB of L2 a core
LEAST_PASS_TOKENS = 256  # a smaller pass is all overhead
KNOWN_MODULES = {"Transformer", "Pooling", "Dense", "Normalize"}
NO_LIMIT = 1_000_000  # transformers writes 10**30 where a tokenizer has none
SAME = 0.999  # cosine: a pass of another shape differs in the last bits of bfloat16
# Leading white space, capitals, an accent, other scripts, and a text that is cut.
TRIALS = (
    "  Annual LEAVE is 25 days.\n",
    "Müller's café — 年假為二十五天。",
    "การลาพักร้อน 😀",
    "the pump needs oil " * 200,
)


class Passes:
    """Not thread-safe: one thread owns it at a time."""

    def __init__(self, model: "SentenceTransformer", tokenizer_file: Path, *, max_texts: int, threads: int) -> None:
        import torch

        self._torch = torch
        self._model = model
        self._max_texts = max_texts
        self._threads = threads or torch.get_num_threads()
        self._on_cpu = model.device.type == "cpu"
        self._workers: ThreadPoolExecutor | None = None
        self._tokenizer: Tokenizer | None = None
        if passes_apply(model) and tokenizer_file.is_file():
            self._tokenizer = open_tokenizer(tokenizer_file)
            if (limit := model.max_seq_length) and limit < NO_LIMIT:
                self._tokenizer.enable_truncation(limit)
            if not self._agrees():
                self._tokenizer = None

    @property
    def bypasses_encode(self) -> bool:
        return self._tokenizer is not None

    def run(self, texts: Sequence[str], prefix: str) -> Rows:
        """Shape (len(texts), dimension); at least one text. Raises whatever PyTorch raises."""
        if self._tokenizer is None:
            return self._encode(texts, prefix)
        return self._passes(self._tokenizer, [prefix + text for text in texts])

    def close(self) -> None:
        if self._workers is not None:
            self._workers.shutdown()
            self._workers = None

    def _encode(self, texts: Sequence[str], prefix: str) -> Rows:
        rows = self._model.encode(
            list(texts),
            prompt=prefix,  # an empty one too, or the model's default prompt would be taken
            batch_size=self._max_texts,
            convert_to_tensor=True,
            show_progress_bar=False,
        )
        return _floats(rows)

    def _passes(self, tokenizer: "Tokenizer", texts: list[str]) -> Rows:
        encodings = tokenizer.encode_batch_fast(texts)
        lengths = [len(encoding) for encoding in encodings]
        budget = sum(lengths) + max(lengths) * len(lengths)  # no limit: on a GPU the number of texts alone is one
        if self._on_cpu:
            budget = min(CPU_PASS_TOKENS, max(LEAST_PASS_TOKENS, -(-sum(lengths) // self._threads)))
        parts = list(cut(lengths, self._max_texts, budget))
        batches = [[encodings[row] for row in part] for part in parts]
        if len(parts) == 1 or not self._on_cpu or self._threads == 1:
            self._torch.set_num_threads(self._threads)  # of this thread; the workers have set theirs
            done = [self._forward(batch) for batch in batches]
        else:
            done = list(self._pool().map(self._forward, batches))
        rows = np.empty((len(texts), done[0].shape[1]), dtype=np.float32)
        for part, vectors in zip(parts, done, strict=True):
            rows[part] = vectors
        return rows

    def _forward(self, batch: "Sequence[Encoding]") -> Rows:
        longest = max(len(encoding) for encoding in batch)
        names = self._model.tokenizer.model_input_names
        features: dict[str, Any] = {}
        for name, padding, values in (
            ("input_ids", self._model.tokenizer.pad_token_id, [encoding.ids for encoding in batch]),
            ("attention_mask", 0, [encoding.attention_mask for encoding in batch]),
            ("token_type_ids", 0, [encoding.type_ids for encoding in batch]),
        ):
            if name in names:
                table = np.full((len(batch), longest), padding, dtype=np.int64)
                for row, numbers in enumerate(values):
                    table[row, : len(numbers)] = numbers
                features[name] = self._torch.from_numpy(table).to(self._model.device)
        with self._torch.inference_mode():
            return _floats(self._model(features)["sentence_embedding"])

    def _pool(self) -> ThreadPoolExecutor:
        if self._workers is None:
            self._workers = ThreadPoolExecutor(
                self._threads, "embedding-pass", initializer=self._torch.set_num_threads, initargs=(1,)
            )
        return self._workers

    def _agrees(self) -> bool:
        """Whether texts become the same vectors here as in `encode`."""
        assert self._tokenizer is not None  # noqa: S101  it is being tried
        here, there = self._passes(self._tokenizer, list(TRIALS)), self._encode(TRIALS, "")
        if here.shape != there.shape:
            return False
        lengths = np.linalg.norm(here, axis=1) * np.linalg.norm(there, axis=1)
        return bool(np.all((here * there).sum(axis=1) >= SAME * lengths))


def passes_apply(model: "SentenceTransformer") -> bool:
    """Whether the model is of the kind whose `encode` is no more than tokenizing and a forward pass."""
    modules = list(model)
    kinds = [type(module).__name__ for module in modules]
    prompts = all(getattr(module, "include_prompt", True) for module in modules)
    return (
        kinds[:2] == ["Transformer", "Pooling"]
        and set(kinds) <= KNOWN_MODULES
        and prompts
        and model.truncate_dim is None
        and getattr(model.tokenizer, "is_fast", False)
        and getattr(model.tokenizer, "padding_side", "") == "right"
        and getattr(model.tokenizer, "pad_token_id", None) is not None
    )


def cut(lengths: Sequence[int], max_texts: int, budget: int) -> Iterator[list[int]]:
    """Indexes of texts for each pass, the longest first; a pass has at most `max_texts`, and `budget` tokens with padding,
    but at least one text."""
    part: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if part and (len(part) == max_texts or (len(part) + 1) * lengths[part[0]] > budget):
            yield part
            part = []
        part.append(row)
    if part:
        yield part


def _floats(tensor: Any) -> Rows:
    rows: Rows = tensor.float().cpu().numpy()
    return rows
