"""Batches without rows: a source that has none, and says that there is something new when such a batch is due.

A query with `foreachBatch` has no stateful operator that Spark knows of, so Spark would run it only when rows come.
The tick asks for a batch by the rules that Spark has for its own stateful operators.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol, cast

from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructField, StructType

from unskew.errors import ArgumentError, CheckpointError
from unskew.spark.offsets import (
    TICK_KEY,
    FileReader,
    LocalFiles,
    last_committed,
    next_watermark_ms,
    watermark_ms,
)
from unskew.spark.served import DRIVER, ServedFiles

NAME = "unskew_tick"
TICK_FILE = "tick"
NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
NAMED_SOURCES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"

# Spark asks a hundred times a second while a stream is idle. No batch ends within so little time on a remote
# filesystem, where every look costs a request.
TOO_SOON_SECONDS = 0.03
LOOK_AGAIN_SECONDS = 1.0

Mode = Literal["event", "processing"]


def with_tick(events: DataFrame, place: str, checkpoint: str, mode: Mode) -> DataFrame:
    """Add the tick to a stream: the same columns, the same rows, and batches without rows when they are due.

    Watermarks are as before. Where ``spark.sql.streaming.noDataMicroBatches.enabled`` is false no batch is ever due,
    as natively.

    Parameters
    ----------
    events
        The stream.
    place
        The folder of unskew's own files in the checkpoint. A file ``tick`` in it says when a batch is due by the clock:
        ``{"batch_id": 7, "deadline_ms": 1700000000000}``, or null for no deadline. It is replaced at the end of every
        batch; one of any batch but the last says nothing.
    checkpoint
        The query's checkpoint, as the driver finds it. Without a scheme it is a folder of the driver's machine. Where
        only the driver reaches either place, what `unskew.spark.served` returns.
    mode
        ``"event"``: a batch is due when the last one has raised the watermark. ``"processing"``: when the deadline is
        before the clock.
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
    options = {"place": place, "checkpoint": checkpoint, "mode": mode, "enabled": spark.conf.get(NO_DATA_BATCHES)}
    return events.union(reader.options(**options).load())


class Tick(DataSource):
    """The source, as Spark knows it."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """Refuse: only the stream that the tick is for knows the columns."""
        raise ArgumentError("the tick has the columns of the stream it is for", hint="call with_tick")

    def streamReader(self, schema: StructType) -> TickReader:  # noqa: N802
        checkpoint, place = files_at(self.options["checkpoint"]), files_at(self.options["place"])
        rule = RULES[self.options["mode"]](checkpoint, place) if self.options["enabled"] == "true" else Never()
        return TickReader(checkpoint, rule)


class TickReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Counts up by one whenever a batch is due. Lives in a Python process beside the driver, one for each start.

    Parameters
    ----------
    checkpoint
        Spark's files.
    rule
        Says when a batch is due.
    clock
        Seconds since 1970.
    """

    def __init__(self, checkpoint: FileReader, rule: Rule, clock: Callable[[], float] = time.time) -> None:
        self.checkpoint, self.rule, self.clock = checkpoint, rule, clock
        self.patient = not isinstance(checkpoint, LocalFiles)
        self.batch = last_committed(checkpoint)
        self.deadline_ms = rule.deadline_ms(self.batch, False) if self.batch >= 0 else None
        self.asked = self.looked = float("-inf")
        self.until = float("inf")

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {TICK_KEY: 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let time stand still: deadlines from now on are for the next run, so that this one ends."""
        self.until = self.clock()
        self.patient = False

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the next offset if a batch is due, else the one that Spark has."""
        return {TICK_KEY: start[TICK_KEY] + self.due()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return no partition, so that no task is run."""
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return iter(())

    def commit(self, end: dict[str, int]) -> None:
        """Forget nothing: Spark's own files say what is committed."""

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
            self.deadline_ms = self.rule.deadline_ms(self.batch, True)


class Rule(Protocol):
    """Says when a batch without rows is due."""

    def deadline_ms(self, batch: int, ran: bool) -> float | None:
        """Return the time, in milliseconds since 1970, after which one is due; None for never.

        Parameters
        ----------
        batch
            The last batch that was committed.
        ran
            Whether it was committed since the query has started.
        """
        ...


class EventRule:
    """A batch is due at once when the last one has raised the watermark, if it ran since the start.

    A query that starts again and finds nothing to repeat waits for rows, as Spark's own operators do: a row that is
    late by the raised watermark, but not by the one before, would otherwise be dropped here and counted there.
    """

    def __init__(self, checkpoint: FileReader, place: FileReader) -> None:
        self.checkpoint = checkpoint

    def deadline_ms(self, batch: int, ran: bool) -> float | None:
        """Return a time long past if the watermark was raised."""
        raised = ran and next_watermark_ms(self.checkpoint, batch) > watermark_ms(self.checkpoint, batch)
        return float("-inf") if raised else None


class ProcessingRule:
    """A batch is due at the time that the last batch has left in the file ``tick``."""

    def __init__(self, checkpoint: FileReader, place: FileReader) -> None:
        self.place = place

    def deadline_ms(self, batch: int, ran: bool) -> float | None:
        """Return what the file says, if it is of this batch."""
        data = self.place.read_or_none(TICK_FILE)
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


class Never:
    """No batch without rows is ever due."""

    def deadline_ms(self, batch: int, ran: bool) -> float | None:
        return None


RULES: dict[str, Callable[[FileReader, FileReader], Rule]] = {"event": EventRule, "processing": ProcessingRule}


def files_at(place: str) -> FileReader:
    """Return the files of a folder; those of this machine without any import that takes time."""
    if place.startswith(DRIVER):
        return ServedFiles(place)
    if "://" not in place or place.startswith("file:"):
        return LocalFiles(place)
    return cast(FileReader, importlib.import_module("unskew.state.files").Files(place))
