"""Every error this product raises on purpose, as one tree. No HTTP here: `api/errors.py` maps codes to statuses.

    RagError
    ├── InvalidSettings                 a setting is missing or wrong; names the setting
    ├── InvalidRequest                  the caller's input is wrong; names the field
    │   ├── QuestionTooLong             the question alone does not fit the model's window
    │   ├── Unauthorized                no key, or a wrong one
    │   └── Forbidden                   not for this caller, or switched off here
    ├── NotFound                        a document or a collection that is not there
    ├── Overloaded                      no place, or none in time; carries retry_after_s
    ├── ShuttingDown                    the service is going away
    ├── UploadsUnavailable              an upload or deletion cannot be kept on the disk
    ├── IndexUnusable                   the index cannot be read or written as it is
    │   ├── CatalogUnavailable          the SQLite catalog cannot be opened
    │   ├── VectorStoreUnavailable      Chroma does not answer
    │   ├── FingerprintMismatch         made by another model, metric or schema
    │   └── IndexLocked                 another ingest run holds the writer's lock
    ├── EmbeddingsUnavailable           the embedding model cannot be loaded
    ├── LocalServerFailed               a local child server (Chroma, demo model) does not start
    ├── LoadFailed                      one document cannot be read; its message is the reason shown to people
    │   ├── UnsupportedType             no loader reads this type of file
    │   └── ParserStopped               its parser hung, wanted too much memory, or crashed
    └── UpstreamError                   the language model's endpoint
        ├── UpstreamUnavailable         nobody listens, or it answers 503
        ├── UpstreamTimeout             it did not answer, or stopped sending, in time
        ├── UpstreamDisconnected        the connection broke before the answer was complete
        ├── UpstreamRejected            it answered 4xx or 5xx, or sent an error inside the stream
        ├── UpstreamRateLimited         it answered 429; carries retry_after_s
        ├── UpstreamModelNotFound       the configured model is not served there; names both
        └── ContextTooLong              prompt and answer do not fit the model's window

In: what went wrong, in words a person can act on. Out: `code` (stable word), `message`, `retryable`, `details`.
Must not: carry upstream bodies, keys, prompts or tracebacks in `message` or `details`; both are shown to clients.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class RagError(Exception):
    """Base of all. `code` is stable and documented; `message` says what happened and what to do about it."""

    code: ClassVar[str] = "internal_error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = dict(details or {})

    @property
    def retry_after_s(self) -> float | None:
        """Seconds after which another try is worth it, where that is known."""
        value = self.details.get("retry_after_s")
        return float(value) if value is not None else None


class InvalidSettings(RagError):
    code = "invalid_settings"


class InvalidRequest(RagError):
    code = "invalid_request"


class QuestionTooLong(InvalidRequest):
    code = "question_too_long"


class Unauthorized(InvalidRequest):
    code = "unauthorized"


class Forbidden(InvalidRequest):
    code = "forbidden"


class NotFound(RagError):
    code = "not_found"


class Overloaded(RagError):
    code = "overloaded"
    retryable = True


class ShuttingDown(RagError):
    code = "shutting_down"
    retryable = True


class UploadsUnavailable(RagError):
    code = "uploads_unavailable"
    retryable = True


class IndexUnusable(RagError):
    code = "index_unusable"


class CatalogUnavailable(IndexUnusable):
    code = "catalog_unavailable"
    retryable = True


class VectorStoreUnavailable(IndexUnusable):
    code = "vector_store_unavailable"
    retryable = True


class FingerprintMismatch(IndexUnusable):
    code = "fingerprint_mismatch"


class IndexLocked(IndexUnusable):
    code = "index_locked"
    retryable = True


class EmbeddingsUnavailable(RagError):
    code = "embeddings_unavailable"


class LocalServerFailed(RagError):
    code = "local_server_failed"
    retryable = True


class LoadFailed(RagError):
    code = "load_failed"


class UnsupportedType(LoadFailed):
    code = "unsupported_type"


class ParserStopped(LoadFailed):
    code = "parser_stopped"


class UpstreamError(RagError):
    code = "upstream_error"
    retryable = True


class UpstreamUnavailable(UpstreamError):
    code = "upstream_unavailable"


class UpstreamTimeout(UpstreamError):
    code = "upstream_timeout"


class UpstreamDisconnected(UpstreamError):
    code = "upstream_disconnected"


class UpstreamRejected(UpstreamError):
    code = "upstream_rejected"
    retryable = False


class UpstreamRateLimited(UpstreamError):
    code = "upstream_rate_limited"


class UpstreamModelNotFound(UpstreamError):
    code = "upstream_model_not_found"
    retryable = False


class ContextTooLong(UpstreamError):
    code = "context_too_long"
    retryable = False
