"""One contender of a race: a query that stands still at the end of every batch until it is its turn again."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

Then = Callable[[int], None]
"""Called with a batch's number at its end."""


class Lane:
    """Runs a query batch by batch and measures each; while one lane runs, the others hold no core.

    What follows a batch, the commits of Spark and unskew, falls into the time of the next one: the sum over all
    batches lacks nothing but the last commit.

    Parameters
    ----------
    begin
        Starts the query, given something to call at the end of every batch.
    """

    def __init__(self, begin: Callable[[Then], Any]) -> None:
        self._begin = begin
        self._query: Any = None
        self._turn = threading.Semaphore(0)
        self._ended: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._began = 0.0
        self._stopping = False
        self.seconds: dict[int, float] = {}
        """What each batch took, by its number, from the begin of its turn to the end of its sink."""

    def run_batch(self) -> bool:
        """Run the next batch; return False if there is none left."""
        self._began = time.perf_counter()
        if self._query is None:
            self._query = self._begin(self._stand_still)
        else:
            self._turn.release()
        while True:
            try:
                self._ended.get(timeout=0.2)
            except queue.Empty:
                if not self._query.isActive and self._ended.empty():
                    return False
            else:
                return True

    def finish(self) -> Any:
        """Return the query after its end; raises what it failed with."""
        self._query.awaitTermination()
        return self._query

    def stop(self) -> None:
        """Stop the query wherever it is."""
        self._stopping = True
        self._turn.release()
        if self._query is not None:
            self._query.stop()

    def _stand_still(self, batch_id: int) -> None:
        self.seconds[batch_id] = time.perf_counter() - self._began
        self._ended.put(batch_id)
        self._turn.acquire()
        if self._stopping:
            raise InterruptedError
