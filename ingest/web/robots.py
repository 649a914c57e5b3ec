"""robots.txt (RFC 9309), read once for each host and run, and the pause between two requests to one host.

In: the address that is about to be requested. Out: nothing, or a Refusal. Must not: guess in the site's favour or ours: no
robots.txt (4xx) allows everything, one that cannot be read (5xx, no answer) nothing.
"""

import re

from protego import Protego

from ingest.web.bodies import pieces
from ingest.web.client import Client
from ingest.web.options import WebOptions
from ingest.web.refusals import Refusal
from ingest.web.system import System
from ingest.web.urls import netloc

MAX_BYTES = 512 * 1024  # RFC 9309, section 2.5, asks for 500 KiB at least; the rest is not read
MAX_PAUSE_S = 30.0  # some sites write a Crawl-delay of hours

_TOO_MANY_REQUESTS = 429


class Manners:
    """Asked before every request for a document. What it waits does not count against the fetch."""

    def __init__(self, client: Client, options: WebOptions, system: System) -> None:
        self._client = client
        self._options = options
        self._system = system
        self._rules: dict[str, Protego | Refusal] = {}
        self._free_at: dict[str, float] = {}

    def before(self, url: str) -> None:
        pause_s = self._options.delay_s
        if self._options.respect_robots:
            rules = self._rules_for(url)
            agent = re.split(r"[/\s]", self._options.user_agent)[0]  # the product's name; the rest may hold any words
            if not rules.can_fetch(url, agent):
                raise Refusal("the site's robots.txt asks not to read it (RAG_WEB__RESPECT_ROBOTS)", "skipped")
            pause_s = max(pause_s, min(rules.crawl_delay(agent) or 0.0, MAX_PAUSE_S))
        host = netloc(url)
        wait_s = self._free_at.get(host, 0.0) - self._system.clock()
        if wait_s > 0:
            self._system.sleep(wait_s)
            self._client.deadline.extend(wait_s)
        self._free_at[host] = self._system.clock() + pause_s

    def asked_to_wait(self, url: str, retry_after: str) -> None:
        """The site has too many requests (429) or rests (503): the next one waits as long as it says, within bounds."""
        seconds = min(float(retry_after), MAX_PAUSE_S) if retry_after.isdecimal() else MAX_PAUSE_S / 10
        host = netloc(url)
        self._free_at[host] = max(self._free_at.get(host, 0.0), self._system.clock() + seconds)

    def _rules_for(self, url: str) -> Protego:
        origin = "/".join(url.split("/")[:3])
        if origin not in self._rules:
            try:
                self._rules[origin] = self._read(f"{origin}/robots.txt")
            except Refusal as refusal:
                if refusal.status == "failed":
                    refusal = Refusal(f"its site's robots.txt cannot be read: {refusal.reason}")
                self._rules[origin] = refusal
        rules = self._rules[origin]
        if isinstance(rules, Refusal):
            raise rules
        return rules

    def _read(self, url: str) -> Protego:
        with self._client.get(url, before=lambda _: None) as answer:
            if answer.status >= 500 or answer.status == _TOO_MANY_REQUESTS:
                raise Refusal(f"the server answers with status {answer.status}")
            text = bytearray()
            if answer.status == 200:
                for piece in pieces(answer, self._options.max_bytes):
                    text += piece
                    if len(text) > MAX_BYTES:
                        break
        # A line that is cut off could forbid or allow more than the whole one says.
        lines = text[:MAX_BYTES].rpartition(b"\n")[0] if len(text) > MAX_BYTES else text
        return Protego.parse(lines.decode("utf-8-sig", "replace"))
