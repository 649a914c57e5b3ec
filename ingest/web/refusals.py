"""Why something from the web is not taken.

In: a reason in plain words. Out: one exception. Must not: leave this package (fetching.py turns it into a value).
"""

from typing import Literal

Status = Literal["skipped", "failed"]


class Refusal(Exception):  # noqa: N818  a rule that says no is no error
    """`skipped`: by rule, another try changes nothing; `failed`: it should have worked. `gone`: the site says that there
    is no such document (any more). `cut_short`: a limit left out pages that a sitemap may list."""

    def __init__(self, reason: str, status: Status = "failed", *, gone: bool = False, cut_short: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status: Status = status
        self.gone = gone
        self.cut_short = cut_short
