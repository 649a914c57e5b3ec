"""An OpenAI-compatible endpoint for embeddings over HTTP: one request, its retries, and the check of what it answers.

In: texts. Out: float32 vectors in the order of the texts, not normalised. Must not: pass on an answer that is not the
vectors of just these texts; repeat the key, a text or an upstream body in an error; wait without an end.

vLLM and Text Embeddings Inference (TEI) were the models for what is asked for; each lacks something that the other has.
"""

import email.utils
import time
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import httpx
import numpy as np
import orjson
from numpy.typing import NDArray

from rag_service.errors import EmbeddingsUnavailable
from rag_service.index.settings import EmbeddingsSettings

Rows = NDArray[np.float32]

# Busy, starting, or broken for this moment; everything else is broken for good.
PASSING = frozenset({429, 500, 502, 503, 504})
TOO_LARGE = frozenset({400, 413, 422})  # of TEI and vLLM, for too many texts as well as for one that is too long
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 8.0
MOST_TRIES = 12
CONNECT_S = 10.0
ASKED_S = 10.0  # for what is not an embedding
SETTING = "RAG_EMBEDDINGS__BASE_URL"


class TooLarge(Exception):  # noqa: N818  it never leaves remote_embeddings.py
    """The endpoint does not take so many texts, or one as long as this, at once."""


@dataclass(frozen=True, slots=True)
class Served:
    """A model of the endpoint; None for tokens that it does not tell. `max_texts` of one request."""

    id: str
    max_tokens: int | None = None
    max_texts: int | None = None


class EmbeddingEndpoint:
    """Thread-safe. `wait` pauses for so many seconds between two tries; `more_headers` are asked for before each."""

    def __init__(
        self,
        settings: EmbeddingsSettings,
        wait: Callable[[float], object],
        more_headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._more_headers = more_headers
        self._base = str(settings.base_url).rstrip("/")
        self._root = self._base.removesuffix("/v1")
        self._wait = wait
        self._timeout_s = settings.timeout_s
        self._encoding = "base64"  # a third of the bytes; given up for good if it is refused
        headers = {"Content-Type": "application/json"}
        if settings.api_key is not None:
            key = settings.api_key.get_secret_value()
            if not (key.isascii() and key.isprintable()):
                raise EmbeddingsUnavailable("RAG_EMBEDDINGS__API_KEY holds characters that no HTTP header can carry.")
            headers["Authorization"] = f"Bearer {key}"
        # trust_env: a proxy for the web is not for a server of one's own, as with RAG_LLM__BASE_URL.
        self._client = httpx.Client(headers=headers, trust_env=False)

    def close(self) -> None:
        self._client.close()

    # -- what it serves

    def models(self, patience_s: float) -> list[Served]:
        """vLLM lists them; TEI tells its one in /info. Empty where it tells neither."""
        listed = self._ask("GET", f"{self._base}/models", patience_s=patience_s, needed=True)
        entries = listed.get("data") if isinstance(listed, dict) else None
        found = [entry for entry in entries or [] if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
        info = None if any(_number(entry.get("max_model_len")) for entry in found) else self._info()
        models = [Served(entry["id"], _number(entry.get("max_model_len"))) for entry in found]
        if not info:
            return models
        told = Served(
            str(info.get("model_id", "")),
            _number(info.get("max_input_length")),
            _number(info.get("max_client_batch_size")),
        )
        if len(models) > 1:
            return models
        return [Served(models[0].id if models else told.id, told.max_tokens, told.max_texts)]

    def count_tokens(self, model: str, text: str) -> int | None:
        """As the endpoint counts, special tokens left out; None where it does not."""
        for body in (
            {"model": model, "prompt": text, "add_special_tokens": False},  # vLLM
            {"inputs": [text], "add_special_tokens": False},  # TEI
        ):
            answer = self._ask("POST", f"{self._root}/tokenize", body)
            if isinstance(answer, dict) and isinstance(answer.get("count"), int):
                return int(answer["count"])
            if isinstance(answer, list) and len(answer) == 1 and isinstance(answer[0], list):
                return len(answer[0])
        return None

    # -- vectors

    def vectors(self, model: str, texts: Sequence[str], patience_s: float) -> Rows:
        """One request and its retries. Raises TooLarge, EmbeddingsUnavailable."""
        body = {"model": model, "input": list(texts), "encoding_format": self._encoding}
        response = self._send(
            "POST", f"{self._base}/embeddings", body, patience_s=patience_s, timeout_s=self._timeout_s
        )
        if response.status_code in TOO_LARGE and self._encoding == "base64" and _is_about_encoding(response):
            self._encoding = "float"
            return self.vectors(model, texts, patience_s)
        if response.status_code in TOO_LARGE:
            raise TooLarge
        if response.status_code != 200:
            _refused(response.status_code, model)
        return read_vectors(response.content, len(texts))

    # -- HTTP

    def _info(self) -> dict[str, Any] | None:
        info = self._ask("GET", f"{self._root}/info")
        return info if isinstance(info, dict) else None

    def _ask(self, method: str, url: str, body: object = None, *, patience_s: float = 0, needed: bool = False) -> Any:
        """JSON of an answer with 200; None for any other, but where it is `needed`, one for want of a key or of strength is
        an error. Raises EmbeddingsUnavailable when nobody answers."""
        response = self._send(method, url, body, patience_s=patience_s, timeout_s=min(ASKED_S, self._timeout_s))
        if needed and response.status_code in PASSING | {401, 403}:
            _refused(response.status_code, "")
        if response.status_code != 200:
            return None
        try:
            return orjson.loads(response.content)
        except orjson.JSONDecodeError:
            return None

    def _send(self, method: str, url: str, body: object, *, patience_s: float, timeout_s: float) -> httpx.Response:
        """The first answer that is no passing fault, or the last one when patience or tries end."""
        content = None if body is None else _json(body)
        due = time.monotonic() + patience_s
        pause_s = FIRST_PAUSE_S
        for tries_left in reversed(range(MOST_TRIES)):
            asked_s = 0.0
            outcome: httpx.Response | httpx.TransportError
            try:
                outcome = self._client.request(
                    method,
                    url,
                    content=content,
                    headers=self._more_headers(),
                    timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
                )
                if outcome.status_code not in PASSING:
                    return outcome
                asked_s = retry_after(outcome.headers.get("Retry-After")) or 0.0
            except httpx.TransportError as error:
                outcome = error
            if not tries_left or time.monotonic() + max(pause_s, asked_s) > due:
                break
            self._wait(max(pause_s, asked_s))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        if isinstance(outcome, httpx.TransportError):
            _unreachable(outcome)
        return outcome


def read_vectors(content: bytes, count: int) -> Rows:
    """The vectors of an answer, in the order of the texts. Raises EmbeddingsUnavailable for one that cannot be theirs."""
    try:
        data = orjson.loads(content)["data"]
        places = [entry.get("index", place) for place, entry in enumerate(data)]
        vectors = [_vector(entry["embedding"]) for entry in data]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        _wrong("it does not have the form of OpenAI's embeddings")
    if len(data) != count:
        _wrong(f"it has {len(data)} vectors for {count} texts")
    if sorted(places, key=str) != sorted(range(count), key=str):
        _wrong("its indexes are not those of the texts")
    if len({len(vector) for vector in vectors}) != 1 or not len(vectors[0]):
        _wrong("its vectors are not all of the same size")
    rows = np.empty((count, len(vectors[0])), dtype=np.float32)
    rows[np.array(places, dtype=np.intp)] = vectors
    if not np.isfinite(rows).all():
        _wrong("a vector holds a value that is no number")
    if not np.abs(rows).max(axis=1).all():
        _wrong("a vector is zero")
    return rows


def _vector(embedding: object) -> Rows:
    if isinstance(embedding, str):
        return np.frombuffer(b64decode(embedding, validate=True), dtype="<f4")
    with np.errstate(over="ignore"):  # becomes infinite, and is refused for that
        vector = np.array(embedding, dtype=np.float32)
    if vector.ndim != 1:
        raise ValueError("not a list of numbers")
    return vector


def retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header, which holds seconds or a date (RFC 9110, 10.2.3)."""
    if not value:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _json(body: object) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        # A lone surrogate has no UTF-8; a question can carry one in.
        return orjson.dumps(_without_surrogates(body))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    return {name: _without_surrogates(item) for name, item in value.items()} if isinstance(value, dict) else value


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _is_about_encoding(response: httpx.Response) -> bool:
    return b"encoding_format" in response.content or b"base64" in response.content


def _wrong(reason: str) -> NoReturn:
    raise EmbeddingsUnavailable(
        f"The embeddings endpoint's answer cannot be used: {reason}. Does {SETTING} lead to an embedding model, and does"
        " it end in /v1?"
    )


def _refused(status: int, model: str) -> NoReturn:
    if status in {401, 403}:
        reason = f"it refused the key ({status}). Set RAG_EMBEDDINGS__API_KEY to the key that it was started with"
    elif status == 404:
        reason = (
            f"it knows nothing of the model {model!r} or of /embeddings (404). Check RAG_EMBEDDINGS__MODEL, and that"
            + (f" {SETTING} ends in /v1")
        )
    elif status in PASSING:
        reason = f"it went on answering {status}. Look at its log, or try again later"
    else:
        reason = f"it answered with status {status}. Does {SETTING} lead to an embedding model, and does it end in /v1?"
    raise EmbeddingsUnavailable(
        f"The embeddings endpoint did not do its work: {reason.rstrip('?.')}.", details={"status": status}
    )


def _unreachable(error: httpx.HTTPError) -> NoReturn:
    if isinstance(error, httpx.TimeoutException):
        what = "it did not answer in time. Raise RAG_EMBEDDINGS__TIMEOUT_S if it is slow"
    else:
        what = f"the connection failed. Is it running, and is {SETTING} right?"
    raise EmbeddingsUnavailable(f"The embeddings endpoint is not reachable: {what.rstrip('.')}") from error
