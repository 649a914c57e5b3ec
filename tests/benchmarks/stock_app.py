"""A baseline: a streaming endpoint as LangChain's guides write it. Run with uvicorn; LLM_URL names the endpoint.

In: POST /ask {"question"}. Out: the answer's text in server-sent events. Must not: be better or worse than the guides.
"""

import os
from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

app = FastAPI()
model = ChatOpenAI(base_url=os.environ["LLM_URL"], api_key="none", model="scripted-model", streaming=True)
chain = ChatPromptTemplate.from_messages([("user", "{question}")]) | model | StrOutputParser()


class Question(BaseModel):
    question: str


@app.post("/ask")
async def ask(question: Question) -> StreamingResponse:
    async def events() -> AsyncIterator[str]:
        async for text in chain.astream({"question": question.question}):
            yield f"data: {text}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
