"""The baseline: a RAG endpoint as LangChain's guides write it, over a Chroma that is filled and running. Run with uvicorn.

In: POST /ask {"question"}; STOCK_LLM_URL, STOCK_CHROMA_PORT and STOCK_MODEL name the endpoint, the server and the folder of
the embedding model. Out: the answer's text in server-sent events. Must not: be better or worse than the guides.
"""

import os
from collections.abc import AsyncIterator

import chromadb
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_huggingface import HuggingFaceEmbeddings
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

app = FastAPI()
store = Chroma(
    collection_name="stock",
    embedding_function=HuggingFaceEmbeddings(model_name=os.environ["STOCK_MODEL"]),
    client=chromadb.HttpClient("127.0.0.1", int(os.environ["STOCK_CHROMA_PORT"])),
)
model = ChatOpenAI(base_url=os.environ["STOCK_LLM_URL"], api_key="none", model="fake-model", streaming=True)
prompt = ChatPromptTemplate.from_template(
    "Answer the question based only on the following context:\n{context}\n\nQuestion: {question}"
)


def format_docs(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


chain = (
    {"context": store.as_retriever(search_kwargs={"k": 5}) | format_docs, "question": RunnablePassthrough()}
    | prompt
    | model
    | StrOutputParser()
)


class Question(BaseModel):
    question: str


@app.post("/ask")
async def ask(question: Question) -> StreamingResponse:
    async def events() -> AsyncIterator[str]:
        async for text in chain.astream(question.question):
            yield f"data: {text}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
