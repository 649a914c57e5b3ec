"""A baseline: the usual advice for streaming: httpx lines, a queue between two tasks, `sleep(0)` so that all get their turn.

In: POST /ask {"question"}. Out: the answer's text in server-sent events. Must not: be better or worse than the advice.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with httpx.AsyncClient(timeout=None) as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


class Question(BaseModel):
    question: str


async def produce(question: str, queue: asyncio.Queue[str | None]) -> None:
    messages = [{"role": "user", "content": question}]
    payload = {"model": "scripted-model", "messages": messages, "stream": True}
    try:
        async with app.state.client.stream(
            "POST", f"{os.environ['LLM_URL']}/chat/completions", json=payload
        ) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if not line.startswith("data: "):
                    continue
                data = line.removeprefix("data: ")
                if data == "[DONE]":
                    break
                choices = json.loads(data)["choices"]
                if choices and (text := choices[0]["delta"].get("content")):
                    await queue.put(text)
    finally:
        await queue.put(None)


@app.post("/ask")
async def ask(question: Question) -> StreamingResponse:
    queue: asyncio.Queue[str | None] = asyncio.Queue()

    async def events() -> AsyncIterator[str]:
        producer = asyncio.create_task(produce(question.question, queue))
        try:
            while (text := await queue.get()) is not None:
                yield f"data: {text}\n\n"
                await asyncio.sleep(0)
            yield "data: [DONE]\n\n"
        finally:
            producer.cancel()

    return StreamingResponse(events(), media_type="text/event-stream")
