"""The fingerprint of a collection: what made its vectors. Reader and writer must agree, or neither goes on.

In: facts about the embedding model. Out: a frozen value, its JSON form, and the list of what differs.
Must not: load a model or touch a store (pure, standard library).
"""

import json
import math
from dataclasses import asdict, dataclass, fields

from rag_service.errors import FingerprintMismatch
from rag_service.index.chunks import digest

CHUNK_SCHEMA = 1  # raise it when the meaning of a stored chunk or of its embedded text changes

# The same weights on another GPU, in another number format or another batch give a probe a cosine of 0.99 and more with
# itself; that of another model is near 0.
SAME_PROBE = 0.97
LATER = ("query_prefix", "passage_prefix", "probe")  # fields that a fingerprint without them does not mention
PREFIX_SETTINGS = {"query_prefix": "RAG_EMBEDDINGS__QUERY_PREFIX", "passage_prefix": "RAG_EMBEDDINGS__PASSAGE_PREFIX"}


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """`model` is for people; the digest of the weights decides, since one model has many names and paths.

    Nobody tells an endpoint's weights: `probe` has parts of its vectors of fixed texts. They are compared by their cosine,
    since no two runs of a GPU agree to the last bit, and so are no part of `id`.
    """

    model: str
    weights: str
    dimension: int
    normalised: bool = True
    metric: str = "cosine"
    chunk_schema: int = CHUNK_SCHEMA
    query_prefix: str = ""
    passage_prefix: str = ""
    probe: tuple[float, ...] = ()

    @property
    def id(self) -> str:
        """Hash of everything that changes a vector; part of every version id."""
        facts = [self.weights, str(self.dimension), str(self.normalised), self.metric, str(self.chunk_schema)]
        if self.query_prefix or self.passage_prefix:
            facts += [self.query_prefix, self.passage_prefix]
        return digest(*facts)

    def differences(self, other: "Fingerprint") -> list[str]:
        """What differs, as `field: mine, not theirs`. Equal dimensions are no proof, so all fields count."""
        found = [
            f"{field.name} is {getattr(self, field.name)!r}, not {getattr(other, field.name)!r}"
            for field in fields(self)
            if field.name not in {"model", "probe"} and getattr(self, field.name) != getattr(other, field.name)
        ]
        if not found and not same_probe(self.probe, other.probe):
            found.append("probe of fixed texts has other vectors, so the weights are others")
        return found

    def require(self, stored: "Fingerprint", collection: str) -> None:
        """Raise FingerprintMismatch when `stored` (the collection's) is not this (the configured model's)."""
        differences = self.differences(stored)
        if not differences:
            return
        to_set = [f"RAG_EMBEDDINGS__MODEL={stored.model}"] + [
            f"{setting}={json.dumps(getattr(stored, name))}"
            for name, setting in PREFIX_SETTINGS.items()
            if getattr(self, name) != getattr(stored, name)
        ]
        if bool(self.probe) != bool(stored.probe):  # only what an endpoint has made carries one
            to_set.append("RAG_EMBEDDINGS__BASE_URL " + ("to its endpoint" if stored.probe else "to nothing"))
        raise FingerprintMismatch(
            f"Collection {collection!r} was made with the embedding model {stored.model!r}, but {self.model!r} is"
            f" configured ({'; '.join(differences)}). Set"
            f" {' and '.join(to_set)} to use it as it is. To change the model, run `rag-ingest rebuild` with the new one"
            f" configured: it embeds the stored texts anew, without the files. The collection has not been changed.",
            details={"collection": collection, "differences": differences},
        )

    def to_json(self) -> str:
        values = asdict(self)
        return json.dumps({name: value for name, value in values.items() if value or name not in LATER}, sort_keys=True)

    @classmethod
    def from_json(cls, data: str) -> "Fingerprint":
        values = json.loads(data)
        return cls(**{**values, "probe": tuple(values.get("probe", ()))})


def same_probe(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether two probes come from the same weights, rounding apart."""
    if len(one) != len(other):
        return False
    lengths = math.hypot(*one) * math.hypot(*other)
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return not one or (lengths > 0 and product / lengths >= SAME_PROBE)
