"""The streams of the race: a workload, cut into batches, with calm stretches between its changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from unskew.testing import write_batches
from unskew.versions.arrow import from_arrow_schema
from unskew.workloads import Workload
from unskew.workloads.fluctuation import Fluctuation
from unskew.workloads.key_shift import KeyShift
from unskew.workloads.zipf import Zipf

CHANNELS = 10
KEYS = 100_000
# places by which keys shift. Under a hash, the fullest of ten channels then has 1.70 times the mean at Zipf 1.0: the
# median of all shifts, of which one in ten gives less than 1.54 and one in ten more than 2.03.
SHIFT = 17_121
COLUMNS = ["key", "event_time", "sequence"]
Work = Literal["count", "join"]


@dataclass(frozen=True)
class Stream:
    """A workload whose intervals last several batches.

    The first batches are interval 0 and warm up: Python starts, state appears, tables fill. They count for nothing.
    Then come `epochs` intervals of `hold` batches; at the first batch of each, the workload has changed.

    >>> stream = Stream("Zipf", Zipf(), rows=100, epochs=2, hold=5, warm_up=3)
    >>> stream.batches, [stream.interval(batch) for batch in (0, 2, 3, 7, 8)], stream.changes
    (13, [0, 0, 1, 1, 2], (0, 5))
    """

    name: str  # what it is called in results
    workload: Workload  # where rows come from
    rows: int = 200_000  # rows of a batch
    # epochs, hold: intervals that are measured, and batches of each
    epochs: int = 2
    hold: int = 10
    warm_up: int = 6  # batches before that
    work: Work = "count"  # what is done with the rows

    @property
    def batches(self) -> int:
        return self.warm_up + self.epochs * self.hold

    @property
    def changes(self) -> tuple[int, ...]:
        """Measured batches, from 0, that are the first after a change."""
        return tuple(range(0, self.epochs * self.hold, self.hold))

    def interval(self, batch: int) -> int:
        return 0 if batch < self.warm_up else 1 + (batch - self.warm_up) // self.hold

    def batch(self, number: int) -> pa.RecordBatch:
        parts, part = self.warm_up, number
        if number >= self.warm_up:
            parts, part = self.hold, (number - self.warm_up) % self.hold
        return self.workload.rows(self.interval(number), self.rows * parts, part, parts).select(COLUMNS)

    def write(self, folder: Path) -> None:
        write_batches(folder, (pa.Table.from_batches([self.batch(number)]) for number in range(self.batches)))

    def read(self, spark: SparkSession, folder: Path) -> DataFrame:
        fields = pa.schema([self.workload.schema.field(name) for name in COLUMNS])
        files = spark.readStream.schema(from_arrow_schema(fields)).option("maxFilesPerTrigger", 1).parquet(str(folder))
        return files.withWatermark("event_time", "1 second") if self.work == "join" else files


def shifting(exponent: float, *, epochs: int, hold: int) -> Stream:
    """Return Zipf's law over 10^5 keys of which all others become hot at every change."""
    law = Zipf(exponent=exponent, key_count=KEYS)
    shift = KeyShift(base=law, shift=SHIFT, every_seconds=law.interval_seconds)
    return Stream(f"Zipf {exponent}", shift, epochs=epochs, hold=hold)


def fluctuating(rate: float, *, epochs: int, hold: int) -> Stream:
    """Return Fang's stream: Zipf 0.85 keys that trade frequencies until a channel's load has changed by `rate`."""
    law = Fluctuation(base=Zipf(exponent=0.85, key_count=KEYS), rate=rate, channels=CHANNELS)
    return Stream(f"fluctuation {rate}", law, epochs=epochs, hold=hold)
