"""A baseline: the endpoint's bytes passed through with httpx2, unread.

In: POST /ask {"question"}. Out: the endpoint's own events. Must not: be better or worse than httpx2's guide.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with httpx2.AsyncClient(timeout=None) as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


class Question(BaseModel):
    question: str


@app.post("/ask")
async def ask(question: Question) -> StreamingResponse:
    messages = [{"role": "user", "content": question.question}]
    payload = {"model": "scripted-model", "messages": messages, "stream": True}

    async def body() -> AsyncIterator[bytes]:
        async with app.state.client.stream(
            "POST", f"{os.environ['LLM_URL']}/chat/completions", json=payload
        ) as response:
            response.raise_for_status()
            async for chunk in response.aiter_raw():
                yield chunk

    return StreamingResponse(body(), media_type="text/event-stream")
