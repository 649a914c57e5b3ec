"""Documents come and go over HTTP: POST /documents, DELETE /documents/{id}, and the jobs that do it.

In: files, ids. Out: jobs; they run after the answer, one by one. Must not: parse a file, or answer for what a job did.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from rag_service.api.dependencies import KEY, PartsDep
from rag_service.api.document_schemas import Accepted, JobInfo, JobList
from rag_service.api.upload_form import FIELDS, MAX_FILES, UPLOAD_FORM, upload_form
from rag_service.errors import UploadsUnavailable

router = APIRouter(tags=["documents"], dependencies=[KEY])

MAX_FIELD_BYTES = 200_000
DocumentId = Annotated[str, Path(max_length=64)]
WaitS = Annotated[float, Query(ge=0, le=60, description="Seconds to wait for it to be done before the answer is 202.")]

REFUSED: dict[int | str, dict[str, Any]] = {
    403: {"description": "Uploads and deletions are off here (RAG_UPLOADS__ENABLED)."},
    429: {"description": "Too many wait already (RAG_UPLOADS__MAX_QUEUED); `Retry-After` says when to try again."},
}


@router.post(
    "/documents",
    status_code=202,
    response_model=Accepted,
    openapi_extra=UPLOAD_FORM,
    responses={**REFUSED, 413: {"description": "More than RAG_UPLOADS__MAX_MB."}},
)
async def upload(request: Request, parts: PartsDep) -> Response:
    """Upload files. The answer comes at once; the job at `status_url` says what became of each file.

    A file is known by its name: uploading the same name again replaces the document, unless the new one cannot be read.
    """
    parts.uploads.require_enabled()
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "multipart/form-data":
        raise HTTPException(415, "Send the files as multipart/form-data, in the field `file`.")
    async with parts.uploads.place():
        try:
            form_data = request.form(max_files=MAX_FILES, max_fields=len(FIELDS), max_part_size=MAX_FIELD_BYTES)
            async with form_data as form:
                asked = upload_form(form)
                collection = await parts.uploads.collection(asked.collection)
                job = await parts.uploads.upload(collection, asked.files, asked.title, asked.metadata)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except OSError as error:
            raise UploadsUnavailable(
                f"The upload could not be kept ({error.strerror}). Somebody has to look at the disks of this machine."
            ) from error
    return accepted(Accepted.of(job))


@router.delete(
    "/documents/{document_id}",
    status_code=204,
    responses={**REFUSED, 202: {"model": Accepted, "description": "It is queued; the job says when it is done."}},
)
async def delete(document_id: DocumentId, parts: PartsDep, wait_s: WaitS = 30.0) -> Response:
    """Take a document out of the index. A file in a folder that `rag-ingest run` reads comes back with its next run."""
    parts.uploads.require_enabled()
    async with parts.uploads.place():
        job = await parts.uploads.delete(document_id)
    ended = await parts.uploads.ended(job.id, wait_s)
    if ended is None:
        return accepted(Accepted.of(job))
    if ended.state == "failed":
        raise UploadsUnavailable(
            f"The document is still there: {ended.reason}", details={"status_url": f"/jobs/{job.id}"}
        )
    return Response(status_code=204)


@router.get("/jobs/{job_id}")
async def job(job_id: str, parts: PartsDep) -> JobInfo:
    """How far an upload or deletion is, and what became of each file. Jobs are forgotten after RAG_UPLOADS__KEEP_HOURS."""
    found, position = await parts.uploads.job(job_id)
    return JobInfo.of(found, position)


@router.get("/jobs")
async def jobs(parts: PartsDep, limit: Annotated[int, Query(ge=1, le=200)] = 50) -> JobList:
    """The newest jobs of all workers, newest first."""
    return JobList(jobs=[JobInfo.of(found) for found in await parts.uploads.recent(limit)])


def accepted(content: Accepted) -> Response:
    return JSONResponse(content.model_dump(), 202, {"Location": content.status_url})
