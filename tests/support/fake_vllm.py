"""A scripted OpenAI-shaped server on a real loopback socket: the only stand-in for a GPU that the tests have.

In: a script (steps), an answer, or a function from the request's JSON to either. Out: real HTTP with any bytes at any
time and any fault, and a record of every request: its JSON, its headers, the tokens sent, when its caller left. Must
not: import the package under test, or help it by being more orderly than vLLM.

    async with FakeVllm() as fake:          # in the test's own loop
        fake.answer("Leave is 25 days [1].")
        fake.script([Role(), Token("Hal"), Reset()])
        fake.respond(lambda body: "yes" if "annual" in prompt_of(body) else "no")
        ... fake.base_url ...
        await fake.requests[0].gone.wait()

    with FakeVllm.in_thread() as fake:      # in a thread of its own, beside a real uvicorn
        assert fake.requests[0].gone_sync.wait(5)

What is set applies to the requests that come after it. `fake.pace` is the pause in seconds before each token.
"""

from tests.support.vllm_script import (
    END,
    Chunk,
    Done,
    Eof,
    Finish,
    OneByteWrites,
    Raw,
    Reasoning,
    Request,
    Reset,
    Role,
    Stall,
    Status,
    Step,
    Token,
    UsageChunk,
    Wait,
    Wire,
    content_event,
    event,
    prompt_of,
    tokens,
    whole,
)
from tests.support.vllm_server import FakeVllm, Responder

__all__ = [
    "END",
    "Chunk",
    "Done",
    "Eof",
    "FakeVllm",
    "Finish",
    "OneByteWrites",
    "Raw",
    "Reasoning",
    "Request",
    "Reset",
    "Responder",
    "Role",
    "Stall",
    "Status",
    "Step",
    "Token",
    "UsageChunk",
    "Wait",
    "Wire",
    "content_event",
    "event",
    "prompt_of",
    "tokens",
    "whole",
]
