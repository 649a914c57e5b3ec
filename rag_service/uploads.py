"""Uploads and deletions, as routes see them: taken from callers, queued as jobs, and followed.

In: files and ids. Out: jobs. Must not: run them (job_runner.py does), use a name as a path, or block the event loop.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import IO
from urllib.parse import quote

from rag_service.errors import Forbidden, NotFound, Overloaded, UploadsUnavailable
from rag_service.index.async_catalog import AsyncCatalog
from rag_service.index.chunks import document_id
from rag_service.jobs import ENDED, Job, JobDocument, JobStore, new_job
from rag_service.settings import Settings
from rag_service.telemetry import log

WATCH_S = 0.1  # between two looks at a job that a caller waits for
RETRY_S = 10.0  # told to callers when the queue is full


@dataclass(frozen=True, slots=True)
class Received:
    """A caller's file under the name that it has for people: data, never a path."""

    name: str
    file: IO[bytes]

    @property
    def uri(self) -> str:
        return f"upload:///{quote(self.name, safe='')}"


class Uploads:
    """Built and closed by app.py, on its event loop."""

    def __init__(self, settings: Settings, catalog: AsyncCatalog, store: JobStore, wake: Callable[[], None]) -> None:
        self._settings = settings
        self._catalog = catalog
        self._store = store
        self._wake = wake
        self._receiving = 0

    def require_enabled(self) -> None:
        """Raises Forbidden."""
        if not self._settings.uploads_enabled:
            raise Forbidden(
                "Uploads and deletions are off here: set RAG_SERVER__API_KEY, or RAG_UPLOADS__ENABLED=true where something"
                " in front guards the service."
            )

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place in the queue, from before a body is read until its job is kept. Raises Overloaded."""
        limit = self._settings.uploads.max_queued
        waiting = sum(job.state != "running" for job in await asyncio.to_thread(self._store.pending))
        if waiting + self._receiving >= limit:
            raise Overloaded(
                f"{limit} uploads and deletions wait already (RAG_UPLOADS__MAX_QUEUED). Try again later.",
                details={"retry_after_s": RETRY_S},
            )
        self._receiving += 1
        try:
            yield
        finally:
            self._receiving -= 1

    async def collection(self, name: str | None) -> str:
        """The one to fill: by default the configured one, which is made at need. Raises NotFound for another that is not
        there."""
        configured = self._settings.collection
        if name is None or name == configured:
            return configured
        known = {configured, *await self._catalog.read(lambda catalog: catalog.collections())}
        if name not in known:
            raise NotFound(f"There is no collection {name!r}. Name one of: {', '.join(sorted(known))}.")
        return name

    async def upload(
        self, collection: str, files: Sequence[Received], title: str | None, metadata: Sequence[tuple[str, str]]
    ) -> Job:
        """Keep the files and queue their indexing. Raises UploadsUnavailable."""
        documents = tuple(JobDocument(each.name, each.uri, document_id(collection, each.uri)) for each in files)
        job = new_job("upload", collection, documents, title, metadata)
        await self._add(job, [each.file for each in files])
        return job

    async def delete(self, wanted: str) -> Job:
        """Queue the deletion of a document. Raises NotFound, UploadsUnavailable."""
        found = await self._catalog.read(lambda catalog: catalog.document(wanted))
        job = new_job("delete", found.collection, (JobDocument(found.title, found.uri, found.id),))
        await self._add(job)
        return job

    async def job(self, job_id: str) -> tuple[Job, int | None]:
        """The job, and its place in the queue from 1 while it waits. Raises NotFound."""
        job = await asyncio.to_thread(self._store.get, job_id)
        if job.state != "queued":
            return job, None
        waiting = [each.id for each in await asyncio.to_thread(self._store.pending) if each.state == "queued"]
        return job, waiting.index(job.id) + 1 if job.id in waiting else None

    async def recent(self, limit: int) -> list[Job]:
        return await asyncio.to_thread(self._store.recent, limit)

    async def ended(self, job_id: str, limit_s: float) -> Job | None:
        """The job once it is over; None when it is not within `limit_s` seconds. Any worker may be running it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while (job := await asyncio.to_thread(self._store.get, job_id)).state not in ENDED:  # noqa: ASYNC110
                    await asyncio.sleep(WATCH_S)  # another process may write it, which sets no event here
                return job
        return None

    async def _add(self, job: Job, files: Sequence[IO[bytes]] = ()) -> None:
        try:
            await asyncio.to_thread(self._store.add, job, files)
        except OSError as error:
            raise UploadsUnavailable(
                f"It could not be stored below RAG_HOME ({error.strerror}). Somebody has to look at that disk."
            ) from error
        log.info("job_queued", job=job.id, kind=job.kind, documents=len(job.documents))
        self._wake()
