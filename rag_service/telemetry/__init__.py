"""What the service tells about itself: log lines, request ids, metrics, stage timings, traces.

    logs.py      log lines and the request id
    metrics.py   Prometheus metrics of a process
    workers.py   one /metrics for several workers
    tracing.py   OpenTelemetry spans, for those who have asked for them
    clock.py     one answer's stages: timings, counts, spans
    edge.py      one request from its arrival to its end

In: settings, and measurements from the serve path. Out: structured logs on standard error, Prometheus metrics, spans.
Must not: see questions, answers, document texts or keys.
"""

from rag_service.telemetry.clock import Clock, Observation, observation
from rag_service.telemetry.edge import WIRE, Observed
from rag_service.telemetry.logs import configure_logging, log, request_id
from rag_service.telemetry.metrics import Metrics
from rag_service.telemetry.tracing import start_tracing, stop_tracing, trace_headers
from rag_service.telemetry.workers import join_workers

__all__ = [
    "WIRE",
    "Clock",
    "Metrics",
    "Observation",
    "Observed",
    "configure_logging",
    "join_workers",
    "log",
    "observation",
    "request_id",
    "start_tracing",
    "stop_tracing",
    "trace_headers",
]
