"""Settings of `rag-ingest`: the index's, and how documents are cut.

In: the environment and `.env`. Out: one frozen value. Must not: be read anywhere but at the entry point.
"""

from pydantic import Field, ValidationError

from rag_service.index.settings import IndexSettings, Section, explain


class ChunksSettings(Section):
    max_tokens: int = Field(
        200,
        ge=16,
        le=8192,
        description="Tokens of a chunk, counted by the embedding model's tokenizer and never more than it reads. Smaller"
        " finds more exactly, larger keeps more context. A change cuts and embeds every document anew.",
    )
    overlap_tokens: int = Field(
        0, ge=0, le=4096, description="Tokens of whole sentences that a chunk repeats from the one before it."
    )


class IngestSettings(IndexSettings):
    """Everything `rag-ingest` can be told."""

    chunks: ChunksSettings = ChunksSettings()


def load_settings() -> IngestSettings:
    """Read the environment. Raises InvalidSettings that names each wrong setting."""
    try:
        return IngestSettings()
    except ValidationError as error:
        raise explain(error) from error
