"""Contenders on Spark, by turns: while one runs a batch, the others stand still."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import unskew
from unskew.operators import Operator
from unskew.spark.local_session import SHORT_RUN
from unskew_lab.bench.lane import Then, by_turns
from unskew_lab.bench.race.contenders import PKG, SPARKS_HASH, Contender
from unskew_lab.bench.race.delayed_count import DelayedCount
from unskew_lab.bench.race.delayed_join import DelayedJoin
from unskew_lab.bench.race.measures import Measured
from unskew_lab.bench.race.streams import CHANNELS, Stream, shifting
from unskew_lab.bench.streams import discard, temporary_folder, temporary_session

ATTEMPTS = 3
MOST_AT_ONCE = 8
SALTS = 10
WITHIN = "20 seconds"


@dataclass(frozen=True)
class Setup:
    """How a race is run."""

    channels: int = CHANNELS  # channels of every contender
    work_seconds: float = 3.0  # what a batch takes on perfectly even channels, but for the fixed cost of a batch
    short: bool = False  # whether the whole race takes a few minutes, so that compiling thoroughly does not pay
    resize_to: int | None = None  # another number of channels, asked for after the first measured batch

    def seconds_per_tuple(self, stream: Stream) -> float:
        return self.work_seconds * self.channels / stream.rows

    @property
    def threads(self) -> str:
        return f"local[{self.channels + 2},{ATTEMPTS}]"

    def spark(self) -> AbstractContextManager[SparkSession]:
        config = {"spark.sql.streaming.numRecentProgressUpdates": "1000", **(SHORT_RUN if self.short else {})}
        return temporary_session(self.threads, config)


class Runs:
    """Runs that have ended, one file each, so that a race goes on where it was broken off."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder

    def have(self, stream: Stream, contenders: Iterable[Contender], setup: Setup) -> bool:
        return all(self.get(stream, contender, setup) is not None for contender in contenders)

    def get(self, stream: Stream, contender: Contender, setup: Setup) -> Measured | None:
        path = self._path(stream, contender, setup)
        return Measured(**json.loads(path.read_text())["measured"]) if path and path.exists() else None

    def put(self, stream: Stream, contender: Contender, setup: Setup, measured: Measured) -> None:
        path = self._path(stream, contender, setup)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            entry = {"stream": stream.name, "contender": contender.name, "measured": asdict(measured)}
            path.write_text(json.dumps(entry, indent=1) + "\n")

    def _path(self, stream: Stream, contender: Contender, setup: Setup) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / f"{sha256(repr((stream, contender, setup)).encode()).hexdigest()[:16]}.json"


def race(
    spark: SparkSession | None, stream: Stream, contenders: Sequence[Contender], setup: Setup, runs: Runs
) -> dict[str, Measured]:
    """Run every contender over the same files; those that have run already are taken from `runs`, without Spark."""
    known = {each.name: runs.get(stream, each, setup) for each in contenders}
    missing = [each for each in contenders if known[each.name] is None]
    if missing:
        assert spark is not None, "only what has run already needs no session"
        with temporary_folder() as home:
            stream.write(home / "files")
            for first in range(0, len(missing), MOST_AT_ONCE):
                several = missing[first : first + MOST_AT_ONCE]
                for contender, measured in _by_turns(spark, home, stream, several, setup):
                    runs.put(stream, contender, setup, measured)
                    known[contender.name] = measured
    return {name: measured for name, measured in known.items() if measured is not None}


def _by_turns(
    spark: SparkSession, home: Path, stream: Stream, contenders: Sequence[Contender], setup: Setup
) -> list[tuple[Contender, Measured]]:
    lanes = by_turns(
        {
            each.name: partial(
                start, stream.read(spark, home / "files"), str(home / f"checkpoint-{each.name}"), stream, each, setup
            )
            for each in contenders
        }
    )
    return [
        (each, Measured.of(lanes[each.name].query, lanes[each.name].seconds, stream.warm_up)) for each in contenders
    ]


def warm_up(spark: SparkSession, setup: Setup) -> None:
    """Run a few batches that nobody measures, so that the first contender does not pay for Java's compiler."""
    stream = replace(shifting(1.0, epochs=1, hold=5), rows=20_000, warm_up=0)
    race(spark, stream, (SPARKS_HASH, PKG), replace(setup, work_seconds=0.0), Runs())


def start(events: DataFrame, checkpoint: str, stream: Stream, contender: Contender, setup: Setup, then: Then) -> Any:
    """Start one contender on all files there are; at the end of every batch, `then` is called."""
    key, sink = ["key"], discard
    if contender.salted:
        events = events.withColumn("salt", sql.pmod(sql.col("sequence"), sql.lit(SALTS)))
        key, sink = ["key", "salt"], _second_phase
    balanced = unskew.balance(events, key, channels=setup.channels, **contender.options)
    query: Any = None

    def sink_and_resize(rows: DataFrame, batch_id: int) -> None:
        sink(rows, batch_id)
        if setup.resize_to is not None and batch_id == stream.warm_up and query is not None:
            query.resize(setup.resize_to)
        then(batch_id)

    writer = balanced.apply(_operator(stream, contender, setup)).writeStream
    writer = writer.option("checkpointLocation", checkpoint).foreachBatch(sink_and_resize)
    query = writer.trigger(availableNow=True).start()
    return query


def _operator(stream: Stream, contender: Contender, setup: Setup) -> Operator:
    per_tuple = setup.seconds_per_tuple(stream)
    even = stream.rows / setup.channels if contender.even else None
    if stream.work == "join":
        return DelayedJoin(per_tuple, WITHIN, even)
    return DelayedCount(per_tuple, "worker" if contender.scheme else "owner", even)


def _second_phase(rows: DataFrame, batch_id: int) -> None:
    discard(rows.groupBy("key").agg(sql.sum("n").alias("n")), batch_id)
