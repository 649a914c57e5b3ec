"""Work that kills itself at a boundary of its own steps: one child for each order, and how that ended.

In: a program that calls `serve(run)`, and orders for it, one JSON object a line. Out: `killed NAME` for the boundary at which
the child sent itself SIGKILL, or `ended` with the JSON list of those it met. Must not: know what the work is.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Boundary = Callable[[str], None]
Order = dict[str, Any]


def watched(cls: type[Any], steps: Sequence[str], boundary: Boundary) -> type[Any]:
    """A subclass that calls `boundary` before and after each of `steps`."""

    def wrapped(step: str) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any) -> Any:
            boundary(f"before {step}")
            result = getattr(super(made, self), step)(*arguments)
            boundary(f"after {step}")
            return result

        return call

    made = type(f"Watched{cls.__name__}", (cls,), {step: wrapped(step) for step in steps})
    return made


def serve(work: Callable[[Order, Boundary], object]) -> None:
    """Fork a child for each order. It dies at the order's `die_at`, such as "before commit 2" for the second of them."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _follow(json.loads(line), work)
            os._exit(0)
        os.waitpid(child, 0)


def _follow(order: Order, work: Callable[[Order, Boundary], object]) -> None:
    met: Counter[str] = Counter()
    passed: list[str] = []
    out = sys.stdout.fileno()

    def boundary(name: str) -> None:
        met[name] += 1
        passed.append(f"{name} {met[name]}")
        if passed[-1] == order["die_at"]:
            os.write(out, f"killed {name}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    work(order, boundary)
    os.write(out, f"ended {json.dumps(passed)}\n".encode())


@contextmanager
def crashing(program: Path) -> Iterator[Callable[[Order], str]]:
    """Give it an order for that program; it returns how that ended."""
    process = subprocess.Popen(
        [sys.executable, str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(entry or "." for entry in sys.path)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def run(order: Order) -> str:
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()
        return stdout.readline().strip()

    with process:
        yield run
