"""Log lines, and the id of the request that they belong to.

In: settings. Out: structured lines on standard error. Must not: show values of local variables, which hold questions and keys.
"""

import contextvars
import logging
import sys

import structlog

from rag_service.settings import ServerSettings

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")

log: structlog.stdlib.BoundLogger = structlog.get_logger("rag_service")


def configure_logging(settings: ServerSettings) -> None:
    """Log lines for people on a terminal, JSON otherwise; libraries' own lines go the same way."""
    as_text = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        _with_request_id,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Plain tracebacks in both: the default for terminals shows local variables, which hold questions and keys.
    renderers: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if as_text
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *renderers,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level)
    for noisy in ("httpx", "httpcore", "chromadb", "sentence_transformers", "urllib3", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))


def _with_request_id(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    current = request_id.get()
    if current != "-":
        event["request_id"] = current
    return event
