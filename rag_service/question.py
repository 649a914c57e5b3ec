"""What a caller asks: the value that enters the chain.

In: checked request fields. Out: a frozen `Question`. Must not: know HTTP or defaults of the service (settings.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rag_service.upstream import Sampling

Role = Literal["user", "assistant"]
Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier message of the conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Question:
    """`filters` maps a field of the document (or of its metadata) to the values it may have. `max_chars` bounds the summed
    length of the passages; `top_k` their number; None takes the service's default."""

    text: str
    collection: str
    history: tuple[Turn, ...] = ()
    top_k: int | None = None
    max_chars: int | None = None
    filters: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    sampling: Sampling = Sampling()

    @property
    def search_text(self) -> str:
        """What is searched for: a follow-up ("And for a service?") is read together with the question before it."""
        earlier = [turn.content for turn in self.history if turn.role == "user"]
        return f"{earlier[-1]}\n{self.text}" if earlier else self.text
