"""What fetching is told: limits and manners.

In: numbers from the settings (`RAG_WEB__…`). Out: a frozen value. Must not: be read from anywhere.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebOptions:
    """`timeout_s` is for one whole fetch, its redirects and its robots.txt included; `max_bytes` for one document, as sent
    and as unpacked. `allow_private` lets in this machine and private networks, when the person who runs it owns them."""

    user_agent: str = "rag-ingest"
    max_bytes: int = 50_000_000
    timeout_s: float = 60.0
    connect_timeout_s: float = 10.0
    max_redirects: int = 5
    max_pages: int = 1000
    delay_s: float = 0.5
    respect_robots: bool = True
    allow_private: bool = False
