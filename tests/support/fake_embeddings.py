"""A scripted endpoint for embeddings on a real loopback socket, shaped like vLLM's or TEI's, and fast.

In: what it serves, and faults for the requests to come. Out: real HTTP, and a record of every request. Must not: import the
package under test, or help it by being more orderly than a real one.

    with FakeEmbeddings() as fake:
        fake.faults += [Answer(429, headers={"Retry-After": "1"}), Drop(), Stall()]   # one for each request
        fake.spoil = lambda answer: answer["data"].reverse()                          # each answer, before it is sent
        ... fake.base_url ...

`python -m tests.support.fake_embeddings --port 0` serves until it is ended, and prints its port.
"""

import argparse
import hashlib
import json
import threading
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import numpy as np
import orjson
from numpy.typing import NDArray

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Answer:
    """This status and body instead of vectors."""

    status: int
    body: bytes = b'{"error": {"message": "told to fail"}}'
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Drop:
    """The connection is closed without an answer."""


@dataclass(frozen=True)
class Stall:
    """No answer until the server ends."""


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class HashVectors:
    """Texts to vectors by their hash: two rows of a table of random numbers, added."""

    def __init__(self, dimension: int, seed: int = 0) -> None:
        self._table = np.random.default_rng(seed).normal(size=(4096, dimension)).astype(np.float32)

    def __call__(self, texts: Sequence[str]) -> Rows:
        digests = b"".join(hashlib.blake2b(text.encode(), digest_size=4).digest() for text in texts)
        places = np.frombuffer(digests, dtype=np.uint16).reshape(-1, 2) % 4096
        rows: Rows = self._table[places[:, 0]] + self._table[places[:, 1]]
        return rows


class FakeEmbeddings:
    """Serves in threads of its own from construction until `close`."""

    def __init__(
        self,
        *,
        dimension: int = 32,
        like: str = "vllm",
        models: Sequence[str] = ("test/embedder",),
        max_tokens: int | None = 512,
        max_texts: int | None = None,
        takes_base64: bool = True,
        key: str | None = None,
        record: bool = True,
        port: int = 0,
    ) -> None:
        self.like, self.models, self.max_tokens, self.max_texts = like, list(models), max_tokens, max_texts
        self.takes_base64, self.key, self.record = takes_base64, key, record
        self.embed: Callable[[Sequence[str]], Rows] = HashVectors(dimension)
        self.count: Callable[[str], int] | None = lambda text: len(text.split())
        self.spoil: Callable[[dict[str, Any]], object] | None = None
        self.faults: list[Answer | Drop | Stall] = []
        self.listing: Answer | None = None  # instead of the models
        self.seen: list[Seen] = []
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), type("Bound", (_Handler,), {"fake": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def inputs(self) -> list[list[str]]:
        """The texts of each request for vectors."""
        return [seen.body["input"] for seen in self.seen if seen.path == "/v1/embeddings"]

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- answers

    def answer(self, path: str, body: Any) -> Answer:
        if path == "/v1/models":
            return self.listing or self._models()
        if path == "/info" and self.like == "tei":
            limits = {"max_input_length": self.max_tokens, "max_client_batch_size": self.max_texts or 32}
            return _json({"model_id": self.models[0], **limits})
        if path == "/tokenize" and self.count is not None:
            return self._tokenize(body, self.count)
        if path == "/v1/embeddings":
            return self._vectors(body)
        return Answer(404)

    def _models(self) -> Answer:
        if self.like == "tei":
            return Answer(404)
        limit = {} if self.max_tokens is None else {"max_model_len": self.max_tokens}
        return _json({"object": "list", "data": [{"id": name, "object": "model", **limit} for name in self.models]})

    def _tokenize(self, body: Any, count: Callable[[str], int]) -> Answer:
        if (self.like == "tei") != ("inputs" in body):
            return Answer(422)
        if self.like == "tei":
            return _json([[{"id": 1}] * count(text) for text in body["inputs"]])
        return _json({"count": count(body["prompt"]), "tokens": []})

    def _vectors(self, body: Any) -> Answer:
        texts = body["input"]
        encoded = body.get("encoding_format") == "base64"
        if encoded and not self.takes_base64:
            return Answer(422, b'{"detail": "encoding_format: base64 is not supported"}')
        if self.max_texts is not None and len(texts) > self.max_texts:
            return Answer(413, b'{"error": "batch size > maximum allowed batch size", "error_type": "Validation"}')
        if self.max_tokens and self.count and any(self.count(text) > self.max_tokens for text in texts):
            return Answer(400, b'{"error": {"message": "maximum context length exceeded"}}')
        rows = self.embed(texts)
        data = [
            {"object": "embedding", "index": n, "embedding": b64encode(row).decode() if encoded else row.tolist()}
            for n, row in enumerate(rows)
        ]
        answer = {"object": "list", "model": body["model"], "data": data, "usage": {"prompt_tokens": 0}}
        if self.spoil is not None:
            self.spoil(answer)
        return Answer(200, json.dumps(answer).encode()) if self.spoil else _json(answer)


class _Handler(BaseHTTPRequestHandler):
    fake: FakeEmbeddings
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body in one packet

    def do_GET(self) -> None:
        self._serve(None)

    def do_POST(self) -> None:
        self._serve(orjson.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _serve(self, body: Any) -> None:
        fake = self.fake
        if fake.record:
            fake.seen.append(Seen(self.command, self.path, dict(self.headers), body))
        fault = fake.faults.pop(0) if fake.faults and self.path == "/v1/embeddings" else None
        if isinstance(fault, Stall):
            fake.closing.wait()
        if not isinstance(fault, Answer | None):
            self.close_connection = True
            return
        refused = fake.key is not None and self.headers["Authorization"] != f"Bearer {fake.key}"
        answer = fault or (Answer(401) if refused else fake.answer(self.path, body))
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


def _json(body: Any) -> Answer:
    return Answer(200, orjson.dumps(body))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--max-tokens", type=int, default=512)
    options = parser.parse_args()
    fake = FakeEmbeddings(dimension=options.dimension, max_tokens=options.max_tokens, record=False, port=options.port)
    fake.count = None  # nothing is refused for its length, and nothing is counted
    print(fake.port, flush=True)  # noqa: T201  for whoever started it
    threading.Event().wait()


if __name__ == "__main__":
    main()
