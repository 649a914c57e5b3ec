"""What requests may hold. Unknown fields, wrong types and blank questions are refused with 422 that names the field.

In: JSON bodies. Out: checked values, and the `Question` they make. Must not: know defaults that are settings.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
)

from rag_service.index.settings import COLLECTION_HELP, COLLECTION_RULE
from rag_service.question import Question, Turn
from rag_service.upstream import Sampling

MAX_QUESTION_CHARS = 32_000
UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
INVISIBLE = re.compile(r"[\s\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\x00-\x1f]*")


def _clean(value: object) -> object:
    """Text without NUL, and with U+FFFD for a lone surrogate: JSON can carry both, tokenizers and SQLite cannot."""
    if not isinstance(value, str):
        return value
    return UNSTORABLE.sub(lambda found: "" if found[0] == "\x00" else "\ufffd", value)


def _not_blank(text: str) -> str:
    if INVISIBLE.fullmatch(text):
        raise ValueError("it is blank")
    return text


def _collection(name: str) -> str:
    if not COLLECTION_RULE.fullmatch(name):
        raise ValueError(f"a collection's name is {COLLECTION_HELP}")
    return name


CleanText = Annotated[str, StringConstraints(max_length=MAX_QUESTION_CHARS), BeforeValidator(_clean)]
Text = Annotated[CleanText, StringConstraints(min_length=1), AfterValidator(_not_blank)]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
CollectionName = Annotated[str, AfterValidator(_collection)]
FilterScalar = Annotated[str | Int64 | float | bool, BeforeValidator(_clean)]
FilterValue = FilterScalar | Annotated[list[FilterScalar], Field(min_length=1, max_length=100)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class SamplingFields(Body):
    temperature: float | None = Field(None, ge=0, le=2, description="Overrides RAG_LLM__TEMPERATURE.")
    top_p: float | None = Field(None, gt=0, le=1, description="Nucleus sampling.")
    max_tokens: int | None = Field(None, ge=1, le=100_000, description="Longest answer in tokens.")
    seed: Int64 | None = Field(None, description="For repeatable sampling, where the endpoint can.")

    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_p, self.max_tokens, self.seed)


class HistoryTurn(Body):
    role: Literal["user", "assistant"]
    content: CleanText


class SearchFields(Body):
    question: Text = Field(
        validation_alias=AliasChoices("question", "prompt"),
        description="What to answer.",
        examples=["How many days of leave?"],
    )
    collection: CollectionName | None = Field(None, description="Overrides RAG_COLLECTION.")
    top_k: int | None = Field(None, ge=1, le=50, description="Overrides RAG_RETRIEVAL__TOP_K.")
    filter: dict[str, FilterValue] = Field(
        default_factory=dict,
        description="Only documents whose field has the value, or one of the listed values: `document_id`, `uri`, `title`,"
        " `media_type`, or a key of the document's metadata.",
        examples=[{"media_type": "application/pdf"}],
    )
    history: list[HistoryTurn] = Field(default_factory=list, max_length=200, description="Earlier turns, oldest first.")

    @field_validator("filter")
    @classmethod
    def _plain_keys(cls, value: dict[str, Any]) -> dict[str, Any]:
        bad = [key for key in value if not re.fullmatch(r"[\w.-]{1,100}", key)]
        if bad or len(value) > 20:
            raise ValueError("at most 20 keys of letters, digits, '_', '-' and '.'; operators are not supported")
        return value

    def as_question(
        self, default_collection: str, sampling: Sampling | None = None, max_chars: int | None = None
    ) -> Question:
        return Question(
            text=self.question,
            collection=self.collection or default_collection,
            history=tuple(Turn(turn.role, turn.content) for turn in self.history),
            top_k=self.top_k,
            max_chars=max_chars,
            filters={key: tuple(value) if isinstance(value, list) else (value,) for key, value in self.filter.items()},
            sampling=sampling or Sampling(),
        )


class RagQuery(SearchFields, SamplingFields):
    """POST /rag-query"""

    stream: bool = Field(True, description="false: one JSON answer instead of events.")


class Retrieve(SearchFields):
    """POST /retrieve"""

    max_chars: int | None = Field(None, ge=1, le=1_000_000, description="Bounds the summed length of the passages.")


class Generate(Body):
    """POST /generate"""

    prompt: Text
    temperature: float | None = Field(None, ge=0, le=2)
    max_tokens: int | None = Field(None, ge=1, le=100_000)
    stream: bool = False


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "user", "assistant"]
    content: CleanText


class LlmRequest(Body):
    """The JSON in the form field `data` of POST /api/llm-request"""

    messages: list[Message] = Field(min_length=1, max_length=200)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
