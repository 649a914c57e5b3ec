"""How a run is ended by Ctrl-C or SIGTERM: at first after the files in hand, then at once.

In: signals. Out: `asked`, which the pipeline looks at between files; KeyboardInterrupt where nothing is in hand, and for
the second signal. Must not: write from a signal's handler through anything that may be in the midst of writing.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """A context manager for the main thread; it puts the handlers back that were there before."""

    def __init__(self) -> None:
        self.count = 0
        self._gently: Callable[[], None] | None = None
        self._before: dict[int, object] = {}

    def asked(self) -> bool:
        return self.count > 0

    @contextmanager
    def gently(self, told: Callable[[], None]) -> Iterator[None]:
        """Inside, the first signal only sets `asked`; `told` is called for it, inside the handler."""
        self._gently = told
        try:
            yield
        finally:
            self._gently = None

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._signalled)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as `signal.signal` gave it

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self._gently is None or self.count > 1:
            raise KeyboardInterrupt
        self._gently()
