"""``unskew.state_of``: what a query of Spark alone knows about its keys, as a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from unskew.errors import CheckpointError
from unskew.operators.base import beside_key
from unskew.operators.native_buffers import BUFFERS
from unskew.operators.presum import quoted
from unskew.spark.check import check_session
from unskew.spark.initial_state import Watermarks, with_watermarks
from unskew.spark.offsets import last_committed, next_watermark_ms, setting, watermark_ms
from unskew.spark.per_key.calls import STATE, TIMEOUT
from unskew.spark.per_key.state_variables import TIMERS, expiry_column

OWN_EPOCHS = "unskew/epochs"
INTERNAL = "$"  # begins the names of state that is not the user's


def state_of(spark: SparkSession, checkpoint: str, *, operator_id: int = 0) -> DataFrame:
    """Return the state that a query of Spark alone has left in its checkpoint.

    The query must have stopped. Its operator is one of ``applyInPandasWithState``, ``transformWithStateInPandas``,
    ``transformWithState`` and ``groupBy(...).agg(...)``, with a window, a session window or none. The rows are those
    after its last committed batch. They are what `Stage.continue_from` takes; each operator has columns of its own:

    - a per-key function: the key, the struct ``state`` and ``timeout_ms``, null where the key has no timeout;
    - a stateful processor: the key and a column for each state variable. A value is a struct, a list is an array of
      structs, and a map is an array of structs of ``key`` and ``value``. State with a time to live has a second column,
      such as ``recent_expires_ms``. ``timers_ms`` holds the key's timers;
    - aggregates: the key, the window if there is one, and the struct ``buffers``, Spark's own partial results.

    The watermark that the query had reached is kept in the metadata of the first column.

    Parameters
    ----------
    spark
        A session.
    checkpoint
        The native query's ``checkpointLocation``.
    operator_id
        Which of the query's stateful operators; 0 is the first one.
    """
    check_session(spark)
    files = _SparkFiles(spark, checkpoint.rstrip("/"))
    if files.names(OWN_EPOCHS):
        hint = "unskew.read_state reads it"
        raise CheckpointError("this is the checkpoint of a balanced query", where=checkpoint, hint=hint)
    last = last_committed(files)
    if last < 0:
        hint = "give the query's checkpointLocation"
        raise CheckpointError("no batch of a query is committed here", where=checkpoint, hint=hint)
    operators = {row["operatorId"]: row for row in spark.read.format("state-metadata").load(checkpoint).collect()}
    found = operators.get(operator_id)
    name = found["operatorName"] if found else None
    if found is None or name not in _FORMS:
        known = ", ".join(f"{number} is {row['operatorName']}" for number, row in sorted(operators.items()))
        raise CheckpointError(
            f"operator {operator_id} of this checkpoint keeps no state that unskew can read",
            where=checkpoint,
            got=name,
            hint=f"choose another operator_id: {known or 'there is none'}",
        )
    reader = _Reader(spark, checkpoint, operator_id, last, found["operatorProperties"], partial(setting, files, last))
    return with_watermarks(_FORMS[name](reader), Watermarks(watermark_ms(files, last), next_watermark_ms(files, last)))


@dataclass(frozen=True, eq=False)
class _Reader:
    """Reads the state of one operator as Spark shows it."""

    spark: SparkSession
    checkpoint: str
    operator_id: int
    batch_id: int
    properties: str | None
    setting: Callable[[str], str | None]  # as it was when the query ran

    def rows(self, **options: Any) -> DataFrame:
        options |= {"operatorId": self.operator_id, "batchId": self.batch_id}
        return self.spark.read.format("statestore").options(**options).load(self.checkpoint)


@dataclass(frozen=True, eq=False)
class _SparkFiles:
    """The small files of a checkpoint, wherever Spark reaches it; see `unskew.spark.offsets.FileReader`."""

    spark: SparkSession
    root: str

    def names(self, folder: str) -> list[str]:
        try:
            paths = self.spark.read.format("binaryFile").load(f"{self.root}/{folder}").select("path").collect()
        except Exception as error:
            if "PATH_NOT_FOUND" in str(error):
                return []
            raise
        return sorted(row["path"].rpartition("/")[2] for row in paths)

    def read_or_none(self, name: str) -> bytes | None:
        try:
            found = self.spark.read.format("binaryFile").load(f"{self.root}/{name}").select("content").first()
        except Exception as error:
            if "PATH_NOT_FOUND" in str(error):
                return None
            raise
        return None if found is None else bytes(found["content"])


def _function_state(reader: _Reader) -> DataFrame:
    rows = reader.rows()
    value, key = rows.schema["value"].dataType, rows.schema["key"].dataType
    assert isinstance(value, StructType) and isinstance(key, StructType)
    timeout, state = F.lit(None).cast("long"), F.col("value.groupState")
    if "timeoutTimestamp" in value.names:
        timeout = F.nullif(F.col("value.timeoutTimestamp"), F.lit(-1))
    if reader.setting(_FUNCTION_FORMAT) == "1":  # fields side by side, all null where there is no state
        fields = [name for name in value.names if name != "timeoutTimestamp"]
        each = [F.col(f"value.{quoted(name)}") for name in fields]
        state = F.when(reduce(Column.__or__, (field.isNotNull() for field in each)), F.struct(*each))
    named = [state.alias(beside_key(STATE, key.names)), timeout.alias(beside_key(TIMEOUT, key.names))]
    return rows.select("key.*", *named)


def _processor_state(reader: _Reader) -> DataFrame:
    """Return one row per key. Spark shows each variable on its own; here a key's rows are put together."""
    described = json.loads(reader.properties or "{}")
    parts: list[tuple[DataFrame, dict[str, Column]]] = []
    for variable in described["stateVariables"]:
        name, kind, expires = variable["stateName"], variable["stateVariableType"], variable["ttlEnabled"]
        if not name.startswith(INTERNAL):
            rows = reader.rows(stateVarName=name, flattenCollectionTypes=False)
            contents = _CONTENTS[kind](expires)
            parts.append((rows, dict(zip((name, expiry_column(name)), contents, strict=False))))
    if described["timeMode"] != "NoTime":
        rows = reader.rows(readRegisteredTimers=True)
        rows = rows.groupBy("key").agg(F.sort_array(F.collect_list("expiration_timestamp_ms")).alias(TIMERS))
        parts.append((rows, {TIMERS: F.col(TIMERS)}))
    if not parts:
        raise CheckpointError("this processor keeps no state", where=reader.checkpoint)
    key = parts[0][0].schema["key"].dataType
    assert isinstance(key, StructType)
    names = [name for _, columns in parts for name in columns]
    frames = [rows.select("key", *(each.alias(name) for name, each in columns.items())) for rows, columns in parts]
    together = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    firsts = [F.first(quoted(name), ignorenulls=True).alias(name) for name in names]
    one_each = together.groupBy("key").agg(*firsts)
    return one_each.select("key.*", *(F.col(quoted(name)).alias(beside_key(name, key.names)) for name in names))


def _value(expires: bool) -> list[Column]:
    return [F.col("value.value"), F.col("value.ttlExpirationMs")] if expires else [F.col("value")]


def _list(expires: bool) -> list[Column]:
    return [F.col("list_value.value"), F.col("list_value.ttlExpirationMs")] if expires else [F.col("list_value")]


def _map(expires: bool) -> list[Column]:
    entries = F.map_entries("map_value")
    if not expires:
        return [entries]

    def bare(entry: Column) -> Column:
        return F.struct(entry["key"].alias("key"), entry["value"]["value"].alias("value"))

    return [F.transform(entries, bare), entries["value"]["ttlExpirationMs"]]


def _aggregate_state(reader: _Reader) -> DataFrame:
    """Return the key and the buffers; in the first version of the form, the key stands before them, too."""
    rows = reader.rows()
    key, value = rows.schema["key"].dataType, rows.schema["value"].dataType
    assert isinstance(key, StructType) and isinstance(value, StructType)
    return rows.select("key.*", _buffers(value, len(key) if reader.setting(_AGGREGATE_FORMAT) == "1" else 0))


def _session_state(reader: _Reader) -> DataFrame:
    """Return key, session and buffers, which the value has side by side."""
    rows = reader.rows()
    value = rows.schema["value"].dataType
    assert isinstance(value, StructType)
    keys = len(rows.schema["key"].dataType)  # type: ignore[arg-type]  # with the start in place of the session
    groups = [F.col(f"value.{quoted(name)}") for name in value.names[:keys]]
    return rows.select(*groups, _buffers(value, keys))


def _buffers(value: StructType, skipped: int) -> Column:
    """Return the struct of buffers. Names may occur twice, so each gets its number, and unwanted fields are dropped."""
    fields = [StructField(f"{field.name}_{i - skipped}", field.dataType) for i, field in enumerate(value)]
    buffers = F.col("value").cast(StructType(fields))
    unwanted = [quoted(field.name) for field in fields[:skipped]]
    return (buffers.dropFields(*unwanted) if unwanted else buffers).alias(BUFFERS)


_AGGREGATE_FORMAT = "spark.sql.streaming.aggregation.stateFormatVersion"
_FUNCTION_FORMAT = "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion"
_CONTENTS = {"ValueState": _value, "ListState": _list, "MapState": _map}
_FORMS: dict[str, Callable[[_Reader], DataFrame]] = {
    "applyInPandasWithState": _function_state,
    "transformWithStateInPandasExec": _processor_state,
    "transformWithStateInPySparkExec": _processor_state,
    "transformWithStateExec": _processor_state,
    "stateStoreSave": _aggregate_state,
    "sessionWindowStateStoreSaveExec": _session_state,
}
