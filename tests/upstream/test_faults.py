"""What the endpoint answers instead of a stream, as errors a person can act on, with nothing private in them."""

import email.utils
import inspect
import time
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_service import errors
from rag_service.upstream import Sampling
from rag_service.upstream.faults import excerpt, transport_fault
from tests.support.fake_vllm import (
    Chunk,
    FakeVllm,
    Status,
    Token,
)
from tests.support.upstream_reader import QUESTION, Connect, read, text_of

REFUSALS: list[tuple[int, Any, dict[str, str], type[errors.UpstreamError], str]] = [
    (400, {"error": {"message": "top_p must be in (0, 1]"}}, {}, errors.UpstreamRejected, r"\(400\): top_p must be"),
    (401, {"error": "Unauthorized"}, {}, errors.UpstreamRejected, "RAG_LLM__API_KEY"),
    (403, "<html>no</html>", {}, errors.UpstreamRejected, "RAG_LLM__API_KEY"),
    (404, {"detail": "Not Found"}, {}, errors.UpstreamRejected, "/v1"),
    (429, {"error": {"message": "slow down"}}, {"Retry-After": "7"}, errors.UpstreamRateLimited, "429"),
    (
        500,
        {"object": "error", "message": "CUDA error:\n out of memory"},
        {},
        errors.UpstreamRejected,
        "CUDA error: out of",
    ),
    (502, "<html><h1>Bad Gateway</h1>nginx</html>", {}, errors.UpstreamRejected, r"\(502\)\.$"),
    (503, {"error": {"message": "loading"}}, {"Retry-After": "30"}, errors.UpstreamUnavailable, "not available yet"),
    (307, b"", {"Location": "http://elsewhere.example/"}, errors.UpstreamRejected, "307"),
    (200, "<html>Welcome to nginx!</html>", {}, errors.UpstreamRejected, "/v1"),
]


@pytest.mark.parametrize(("code", "body", "headers", "error", "words"), REFUSALS)
async def test_br_16_refusals_before_the_first_token_are_errors_on_entering(
    fake: FakeVllm, connect: Connect, code: int, body: Any, headers: dict[str, str], error: type[Exception], words: str
) -> None:
    fake.script([Status(code, body, headers)])
    with pytest.raises(error, match=words) as caught:
        async with connect(model="fake-model").open(QUESTION, Sampling()):
            pytest.fail("there is no stream")
    assert isinstance(caught.value, errors.UpstreamError)
    if "Retry-After" in headers:
        assert caught.value.retry_after_s == float(headers["Retry-After"])
    assert "<" not in caught.value.message
    assert "nginx" not in caught.value.message


async def test_br_16_retry_after_as_a_date(fake: FakeVllm, connect: Connect) -> None:
    for value, wanted in [(email.utils.formatdate(time.time() + 100, usegmt=True), 100), ("soon", None), ("-3", None)]:
        fake.script([Status(429, b"", {"Retry-After": value})])
        with pytest.raises(errors.UpstreamRateLimited) as caught:
            await read(connect())
        assert caught.value.retry_after_s == (wanted and pytest.approx(wanted, abs=10))


WINDOWS = [
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4500 in the messages, …).",
    "This model's maximum context length is 4096 tokens. However, your prompt contains at least 4097 input tokens.",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that …",
    "Input length (5000) exceeds model's maximum context length (4096).",
    "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
]


@pytest.mark.parametrize("message", WINDOWS)
async def test_br_09_the_window_errors_of_vllm_and_llama_cpp(fake: FakeVllm, connect: Connect, message: str) -> None:
    fake.script([Status(400, {"error": {"message": message, "type": "BadRequestError", "code": 400}})])
    with pytest.raises(errors.ContextTooLong, match="4096") as caught:
        await read(connect())
    assert caught.value.details == {"max_model_len": 4096}


async def test_br_09_prompt_and_answer_together_do_not_fit(connect: Connect) -> None:
    async with FakeVllm(max_model_len=100) as small:
        upstream = connect(base_url=small.base_url)
        assert (await upstream.served_model()).max_model_len == 100
        async with upstream.open(QUESTION, Sampling(max_tokens=95)) as stream:
            assert text_of([delta async for delta in stream])
        with pytest.raises(errors.ContextTooLong):
            async with upstream.open(QUESTION, Sampling(max_tokens=96)):
                pass


CANARIES = ["sk-CANARY-key", "PROMPT-CANARY-7", "gpu-box.internal", "10.0.0.7", "/srv/models"]


@pytest.mark.parametrize(
    "message",
    [
        "key sk-CANARY-key refused at http://gpu-box.internal:8000/v1 by 10.0.0.7:99 in /srv/models/x",
        "[{'type': 'extra', 'input': 'tell me of PROMPT-CANARY-7'}]",
        "cannot parse: tell me of PROMPT-CANARY-7",
        "gpu-box.internal: Bearer sk-CANARY-key",
        "<b>sk-CANARY-key</b>",
    ],
)
async def test_br_62_no_key_host_path_or_prompt_in_a_message(fake: FakeVllm, connect: Connect, message: str) -> None:
    asked = [{"role": "user", "content": "Please\n tell me of PROMPT-CANARY-7 and more"}]
    upstream = connect(api_key="sk-CANARY-key")
    error = {"error": {"message": message, "code": 500}}
    for script in ([Status(500, error)], [Status(400, error)], [Token("a"), Chunk(error)]):
        fake.script(script)
        with pytest.raises(errors.UpstreamRejected) as caught:
            await read(upstream, messages=asked)
        shown = f"{caught.value.message} {caught.value.details} {caught.value!r}"
        assert not [canary for canary in CANARIES if canary in shown]
        assert "127.0.0.1" not in shown


@given(st.text(max_size=3000))
def test_br_62_an_excerpt_is_one_short_line(message: str) -> None:
    line = excerpt(message, ("secret-key",))
    assert len(line) <= 200
    assert line == " ".join(line.split())


def test_br_62_an_unreachable_host_is_not_named() -> None:
    fault = transport_fault(aiohttp.ClientConnectorDNSError(None, OSError(1, "canary")))  # type: ignore[arg-type]
    assert isinstance(fault, errors.UpstreamUnavailable)
    assert "canary" not in fault.message


def test_every_exception_of_aiohttp_has_an_error_here() -> None:
    kinds = [kind for _, kind in inspect.getmembers(aiohttp, inspect.isclass) if issubclass(kind, aiohttp.ClientError)]
    assert len(kinds) > 15
    for kind in kinds:
        error = kind.__new__(kind)
        if isinstance(error, aiohttp.ClientConnectorError):
            aiohttp.ClientConnectorError.__init__(error, None, OSError(113, "no route"))  # type: ignore[arg-type]
        fault = transport_fault(error)
        wanted = errors.UpstreamUnavailable if issubclass(kind, aiohttp.ClientConnectorError) else errors.UpstreamError
        assert isinstance(fault, wanted), kind
