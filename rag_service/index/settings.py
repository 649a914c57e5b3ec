"""Settings of the index, shared by `rag-ingest` and `rag-service`: where it is, and which model made it.

In: the environment (prefix `RAG_`, nesting `__`) and `.env`, read only when an entry point builds the settings.
Out: one frozen value. Must not: open, start or create anything.
"""

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from rag_service.errors import InvalidSettings

COLLECTION_RULE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
COLLECTION_HELP = (
    "1 to 100 of the characters a-z, A-Z, 0-9, '.', '_' and '-', beginning and ending with a letter or digit"
)


class Section(BaseModel):
    """A group of settings: frozen, and a misspelt name is refused instead of ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ChromaSettings(Section):
    url: AnyHttpUrl | None = Field(
        None, description="Address of a Chroma server. Unset: a local one is started on RAG_HOME and shared."
    )
    token: SecretStr | None = Field(
        None, description="Bearer token for that server. Set it when the server asks for one."
    )
    timeout_s: float = Field(
        30.0, gt=0, le=600, description="Seconds to wait for one answer of Chroma. Raise it for very large collections."
    )


class EmbeddingsSettings(Section):
    model: str = Field(
        "all-MiniLM-L6-v2",
        min_length=1,
        description="A sentence-transformers model: a folder, a name already in the local Hugging Face cache, or the"
        " default, which comes installed. After a change run `rag-ingest rebuild`, then restart the service.",
    )
    device: str = Field(
        "cpu",
        description="Device for embedding: cpu, cuda, cuda:1, mps. A GPU pays off for ingest, hardly for questions.",
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="Number format for embedding. auto takes bfloat16 where the CPU computes it natively: about twice as fast.",
    )
    batch_size: int = Field(
        32,
        ge=1,
        le=1024,
        description="The most texts in one pass of the model or one request. A CPU's passes end at 2,048 tokens anyway; raise"
        " it on a GPU, lower it when memory is short.",
    )
    threads: int = Field(
        0,
        ge=0,
        le=256,
        description="CPU threads for embedding; 0 lets PyTorch choose. Lower it to leave cores to others.",
    )
    query_prefix: str | None = Field(
        None,
        max_length=2000,
        description='Put before every question. Unset: what the model\'s own files say. e5 models want "query: " (with the'
        " quotes, which keep the space). A change needs `rag-ingest rebuild`.",
    )
    passage_prefix: str | None = Field(
        None,
        max_length=2000,
        description='The same for chunks; "passage: " for e5 models.',
    )
    base_url: AnyHttpUrl | None = Field(
        None,
        description="An OpenAI-compatible endpoint for embeddings (vLLM, TEI), ending in /v1. Unset: the model runs in this"
        " process. With it RAG_EMBEDDINGS__MODEL is a name that is served there, by default the first.",
    )
    api_key: SecretStr | None = Field(None, description="Bearer token for that endpoint.")
    timeout_s: float = Field(
        60.0, gt=0, le=3600, description="Seconds to wait for one answer of that endpoint. Raise it for a slow one."
    )
    max_tokens: int | None = Field(
        None,
        ge=16,
        le=1_000_000,
        description="Tokens that the endpoint's model reads of a text. Unset: what the endpoint tells; set it where it tells"
        " nothing.",
    )
    tokenizer: str | None = Field(
        None,
        min_length=1,
        description="The tokenizer of the endpoint's model: a folder with tokenizer.json, or a name in the local Hugging Face"
        " cache. Unset: tokens are estimated, on the safe side, which makes chunks smaller than they could be.",
    )


class IndexSettings(BaseSettings):
    """What every reader and writer of an index must agree on."""

    model_config = SettingsConfigDict(
        env_prefix="RAG_",
        env_nested_delimiter="__",
        env_file=".env",
        env_file_encoding="utf-8",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
    )

    home: Path = Field(
        Path(".rag"),
        description="Folder of the catalog and of the local Chroma's data. Put it on a local disk, not on NFS.",
    )
    collection: str = Field(
        "documents",
        description=f"The collection that is filled and asked: {COLLECTION_HELP}. One for each separate corpus.",
    )
    chroma: ChromaSettings = ChromaSettings()
    embeddings: EmbeddingsSettings = EmbeddingsSettings()

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except SettingsError as error:  # raised for text where a group of settings is expected, before any validation
            found = re.search(r'field "(\w+)"', str(error))
            name = f"RAG_{found[1].upper()}" if found else "RAG_…"
            raise InvalidSettings(
                f"{name}: this is a group of settings. Unset it, and set its members by their own names, {name}__…."
            ) from error

    @field_validator("home")
    @classmethod
    def _home(cls, value: Path) -> Path:
        return value.expanduser()  # no shell expands the ~ of a .env file

    @field_validator("collection")
    @classmethod
    def _collection(cls, value: str) -> str:
        if not COLLECTION_RULE.fullmatch(value):
            raise ValueError(f"a collection's name is {COLLECTION_HELP}")
        return value

    @property
    def catalog_path(self) -> Path:
        return self.home / "catalog.sqlite3"


def explain(error: ValidationError) -> InvalidSettings:
    """Pydantic's report as one sentence a setting: its environment name, what is wrong. Values are not repeated."""
    lines = [
        f"RAG_{'__'.join(str(part) for part in item['loc']).upper()}: {item['msg'].removeprefix('Value error, ')}"
        for item in error.errors(include_url=False, include_input=False)
    ]
    return InvalidSettings("; ".join(lines), details={"settings": lines})
