"""A reader who asks without pause while the index is being written, killed and mended.

In: a service's address, documents that nobody touches. Out: every answer that was an error, empty or wrong.
Must not: ask more than one question at a time; this is one person.
"""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import httpx2

from tests.crash.folder import Folder, Heron

TOP_K = 20


def passages(client: httpx2.Client, question: str) -> list[tuple[str, str]]:
    """URI and text of what the model would be given. Raises for anything but 200."""
    response = client.post("/retrieve", json={"question": question, "top_k": TOP_K})
    response.raise_for_status()
    return [(source["uri"], source["text"]) for source in response.json()["sources"]]


class Reader:
    def __init__(self, url: str, folder: Folder, herons: Sequence[Heron]) -> None:
        self._client = httpx2.Client(base_url=url, timeout=60, trust_env=False)
        self._folder = folder
        self._herons = herons
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="reader")
        self.asked = 0
        self.wrong: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _ask(self) -> None:
        while not self._stop.is_set():
            heron = self._herons[self.asked % len(self._herons)]
            self.asked += 1
            try:
                problem = self._folder.judge(heron, passages(self._client, self._folder.ask(heron)))
            except httpx2.HTTPError as error:
                problem = f"{heron.name}: {type(error).__name__} {error}"
            if problem:
                self.wrong.append(problem)
