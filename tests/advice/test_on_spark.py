"""Rows, a checkpoint and an event log that plain Spark made, with a planted hot key."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import unskew
from unskew.advice.command import Asked, answer
from unskew.advice.predict import BALANCE
from unskew.cli import main
from unskew.errors import ArgumentError, CheckpointError, ColumnError

pytestmark = pytest.mark.spark

PARTITIONS = 4
ROWS = 4000


def users(seed: int) -> np.ndarray:
    """Return users, a third of them ada, all others alike."""
    random = np.random.default_rng(seed)
    others = np.char.add("user", random.integers(0, 200, ROWS).astype(str))
    return np.where(random.random(ROWS) < 1 / 3, "ada", others)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the input of two batches."""
    made = tmp_path_factory.mktemp("advice")
    (made / "in").mkdir()
    for batch in range(2):
        pd.DataFrame({"user": users(batch)}).to_parquet(made / "in" / f"{batch}.parquet")
    return made


@pytest.fixture(scope="module")
def counted(spark, folder):
    """Return the checkpoint and the event log of a query of Spark's own that counts rows."""
    jvm, context = spark._jvm, spark.sparkContext._jsc.sc()
    place = jvm.java.io.File(str(folder / "log")).toURI()
    (folder / "log").mkdir()
    conf = context.conf().clone().set("spark.eventLog.compress", "false").set("spark.eventLog.rolling.enabled", "false")
    nobody = jvm.scala.Option.empty()
    log = jvm.org.apache.spark.scheduler.EventLoggingListener("app", nobody, place, conf)
    log.start()
    context.addSparkListener(log)
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
    try:
        rows = spark.readStream.schema("user string").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        counts = rows.groupBy("user").count().writeStream.outputMode("update").format("noop")
        query = counts.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(300)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
        context.listenerBus().waitUntilEmpty()
        context.removeSparkListener(log)
        log.stop()
    [file] = (folder / "log").iterdir()
    return str(folder / "checkpoint"), str(file)


def shares(*batches: np.ndarray) -> dict[str, float]:
    return pd.Series(np.concatenate(batches)).value_counts(normalize=True).to_dict()


def test_rows(spark, folder):
    rows = spark.read.parquet(str(folder / "in"))
    advice = unskew.advise(rows, "user", partitions=8, cores=8)
    truth = shares(users(0), users(1))
    assert {each.key: each.share for each in advice.hot_keys} == pytest.approx(
        {each.key: truth[each.key] for each in advice.hot_keys}
    )
    assert advice.hot_keys[0].key == "ada"
    by_partition = rows.selectExpr("pmod(hash(user), 8) as place").groupBy("place").count().collect()
    expected = np.zeros(8)
    for each in by_partition:
        expected[each.place] = each["count"]
    assert advice.partition_loads == pytest.approx(expected)
    assert advice.remedy(BALANCE).gain == pytest.approx(expected.max() / (truth["ada"] * 2 * ROWS))
    assert advice.distinct_keys == 201
    assert advice.seconds is None


def test_a_column_that_is_not_there(spark, folder):
    with pytest.raises(ColumnError, match="did you mean 'user'"):
        unskew.advise(spark.read.parquet(str(folder / "in")), "usr")


def test_a_stream_is_refused(spark):
    with pytest.raises(ArgumentError, match="a stream"):
        unskew.advise(spark.readStream.format("rate").load(), "value")


def test_the_checkpoint_of_a_native_query(counted):
    checkpoint, _ = counted
    advice = answer(Asked(source=f"checkpoint:{checkpoint}", cores=4))
    truth = shares(users(0), users(1))
    assert (advice.hot_keys[0].key, advice.hot_keys[0].share) == ("ada", pytest.approx(truth["ada"]))
    assert advice.partitions == PARTITIONS
    assert sum(advice.partition_loads) == 2 * ROWS
    assert advice.found.key == ("user",)
    assert "count" in advice.found.unit


def test_keys_may_be_weighed_by_anything(counted):
    checkpoint, _ = counted
    advice = answer(Asked(source=f"checkpoint:{checkpoint}", cores=4, weight="1"))
    assert sum(advice.partition_loads) == advice.distinct_keys == 201
    with pytest.raises(ArgumentError, match="in weight"):
        answer(Asked(source=f"checkpoint:{checkpoint}", weight="nothing_like_it"))


def test_the_event_log_of_a_native_query(counted):
    _, log = counted
    advice = answer(Asked(source=f"eventlog:{log}"))
    assert advice.hot_keys[0].key == "ada"
    assert advice.found.operation == "StateStoreSave"
    assert len(advice.gains) == 2
    assert advice.seconds is not None and advice.seconds > 0


def test_a_folder_without_state(spark, tmp_path):
    with pytest.raises(CheckpointError, match="state"):
        answer(Asked(source=f"checkpoint:{tmp_path}"))


def test_the_command(spark, folder, capsys, tmp_path):
    page = tmp_path / "page.html"
    arguments = ["advise", f"parquet:{folder / 'in'}", "--key", "user", "--cores", "4", "--html", str(page)]
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, "--json"])
    assert stopped.value.code in (0, None)
    printed = json.loads(capsys.readouterr().out)
    assert printed["hot_keys"][0]["key"] == "ada"
    assert "ada" in page.read_text()
