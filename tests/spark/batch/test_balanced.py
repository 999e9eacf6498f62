"""Per-group functions and cogroups on static rows, beside Spark's own."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as sql

import unskew
from unskew.errors import ArgumentError, ColumnError
from unskew.spark.batch.routing import placed

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def rows(spark):
    """Give skewed rows with nulls in key and values, a timestamp, an array, and whole-number columns with a null."""
    random = np.random.default_rng(1)
    start = datetime.datetime(2024, 1, 1, 12, 30, tzinfo=datetime.UTC)
    data = [
        (
            None if rank == 3 else f"user-{rank}",
            None if i % 17 == 0 else int(amount),
            amount / 64,
            start + datetime.timedelta(seconds=i),
            [i, i + 1],
        )
        for i, (rank, amount) in enumerate(
            zip(random.zipf(1.3, 3000) % 200, random.integers(0, 640, 3000).tolist(), strict=True)
        )
    ]
    schema = "user string, amount int, price double, at timestamp, pair array<int>"
    return spark.createDataFrame(data, schema).repartition(3).cache()


def summary(key, frame):
    return pd.DataFrame(
        {
            "user": [key[0]],
            "n": [len(frame)],
            "amount": [frame["amount"].sum()],
            "kinds": [", ".join(map(str, frame.dtypes))],
            "latest": [frame["at"].max()],
            "last": [max(int(pair[1]) for pair in frame["pair"])],
        }
    )


SUMMARY = "user string, n long, amount double, kinds string, latest timestamp, last int"


def collected(frame) -> list:
    return sorted(map(tuple, frame.collect()), key=repr)


def test_a_function_per_group_gives_what_it_gives_under_spark(spark, rows) -> None:
    balanced = unskew.balance(rows, "user", channels=4).applyInPandas(summary, SUMMARY)
    assert collected(balanced) == collected(rows.groupBy("user").applyInPandas(summary, SUMMARY))
    assert balanced.schema == rows.groupBy("user").applyInPandas(summary, SUMMARY).schema


def test_functions_without_the_key_and_several_key_columns(spark, rows) -> None:
    def spread(frame):
        return frame[["user", "half", "price"]].assign(price=frame["price"] - frame["price"].mean()).head(5)

    # which rows come first within a group is not fixed by Spark: sort, so that head() is a function of the group
    def sorted_spread(frame):
        return spread(frame.sort_values(["at"], ignore_index=True))

    halves = rows.withColumn("half", sql.expr("cast(second(at) >= 30 as int)"))
    native = halves.groupBy("user", "half").applyInPandas(sorted_spread, "user string, half int, price double")
    ours = unskew.balance(halves, ["user", "half"], channels=3).applyInPandas(
        sorted_spread, "user string, half int, price double"
    )
    for mine, theirs in zip(collected(ours), collected(native), strict=True):
        assert mine[:2] == theirs[:2]
        assert math.isclose(mine[2], theirs[2], abs_tol=1e-9)


def test_a_cogroup_gives_what_it_gives_under_spark(spark, rows) -> None:
    others = spark.createDataFrame(
        [(f"user-{i}", i * 10) for i in range(0, 300, 3)] + [(None, -1)], "name string, bonus long"
    )

    def join(key, left, right):
        kinds = ", ".join(map(str, [*left.dtypes, *right.dtypes]))
        return pd.DataFrame({"user": [key[0]], "n": [len(left)], "bonus": [right["bonus"].sum()], "kinds": [kinds]})

    schema = "user string, n long, bonus long, kinds string"
    native = rows.groupBy("user").cogroup(others.groupBy("name")).applyInPandas(join, schema)
    pair = unskew.balance(rows, "user", channels=3).cogroup(unskew.balance(others, "name"))
    assert collected(pair.applyInPandas(join, schema)) == collected(native)


def test_every_row_lies_in_the_partition_of_its_channel(spark, rows) -> None:
    """Also with adaptive execution, which would join small partitions if the number were its own."""
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    balanced = unskew.balance(rows, "user", channels=5)

    def where(key, frame):
        from pyspark import TaskContext

        return pd.DataFrame({"user": [key[0]], "partition": [TaskContext.get().partitionId()], "n": [len(frame)]})

    found = balanced.applyInPandas(where, "user string, partition int, n long").toPandas()
    from unskew.hashing import hash_keys

    users = rows.select("user").distinct().toArrow()
    owners = dict(zip(users["user"].to_pylist(), balanced.plan.table.lookup(hash_keys(users, "user")), strict=True))
    assert dict(zip(found["user"], found["partition"], strict=True)) == owners
    loads = found.groupby("partition")["n"].sum().reindex(range(5), fill_value=0)
    assert balanced.plan.report.overload_after == pytest.approx(loads.max() / loads.mean() - 1)
    assert balanced.plan.report.overload_after < balanced.plan.report.overload_before
    assert placed(rows, ("user",), balanced.plan.table).rdd.getNumPartitions() == 5


def test_statistics_count_every_row_and_a_sample_about_its_share(spark, rows) -> None:
    counts = {row["user"]: row["count"] for row in rows.groupBy("user").count().collect()}
    everything = unskew.balance(rows, "user", tracked_keys=None).statistics
    assert sorted(everything.tuples.tolist()) == sorted(counts.values())
    few = unskew.balance(rows, "user", tracked_keys=3).statistics
    assert few.total_cost == 3000
    assert few.cost.max() == max(counts.values())
    part = unskew.balance(rows, "user", sample=0.2).statistics
    assert 400 < part.total_cost < 800


def test_rows_that_are_not_there(spark) -> None:
    empty = spark.createDataFrame([], "user string, at timestamp")
    ours = unskew.balance(empty, "user").applyInPandas(lambda frame: frame, "user string, at timestamp")
    assert ours.collect() == []


@pytest.mark.parametrize(
    ("do", "error", "message"),
    [
        (lambda rows: unskew.balance(rows, "usr"), ColumnError, "no column of that name"),
        (lambda rows: unskew.balance(rows, "user", split="auto"), ArgumentError, "option is for streams.*in split"),
        (
            lambda rows: unskew.balance(rows, "user", channels="auto"),
            ArgumentError,
            "option is for streams.*in channels",
        ),
        (lambda rows: unskew.balance(rows, "user").count(), ArgumentError, "for streams, and these rows are static"),
        (lambda rows: unskew.balance(rows, "user", sample=0.0), ArgumentError, "above 0 and up to 1, got 0.0"),
        (lambda rows: unskew.balance(rows, "user").cogroup(rows), ArgumentError, "cogroup takes other balanced rows"),
        (
            lambda rows: (
                unskew.balance(rows, "user")
                .cogroup(unskew.balance(rows, "amount"))
                .applyInPandas(lambda left, right: left, rows.schema)
            ),
            ArgumentError,
            "different types: string, got 'int'",
        ),
    ],
)
def test_what_cannot_be(rows, do, error, message) -> None:
    with pytest.raises(error, match=message):
        do(rows)


def test_a_failing_function_names_its_key(rows) -> None:
    def fail(key, frame):
        if key[0] == "user-5":
            raise ValueError("no such luck")
        return frame[["user"]]

    with pytest.raises(Exception, match=r"(?s)no such luck.*in the call for key \('user-5',\)"):
        unskew.balance(rows, "user").applyInPandas(fail, "user string").collect()
