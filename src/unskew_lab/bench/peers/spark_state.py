"""Spark's transformWithState, with one value per key; its other ways are those of ``unskew bench state``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from unskew_lab.bench.count_and_sum import OUTPUT, STATE
from unskew_lab.bench.streams import Sink, discard, start


class Sums(StatefulProcessor):
    """Count and sum in one value."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._sums = handle.getValueState("sums", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        n, total = self._sums.get() if self._sums.exists() else (0, 0.0)  # type: ignore[misc]
        for frame in rows:
            n += len(frame)
            total += float(frame["value"].sum())
        self._sums.update((n, total))
        yield pd.DataFrame({"key": [key[0]], "n": [n], "total": [total]})

    def close(self) -> None:
        """Close nothing."""


def transform_with_state(events: DataFrame, checkpoint: str, sink: Sink = discard) -> Any:
    """Start the query."""
    sums = events.groupBy("key").transformWithStateInPandas(Sums(), OUTPUT, "Update", "None")
    return start(sums, checkpoint, sink)
