"""Checkpoints that only Hadoop reaches: on a mount of Hadoop's own, which Python does not know, and on a real HDFS."""

from __future__ import annotations

import importlib.util
import pickle
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

import unskew
from unskew.errors import CheckpointError, MissingPackageError
from unskew.runtime import engine as engines
from unskew.runtime.log import RecordLog
from unskew.runtime.site import local_folder
from unskew.spark.hadoop import HadoopFiles, checkpoint_files
from unskew.spark.internals import java_and_hadoop
from unskew.spark.served import served
from unskew.spark.tick import files_at
from unskew.state.carried import CarriedFiles, NotHereError
from unskew.state.files import Files
from unskew.testing import write_batches

pytestmark = pytest.mark.spark

TESTS = Path(__file__).parents[2]


def module(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, TESTS / path)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    helper = module("spark/hadoop/hdfs.py")
    try:
        helper.hdfs_jars()
    except MissingPackageError as error:
        pytest.skip(str(error))
    with helper.running_hdfs(tmp_path_factory.mktemp("hdfs")) as address:
        yield address


@pytest.fixture(params=["mount", pytest.param("hdfs", marks=pytest.mark.slow)])
def root(spark: SparkSession, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give a folder that only Hadoop's settings reach.

    The first is a mount that a setting of the session makes up, over a local folder. Hadoop's local filesystem does not
    create a file exclusively if two try at the same instant; HDFS does.
    """
    if request.param == "hdfs":
        return f"{request.getfixturevalue('hdfs')}/{uuid4().hex}"
    name = uuid4().hex
    spark.conf.set(f"fs.viewfs.mounttable.{name}.link./ck", f"file:{tmp_path}")
    return f"viewfs://{name}/ck/root"


def forget_local_copies(spark: SparkSession) -> None:
    def forget(rows: object) -> None:
        shutil.rmtree(local_folder(), ignore_errors=True)

    spark.range(1).foreachPartition(forget)


class Query:
    """A count of keys whose owners change in every batch, one file a batch."""

    def __init__(self, spark: SparkSession, root: str, home: Path) -> None:
        self.spark, self.root, self.home = spark, root, home
        self.truth: Counter = Counter()
        self.latest: dict[str | None, int] = {}
        self.batches = 0
        self.files = checkpoint_files(spark, root)

    def more(self, batches: int, rows: int = 600) -> None:
        """Write more batches."""
        rng, tables = np.random.default_rng(self.batches), []
        for _ in range(batches):
            keys = [f"k{key % 200}" for key in rng.zipf(1.3, rows)]
            self.truth.update(keys)
            tables.append(pa.table({"key": keys}))
        write_batches(self.home / "data", tables, first=self.batches)
        self.batches += batches

    def run(self, sink: Callable | None = None, inline_bytes: int = 4 << 20, **options):
        """Run what there is, keep the latest count of each key, and return the query."""
        events = self.spark.readStream.schema("key string").option("maxFilesPerTrigger", 1)
        planner = module("spark/exactness/job.py").RandomMoves(seed=3)
        options = {"channels": 3, "planner": planner, "min_gain": -np.inf, "slots": 64, **options}
        balanced = unskew.balance(events.parquet(str(self.home / "data")), "key", **options).aggregate(n="count")
        keeping = replace(balanced.settings.keeping, inline_bytes=inline_bytes)
        stage = replace(balanced, settings=replace(balanced.settings, keeping=keeping))

        def keep(rows, batch_id: int) -> None:
            found = {row.key: row.n for row in rows.collect()}
            if sink is not None:
                sink(found, batch_id)
            self.latest |= found

        writer = stage.writeStream.option("checkpointLocation", self.root).foreachBatch(keep)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    def check(self) -> None:
        """Compare with the truth, and with what the checkpoint knows."""
        assert self.latest == self.truth
        state = unskew.read_state(self.spark, self.root).collect()
        assert {row[0]: row[1] for row in state} == self.truth


@pytest.fixture
def query(spark: SparkSession, root: str, tmp_path: Path) -> Query:
    return Query(spark, root, tmp_path / "home")


def test_the_door_gives_java_and_the_settings_of_the_session(spark):
    spark.conf.set("fs.unskew.made.up", "yes")
    java, settings = java_and_hadoop(spark)
    assert settings.get("fs.unskew.made.up") == "yes"
    assert java.org.apache.hadoop.fs.Path("/a/b").getName() == "b"


def test_the_driver_has_all_that_files_need(spark, root):
    files = checkpoint_files(spark, root)
    assert isinstance(files, HadoopFiles)
    module("state/test_files.py").check_all_methods(files)
    large = bytes(range(256)) * 1000
    files.write("large", large)
    assert files.read("large") == large


def test_where_python_creates_exclusively_hadoop_is_not_asked(spark, tmp_path):
    for place in (f"file:{tmp_path}", str(tmp_path), "s3a://bucket/ck"):
        assert type(checkpoint_files(spark, place)) is Files
    with pytest.raises(CheckpointError, match='No FileSystem for scheme "nowhere"') as failed:
        checkpoint_files(spark, "nowhere://a/b")
    assert "Python does not get there either" in failed.value.__notes__[0]


@pytest.mark.slow
def test_of_several_who_create_one_succeeds(spark, hdfs):
    files = checkpoint_files(spark, f"{hdfs}/race")
    with ThreadPoolExecutor(8) as pool:
        for turn in range(10):
            won = list(pool.map(files.create, [f"epochs/{turn}"] * 8, [b"%d" % who for who in range(8)]))
            assert sum(won) == 1
            assert files.read(f"epochs/{turn}") == b"%d" % won.index(True)


def test_in_a_task_files_read_what_has_come_and_keep_what_they_write(spark, root):
    files = pickle.loads(pickle.dumps(checkpoint_files(spark, root).child("unskew")))
    assert type(files) is CarriedFiles
    assert files.root == f"{root}/unskew"
    with pytest.raises(NotHereError):
        files._place.read_range("state/1/a", 0, 1)


def test_moves_a_restart_without_copies_and_large_output(query):
    query.more(3)
    first = query.run()
    assert query.latest == query.truth
    assert first.figures[-1].moved_slots
    forget_local_copies(query.spark)
    query.more(2)
    second = query.run(inline_bytes=0)
    assert second.figures[-1].batch_id == 4
    assert query.files.names("unskew/output")
    query.check()
    natively = query.spark.read.parquet(str(query.home / "data")).groupBy("key").agg(sql.count("*")).collect()
    assert dict(map(tuple, natively)) == query.latest


@pytest.mark.slow
def test_copies_that_are_lost_between_batches_are_read_again(query):
    query.more(4)
    query.run(lambda rows, batch_id: forget_local_copies(query.spark))
    query.check()


@pytest.mark.slow
def test_a_small_batch_without_copies_and_a_stream_planned_ahead(query):
    query.more(2, rows=50)
    ways = {each.way for each in query.run(planner="mixed", min_gain=0.02).figures}
    forget_local_copies(query.spark)
    query.more(1, rows=50)
    ways.add(query.run(planner="mixed", min_gain=0.02).figures[-1].way)
    forget_local_copies(query.spark)
    query.more(2)
    ways.add(query.run(planner="mixed", min_gain=0.02, plan="ahead").figures[-1].way)
    assert ways >= {"counted", "whole", "direct"}
    query.check()


@pytest.mark.slow
@pytest.mark.parametrize("copies", ["kept", "lost"])
def test_a_batch_that_was_recorded_is_shown_again_as_it_was(query, copies):
    query.more(3)
    shown = []

    def fail_once(rows, batch_id: int) -> None:
        if batch_id == 1:
            shown.append(rows)
            if len(shown) == 1:
                raise RuntimeError("the sink fails once")

    with pytest.raises(Exception, match="the sink fails once"):
        query.run(fail_once, inline_bytes=0)
    if copies == "lost":
        forget_local_copies(query.spark)
    query.run(fail_once)
    assert shown[0] == shown[1]
    query.check()


@pytest.mark.slow
def test_a_batch_that_was_written_but_not_recorded_is_run_again(query, monkeypatch):
    query.more(3)
    prepare, failed = RecordLog.prepare, []

    def fail_once(log: RecordLog, record) -> None:
        if record.batch_id == 1 and not failed:
            failed.append(log.files.names("state/1"))
            raise RuntimeError("the driver dies")
        prepare(log, record)

    monkeypatch.setattr(RecordLog, "prepare", fail_once)
    with pytest.raises(Exception, match="the driver dies"):
        query.run()
    query.run()
    assert failed[0], "nothing had been written, so nothing was tested"
    assert set(failed[0]) < set(query.files.names("unskew/state/1"))
    query.check()


@pytest.mark.slow
def test_a_sweep_leaves_what_records_name(query, monkeypatch):
    monkeypatch.setattr(engines, "SWEEP_EVERY", 1)
    query.more(5)
    query.run(records=1)
    log = RecordLog(query.files.child("unskew"))
    record = log.read(4)
    assert log.files.names("prepared") == ["4"]
    there = {
        f"state/{batch}/{name}" for batch in log.files.names("state") for name in log.files.names(f"state/{batch}")
    }
    assert there == {name for state in record.channels.values() for name in state.files}
    query.check()


@pytest.mark.slow
def test_windows_close_as_sparks_do(spark, root, tmp_path):
    """The last windows close in a batch without rows, which a process beside the driver asks for."""
    windows = module("spark/test_windows.py")
    write_batches(tmp_path / "data", windows.drawn(3, rows=100))
    rows = spark.readStream.schema(windows.SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "data"))
    rows = rows.withWatermark("ts", "20 seconds")
    spread = sql.var_pop("amount").alias("spread")
    native = rows.groupBy("user", sql.window("ts", "30 seconds")).agg(sql.count("*").alias("n"), spread)
    stream = unskew.balance(rows, "user", channels=2, slots=64).window("30 seconds")
    balanced = stream.aggregate(n="count", spread="var_pop(amount)")
    expected, _ = windows.run(native, "append", tmp_path / "native")
    found, query = windows.run(balanced, "append", root)
    assert found == expected
    assert query.figures[-1].way == "empty"


def test_the_tick_hears_what_goes_wrong(spark, root):
    files = checkpoint_files(spark, root)
    files.write("commits/0", b"v1")
    reader = files_at(served(files.root, files))
    assert reader.names("commits") == ["0"]
    assert reader.read_or_none("commits/0") == b"v1"
    assert reader.read_or_none("commits/1") is None
    with pytest.raises(CheckpointError, match="the file does not exist"):
        reader.ask("read", "commits/1")
