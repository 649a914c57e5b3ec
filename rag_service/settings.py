"""All settings of the service. `.env.example` and the README's table are generated from here (scripts/settings_docs.py).

In: the environment and `.env`. Out: one frozen `Settings`. Must not: be read below the entry points; parts get what they
need passed in.
"""

from typing import Literal

from pydantic import AnyHttpUrl, Field, SecretStr, ValidationError, field_validator

from rag_service.index.settings import IndexSettings, Section, explain


class LlmSettings(Section):
    base_url: AnyHttpUrl | None = Field(
        None,
        description="OpenAI-compatible endpoint, such as http://gpu-box:8000/v1 for vLLM. Unset: a small demo model is"
        " served locally, for trying things out only.",
    )
    model: str | None = Field(
        None, description="Model to ask for, as the endpoint lists it under /v1/models. Unset: the first it lists."
    )
    api_key: SecretStr | None = Field(None, description="Key for that endpoint (vLLM's --api-key).")
    temperature: float = Field(
        0.1,
        ge=0,
        le=2,
        description="Sampling temperature where the request names none. Low keeps answers near the sources.",
    )
    max_tokens: int = Field(
        768,
        ge=1,
        le=100_000,
        description="Longest answer in tokens where the request names none; also kept free in the window.",
    )
    max_model_len: int | None = Field(
        None,
        ge=256,
        description="The model's window in tokens (prompt and answer). Unset: what the endpoint reports, else 4096.",
    )
    connect_timeout_s: float = Field(
        5.0, gt=0, le=120, description="Seconds to reach the endpoint before the request fails with 503."
    )
    first_token_timeout_s: float = Field(
        120.0,
        gt=0,
        le=3600,
        description="Seconds from sending a prompt to its first token. Raise it for long queues in vLLM.",
    )
    token_timeout_s: float = Field(
        30.0, gt=0, le=600, description="Seconds between two tokens before the model counts as stalled."
    )
    total_timeout_s: float = Field(600.0, gt=0, le=86_400, description="Seconds that one whole answer may take.")
    max_connections: int = Field(
        1024,
        ge=1,
        le=65_535,
        description="Open connections to the endpoint; above RAG_ADMISSION__MAX_RUNNING it has no effect.",
    )


class RetrievalSettings(Section):
    top_k: int = Field(5, ge=1, le=50, description="Passages given to the model. More costs prompt tokens and time.")
    candidates: int = Field(
        40, ge=1, le=1000, description="Chunks that each search (dense and BM25) brings before they are fused."
    )
    min_score: float = Field(
        0.25,
        ge=0,
        le=1,
        description="Lowest cosine similarity that the best passage must have; below it the answer is `no_sources` and the"
        " model is not asked. 0 turns that off.",
    )


class ServerSettings(Section):
    host: str = Field("127.0.0.1", description="Address to listen on. Anything but loopback needs RAG_SERVER__API_KEY.")
    port: int = Field(8000, ge=0, le=65_535, description="Port to listen on; 0 takes a free one.")
    workers: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes. Each loads its own embedding model (about 600 MB). Raise it when one core is full.",
    )
    api_key: SecretStr | None = Field(
        None,
        description="Key that callers send as `Authorization: Bearer …`. Unset: no key is asked, on loopback only.",
    )
    allow_open: bool = Field(
        False,
        description="Listen beyond loopback without a key, because something in front (a proxy, a network) guards it.",
    )
    cors_origins: tuple[str, ...] = Field(
        (), description='Origins of web pages that may call the API, as a JSON list: ["https://chat.example.org"].'
    )
    max_body_bytes: int = Field(
        1_000_000, ge=1_000, le=100_000_000, description="Largest request body in bytes; more is answered with 413."
    )
    shutdown_grace_s: float = Field(
        10.0, ge=0, le=600, description="Seconds that running answers may go on after SIGTERM or Ctrl-C."
    )
    log_format: Literal["auto", "text", "json"] = Field(
        "auto", description="Log lines for people (text) or machines (json). auto: text on a terminal, json otherwise."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Least severe level that is logged. Questions and answers are logged at no level."
    )

    @field_validator("api_key")
    @classmethod
    def _no_blank_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().strip():
            raise ValueError("the key is blank; unset it, or set a real one")
        return value


class AdmissionSettings(Section):
    max_running: int = Field(
        64, ge=1, le=10_000, description="Answers in work at once. Set it near vLLM's --max-num-seqs."
    )
    max_queued: int = Field(
        128,
        ge=0,
        le=100_000,
        description="Requests that may wait for a place; past that they get 429 with Retry-After.",
    )
    queue_timeout_s: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="Seconds that a request may wait for a place; one that would wait longer gets 429 at once.",
    )


class StreamSettings(Section):
    flush_interval_ms: float = Field(
        15.0,
        ge=0,
        le=1000,
        description="At most one text event per so many milliseconds and stream; the first is never held.",
    )
    ping_interval_s: float = Field(
        15.0,
        gt=0,
        le=300,
        description="Seconds of silence after which a comment is sent, so that no proxy drops the stream.",
    )
    stall_limit_s: float = Field(
        60.0,
        gt=0,
        le=3600,
        description="Seconds after which a reader that takes nothing any more is cut off, and its answer stopped.",
    )


class UploadsSettings(Section):
    enabled: bool | None = Field(
        None,
        description="Let callers upload and delete documents. Unset: yes, but not where RAG_SERVER__ALLOW_OPEN lets everybody"
        " in without a key.",
    )
    max_mb: int = Field(
        100, ge=1, le=100_000, description="Megabytes of one upload with all its files; more is answered with 413."
    )
    max_queued: int = Field(
        20,
        ge=1,
        le=10_000,
        description="Uploads and deletions that may wait, on the disk below RAG_HOME; past that callers get 429 with"
        " Retry-After.",
    )
    timeout_s: float = Field(
        1800.0, gt=0, le=86_400, description="Seconds that one uploaded file may take. Raise it for big scans."
    )
    wait_s: float = Field(
        3600.0,
        ge=0,
        le=86_400,
        description="Seconds that an upload or deletion waits for a `rag-ingest` from elsewhere to end.",
    )
    keep_hours: float = Field(
        24.0,
        ge=0,
        le=8760,
        description="Hours for which GET /jobs tells how an upload ended. The file itself goes at once.",
    )


class TelemetrySettings(Section):
    otlp_endpoint: AnyHttpUrl | None = Field(
        None,
        description="Where traces go: an OpenTelemetry collector that takes OTLP over HTTP, such as http://collector:4318."
        " OTEL_EXPORTER_OTLP_ENDPOINT does the same. Needs `pip install 'rag-service[otel]'`. Unset: no traces.",
    )


class Settings(IndexSettings):
    """Everything the service can be told."""

    llm: LlmSettings = LlmSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    server: ServerSettings = ServerSettings()
    admission: AdmissionSettings = AdmissionSettings()
    stream: StreamSettings = StreamSettings()
    uploads: UploadsSettings = UploadsSettings()
    telemetry: TelemetrySettings = TelemetrySettings()

    @property
    def uploads_enabled(self) -> bool:
        if self.uploads.enabled is not None:
            return self.uploads.enabled
        return self.server.api_key is not None or not self.server.allow_open


def load_settings() -> Settings:
    """Read the environment. Raises InvalidSettings that names each wrong setting."""
    try:
        return Settings()
    except ValidationError as error:
        raise explain(error) from error
