"""Batches without rows: a source that has none, but says that something is new when such a batch is due.

Spark runs a query with `foreachBatch` only when rows come, as it sees no stateful operator in it. The tick asks for a
batch by the rules that Spark has for its own stateful operators.
"""

from __future__ import annotations

import importlib
import json
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, cast

from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructField, StructType

from unskew.errors import ArgumentError, CheckpointError
from unskew.spark.offsets import (
    TICK_KEY,
    FileReader,
    LocalFiles,
    last_committed,
    next_watermark_ms,
    tick_offset,
    watermark_ms,
)
from unskew.spark.served import DRIVER, ServedFiles
from unskew.versions.sources import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow, stream_reader

NAME = "unskew_tick"
TICK_FILE = "tick"
NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
NAMED_SOURCES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"

# Spark asks a hundred times a second while a stream is idle. No batch ends that soon on a remote filesystem, where
# every look costs a request.
TOO_SOON_SECONDS = 0.03
LOOK_AGAIN_SECONDS = 1.0

OPTIONS = ("place", "checkpoint", "mode", "until", "again", "enabled")

Mode = Literal["event", "processing"]
Rule = Callable[[int, bool], float | None]
# (last committed batch, whether it ran since the start) -> when a batch is due, in ms since 1970; None for never


def with_tick(
    events: DataFrame, place: str, checkpoint: str, mode: Mode, until: float = math.inf, again: bool = False
) -> DataFrame:
    """Add the tick to a stream: the same columns, rows and watermarks, and batches without rows when they are due.

    In mode ``"event"`` a batch is due when the last one has raised the watermark. In mode ``"processing"`` it is due
    after the deadline in the file ``tick`` in `place`, the folder of unskew's own files in the checkpoint:
    ``{"batch_id": 7, "deadline_ms": 1700000000000}``, or null for no deadline. Every batch replaces the file at its
    end, and a file of any batch but the last says nothing. Where only the driver reaches `place` and `checkpoint`,
    they are what `unskew.spark.served` returns. As in Spark, no batch is due if
    ``spark.sql.streaming.noDataMicroBatches.enabled`` is false. Time stands still after `until`, in seconds since 1970.
    With `again` the last batch counts as one that ran since the start: see `unskew.spark.until_quiet`.
    """
    if not events.isStreaming:
        raise ArgumentError("a tick is for streams, these rows are static", where="events")
    if mode not in RULES:
        raise ArgumentError("there is no such mode", where="mode", got=mode, hint=f"one of {', '.join(RULES)}")
    spark = events.sparkSession
    spark.dataSource.register(Tick)
    # names of its own, since those of the user may occur twice; a union takes them from the first
    fields = [StructField(f"c{i}", field.dataType, field.nullable) for i, field in enumerate(events.schema)]
    reader = spark.readStream.format(NAME).schema(StructType(fields))
    if spark.conf.get(NAMED_SOURCES, None) == "true":
        reader = reader.name(NAME)
    values = (place, checkpoint, mode, str(until), str(again), spark.conf.get(NO_DATA_BATCHES))
    return events.union(reader.options(**dict(zip(OPTIONS, values, strict=True))).load())


class Tick(DataSource):
    """The source behind `with_tick`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        raise ArgumentError("the tick has the columns of the stream it is for", hint="call with_tick")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        reader = tick_reader(*(self.options[name] for name in OPTIONS))
        return stream_reader(reader, reader.last_offset)


def tick_reader(place: str, checkpoint: str, mode: str, until: str, again: str, enabled: str) -> TickReader:
    """Return the reader of a tick with these options; see `with_tick`."""
    files = files_at(checkpoint)
    rule = partial(RULES[mode], files, files_at(place)) if enabled == "true" else never
    return TickReader(files, rule, until=float(until), again=again == "True")


class TickReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Counts up by one whenever a batch is due. Lives in a Python process beside the driver, one for each start."""

    def __init__(
        self,
        checkpoint: FileReader,
        rule: Rule,
        clock: Callable[[], float] = time.time,
        until: float = math.inf,
        again: bool = False,
    ) -> None:
        self.checkpoint, self.rule, self.clock = checkpoint, rule, clock
        self.patient = not isinstance(checkpoint, LocalFiles)
        self.batch = last_committed(checkpoint)
        self.deadline_ms = rule(self.batch, again) if self.batch >= 0 else None
        self.asked = self.looked = float("-inf")
        self.until = until

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {TICK_KEY: 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let time stand still: deadlines from now on are for the next run, so that this one ends."""
        self.until = self.clock()
        self.patient = False

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {TICK_KEY: start[TICK_KEY] + self.due()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return []  # so no task runs

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return iter(())

    def last_offset(self) -> dict[str, int]:
        """Return the offset of the last batch that Spark has written down, committed or not."""
        self._follow()
        planned = self.checkpoint.read_or_none(f"offsets/{self.batch + 1}") is not None
        return tick_offset(self.checkpoint, self.batch + planned)

    def due(self) -> bool:
        """Tell whether a batch is due, now that the last one is committed."""
        self._follow()
        now_ms = min(self.clock(), self.until) * 1000
        if self.deadline_ms is None or self.deadline_ms >= now_ms:
            return False
        return self.checkpoint.read_or_none(f"offsets/{self.batch + 1}") is None  # else it is on its way

    def _follow(self) -> None:
        """Learn what has been committed since. Nothing else can change what is due."""
        now = self.clock()
        too_soon = now - self.asked < TOO_SOON_SECONDS and now - self.looked < LOOK_AGAIN_SECONDS
        self.asked = now
        if self.patient and too_soon:
            return
        self.looked = now
        before = self.batch
        while self.checkpoint.read_or_none(f"commits/{self.batch + 1}") is not None:
            self.batch += 1
        if self.batch > before:
            self.deadline_ms = self.rule(self.batch, True)


def event_deadline(checkpoint: FileReader, place: FileReader, batch: int, ran: bool) -> float | None:
    """Return a time long past if a batch that ran since the start has raised the watermark.

    A query that starts again and finds nothing to repeat waits for rows, as Spark's own operators do. Otherwise, a row
    that is late by the raised watermark, but not by the one before, would be dropped here and counted there.
    """
    raised = ran and next_watermark_ms(checkpoint, batch) > watermark_ms(checkpoint, batch)
    return float("-inf") if raised else None


def processing_deadline(checkpoint: FileReader, place: FileReader, batch: int, ran: bool) -> float | None:
    """Return the deadline that the last batch has left in the file ``tick``."""
    data = place.read_or_none(TICK_FILE)
    if data is None:
        return None
    try:
        tick = json.loads(data)
        of_batch, deadline = tick["batch_id"], tick["deadline_ms"]
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError("the file is not what unskew writes", where=TICK_FILE, got=data[:80]) from error
    if not isinstance(deadline, int | float | None):
        raise CheckpointError("a deadline is a number or null", where=TICK_FILE, got=deadline)
    return deadline if of_batch == batch else None


def never(batch: int, ran: bool) -> float | None:
    """Return no deadline, where the user has turned batches without rows off."""
    return None


RULES = {"event": event_deadline, "processing": processing_deadline}


def files_at(place: str) -> FileReader:
    """Return the files of a folder; files of this machine need no import that takes time."""
    if place.startswith(DRIVER):
        return ServedFiles(place)
    if "://" not in place or place.startswith("file:"):
        return LocalFiles(place)
    return cast(FileReader, importlib.import_module("unskew.state.files").Files(place))
