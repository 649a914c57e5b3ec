# syntax=docker/dockerfile:1
# The service and ingest in one image; docker-compose.yml shows both at work. No language model is in it.
#
#   docker build --tag rag-service:0.1.0 .
#   docker run --rm rag-service:0.1.0 rag-ingest --help

# The Python that requirements/run.lock was resolved for.
FROM python:3.11.15-slim-trixie AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/rag
WORKDIR /src
COPY requirements/run.lock requirements/
# PyTorch's CPU build comes from its own index. pip prefers it there, since 2.13.0+cpu counts as newer than 2.13.0, and
# so gigabytes of CUDA libraries stay out.
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/rag/bin/pip install --extra-index-url https://download.pytorch.org/whl/cpu --requirement requirements/run.lock
COPY pyproject.toml README.md LICENSE ./
COPY rag_service rag_service
COPY ingest ingest
# Every dependency is installed above, at its exact version.
RUN --mount=type=cache,target=/root/.cache/pip /opt/rag/bin/pip install --no-deps .

FROM python:3.11.15-slim-trixie
LABEL org.opencontainers.image.title="rag-service" \
      org.opencontainers.image.licenses="Apache-2.0"
# A named volume that is mounted on /data for the first time takes over this owner, and so can be written to.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin rag \
    && install --directory --owner=rag --group=rag --mode=0750 /data
COPY --from=build /opt/rag /opt/rag
ENV PATH=/opt/rag/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    RAG_HOME=/data
WORKDIR /data
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=90s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f\"http://127.0.0.1:{os.environ.get('RAG_SERVER__PORT', '8000')}/health\", timeout=4)"]
# No ENTRYPOINT: either program is started by its name, and as process 1 it receives the signals itself.
CMD ["rag-service"]
