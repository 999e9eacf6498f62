"""Streaming queries that take turns: each stands still at the end of a batch until it is its turn again."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

Then = Callable[[int], None]  # called with a batch's number at its end
# starts a query that calls what it is given at the end of every batch, and returns the query
Begin = Callable[[Then], Any]


class Lane:
    """Runs a query batch by batch and measures each; while one lane runs, the others hold no core.

    What follows a batch, the commits of Spark and unskew, falls into the time of the next one: the sum over all
    batches lacks nothing but the last commit. The first batch's time includes the start of the query.
    """

    def __init__(self, begin: Begin) -> None:  # starts the query, given what to call at the end of every batch
        self._begin = begin
        self.query: Any = None
        self._turn = threading.Semaphore(0)
        self._ended: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._began = 0.0
        self._stopping = False
        self.seconds: dict[int, float] = {}  # by batch, from the start of its turn to the end of its sink

    def run_batch(self) -> bool:
        """Run the next batch; return False if there is none left."""
        self._began = time.perf_counter()
        if self.query is None:
            self.query = self._begin(self._stand_still)
        else:
            self._turn.release()
        while True:
            try:
                self._ended.get(timeout=0.2)
            except queue.Empty:
                if not self.query.isActive and self._ended.empty():
                    return False
            else:
                return True

    def finish(self) -> Any:
        """Return the query after its end; raises what it failed with."""
        self.query.awaitTermination()
        return self.query

    def stop(self) -> None:
        self._stopping = True
        self._turn.release()
        if self.query is not None:
            self.query.stop()

    def after(self, skipped: int) -> list[float]:
        return [self.seconds[batch] for batch in sorted(self.seconds)][skipped:]

    def _stand_still(self, batch_id: int) -> None:
        self.seconds[batch_id] = time.perf_counter() - self._began
        self._ended.put(batch_id)
        self._turn.acquire()
        if self._stopping:
            raise InterruptedError


def by_turns(contenders: Mapping[str, Begin]) -> dict[str, Lane]:
    """Let contenders run a batch each in turn until all have run all, and return their lanes.

    Every second turn goes backwards, so that nobody always follows the same neighbour. If one fails, all are stopped
    and its error is raised.
    """
    lanes = {name: Lane(begin) for name, begin in contenders.items()}
    try:
        racing = list(lanes.values())
        while racing:
            ended = [lane for lane in racing if not lane.run_batch()]
            for lane in ended:
                lane.finish()
            racing = [lane for lane in reversed(racing) if lane not in ended]
        return lanes
    finally:
        for lane in lanes.values():
            lane.stop()
