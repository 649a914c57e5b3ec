"""What fetching takes from the operating system: names' addresses, connections, and time.

In: a host, or an address. Out: every address of a host in bounded time, a stream. Must not: decide which of them may be
reached (addresses.py does).
"""

import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

import httpcore

from ingest.web.addresses import Address
from ingest.web.refusals import Refusal


def look_up(host: str, timeout_s: float) -> list[Address]:
    """All addresses of `host`, in the system's order, each once. Raises Refusal."""
    answers: queue.SimpleQueue[list[str] | OSError | UnicodeError] = queue.SimpleQueue()
    # getaddrinfo knows no time limit. A daemon thread, unlike one of a pool, does not hold up the end of the program.
    threading.Thread(target=_ask, args=(host, answers), name="name look-up", daemon=True).start()
    try:
        answer = answers.get(timeout=timeout_s)
    except queue.Empty:
        raise Refusal(f"the name {host} could not be looked up in {timeout_s:g} s") from None
    if isinstance(answer, socket.gaierror) and answer.errno == socket.EAI_AGAIN:
        raise Refusal(f"the name {host} cannot be looked up just now: is there a network?")
    if isinstance(answer, Exception) or not answer:
        raise Refusal(f"there is no host named {host}")
    return [ip_address(text) for text in dict.fromkeys(answer)]


def _ask(host: str, answers: "queue.SimpleQueue[list[str] | OSError | UnicodeError]") -> None:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        answers.put(error)
    else:
        answers.put([str(place[0]) for *_, place in found])


def connect(address: str, port: int, timeout_s: float) -> httpcore.NetworkStream:
    return httpcore.SyncBackend().connect_tcp(address, port, timeout=timeout_s)


@dataclass(frozen=True, slots=True)
class System:
    """The operating system's part; a test hands in its own. `resolve(host, timeout_s)` gives every address of a name,
    `connect(address, port, timeout_s)` a stream to one."""

    resolve: Callable[[str, float], Sequence[Address]] = look_up
    connect: Callable[[str, int, float], httpcore.NetworkStream] = connect
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
