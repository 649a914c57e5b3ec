"""The scripted upstream as a model server with so many places and no more, as vLLM has its --max-num-seqs.

    python -m tests.benchmarks.batching_upstream          # prints the port it took

In and out: as scripted_upstream.py. Must not: refuse anybody. Whoever comes while all places are taken waits, however long,
in the order of coming, and is sent nothing until its answer begins; who leaves makes room at once, waiting or running.

A prompt costs nothing here: one that gets a place has its first token with the next step.
"""

import uvloop

from tests.benchmarks.scripted_upstream import Connection, Pace, serve

PLACES = 16


class BatchPace(Pace):
    """Feeds the streams that have a place, and gives the places out."""

    def __init__(self) -> None:
        self._waiting: dict[Connection, None] = {}  # the longest first
        super().__init__()

    def add(self, connection: Connection) -> None:
        if len(self._streams) < PLACES:
            super().add(connection)
        else:
            self._waiting[connection] = None

    def drop(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)
        super().drop(connection)
        self._fill()

    def stats(self) -> dict[str, float]:
        return {**super().stats(), "waiting": len(self._waiting)}

    def _step(self) -> None:
        super()._step()
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._streams) < PLACES:
            connection = next(iter(self._waiting))
            del self._waiting[connection]
            super().add(connection)


if __name__ == "__main__":
    uvloop.run(serve(BatchPace))
