"""Runs jobs, one after the other, in one process of a home: rag-ingest in a process of its own for each document.

In: queued jobs. Out: the same, ended. Must not: parse a file, or block the event loop.

Every worker has a `JobRunner`; whichever gets the lock runs the jobs of all. When it ends, however it does, another one or the
next start goes on with what it left.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout

from rag_service.errors import RagError
from rag_service.index.async_catalog import AsyncCatalog
from rag_service.ingest_run import Ended, clean, run_ingest
from rag_service.jobs import Job, JobDocument, JobStore, now
from rag_service.settings import Settings
from rag_service.telemetry import log

POLL_S = 1.0  # how soon a job of another worker is noticed; one's own are at once
SWEEP_S = 600.0
MAX_STARTS = 3  # of a job during which the service died: it may be the cause


class JobRunner:
    """Built and closed by app.py, on its event loop."""

    def __init__(self, settings: Settings, catalog: AsyncCatalog, store: JobStore) -> None:
        self._settings = settings
        self._catalog = catalog
        self._store = store
        self._woken = asyncio.Event()
        # What stands in messages of rag-ingest and is no caller's affair, or only of use on this machine.
        self._hidden: Mapping[str, str] = {
            str(store.folder): "RAG_HOME/uploads",
            str(settings.home.absolute()): "RAG_HOME",
        }

    def wake(self) -> None:
        """There is a new job."""
        self._woken.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Meanwhile jobs are run, here or by the worker that was first. At the end, a job in hand is interrupted."""
        task = asyncio.create_task(self._run(), name="upload-jobs") if self._settings.uploads_enabled else None
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        lock = FileLock(self._store.folder / "runner.lock", timeout=0, thread_local=False)
        try:
            while not await asyncio.to_thread(self._acquired, lock):
                await self._pause()
            await self._as_runner()
        finally:
            lock.release()

    def _acquired(self, lock: FileLock) -> bool:
        if not self._store.folder.is_dir():  # nothing was ever uploaded, so nothing is written here either
            return False
        try:
            lock.acquire()
        except (Timeout, OSError):
            return False
        return True

    async def _as_runner(self) -> None:
        loop = asyncio.get_running_loop()
        recovered, sweep_at = False, loop.time()
        while True:
            try:
                if not recovered:
                    await asyncio.to_thread(self._store.recover)
                    recovered = True
                if loop.time() >= sweep_at:
                    await asyncio.to_thread(self._store.sweep, self._settings.uploads.keep_hours * 3600)
                    sweep_at = loop.time() + SWEEP_S
                waiting = [job for job in await asyncio.to_thread(self._store.pending) if job.state == "queued"]
                if waiting:
                    await self._perform(waiting[0])
                    continue
            except (OSError, RagError) as error:  # a full disk, say: the job stays, and is tried again
                recovered = False
                log.warning("job_put_off", problem=error.message if isinstance(error, RagError) else error.strerror)
            except Exception:  # noqa: BLE001  one job that goes wrong must not stop all that come after
                recovered = False
                log.exception("job_broke")
            await self._pause()

    async def _pause(self) -> None:
        self._woken.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await self._woken.wait()

    async def _perform(self, job: Job) -> None:
        if job.starts >= MAX_STARTS:
            await self._end(replace(job, state="failed", reason="The service died each time that this was tried."))
            return
        job = replace(job, state="running", started_at=now(), starts=job.starts + 1)
        await asyncio.to_thread(self._store.update, job)
        try:
            for number, document in enumerate(job.documents):
                if job.state == "running" and document.status == "queued":
                    job = job.with_document(number, replace(document, status="running"))
                    await asyncio.to_thread(self._store.update, job)
                    job = await self._step(job, number)
        except asyncio.CancelledError:
            # Files, and for once on the loop: the service ends, and this must be told before it has ended.
            with suppress(OSError):
                self._store.update(replace(job, state="interrupted", starts=job.starts - 1))
            raise
        await self._end(replace(job, state="done") if job.state == "running" else job)

    async def _end(self, job: Job) -> None:
        left = [replace(each, status="failed", reason="it was not tried") for each in job.documents if unfinished(each)]
        tried = [each for each in job.documents if not unfinished(each)]
        order = {each.document_id: number for number, each in enumerate(job.documents)}
        documents = tuple(sorted([*tried, *left], key=lambda each: order[each.document_id]))
        await asyncio.to_thread(self._store.end, replace(job, documents=documents, ended_at=now()))
        log.info("job_ended", job=job.id, kind=job.kind, state=job.state)

    async def _step(self, job: Job, number: int) -> Job:
        """The job with one document more done."""
        document, limits = job.documents[number], self._settings.uploads
        if job.kind == "delete" and not await self._has(document.document_id):
            return job.with_document(number, replace(document, status="absent", reason="it was gone already"))
        arguments, source = self._arguments(job, number)
        ended = await run_ingest(self._settings, job.collection, arguments, source, limits.wait_s + limits.timeout_s)
        if ended.errors:
            await asyncio.to_thread(append, self._store.log(job), ended.errors)
        result = ended.of(document.uri)
        if result is not None and ended.code in (0, 1):
            reason = result.get("reason")
            told = None if reason is None else clean(str(reason), self._hidden)
            done = replace(document, status=str(result["status"]), reason=told, chunks=int(result.get("chunks", 0)))
            return job.with_document(number, done)
        reason = self._failure(ended)
        return replace(
            job.with_document(number, replace(document, status="failed", reason=reason)), state="failed", reason=reason
        )

    def _arguments(self, job: Job, number: int) -> tuple[tuple[str, ...], Path | None]:
        """What rag-ingest is told. Values are joined to their options, so that none is taken for one."""
        document, wait = job.documents[number], f"--wait={self._settings.uploads.wait_s:g}"
        if job.kind == "delete":
            return ("delete", "--json", wait, "--", document.document_id), None
        given = [f"--metadata={key}={value}" for key, value in job.metadata]
        titled = [f"--title={job.title}"] if job.title else []
        named = (f"--name={document.name}", f"--uri={document.uri}", *titled, *given)
        return ("run", "--json", wait, *named, "-"), self._store.file(job, number)

    def _failure(self, ended: Ended) -> str:
        """Why there is no result, for a caller; more is in the job's log."""
        if ended.code is None:
            limits = self._settings.uploads
            return (
                f"it took longer than {limits.wait_s + limits.timeout_s:g} s (RAG_UPLOADS__TIMEOUT_S, and"
                " RAG_UPLOADS__WAIT_S for another ingest run to end)"
            )
        if (said := ended.told(self._hidden)) is not None and ended.code > 1:
            return said
        how = f"was killed by signal {-ended.code}" if ended.code < 0 else f"ended with code {ended.code}"
        return f"rag-ingest {how} and said nothing of this document; its output is in RAG_HOME/uploads/ended"

    async def _has(self, wanted: str) -> bool:
        return await self._catalog.read(lambda catalog: catalog.has_document(wanted))


def unfinished(document: JobDocument) -> bool:
    return document.status in ("queued", "running")


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
