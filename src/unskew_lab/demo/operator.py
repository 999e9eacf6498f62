"""The stateful count that both racers run; it is called in Spark's Python workers, once per key and batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from pyspark import TaskContext

OUTPUT = "key string, rows long, total long, partition int, seconds double"
STATE = "total long"


def costly_count(seconds_per_row: float) -> Callable[[Any, Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]:
    """Return a running count per key that takes `seconds_per_row`, and reports where and for how long it ran.

    Under Spark's hash the task's partition is the state partition. Under unskew it says nothing: a task may run several
    channels, and the routing table knows which one owns a key.
    """

    def count(key: tuple[str], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        start = time.perf_counter()
        rows = sum(len(frame) for frame in frames)
        total = rows + (state.get[0] if state.exists else 0)
        state.update((total,))
        time.sleep(rows * seconds_per_row)
        context = TaskContext.get()
        assert context is not None
        seconds = time.perf_counter() - start
        columns = {"key": key[0], "rows": rows, "total": total, "partition": context.partitionId(), "seconds": seconds}
        yield pd.DataFrame({name: [value] for name, value in columns.items()})

    return count
