"""A topic behind a gateway as a Spark stream, each key's messages in the gateway's order."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from unskew.errors import ArgumentError
from unskew.kafka.batches import order_batch
from unskew.kafka.messages import Record
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
    """Return a topic's messages as a stream in which each key's messages come in the gateway's order.

    Rows of a key are in one partition of the result, in order, within a batch and from batch to batch. Messages of a
    key that has moved wait in the query's state until those of its old partition have come. Markers, and numbered
    messages that the gateway wrote twice, are dropped. There is no control topic: each group of keys sees all
    partitions. The state is in the query's checkpoint, so a restarted query goes on where it was.

    Costs a shuffle by key, a Python loop over the messages, and a batch's rows of a group in memory. A later shuffle
    (another ``groupBy``) may lose the order: work in ``foreachBatch`` or ``mapInArrow``, or sort by `sequence` if the
    gateway numbers all messages.

    Parameters
    ----------
    spark
        The session; it gets Spark's Kafka connector if it has none.
    topic
        The topic to read.
    options
        Spark's options for Kafka: ``kafka.bootstrap.servers``, security, ``maxOffsetsPerTrigger``, ``startingOffsets``
        (by default the earliest). If you start later, or the broker has deleted the first messages, keys do not wait
        for what lies before.
    groups
        Groups of keys that are put in order side by side. Fixed for the life of a checkpoint.
    hold_seconds, on_timeout
        How long a key may wait, checked whenever its group has messages; see `OrderMachine`.

    Returns
    -------
    DataFrame
        With the columns of Spark's Kafka source, and `sequence`: the gateway's number of the message, if it has one.
        Only append mode is possible.

    Examples
    --------
    This takes a broker, so it does not run here::

        rows = unskew.kafka.read_ordered(spark, "clicks", {"kafka.bootstrap.servers": "127.0.0.1:9092"})
        query = rows.writeStream.foreachBatch(handle).option("checkpointLocation", "/checkpoints/readers").start()
    """
    settings = client_settings(options)
    if groups < 1:
        raise ArgumentError("groups must be at least 1", got=groups)
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
    order = partial(_order, whole=whole, hold_seconds=hold_seconds, on_timeout=on_timeout)
    return chosen.groupBy("group").applyInPandasWithState(
        order, OUTPUT_SCHEMA, STATE_SCHEMA, "append", GroupStateTimeout.NoTimeout
    )


def _order(key: Any, frames: Iterator[pd.DataFrame], state: GroupState, **how: Any) -> Iterator[pd.DataFrame]:
    """Put a group's messages of a batch in order; runs in Spark's Python workers."""
    known = bytes(state.get[0]) if state.exists else None
    ordered = order_batch(known, _records(frames), time.time(), **how)
    state.update((ordered.state,))
    for alarm in ordered.alarms:
        alarm.log()
    yield _frame(ordered.records)


def _records(frames: Iterator[pd.DataFrame]) -> list[Record]:
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
    return pd.DataFrame(
        {
            "key": [record.key for record in records],
            "value": [record.value for record in records],
            "partition": np.array([record.partition for record in records], np.int32),
            "offset": np.array([record.offset for record in records], np.int64),
            "timestamp": stamps,
            "sequence": pd.array([record.sequence for record in records], "Int64"),
        }
    )
