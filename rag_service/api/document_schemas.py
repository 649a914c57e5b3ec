"""What is told of documents, problems and jobs: the answers of routes_uploads.py and routes_listing.py, as /docs shows them.

In: rows and jobs. Out: JSON. Must not: tell where a file lies on this machine's disk other than by a document's URI.
"""

from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from rag_service.index.rows import Listed, Problem
from rag_service.jobs import Job


class DocumentInfo(BaseModel):
    """A document in the index."""

    id: str
    title: str
    uri: str = Field(description="Where it came from; `upload:///NAME` for uploads.")
    media_type: str
    size: int = Field(description="Bytes of the file.")
    version: str
    indexed_at: str = Field(description="ISO 8601, UTC.")
    metadata: dict[str, Any]
    chunks: int
    notes: list[str] = Field(description="What of the file is not in the index, such as pages without text.")

    @classmethod
    def of(cls, listed: Listed) -> Self:
        row = listed.document
        return cls(
            id=row.id,
            title=row.title,
            uri=row.uri,
            media_type=row.media_type,
            size=row.size,
            version=row.version,
            indexed_at=row.indexed_at,
            metadata=row.metadata,
            chunks=listed.chunks,
            notes=list(listed.notes),
        )


class DocumentList(BaseModel):
    """A page of the documents of a collection, by URI."""

    collection: str
    documents: list[DocumentInfo]
    total: int = Field(description="All documents that match, on every page.")
    problems: int = Field(description="Files that match and are not in the index; GET /problems says why.")
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page. null: this is the last.")


class ProblemInfo(BaseModel):
    """A file that could not be taken into the index, or not in its newest version."""

    uri: str
    status: str = Field(description="`skipped` (by a rule, or nothing in it to find) or `failed`.")
    reason: str

    @classmethod
    def of(cls, problem: Problem) -> Self:
        return cls(uri=problem.uri, status=problem.status, reason=problem.reason)


class ProblemList(BaseModel):
    """A page of the problems of a collection, by URI."""

    collection: str
    problems: list[ProblemInfo]
    total: int
    next_cursor: str | None


class AcceptedDocument(BaseModel):
    name: str = Field(description="The file's name, without any folder.")
    uri: str = Field(description="The same name gives the same URI: uploaded again, it replaces the document.")
    document_id: str


class Accepted(BaseModel):
    """The job that was queued."""

    job_id: str
    status_url: str
    documents: list[AcceptedDocument]

    @classmethod
    def of(cls, job: Job) -> Self:
        documents = [AcceptedDocument(name=d.name, uri=d.uri, document_id=d.document_id) for d in job.documents]
        return cls(job_id=job.id, status_url=f"/jobs/{job.id}", documents=documents)


class JobDocumentInfo(AcceptedDocument):
    status: str = Field(
        description="`queued`, `running`; then `indexed` (new), `updated`, `unchanged`, `skipped` (nothing in it to find),"
        " `failed`, `deleted`, or `absent` (there was nothing to delete)."
    )
    reason: str | None
    chunks: int = Field(description="Chunks made in this job.")


class JobInfo(BaseModel):
    """`done`: every document was tried, and each says how it went. `failed`: the run itself broke; `reason` says why.
    `interrupted`: the service was stopped; it goes on at the next start."""

    id: str
    kind: Literal["upload", "delete"]
    status: Literal["queued", "running", "done", "failed", "interrupted"]
    position: int | None = Field(description="Place in the queue, from 1, while it waits.")
    collection: str
    created_at: str
    started_at: str | None
    ended_at: str | None
    reason: str | None
    documents: list[JobDocumentInfo]

    @classmethod
    def of(cls, job: Job, position: int | None = None) -> Self:
        documents = [
            JobDocumentInfo(
                name=d.name, uri=d.uri, document_id=d.document_id, status=d.status, reason=d.reason, chunks=d.chunks
            )
            for d in job.documents
        ]
        return cls(
            id=job.id,
            kind=job.kind,
            status=job.state,
            position=position,
            collection=job.collection,
            created_at=job.created_at,
            started_at=job.started_at,
            ended_at=job.ended_at,
            reason=job.reason,
            documents=documents,
        )


class JobList(BaseModel):
    """The newest jobs, newest first; without their places in the queue."""

    jobs: list[JobInfo]
