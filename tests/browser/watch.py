"""An eye on what a page does while a test runs.

In: a Playwright page. Out: its console errors and its requests to other hosts. Must not: fail before `check`.
"""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import Page, Request


@dataclass
class Watch:
    """What a page did. `refusals` is how many answers of 400 and above a test provokes: Chromium logs each."""

    origin: str
    refusals: int = 0
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def follow(self, page: Page) -> None:
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._request)

    def _request(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.origin).netloc:
            self.foreign.append(request.url)

    def check(self) -> None:
        refused = [error for error in self.errors if error.startswith("Failed to load resource")]
        assert len(refused) == self.refusals, refused
        assert [error for error in self.errors if error not in refused] == []
        assert self.foreign == []
