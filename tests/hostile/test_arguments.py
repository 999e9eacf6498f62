"""Wrong arguments to every public function: an error of ours or of Spark's that says what, never a slip of ours."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import unskew
from unskew.errors import ArgumentError, CheckpointError, ColumnError, UnskewError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def events(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("none")
    return spark.readStream.schema("user string, n int, ts timestamp").parquet(str(folder))


NUMBERS: dict[str, list[Any]] = {
    "channels": [0, -1, 2.5, True, "8", [2], 5000],
    "slots": [0, -1, 2.5, "x", None, 1 << 40],
    "interval": [0, 2.5, None, True, "-3 seconds", "1 month", ""],
    "window": [0, 1.5, "x", None],
    "records": [0, 2.5, "3", None],
    "max_move_bytes": [-1, "1g", None],
    "cache_bytes": [-1, "1g", None],
    "tracked_keys": [0, -3, "x", 1.5],
    "memory_bytes": [-5, "x", [], [1, -1], 1.5, [None]],
    "min_gain": ["x", math.nan, None],
    "tolerance": [-0.1, 1, "x", math.nan, True],
    "planner": [5, None, "", "mixxed", len],
    "split": [5, True, "", "nope", "on-greedy"],
    "plan": [5, "late"],
    "sample": [0.5, "x"],
}


@pytest.mark.parametrize("option", NUMBERS)
def test_every_option_of_balance(events: Any, option: str) -> None:
    for value in NUMBERS[option]:
        with pytest.raises(ArgumentError) as failure:
            unskew.balance(events, "user", **{option: value})
        text = str(failure.value)
        assert option in text or failure.value.hint, text
        assert value is None or isinstance(value, list) or repr(value) in text or failure.value.hint, text


@pytest.mark.parametrize("sample", [0, -1, 1.5, "x", True, math.nan])
def test_samples_of_static_rows(spark: Any, sample: Any) -> None:
    with pytest.raises(ArgumentError, match="in sample"):
        unskew.balance(spark.range(3), "id", sample=sample)


KEYS = [None, 99, 0, -1, True, [None], [99], b"user", {"user": 1}, "", "us.er", "`us", "*"]


@pytest.mark.parametrize("key", KEYS)
def test_keys_that_are_none(events: Any, key: Any) -> None:
    with pytest.raises(UnskewError, match=r"key|column"):
        unskew.balance(events, key)


def test_a_key_with_a_slip_is_pointed_to(events: Any) -> None:
    with pytest.raises(ColumnError, match=r"no column of that name, got 'usr' .*did you mean 'user'"):
        unskew.balance(events, "usr")


def cases(events: Any) -> dict[str, Callable[[], Any]]:
    """Return calls that must fail, by name."""
    stream, static = unskew.balance(events, "user", channels=2), events.sparkSession.range(3)
    per_key, counted, spark = stream.apply_per_key, stream.count(), events.sparkSession
    committed = partial(unskew.read_committed, spark, schema="n long", checkpoint="/y")
    return {
        "no aggregate": stream.aggregate,
        "a number for an aggregate": lambda: stream.aggregate(n=5),
        "nothing for an aggregate": lambda: stream.aggregate(n=None),
        "aggregate of a key's name": lambda: stream.aggregate(user="count"),
        "aggregate of text": lambda: stream.aggregate(n="sum(user)"),
        "aggregate of no column": lambda: stream.aggregate(n="sum(nope * 2)"),
        "agg of words": lambda: stream.agg("sum(n)"),  # type: ignore[arg-type]
        "agg of no column": lambda: stream.agg(F.sum("nope")),
        "sum of no column": lambda: stream.sum("nope"),
        "no window": lambda: stream.window(None, on="ts").count(),
        "window of words": lambda: stream.window("soon", on="ts").count(),
        "window without times": lambda: stream.window("5 minutes").count(),
        "window on numbers": lambda: stream.window("5 minutes", on="n").count(),
        "sessions without length": lambda: stream.session_window("0 seconds", on="ts").count(),
        "sessions without times": lambda: stream.session_window("5 minutes").count(),
        "list of no keys": lambda: stream.heavy_hitters(0),
        "list of half a key": lambda: stream.heavy_hitters(2.5),
        "list of words": lambda: stream.heavy_hitters("x"),
        "no operator": lambda: stream.apply(None),
        "a class": lambda: stream.apply(unskew.operators.Aggregate),
        "a word": lambda: stream.apply("count"),
        "no mode": lambda: stream.applyInPandasWithState(len, "n long", "n long", None, "NoTimeout"),
        "no timeout": lambda: stream.applyInPandasWithState(len, "n long", "n long", "update", None),
        "no function": lambda: per_key(5, "n long", "n long"),
        "no such type": lambda: per_key(len, "n lonk", "n long"),
        "a type without Arrow": lambda: per_key(len, "n interval year to month", "n long"),
        "a state without Arrow": lambda: per_key(len, "n long", "n interval year to month"),
        "no schema": lambda: per_key(len, None, "n long"),
        "no limit": lambda: per_key(len, "n long", "n long", max_call_seconds=0),
        "limit in words": lambda: per_key(len, "n long", "n long", max_call_seconds="1 minute"),
        "initial state that is no frame": lambda: per_key(len, "n long", "n long", initial_state=5),
        "initial state without state": lambda: per_key(len, "n long", "n long", initial_state=static),
        "count of no key": lambda: unskew.balance(events).count(),
        "state of no key": lambda: unskew.balance(events, []).apply_per_key(len, "n long", "n long"),
        "plan of a stream": lambda: stream.plan,
        "no function for a batch": lambda: stream.applyInPandas(5, "n long"),
        "cogroup with a number": lambda: unskew.balance(static, "id").cogroup(5),
        "stream method on static rows": lambda: unskew.balance(static, "id").count(),
        "static without function": lambda: unskew.balance(static, "id").applyInPandas(5, "n long"),
        "static with three arguments": lambda: unskew.balance(static, "id").applyInPandas(lambda a, b, c: a, "n long"),
        "no output mode": lambda: counted.writeStream.outputMode(None),
        "two triggers": lambda: counted.writeStream.trigger(once=True, availableNow=True).foreachBatch(print).start(),
        "a number for a format": lambda: counted.writeStream.format(5),
        "no such format": lambda: counted.writeStream.format("nope").start("x"),
        "no path": counted.writeStream.start,
        "partition by a number": lambda: counted.writeStream.partitionBy(5),
        "partition by no column": lambda: counted.writeStream.partitionBy("nope").start("x"),
        "foreach of a number": lambda: counted.writeStream.foreach(5),
        "foreachBatch of a number": lambda: counted.writeStream.foreachBatch(5),
        "no table": lambda: counted.writeStream.toTable(None),
        "memory without name": lambda: counted.writeStream.format("memory").start(),
        "state of nothing": lambda: unskew.read_state(spark, "/nowhere at all"),
        "state of a number": lambda: unskew.read_state(spark, 5),
        "state of no path": lambda: unskew.read_state(spark, ""),
        "state without session": lambda: unskew.read_state(None, "/x"),
        "committed by no batch": lambda: committed("/x", batches_per_trigger=0),
        "committed by words": lambda: committed("/x", batches_per_trigger="x"),
        "committed of nothing": lambda: committed(None),
        "committed without session": lambda: unskew.read_committed("x", "/x", "n long", checkpoint="/y"),
        "tagged without key": lambda: unskew.tagged(None, a=events, b=events),
        "tagged without columns": lambda: unskew.tagged([], a=events, b=events),
        "tagged alone": lambda: unskew.tagged("user", a=events),
        "tagged number": lambda: unskew.tagged("user", a=events, b=5),
        "tagged by no column": lambda: unskew.tagged("nope", a=events, b=events),
        "no planner": lambda: unskew.planner("nope"),
        "planner of nothing": lambda: unskew.planner(None),
        "planner's parameter": lambda: unskew.planner("mixed", nope=1),
        "planner's tolerance": lambda: unskew.planner("mixed", tolerance=-1),
    }


def test_calls_that_cannot_work(events: Any) -> None:
    """Spark's own errors stay as they are: they name the column and the statement."""
    slips = {}
    for name, call in cases(events).items():
        try:
            call()
            slips[name] = "was accepted"
        except (UnskewError, PySparkException) as error:
            assert str(error), name
        except Exception as error:
            slips[name] = repr(error)
    assert not slips


def test_what_is_told_of_a_window_without_times(events: Any) -> None:
    with pytest.raises(ArgumentError, match=r"a window needs a column of times .*withWatermark"):
        unskew.balance(events, "user").window("5 minutes").count()


def test_paths_may_be_paths(spark: Any, tmp_path: Any) -> None:
    with pytest.raises(CheckpointError, match="no batch of a balanced query"):
        unskew.read_state(spark, tmp_path)
