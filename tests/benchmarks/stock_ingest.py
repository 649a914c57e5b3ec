"""The baseline: an ingest script as LangChain's guides write it, with a running Chroma.

    python -m tests.benchmarks.stock_ingest FOLDER CHROMA_PORT MODEL_FOLDER

In: a folder of Markdown and PDF files. Out: one JSON line: chunks, characters, seconds without imports and loading the model.
Must not: be better or worse than the guides.
"""

import json
import sys
import time
from pathlib import Path

import chromadb
from langchain_chroma import Chroma
from langchain_community.document_loaders import PyPDFLoader, TextLoader
from langchain_huggingface import HuggingFaceEmbeddings
from langchain_text_splitters import RecursiveCharacterTextSplitter


def main(folder: str, port: str, model: str) -> None:
    embeddings = HuggingFaceEmbeddings(model_name=model)
    embeddings.embed_query("warm up")
    store = Chroma(
        collection_name="stock", embedding_function=embeddings, client=chromadb.HttpClient("127.0.0.1", int(port))
    )
    splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
    started = time.perf_counter()
    chunks = characters = 0
    for path in sorted(Path(folder).iterdir()):
        loader = PyPDFLoader(str(path)) if path.suffix == ".pdf" else TextLoader(str(path), encoding="utf-8")
        documents = splitter.split_documents(loader.load())
        store.add_documents(documents)
        chunks += len(documents)
        characters += sum(len(document.page_content) for document in documents)
    seconds = time.perf_counter() - started
    print(json.dumps({"chunks": chunks, "characters": characters, "seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
