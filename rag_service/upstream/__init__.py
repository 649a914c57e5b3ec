"""The OpenAI-compatible endpoint (vLLM, llama.cpp) as a stream of text: one module for each step of the relay.

    client.py   requests, the models that are served, opening and closing
    stream.py   socket reads -> deltas: pacing and timeouts
    parser.py   bytes -> text, reasoning, finish reason, usage (pure)
    faults.py   what went wrong -> the UpstreamError that says so

In: chat messages as OpenAI dictionaries, sampling values. Out: `ModelDelta`s, or an UpstreamError. Must not: know
LangChain, sources, citations or a client's wire format; log; put keys, hosts, prompts or bodies into a message.
"""

from rag_service.upstream.client import Sampling, ServedModel, Upstream, client_session
from rag_service.upstream.parser import ModelDelta
from rag_service.upstream.stream import ModelStream

__all__ = ["ModelDelta", "ModelStream", "Sampling", "ServedModel", "Upstream", "client_session"]
