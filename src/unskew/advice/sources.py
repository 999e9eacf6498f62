"""Advice from rows, and from a checkpoint of Spark's own."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from unskew.advice.advice import Advice, Found, make_advice
from unskew.advice.checkpoint import read_checkpoint
from unskew.advice.counting import key_loads
from unskew.advice.timed import timing_of
from unskew.errors import ArgumentError, require_number
from unskew.routing.table import DEFAULT_SLOTS
from unskew.spark.plans import session_cores

BY_ROWS = "All rows were counted by key. Every row is taken to cost the same."
ROWS_ERROR = "Batches differ from the whole: keys that are hot at different times look even here."
NO_TIME = "Fixed costs are not known, so gains are upper bounds."
BY_STATE = "Keys were read with Spark's state reader and weighed by {}. Work is taken to be in proportion."
STATE_ERROR = "State says what came since the query began, not what comes now."


def advise(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    partitions: int | None = None,
    cores: int | None = None,
    seconds: float | None = None,
) -> Advice:
    """Say what the skew of a key costs, and what each remedy would bring, before you change a job.

    Counts the rows of every key with Spark, in two jobs that read only the key's columns.

    Parameters
    ----------
    df
        Static rows, as many as you like: a day of the stream, a table, or what a Kafka topic holds.
    key
        The column, or columns, that the job groups by.
    partitions
        How many partitions the job has. Defaults to ``spark.sql.shuffle.partitions``.
    cores
        How many tasks run at once. Defaults to the session's cores.
    seconds
        How long a batch of these rows takes now, if you know.

    Returns
    -------
    Advice
        Print it for the verdict. `remedies` has the figures, `as_html()` is a page to send to a colleague.

    Examples
    --------
    ::

        print(unskew.advise(spark.read.parquet("clicks"), "user"))
    """
    if df.isStreaming:
        hint = "read the same source with spark.read"
        raise ArgumentError("advice needs static rows", where="df", got="a stream", hint=hint)
    names = (key,) if isinstance(key, str) else tuple(key)
    return advise_rows(df, names, "a DataFrame", partitions=partitions, cores=cores, seconds=seconds)


def advise_rows(
    rows: DataFrame,
    key: tuple[str, ...],
    source: str,
    *,
    partitions: int | None = None,
    cores: int | None = None,
    seconds: float | None = None,
) -> Advice:
    """Count rows and judge them as one batch."""
    spark = rows.sparkSession
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 200) if partitions is None else partitions
    cores = session_cores(spark) if cores is None else cores
    require_number("partitions", partitions, 1, 1 << 16)
    require_number("cores", cores, 1, DEFAULT_SLOTS)
    keys = key_loads(rows, key, partitions)
    timing = timing_of(keys.by_partition(partitions), keys.total, cores, seconds)
    error = ROWS_ERROR if timing.measured else f"{ROWS_ERROR} {NO_TIME}"
    found = Found(source, key, "rows", BY_ROWS, error)
    return make_advice(found, keys, timing, partitions=partitions, cores=cores)


def advise_checkpoint(
    spark: SparkSession,
    checkpoint: str,
    *,
    weight: str | None = None,
    cores: int | None = None,
    seconds: float | None = None,
) -> Advice:
    """Read the state of a query of Spark's own, and judge its keys."""
    state = read_checkpoint(spark, checkpoint, weight)
    cores = session_cores(spark) if cores is None else cores
    require_number("cores", cores, 1, DEFAULT_SLOTS)
    rows = float(state.load.sum()) if state.counts_rows else 0.0
    timing = timing_of(state.load, rows, cores, seconds)
    error = STATE_ERROR if timing.measured else f"{STATE_ERROR} {NO_TIME}"
    found = Found(
        f"checkpoint:{checkpoint}", state.key, state.weight, BY_STATE.format(state.weight), error, state.operation
    )
    return make_advice(found, state.keys, timing, partitions=state.partitions, cores=cores, now=state.load)
