"""A checkpoint with another number of state partitions, made while no query runs.

Spark fixes the number of state partitions when a checkpoint is begun. Here a new checkpoint is begun with as many as
are wanted, by a query of one batch that carries each channel's state over, chunk by chunk and unchanged, and then given
the place in the sources and the control log of the old one. The query that is started from it goes on with the next
batch, as if nothing had happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from unskew.errors import ArgumentError, CheckpointError
from unskew.spark.check import REQUIRED
from unskew.spark.checkpoint_files import CheckpointFiles
from unskew.spark.control_log import ControlLog
from unskew.spark.labels import channel_labels
from unskew.spark.store import SparkStore

CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
PARTITIONS = "spark.sql.shuffle.partitions"
CARRIED = "_carried"
CARRIED_SCHEMA = "label int, sequence long, data binary, timer_ms long, at timestamp"
TIME_MODES = {"NoTime": "None", "ProcessingTime": "ProcessingTime", "EventTime": "EventTime"}


@dataclass(frozen=True)
class Resized:
    """What was done: where the new checkpoint is, its state partitions, and the batch that it goes on after."""

    checkpoint: str
    max_channels: int
    max_channels_before: int
    channels: int
    batch_id: int
    state_bytes: int


def resize_checkpoint(spark: SparkSession, checkpoint: str, max_channels: int, target: str) -> Resized:
    """Make a new checkpoint at `target` from the one of a balanced query that does not run.

    The old one is only read. State is carried over unchanged, each channel's to the channel of the same number, so
    that routing table, moves on their way, watermark, source offsets and batch numbers stay as they are.
    Costs one read and one write of all state.
    """
    old, new = CheckpointFiles(spark, checkpoint), CheckpointFiles(spark, target)
    batch_id, before, channels = _check(spark, old, new, max_channels)
    planned = max(int(name) for name in old.names("offsets") if name.isdigit())
    offsets = old.read(f"offsets/{batch_id}")
    try:
        rows = _carried_rows(spark, old, batch_id, channel_labels(before), channel_labels(max_channels), channels)
        rows.write.parquet(f"{new.root}/{CARRIED}")
        carried = spark.read.schema(CARRIED_SCHEMA).parquet(f"{new.root}/{CARRIED}")
        state_bytes = carried.select(sql.sum(sql.length("data"))).first()
        _carry(spark, old, new, max_channels, offsets)
        new.delete(CARRIED)
        new.delete("sources")
        for name in ("sources", "metadata"):
            old.copy(name, new)
        _copy_control_log(spark, old, new, max_channels)
        _number_state(new, batch_id)
        _place_in_the_logs(old, new, batch_id, planned, max_channels)
    except BaseException:
        new.delete()
        raise
    size = int(state_bytes[0] or 0) if state_bytes else 0
    return Resized(new.root, max_channels, before, channels, batch_id, size)


def _check(spark: SparkSession, old: CheckpointFiles, new: CheckpointFiles, max_channels: int) -> tuple[int, int, int]:
    """Return the last batch that is committed, the state partitions, and the channels in use."""
    if not old.exists("unskew/query"):
        raise CheckpointError("this is not the checkpoint of a balanced query", where=old.root)
    if new.exists():
        raise ArgumentError("there is something already", where="the new checkpoint", got=new.root)
    log = ControlLog(spark, old.root)
    before = int(json.loads(log.read("query"))["max_channels"])
    planned, committed = log.last_batches()
    if committed < 0:
        raise CheckpointError(
            "no batch of this checkpoint is committed", where=old.root, hint="simply start with a new one"
        )
    decisions = [log.read_decision(batch) for batch in range(committed + 1, max(planned, committed + 1) + 1)]
    channels = max((decision.channels_called for decision in decisions if decision is not None), default=0)
    if not channels:
        raise CheckpointError(f"the control log has no decision for batch {committed + 1}", where=old.root)
    if max_channels < channels:
        raise ArgumentError(
            f"{channels} channels are in use",
            where="max_channels",
            got=max_channels,
            hint=f"let the query shrink first: query.resize({max_channels})",
        )
    return committed, before, channels


def _carried_rows(
    spark: SparkSession,
    old: CheckpointFiles,
    batch_id: int,
    labels: tuple[int, ...],
    new_labels: tuple[int, ...],
    channels: int,
) -> DataFrame:
    """Return the state as rows: chunks, and timers, under the labels that their channels will have."""
    relabelled = sql.create_map(
        *(sql.lit(label) for pair in zip(labels[:channels], new_labels, strict=False) for label in pair)
    )
    state: dict[str, Any] = {"format": "statestore", "batchId": batch_id}
    chunks = spark.read.load(old.root, **state, stateVarName="chunks")
    nothing = sql.lit(None)
    rows = chunks.select(
        chunks["key.label"].alias("label"),
        chunks["user_map_key.sequence"].alias("sequence"),
        chunks["user_map_value.data"].alias("data"),
        nothing.cast("long").alias("timer_ms"),
    )
    if _time_mode(old) != "NoTime":
        timers = spark.read.load(old.root, **state, readRegisteredTimers=True)
        rows = rows.union(
            timers.select(
                timers["key.label"],
                nothing.cast("long"),
                nothing.cast("binary"),
                timers["expiration_timestamp_ms"].cast("long"),
            )
        )
    rows = rows.withColumn("label", relabelled[rows["label"]]).where("label is not null")
    return rows.withColumn("at", sql.lit(0).cast("timestamp"))


def _time_mode(old: CheckpointFiles) -> str:
    names = [name for name in old.names("state/0/_metadata/v2") if name.isdigit()]
    entry = json.loads(old.read(f"state/0/_metadata/v2/{max(names, key=int)}").split("\n", 1)[1])
    return str(json.loads(entry["operatorPropertiesJson"])["timeMode"])


class Carrier(StatefulProcessor):
    """Puts chunks and timers into the state store as they come."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Find the state of the group; called by Spark."""
        self._handle, self._store = handle, SparkStore(handle)

    def close(self) -> None:
        """Do nothing; called by Spark."""

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Put a channel's chunks and timers; called by Spark."""
        for frame in rows:
            for sequence, data, timer in zip(frame["sequence"], frame["data"], frame["timer_ms"], strict=True):
                if data is not None:
                    self._store.write_chunk(int(sequence), bytes(data))
                else:
                    self._handle.registerTimer(int(timer))
        return iter(())


def _carry(spark: SparkSession, old: CheckpointFiles, new: CheckpointFiles, partitions: int, offsets: str) -> None:
    """Run the query of one batch that begins the new checkpoint, under the settings that the old one was written by."""
    settings = {**_metadata(offsets)["conf"], **REQUIRED, PARTITIONS: str(partitions), CHANGELOGS: "false"}
    rows = spark.readStream.schema(CARRIED_SCHEMA).parquet(f"{new.root}/{CARRIED}")
    mode = _time_mode(old)
    if mode == "EventTime":
        rows = rows.withWatermark("at", "0 seconds")
    carried = rows.groupBy("label").transformWithStateInPandas(
        Carrier(), "kind string, channel int, payload binary", "Update", TIME_MODES[mode]
    )
    writer = carried.writeStream.outputMode("update").format("noop").trigger(once=True)
    with _settings(spark, settings):
        query = writer.option("checkpointLocation", new.root).start()
    query.awaitTermination()


@contextmanager
def _settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    session: Any = spark._jsparkSession
    chosen = session.sessionState().conf().settings()
    before = {name: spark.conf.get(name) if chosen.containsKey(name) else None for name in wanted}
    for name, value in wanted.items():
        _set(spark, name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            _set(spark, name, old)


def _set(spark: SparkSession, name: str, value: str | None) -> None:
    if value is None:
        spark.conf.unset(name)
    else:
        spark.conf.set(name, value)


def _metadata(offsets: str) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(offsets.splitlines()[1])
    return entry


def _copy_control_log(spark: SparkSession, old: CheckpointFiles, new: CheckpointFiles, max_channels: int) -> None:
    """Copy decisions and moved state; files that decisions name lie in the new checkpoint then."""
    source, target = ControlLog(spark, old.root), ControlLog(spark, new.root)
    for folder in ("moved", "decisions"):
        for name in old.names(f"unskew/{folder}"):
            if name[0].isdigit():
                data = source.read(f"{folder}/{name}")
                if folder == "decisions":
                    data = data.replace(source.root.encode(), target.root.encode())
                target.write(f"{folder}/{name}", data)
    identity = {**json.loads(source.read("query")), "max_channels": max_channels}
    target.write("query", json.dumps(identity, sort_keys=True).encode())


def _number_state(new: CheckpointFiles, batch_id: int) -> None:
    """Let the state that batch 0 has committed, version 1, be what the last batch has committed."""
    for partition in new.names("state/0"):
        if not partition.isdigit():
            continue
        for name in new.names(f"state/0/{partition}"):
            version, _, rest = name.partition("_")
            if version == "1" and rest.endswith(".zip") and batch_id > 0:
                new.rename(f"state/0/{partition}/{name}", f"state/0/{partition}/{batch_id + 1}_{rest}")


def _place_in_the_logs(
    old: CheckpointFiles, new: CheckpointFiles, batch_id: int, planned: int, max_channels: int
) -> None:
    """Write what Spark knows of the last batch, of the one before, and of one that was planned and not committed."""
    version, text = new.read("commits/0").split("\n", 1)
    ids = json.loads(text)["stateUniqueIds"]
    commit = {**json.loads(old.read(f"commits/{batch_id}").split("\n", 1)[1]), "stateUniqueIds": ids}
    new.write(f"commits/{batch_id}", f"{version}\n{json.dumps(commit)}")
    kept = range(max(0, batch_id - 1), planned + 1)  # Spark wants to see two in a row
    for batch in kept:
        lines = old.read(f"offsets/{batch}").splitlines()
        metadata = json.loads(lines[1])
        metadata["conf"][PARTITIONS] = str(max_channels)
        new.write(f"offsets/{batch}", "\n".join([lines[0], json.dumps(metadata), *lines[2:]]))
    if 0 not in kept:
        new.delete("offsets/0")
    if batch_id > 0:
        new.delete("commits/0")
