"""How the command line ends: exit codes, and the one place that turns errors into a line on standard error.

In: errors. Out: exit codes: 0 all good (skips included), 1 some file failed, 2 wrong usage or settings, 3 the index is not
usable, 130 interrupted. Must not: hide an error that nobody foresaw.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rag_service.errors import EmbeddingsUnavailable, IndexUnusable, InvalidSettings, LocalServerFailed

FAILED, USAGE, UNUSABLE, INTERRUPTED = 1, 2, 3, 130


@contextmanager
def exit_codes() -> Iterator[None]:
    try:
        yield
    except InvalidSettings as error:
        warn(error.message)
        raise SystemExit(USAGE) from error
    except (IndexUnusable, EmbeddingsUnavailable, LocalServerFailed) as error:
        warn(error.message)
        raise SystemExit(UNUSABLE) from error
    except KeyboardInterrupt as error:
        raise interrupted() from error


def interrupted() -> SystemExit:
    say("Interrupted. What was indexed stays; the next run goes on from here.")
    return SystemExit(INTERRUPTED)


def warn(message: str) -> None:
    say(f"rag-ingest: {message}")


def say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201  the command line speaks to people
