"""An endpoint for embeddings as an `Embedder`: requests of a bearable size, several in flight, and a check of who answers.

In: texts. Out: float32 vectors of length 1, token counts, a fingerprint. Must not: cut a text without a word (one that is
too long is an error), go on with another model than it began with, or wait without an end.

An endpoint tells the name of its model, not its weights. So the vectors of two fixed texts are part of the fingerprint and
are asked for again from time to time: a server that was started anew with another model of equal dimension is found out.
"""

import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from tokenizers import Tokenizer

from rag_service.errors import EmbeddingsUnavailable
from rag_service.index.chunks import digest
from rag_service.index.embedding_endpoint import EmbeddingEndpoint, Rows, Served, TooLarge
from rag_service.index.embeddings import Vectors
from rag_service.index.fingerprint import Fingerprint, same_probe
from rag_service.index.model_files import DEFAULT_NAMES, cached_folder, open_tokenizer
from rag_service.index.settings import EmbeddingsSettings
from rag_service.index.token_estimate import SHARE, estimate_tokens

IN_FLIGHT = 4  # requests: the endpoint batches them, and is not idle while an answer travels
REQUEST_BYTES = 256 * 1024
INGEST_PATIENCE_S = 60.0  # a server that is started anew may take as long
QUERY_PATIENCE_S = 5.0  # somebody is waiting
CHECK_EVERY_S = 60.0
SPECIAL_TOKENS = 4  # around a text, where the tokenizer is not at hand; common models add one or two

PROBES = (
    "Every employee may take 25 days of annual leave; Müller signs the form.",
    "def pump(oil: float) -> bool:\n    return oil > 0.5  # 油泵",
)
PROBE_PARTS = 48  # of each probe's vector, for the fingerprint: enough to tell models apart, few enough to store
COUNTED = (
    "Every employee may take 25 days of annual leave, see https://example.org/leave?id=4711. 每年有25天假期。\n" * 3
)


@dataclass(frozen=True, slots=True)
class Found:
    """What answers at the endpoint: the model, and its unit vectors of `PROBES`."""

    served: Served
    probes: Vectors


class RemoteEmbeddings:
    """The model of an OpenAI-compatible endpoint. Asks it for the first time when something is to be known."""

    def __init__(
        self,
        settings: EmbeddingsSettings,
        wait: Callable[[float], object] | None = None,
        headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._settings = settings
        self._closed = threading.Event()
        self._endpoint = EmbeddingEndpoint(settings, self._closed.wait if wait is None else wait, headers)
        self._lock = threading.Lock()
        self._seen: Found | None = None
        self._checked = 0.0
        self._max_texts = settings.batch_size
        self._requests = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="embedding-request")

    @functools.cached_property
    def fingerprint(self) -> Fingerprint:
        """Asks the endpoint, once."""
        found = self._found()
        parts = found.probes[:, :PROBE_PARTS].ravel()
        return Fingerprint(
            model=found.served.id,
            weights=digest("endpoint", found.served.id),
            dimension=found.probes.shape[1],
            query_prefix=self._settings.query_prefix or "",
            passage_prefix=self._settings.passage_prefix or "",
            probe=tuple(round(float(value), 5) for value in parts),
        )

    @functools.cached_property
    def max_tokens(self) -> int:
        """Without special tokens and the prefix; where tokens are estimated, only that share which an estimate may fill."""
        limit = self._settings.max_tokens or self._served.max_tokens
        if limit is None:
            raise EmbeddingsUnavailable(
                "The embeddings endpoint does not tell how many tokens its model reads. Set RAG_EMBEDDINGS__MAX_TOKENS to"
                " the number in the model's description (512 for many)."
            )
        prefix = self._settings.passage_prefix
        taken = self.count_tokens([prefix])[0] + 1 if prefix else 0
        if self._tokenizer is None:
            return max(1, int((limit - SPECIAL_TOKENS) * SHARE) - taken)
        return max(1, limit - self._tokenizer.num_special_tokens_to_add(is_pair=False) - taken)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """With the configured tokenizer, else estimated; never by asking, since every sentence of an ingest is counted."""
        if self._tokenizer is None:
            return [estimate_tokens(text) for text in texts]
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding) for encoding in encodings]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Passages: unit vectors, shape (len(texts), dimension), float32. Raises EmbeddingsUnavailable."""
        return self._embed(texts, self._settings.passage_prefix or "", INGEST_PATIENCE_S)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Questions: the same, with less patience for an endpoint that is away."""
        return self._embed(texts, self._settings.query_prefix or "", QUERY_PATIENCE_S)

    def warm_up(self) -> None:
        self._found()

    def close(self) -> None:
        """End its threads and connections; what waits for another try gives up."""
        self._closed.set()
        self._requests.shutdown(cancel_futures=True)
        self._endpoint.close()

    # -- vectors

    def _embed(self, texts: Sequence[str], prefix: str, patience_s: float) -> Vectors:
        found = self._found()
        if not texts:
            return np.empty((0, found.probes.shape[1]), dtype=np.float32)
        self._check_again(found, patience_s)
        # A blank text is refused by some servers, and has some vector with the others.
        wanted = [prefix + text if (prefix + text).strip() else "." for text in texts]
        ask = functools.partial(self._request, found.served.id, patience_s=patience_s)
        parts = list(requests_of(wanted, self._max_texts))
        done = [ask(parts[0])] if len(parts) == 1 else list(self._requests.map(ask, parts))
        rows = np.concatenate(done) if len({part.shape[1] for part in done}) == 1 else done[0]
        if rows.shape != (len(texts), found.probes.shape[1]):
            _another_model(f"vectors of {rows.shape[1]} values instead of {found.probes.shape[1]}")
        return unit(rows)

    def _request(self, model: str, texts: Sequence[str], *, patience_s: float) -> Rows:
        """The vectors of `texts`, halved as often as the endpoint finds them too many."""
        try:
            return self._endpoint.vectors(model, texts, patience_s)
        except TooLarge:
            if len(texts) == 1:
                raise EmbeddingsUnavailable(
                    f"The embeddings endpoint refused a text of {len(texts[0])} characters: most likely it has more tokens"
                    " than the model reads. Set RAG_EMBEDDINGS__TOKENIZER to the model's tokenizer, or lower"
                    " RAG_EMBEDDINGS__MAX_TOKENS."
                ) from None
        middle = len(texts) // 2
        halves = [self._request(model, half, patience_s=patience_s) for half in (texts[:middle], texts[middle:])]
        self._max_texts = min(self._max_texts, len(texts) - middle)  # it took so many
        if halves[0].shape[1] != halves[1].shape[1]:
            _another_model("vectors of several sizes")
        return np.concatenate(halves)

    # -- who answers

    @property
    def _served(self) -> Served:
        with self._lock:
            return self._seen.served if self._seen else self._choose()

    def _found(self) -> Found:
        """The model and its probes, asked for once; all threads wait for it."""
        with self._lock:
            if self._seen is None:
                served = self._choose()
                self._check_counting(served)
                self._max_texts = min(self._max_texts, served.max_texts or self._max_texts)
                self._seen = Found(served, unit(self._probe(served)))
                self._checked = time.monotonic()
            return self._seen

    def _probe(self, served: Served) -> Rows:
        try:
            return self._endpoint.vectors(served.id, PROBES, INGEST_PATIENCE_S)
        except TooLarge:
            raise EmbeddingsUnavailable(
                f"The embeddings endpoint refuses two short texts for the model {served.id!r}. Is that an embedding model?"
                " Check RAG_EMBEDDINGS__BASE_URL and RAG_EMBEDDINGS__MODEL."
            ) from None

    def _choose(self) -> Served:
        """The configured model, or the first. The default name stands for none, unless it is served."""
        wanted = self._settings.model
        models = self._endpoint.models(INGEST_PATIENCE_S)
        for served in models:
            if served.id == wanted:
                return served
        if wanted in DEFAULT_NAMES and models and models[0].id:
            return models[0]
        if wanted in DEFAULT_NAMES:
            raise EmbeddingsUnavailable(
                "The embeddings endpoint does not tell which models it serves. Set RAG_EMBEDDINGS__MODEL to the name of"
                " one, and check that RAG_EMBEDDINGS__BASE_URL ends in /v1."
            )
        if models:
            names = ", ".join(repr(served.id) for served in models[:10])
            raise EmbeddingsUnavailable(
                f"The embeddings endpoint does not serve the model {wanted!r}; it serves {names}. Set"
                " RAG_EMBEDDINGS__MODEL to one of those, or unset it."
            )
        return Served(wanted)

    def _check_again(self, found: Found, patience_s: float) -> None:
        if time.monotonic() - self._checked < CHECK_EVERY_S:
            return
        now = self._request(found.served.id, PROBES, patience_s=patience_s)
        if now.shape != found.probes.shape:
            _another_model(f"vectors of {now.shape[1]} values instead of {found.probes.shape[1]}")
        for then, again in zip(found.probes.tolist(), now.tolist(), strict=True):
            if not same_probe(tuple(then), tuple(again)):
                _another_model("another vector for the same text")
        self._checked = time.monotonic()

    def _check_counting(self, served: Served) -> None:
        """Compare with the endpoint's own count, where it has one: a tokenizer of another model would let chunks grow that
        the endpoint refuses or cuts."""
        real = self._endpoint.count_tokens(served.id, COUNTED)
        ours = self.count_tokens([COUNTED])[0]
        if real is None or ours >= real:
            return
        raise EmbeddingsUnavailable(
            f"Tokens are counted too low for the endpoint's model: {ours} for a text in which it finds {real}. Set"
            " RAG_EMBEDDINGS__TOKENIZER to the tokenizer of the model that is served."
        )

    @functools.cached_property
    def _tokenizer(self) -> Tokenizer | None:
        name = self._settings.tokenizer
        return None if name is None else open_tokenizer(tokenizer_file(name))


def tokenizer_file(name: str) -> Path:
    """Of a file, a folder or a name in the local cache. Raises EmbeddingsUnavailable."""
    given = Path(name)
    cached = None if given.exists() else cached_folder(name)
    for path in (given, given / "tokenizer.json", *([cached / "tokenizer.json"] if cached else [])):
        if path.is_file():
            return path
    raise EmbeddingsUnavailable(
        f"RAG_EMBEDDINGS__TOKENIZER is {name!r}, but there is no such folder with a tokenizer.json, nor is it in the local"
        f" Hugging Face cache. Fetch it once with `hf download {name} tokenizer.json`, or unset the setting."
    )


def requests_of(texts: Sequence[str], max_texts: int) -> Iterator[list[str]]:
    """The texts in order, in parts of at most `max_texts` and REQUEST_BYTES, but at least one text."""
    part: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode("utf-8", "replace"))
        if part and (len(part) == max_texts or size + length > REQUEST_BYTES):
            yield part
            part, size = [], 0
        part.append(text)
        size += length
    if part:
        yield part


def unit(rows: Rows) -> Vectors:
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)  # a square may not fit in float32
    vectors: Vectors = (rows / lengths).astype(np.float32)
    return vectors


def _another_model(what: str) -> NoReturn:
    raise EmbeddingsUnavailable(
        f"The embeddings endpoint answers with {what}: it serves another model than it did when this program started."
        " Start the program again, and it says whether the collection was made with that model."
    )
