"""Connections that go only where they may, and end in time. Everything that leaves this package goes through here.

In: a host and a port, at the moment of connecting. Out: a stream to an address that was checked, pinned: the name is looked
up once, and what was checked is what is connected to, so a name whose address changes in between (DNS rebinding) gains
nothing. TLS and `Host` keep the name. Must not: trust an earlier check, or wait past the deadline, however slowly bytes drip.
"""

import ssl
from collections.abc import Callable, Iterable
from typing import Any

import httpcore

from ingest.web.addresses import objection
from ingest.web.options import WebOptions
from ingest.web.refusals import Refusal
from ingest.web.system import System


class Deadline:
    """The moment by which the fetch in progress must be over. Fetches of one client follow each other, so it has one."""

    def __init__(self, clock: Callable[[], float], timeout_s: float) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._end = clock() + timeout_s

    def start(self) -> None:
        self._end = self._clock() + self._timeout_s

    def extend(self, seconds: float) -> None:
        """For waiting that we chose to do."""
        self._end += seconds

    def left(self, at_most: float | None = None) -> float:
        """Seconds left, or `at_most`. Raises Refusal when there are none."""
        left = self._end - self._clock()
        if left <= 0:
            raise self.passed()
        return left if at_most is None else min(left, at_most)

    def passed(self) -> Refusal:
        return Refusal(f"not there after {self._timeout_s:g} s (RAG_WEB__TIMEOUT_S)")


class BoundedStream(httpcore.NetworkStream):
    """Every single read and write ends by the deadline, so a body that drips does too."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        stream = self._stream.start_tls(ssl_context, server_hostname, self._deadline.left(timeout))
        return BoundedStream(stream, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class GuardedBackend(httpcore.NetworkBackend):
    """`allow_private` may be narrower than the options': after a public host, a redirect may not lead inside."""

    def __init__(self, options: WebOptions, system: System, deadline: Deadline, *, allow_private: bool) -> None:
        self._options = options
        self._system = system
        self._deadline = deadline
        self._allow_private = allow_private

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = self._system.resolve(host, self._deadline.left(timeout))
        reason = objection(addresses, allow_private=self._allow_private)
        if reason is not None:
            # With all rights, only a redirect from outside to inside is left: the setting would not help.
            inside = self._options.allow_private and not self._allow_private
            raise Refusal("a redirect from a public to a private address" if inside else f"{host}: {reason}", "skipped")
        failure: Exception = Refusal(f"there is no host named {host}")
        for address in addresses:
            try:
                stream = self._system.connect(str(address), port, self._deadline.left(timeout))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return BoundedStream(stream, self._deadline)
        raise failure

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        raise Refusal("only hosts on a network are reached", "skipped")
