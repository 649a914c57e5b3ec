"""Reading an upstream to its end, for the tests of the client.

In: an Upstream. Out: its deltas. Must not: hide an error.
"""

from collections.abc import Callable

from rag_service.upstream import ModelDelta, Sampling, Upstream

QUESTION = [{"role": "user", "content": "How many days of leave?"}]

Connect = Callable[..., Upstream]


async def read(
    upstream: Upstream,
    into: list[ModelDelta] | None = None,
    each: Callable[[], None] = lambda: None,
    messages: list[dict[str, str]] = QUESTION,
) -> list[ModelDelta]:
    """All deltas of one answer; `into` keeps those that came before an error, `each` is called after every one."""
    deltas = [] if into is None else into
    async with upstream.open(messages, Sampling()) as stream:
        async for delta in stream:
            deltas.append(delta)
            each()
    return deltas


def text_of(deltas: list[ModelDelta]) -> str:
    return "".join(delta.text for delta in deltas)
