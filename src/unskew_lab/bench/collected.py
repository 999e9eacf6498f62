"""List and map state, as Spark users write it: every row is kept, and all rows of a key are added up."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import unskew
from unskew_lab.bench.count_and_sum import OUTPUT
from unskew_lab.bench.drop_in import NATIVE, OURS, native_over_ours, run_checked
from unskew_lab.bench.harness import Row as Measured
from unskew_lab.bench.streams import Sink, StartWithSink, discard, start, write_file

Kept = Literal["list", "map"]

TARGET = 5.0


def collected(spark: SparkSession, home: Path, kept: Kept, keys: int, entries: int, batches: int) -> list[Measured]:
    """Compare ``transformWithState`` of both on keys that come to `entries` entries each, over so many batches."""
    each = entries // batches
    for batch in range(batches):
        write_file(home / "files", batch, *_rows(batch, keys, each))
    contenders: dict[str, StartWithSink] = {NATIVE: partial(_native, kept), OURS: partial(_balanced, kept)}
    name = f"{kept} state, {each} of {entries:,} entries a key, {keys:,} keys"
    return native_over_ours(name, run_checked(spark, home, contenders, channels=2), skipped=1, target=TARGET)


class KeepInList(StatefulProcessor):
    """Appends every row to a list, then counts and adds up the list."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._kept = handle.getListState("kept", "value double")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        for row in rows:
            self._kept.appendValue((row.value,))
        values = [value for (value,) in self._kept.get()]
        yield Row(key=key[0], n=len(values), total=sum(values))


class KeepInMap(StatefulProcessor):
    """Puts every row into a map under its value, then counts and adds up the map."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._kept = handle.getMapState("kept", "value double", "value double")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        for row in rows:
            self._kept.updateValue((row.value,), (row.value,))
        values = [value for (value,) in self._kept.values()]
        yield Row(key=key[0], n=len(values), total=sum(values))


def _native(kept: Kept, events: DataFrame, checkpoint: str, sink: Sink = discard) -> Any:
    return start(_processed(events.groupBy("key"), kept), checkpoint, sink)


def _balanced(kept: Kept, events: DataFrame, checkpoint: str, sink: Sink = discard) -> Any:
    return start(_processed(unskew.balance(events, "key", channels=2), kept), checkpoint, sink)


def _processed(grouped: Any, kept: Kept) -> Any:
    processor = KeepInList() if kept == "list" else KeepInMap()
    return grouped.transformWithState(processor, OUTPUT, "update", "None")


def _rows(batch: int, keys: int, each: int) -> tuple[pa.Array, np.ndarray[Any, Any]]:
    """Return so many rows for each key, mixed; no value comes twice for a key."""
    order = np.random.default_rng(batch).permutation(keys * each)
    names = pa.array([f"k{number}" for number in order % keys])
    return names, (batch * each + order // keys).astype(float)
