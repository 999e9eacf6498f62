"""Workloads as a source of Spark: ``spark.readStream.format("unskew")``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError
from unskew.versions import require_spark
from unskew.versions.arrow import from_arrow_schema
from unskew.versions.sources import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from unskew.workloads.base import Workload
from unskew.workloads.options import whole_number, workload
from unskew.workloads.span import Span

MOST_ROWS_PER_ARROW_BATCH = 100_000
OPTIONS = {name.lower(): name for name in ("workload", "rowsPerBatch", "batches", "partitions", "firstInterval")}


def register(spark: SparkSession) -> None:
    """Make ``format("unskew")`` known to a session.

    Options of the source: ``workload`` (a name, default ``zipf``), ``rowsPerBatch`` (50,000), ``batches`` (by default
    a stream is endless, and a batch read has one), ``partitions`` (2) and ``firstInterval`` (0). All others are the
    workload's own: ``exponent``, ``keys``, ``seed`` ...

    Examples
    --------
    ::

        register(spark)
        events = spark.readStream.format("unskew").option("workload", "zipf").option("keys", 100_000).load()
    """
    spark.dataSource.register(WorkloadSource)


@dataclass(frozen=True)
class Reading:
    """Reads the intervals of a workload from `first` up to `last`, each cut into partitions."""

    workload: Workload
    rows_per_batch: int
    first: int
    last: int | None  # None if the stream is endless
    partitions: int

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Reading:
        """Read the options of the source, and hand all others to the workload."""
        rest = {name.lower(): value for name, value in options.items() if name.lower() != "path"}
        name = rest.pop("workload", "zipf")
        rows = _whole_number(rest.pop("rowsperbatch", "50000"), "rowsPerBatch", least=1)
        first = _whole_number(rest.pop("firstinterval", "0"), "firstInterval", least=0)
        batches = rest.pop("batches", None)
        last = None if batches is None else first + _whole_number(batches, "batches", least=0)
        partitions = _whole_number(rest.pop("partitions", "2"), "partitions", least=1)
        for option in rest:
            near = difflib.get_close_matches(option, OPTIONS, n=1, cutoff=0.8)
            if near:
                hint = f"did you mean {OPTIONS[near[0]]!r}"
                raise ArgumentError(f"there is no option {option!r}", where="the source 'unskew'", hint=hint)
        return cls(workload(name, **rest), rows, first, last, partitions)

    def slices(self, start: int, stop: int) -> list[Slice]:
        return [Slice(interval, part) for interval in range(start, stop) for part in range(self.partitions)]

    def batches(self, piece: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a slice in pieces of bounded size."""
        assert isinstance(piece, Slice)
        span = Span.partition(piece.interval, self.rows_per_batch, piece.partition, self.partitions)
        for part in span.chunks(MOST_ROWS_PER_ARROW_BATCH):
            yield self.workload.batch(part)


@dataclass(frozen=True)
class Slice(InputPartition):
    """One partition of one interval: what one task reads."""

    interval: int
    partition: int


class WorkloadSource(DataSource):
    """The source, for batches and streams. An offset is an interval's number, so a replay gives the same rows."""

    @classmethod
    def name(cls) -> str:
        return "unskew"

    def schema(self) -> StructType:
        return from_arrow_schema(Reading.from_options(self.options).workload.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return WorkloadReader(Reading.from_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        require_spark((4, 2), "a stream of a workload", hint="write its intervals to files, and read those")
        return WorkloadStreamReader(Reading.from_options(self.options))


@dataclass
class WorkloadReader(DataSourceReader):
    """Reads all batches, or the first one if there is no end."""

    reading: Reading

    def partitions(self) -> list[InputPartition]:
        last = self.reading.first + 1 if self.reading.last is None else self.reading.last
        return list(self.reading.slices(self.reading.first, last))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reading.batches(partition)


@dataclass
class WorkloadStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one interval per trigger, until `batches` of them are read."""

    reading: Reading

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"interval": self.reading.first}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.reading.rows_per_batch)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the interval after `start`, or the last one if Spark wants everything and the stream ends."""
        at, last = int(start["interval"]), self.reading.last
        if last is None:
            return {"interval": at + 1}
        return {"interval": max(at, last if isinstance(limit, ReadAllAvailable) else min(at + 1, last))}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        if self.reading.last is None:
            hint = 'set .option("batches", ...) or another trigger'
            raise ArgumentError("the trigger availableNow needs a workload that ends", hint=hint)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return list(self.reading.slices(int(start["interval"]), int(end["interval"])))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reading.batches(partition)


def _whole_number(text: str, option: str, least: int) -> int:
    where = f"option {option!r} of the source 'unskew'"
    number = whole_number(text, where)
    if number < least:
        raise ArgumentError(f"expected {least} or more", where=where, got=number)
    return number
