"""Ingest runs that are killed: the real command line in a forked process, so that its start is not paid for each time.

    python -m tests.crash.runs      one JSON list of arguments a line; prints the child's process id, then how it ended

In: arguments of `rag-ingest`, one list a line. Out: two lines for each. Must not: load the model before the fork (its threads
would not survive it); what is imported before is code alone.
"""

import json
import os
import sys

import sentence_transformers  # noqa: F401  seconds of imports that every child would repeat
import torch  # noqa: F401

from ingest.cli import app


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(json.loads(line))
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def run(arguments: list[str]) -> None:
    """The child: ends as the program does, its output in the file that the environment names."""
    os.setsid()
    log = os.open(os.environ["CRASH_RUNS_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code: object = 1
    try:
        app(arguments, standalone_mode=False)
        code = 0
    except SystemExit as error:
        code = error.code
    except BaseException as error:  # noqa: BLE001  typer's own exits carry their code
        code = getattr(error, "exit_code", 1)
    finally:
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    main()
