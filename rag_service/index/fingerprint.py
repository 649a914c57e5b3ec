"""The fingerprint of a collection: what made its vectors. Reader and writer must agree, or neither goes on.

In: facts about the embedding model. Out: a frozen value, its JSON form, and the list of what differs.
Must not: load a model or touch a store (pure, standard library).
"""

import json
from dataclasses import asdict, dataclass, fields

from rag_service.errors import FingerprintMismatch
from rag_service.index.chunks import digest

CHUNK_SCHEMA = 1  # raise it when the meaning of a stored chunk or of its embedded text changes


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """`model` is for people; the digest of the weights decides, since one model has many names and paths."""

    model: str
    weights: str
    dimension: int
    normalised: bool = True
    metric: str = "cosine"
    chunk_schema: int = CHUNK_SCHEMA

    @property
    def id(self) -> str:
        """Hash of everything that changes a vector; part of every version id."""
        return digest(self.weights, str(self.dimension), str(self.normalised), self.metric, str(self.chunk_schema))

    def differences(self, other: "Fingerprint") -> list[str]:
        """What differs, as `field: mine, not theirs`. Equal dimensions are no proof, so all fields count."""
        return [
            f"{field.name} is {getattr(self, field.name)}, not {getattr(other, field.name)}"
            for field in fields(self)
            if field.name != "model" and getattr(self, field.name) != getattr(other, field.name)
        ]

    def require(self, stored: "Fingerprint", collection: str) -> None:
        """Raise FingerprintMismatch when `stored` (the collection's) is not this (the configured model's)."""
        differences = self.differences(stored)
        if not differences:
            return
        raise FingerprintMismatch(
            f"Collection {collection!r} was made with the embedding model {stored.model!r}, but {self.model!r} is"
            f" configured. Set RAG_EMBEDDINGS__MODEL={stored.model} to use it as it is, or choose a new RAG_COLLECTION"
            f" and run `rag-ingest run` on the documents again. The collection has not been changed.",
            details={"collection": collection, "differences": differences},
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, data: str) -> "Fingerprint":
        return cls(**json.loads(data))
