"""A topic behind a gateway as a stream of Spark's, each key's messages in the gateway's order."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from unskew.errors import ArgumentError
from unskew.kafka.batches import order_batch
from unskew.kafka.messages import Mark, Record
from unskew.kafka.spark_kafka import Admin, client_settings, ensure_connector

OUTPUT_SCHEMA = "key binary, value binary, partition int, offset long, timestamp timestamp, sequence long"
STATE_SCHEMA = "machine binary"
_COLUMNS = ("key", "value", "partition", "offset", "timestamp", "marks")
_BETWEEN, _EQUALS = "\n", "="


def read_ordered(
    spark: SparkSession,
    topic: str,
    options: Mapping[str, str],
    *,
    groups: int = 8,
    hold_seconds: float | None = None,
    on_timeout: Literal["fail", "release"] = "fail",
) -> DataFrame:
    """Return a stream of a topic's messages in which those of each key come in the order in which the gateway had them.

    Rows of a key are in one partition of the result, in order, within a batch and from batch to batch. Messages of a
    key that has moved wait in the query's state until those of its old partition are through; markers, and numbered
    messages that the gateway wrote twice, are dropped. There is no control topic: each group of keys sees all
    partitions. State is in the query's checkpoint, so a query that is started again goes on where it was.

    Costs a shuffle by key, a Python loop over the messages, and a batch's rows of a group in memory. A shuffle behind
    it (another ``groupBy``) does not promise order by itself: work in ``foreachBatch`` or ``mapInArrow``, or sort by
    `sequence` where the gateway numbers all messages.

    Parameters
    ----------
    spark
        The session; it gets Spark's Kafka connector if it has none.
    topic
        What to read.
    options
        Spark's options for Kafka: ``kafka.bootstrap.servers``, security, ``startingOffsets`` (by default the earliest;
        from a later place on, or where the broker has deleted the first messages, what a key had left before it is not
        waited for), ``maxOffsetsPerTrigger``.
    groups
        Groups of keys that are put in order side by side. Fixed for the life of a checkpoint.
    hold_seconds, on_timeout
        How long a key may wait, looked at whenever its group has messages; see `OrderMachine`.

    Returns
    -------
    DataFrame
        With the columns of Spark's Kafka source, and `sequence`: the gateway's number of the message, if it has one.
        Only append mode is possible.

    Examples
    --------
    It takes a broker, so it is not run here::

        rows = unskew.kafka.read_ordered(spark, "clicks", {"kafka.bootstrap.servers": "127.0.0.1:9092"})
        query = rows.writeStream.foreachBatch(handle).option("checkpointLocation", "/checkpoints/readers").start()
    """
    settings = client_settings(options)
    if groups < 1:
        raise ArgumentError("there is at least one group", where="groups", got=groups)
    ensure_connector(spark)
    wanted = {"startingOffsets": "earliest", **options, "subscribe": topic, "includeHeaders": "true"}
    whole = wanted["startingOffsets"] == "earliest" and Admin(spark, settings).is_whole(topic)
    rows = spark.readStream.format("kafka").options(**wanted).load()
    ours = sql.filter("headers", lambda header: header["key"].startswith("sm."))
    words = sql.transform(
        ours, lambda header: sql.concat(header["key"], sql.lit(_EQUALS), header["value"].cast("string"))
    )
    marks = sql.when(sql.size(ours) > 0, sql.array_join(words, _BETWEEN))
    group = sql.pmod(sql.xxhash64("key"), sql.lit(groups)).cast("int")
    chosen = rows.select(group.alias("group"), *_COLUMNS[:-1], marks.alias("marks"))
    return chosen.groupBy("group").applyInPandasWithState(
        _Orders(whole, hold_seconds, on_timeout), OUTPUT_SCHEMA, STATE_SCHEMA, "append", GroupStateTimeout.NoTimeout
    )


class _Orders:
    """Puts a group's messages of a batch in order; runs in Spark's Python workers."""

    def __init__(self, whole: bool, hold_seconds: float | None, on_timeout: str) -> None:
        self._whole, self._machine = whole, {"hold_seconds": hold_seconds, "on_timeout": on_timeout}

    def __call__(self, key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        known = bytes(state.get[0]) if state.exists else None
        ordered = order_batch(known, _records(frames), time.time(), whole=self._whole, **self._machine)
        state.update((ordered.state,))
        for alarm in ordered.alarms:
            logging.getLogger(__name__).warning("%s of %r: %s", alarm.kind, alarm.key, alarm.text)
        yield _frame(ordered.records)


def _records(frames: Iterator[pd.DataFrame]) -> list[Record]:
    """Return a batch's rows as records, in the order of each partition."""
    rows = pd.concat(list(frames), ignore_index=True).sort_values(["partition", "offset"], kind="stable")
    milliseconds = rows["timestamp"].to_numpy("datetime64[ms]").astype(np.int64).tolist()
    columns = [rows[name].tolist() for name in ("partition", "offset", "key", "value", "marks")]
    return [
        Record(partition, offset, key, value, _headers(marks), at)
        for partition, offset, key, value, marks, at in zip(*columns, milliseconds, strict=True)
    ]


def _headers(marks: str | None) -> tuple[tuple[str, bytes], ...]:
    if not isinstance(marks, str):
        return ()
    pairs = (each.partition(_EQUALS) for each in marks.split(_BETWEEN))
    return tuple((name, value.encode()) for name, _, value in pairs)


def _frame(records: tuple[Record, ...]) -> pd.DataFrame:
    stamps = np.array([record.timestamp_ms for record in records], np.int64).astype("datetime64[ms]")
    numbers = [Mark.of(record.headers).sequence for record in records]
    return pd.DataFrame(
        {
            "key": [record.key for record in records],
            "value": [record.value for record in records],
            "partition": np.array([record.partition for record in records], np.int32),
            "offset": np.array([record.offset for record in records], np.int64),
            "timestamp": stamps,
            "sequence": pd.array(numbers, "Int64"),
        }
    )
