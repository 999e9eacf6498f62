"""Sinks get the same batch again and again, also at the same time, and a reader must see its rows once."""

from __future__ import annotations

import pickle
import threading
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

import unskew
from unskew.errors import ArgumentError, CheckpointError, ColumnError, SessionError
from unskew.spark import file_sink
from unskew.spark.file_sink import FileSink
from unskew.spark.paths import qualified
from unskew.spark.sinks import AppendSink, FolderSink, make_sink, make_table_sink

pytestmark = pytest.mark.spark

FORMATS = ("parquet", "orc", "json", "csv", "text")
SCHEMA = StructType().add("id", "long").add("country", "string").add("n", "long")


def rows_of(spark, count: int, partitions: int = 2):
    """Return rows in a fixed number of partitions, computed by Java alone."""
    country = "array('fr', 'a/b c', null)[cast(id % 3 as int)]"
    return spark.range(0, count, 1, partitions).selectExpr("id", f"{country} as country", "id * 2 as n")


def sink_to(spark, path: Path, kind: str = "parquet", partition_by: tuple[str, ...] = (), **options: str):
    return make_sink(spark, kind, {"path": str(path), **options}, partition_by, "q", None, SCHEMA)


def ids(spark, path: Path, kind: str = "parquet") -> list[tuple[int, int]]:
    """Return (batch, id) of every row that a plain reader of the whole folder sees."""
    if kind == "text":
        rows = spark.read.text(str(path)).selectExpr("batch_id", "cast(value as long) id")
    else:
        rows = spark.read.schema("id long, country string, n long, batch_id int").format(kind).load(str(path))
    return sorted((row["batch_id"], row["id"]) for row in rows.collect())


def files_of(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


@pytest.mark.parametrize("kind", FORMATS)
def test_a_batch_that_is_written_again_is_read_once(spark, tmp_path: Path, kind: str) -> None:
    sink = sink_to(spark, tmp_path / "out", kind)
    assert isinstance(sink, FileSink)
    for batch, count in ((0, 10), (0, 10), (1, 7), (1, 7)):
        rows = rows_of(spark, count)
        sink(rows.selectExpr("cast(id as string) value") if kind == "text" else rows, batch)
    assert ids(spark, tmp_path / "out", kind) == [(0, n) for n in range(10)] + [(1, n) for n in range(7)]
    ending = "txt" if kind == "text" else kind
    names = [f"part-00000.{ending}", f"part-00001.{ending}"]
    assert files_of(tmp_path / "out") == [f"batch_id={b}/{name}" for b in (0, 1) for name in ("_SUCCESS", *names)]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_batch_without_rows_leaves_a_file_that_can_be_read(spark, tmp_path: Path, kind: str) -> None:
    rows = rows_of(spark, 0)
    rows = rows.selectExpr("country value") if kind == "text" else rows
    sink_to(spark, tmp_path / "out", kind)(rows, 0)
    ending = "txt" if kind == "text" else kind
    assert files_of(tmp_path / "out") == ["batch_id=0/_SUCCESS", f"batch_id=0/part-00000.{ending}"]
    reader = spark.read if kind in ("parquet", "orc") else spark.read.schema(rows.schema)
    read = reader.format(kind).load(str(tmp_path / "out" / "batch_id=0"))
    assert read.columns == rows.columns
    assert read.count() == 0


def test_partition_columns_are_folders(spark, tmp_path: Path) -> None:
    sink = sink_to(spark, tmp_path / "out", partition_by=("country",))
    for batch in (0, 0, 1):
        sink(rows_of(spark, 12), batch)
    read = spark.read.parquet(str(tmp_path / "out"))
    found = sorted((r["batch_id"], r["id"], r["country"] or "", r["n"]) for r in read.collect())
    names = ["fr", "a/b c", ""]
    assert found == [(b, n, names[n % 3], 2 * n) for b in (0, 1) for n in range(12)]
    assert (tmp_path / "out" / "batch_id=1" / "country=a%2Fb c" / "part-00001.parquet").is_file()
    sink(rows_of(spark, 0), 2)
    assert files_of(tmp_path / "out" / "batch_id=2") == ["_SUCCESS"]
    assert read.count() == 24


def test_pieces_and_compressed_files_have_names_of_their_own(spark, tmp_path: Path) -> None:
    sink = sink_to(spark, tmp_path / "out", "csv", maxRecordsPerFile="2", compression="gzip")
    for _ in range(2):
        sink(rows_of(spark, 5), 0)
    names = ["part-00000.csv.gz", "part-00001-001.csv.gz", "part-00001.csv.gz"]
    assert files_of(tmp_path / "out" / "batch_id=0") == ["_SUCCESS", *names]
    assert ids(spark, tmp_path / "out", "csv") == [(0, n) for n in range(5)]


def test_another_codec_replaces_a_parquet_file(spark, tmp_path: Path) -> None:
    for codec in ("snappy", "gzip"):
        sink_to(spark, tmp_path / "out", compression=codec)(rows_of(spark, 5), 0)
    assert ids(spark, tmp_path / "out") == [(0, n) for n in range(5)]


@pytest.mark.slow
def test_two_writers_of_the_same_batch_at_once(spark, tmp_path: Path) -> None:
    """Both write ten batches in step, three partitions each, half of them with folders."""
    rounds, problems = 10, []
    barrier = threading.Barrier(2)

    def write(sink) -> None:
        try:
            for batch in range(rounds):
                barrier.wait()
                sink(rows_of(spark, 30, partitions=3), batch)
        except Exception as error:
            problems.append(error)
            barrier.abort()

    for name, columns in (("plain", ()), ("folders", ("country",))):
        sink = sink_to(spark, tmp_path / name, partition_by=columns)
        threads = [threading.Thread(target=write, args=(pickle.loads(pickle.dumps(sink)),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        assert ids(spark, tmp_path / name) == [(b, n) for b in range(rounds) for n in range(30)]
        assert list((tmp_path / name / "_unskew").iterdir()) == []


class CrashError(Exception):
    pass


@pytest.mark.parametrize("survivors", [0, 1, 2])
def test_a_crash_between_staging_and_the_last_move(spark, tmp_path: Path, monkeypatch, survivors: int) -> None:
    sink, move, moved = sink_to(spark, tmp_path / "out"), file_sink.move_file, []

    def crash(filesystem, source: str, target: str) -> None:
        if int(source.rpartition("part-")[2][:5]) >= survivors:
            raise CrashError
        moved.append(target)
        move(filesystem, source, target)

    sink(rows_of(spark, 5), 0)
    with monkeypatch.context() as patched, pytest.raises(CrashError):
        patched.setattr(file_sink, "move_file", crash)
        sink(rows_of(spark, 30, partitions=3), 1)
    assert len(moved) == survivors
    assert not (tmp_path / "out" / "batch_id=1" / "_SUCCESS").exists()
    left = list((tmp_path / "out" / "_unskew").iterdir())
    assert [folder.name.partition("-")[0] for folder in left] == ["1"]
    sink(rows_of(spark, 30, partitions=3), 1)
    assert ids(spark, tmp_path / "out") == [(0, n) for n in range(5)] + [(1, n) for n in range(30)]
    assert left[0].exists(), "another driver may still write it"
    sink(rows_of(spark, 1), 2)
    assert not left[0].exists(), "batch 1 is committed: whoever writes it was replaced"


def test_a_replaced_driver_whose_staging_is_swept_does_no_harm(spark, tmp_path: Path, monkeypatch) -> None:
    sink, move = sink_to(spark, tmp_path / "out"), file_sink.move_file
    expected = [(0, n) for n in range(30)] + [(1, n) for n in range(3)]

    def sweep_then_move(filesystem, source: str, target: str) -> None:
        if source.endswith("c000.snappy.parquet") and "part-00001" in source:
            with monkeypatch.context() as patched:
                patched.setattr(file_sink, "move_file", move)
                sink(rows_of(spark, 30, partitions=3), 0)
                sink(rows_of(spark, 3), 1)
            assert not Path(source).exists()
        move(filesystem, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(file_sink, "move_file", sweep_then_move)
        with suppress(OSError):  # it may notice or not, as long as nothing is lost
            sink(rows_of(spark, 30, partitions=3), 0)
    assert ids(spark, tmp_path / "out") == expected


def test_files_for_another_number_of_partitions_are_refused_and_kept(spark, tmp_path: Path) -> None:
    sink = sink_to(spark, tmp_path / "out")
    sink(rows_of(spark, 30, partitions=3), 0)
    with pytest.raises(CheckpointError, match=r"1 file\(s\) that the batch does not write, got 'part-00002.parquet'"):
        sink(rows_of(spark, 30, partitions=2), 0)
    assert ids(spark, tmp_path / "out") == [(0, n) for n in range(30)]


def test_hidden_files_are_no_data(tmp_path: Path) -> None:
    for name in ("a", "_p=1/b", "_p=1/_c", ".d", "_e/f=1/g", "_SUCCESS"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    local = pyarrow.fs.LocalFileSystem()
    assert file_sink.data_files(local, str(tmp_path)) == ["_p=1/b", "a"]
    assert file_sink.data_files(local, str(tmp_path / "none")) == []


def test_files_that_the_driver_cannot_see_are_an_error(spark, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(file_sink, "data_files", lambda filesystem, folder: [])
    with pytest.raises(SessionError, match="cannot be seen from the driver"):
        sink_to(spark, tmp_path / "out")(rows_of(spark, 1), 0)


def test_a_filesystem_that_does_not_rename_over_files(tmp_path: Path) -> None:
    class LikeHdfs(pyarrow.fs.LocalFileSystem):
        def move(self, source: str, target: str) -> None:
            if Path(target).exists():
                raise OSError("destination exists")
            super().move(source, target)

    (tmp_path / "a").write_text("rows")
    (tmp_path / "b").write_text("rows")
    for source in ("a", "b"):
        file_sink.move_file(LikeHdfs(), str(tmp_path / source), str(tmp_path / "target"))
    assert (tmp_path / "target").read_text() == "rows"
    with pytest.raises(OSError, match="none"):
        file_sink.move_file(pyarrow.fs.LocalFileSystem(), str(tmp_path / "none"), str(tmp_path / "other"))


def test_places_that_python_cannot_reach_are_overwritten(spark, tmp_path: Path) -> None:
    sink = make_sink(spark, "json", {"path": "viewfs://cluster/out"}, (), "q", None, SCHEMA)
    assert sink == FolderSink("json", "viewfs://cluster/out", {})
    sink = FolderSink("json", str(tmp_path / "out"), {}, ("country",))
    for _ in range(2):
        sink(rows_of(spark, 9), 3)
    assert ids(spark, tmp_path / "out", "json") == [(3, n) for n in range(9)]


def test_tables_are_made_and_appended_to(spark) -> None:
    sink = make_table_sink(spark, "sinks_made", "orc", {}, ("country",), "q", SCHEMA)
    sink(rows_of(spark, 6), 0)
    again = make_table_sink(spark, "sinks_made", None, {}, (), "q", SCHEMA)
    assert again == sink, "format and partition columns of the table that is there"
    again(rows_of(spark, 3), 1)
    assert sorted(row["id"] for row in spark.table("sinks_made").collect()) == [0, 0, 1, 1, 2, 2, 3, 4, 5]
    with pytest.raises(ArgumentError, match=r"the table is partitioned by country, got \('n',\)"):
        make_table_sink(spark, "sinks_made", None, {}, ("n",), "q", SCHEMA)
    assert make_table_sink(spark, "sinks_new", None, {}, (), "q", SCHEMA).kind == "parquet"
    spark.sql("DROP TABLE sinks_made")


def test_delta_is_told_the_transaction(spark, tmp_path: Path, monkeypatch) -> None:
    """Delta itself is not here; a format of ours notes down what it is told."""
    from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

    class NotingWriter(DataSourceWriter):
        def __init__(self, options) -> None:
            self.options = options

        def write(self, iterator) -> WriterCommitMessage:
            with Path(self.options["note"]).open("a") as file:
                print(self.options["txnAppId"], self.options["txnVersion"], len(list(iterator)), file=file)
            return WriterCommitMessage()

    class Noting(DataSource):
        @classmethod
        def name(cls) -> str:
            return "sinks-noting"

        def writer(self, schema, overwrite: bool) -> DataSourceWriter:
            return NotingWriter(self.options)

    spark.dataSource.register(Noting)
    options = {"path": str(tmp_path / "table"), "note": str(tmp_path / "note")}
    assert make_sink(spark, "sinks-noting", options, (), "query-1", None, SCHEMA).identity is None
    AppendSink("sinks-noting", options, (), "query-1")(rows_of(spark, 4, partitions=1), 7)
    assert (tmp_path / "note").read_text() == "query-1 7 4\n"
    monkeypatch.setattr("unskew.spark.sinks._check_installed", lambda spark, kind: None)
    made = make_sink(spark, "delta", options, ("country",), "query-1", None, SCHEMA)
    assert made == AppendSink("delta", options, ("country",), "query-1")
    table = make_table_sink(spark, "t", "delta", {}, (), "query-1", SCHEMA)
    assert table == AppendSink("delta", {}, (), "query-1", "t")
    with pytest.raises(ArgumentError, match="a delta sink needs a path"):
        make_sink(spark, "delta", {}, (), "query-1", None, SCHEMA)


def test_memory_console_and_noop(spark, capsys) -> None:
    memory = make_sink(spark, "memory", {}, (), "q", "sinks_view", SCHEMA)
    for batch, count in ((0, 3), (1, 2), (1, 2)):
        memory(rows_of(spark, count), batch)
    assert sorted(row["id"] for row in spark.table("sinks_view").collect()) == [0, 0, 1, 1, 2]
    copy = pickle.loads(pickle.dumps(make_sink(spark, "memory", {}, (), "q", "sinks_copy", SCHEMA)))
    copy(rows_of(spark, 2), 0)
    assert spark.table("sinks_copy").count() == 2
    make_sink(spark, "console", {"numrows": "1"}, (), "q", None, SCHEMA)(rows_of(spark, 3), 4)
    assert "Batch: 4" in (printed := capsys.readouterr().out)
    assert "only showing top 1 row" in printed
    make_sink(spark, "noop", {}, (), "q", None, SCHEMA)(rows_of(spark, 3), 0)


def test_sinks_can_be_pickled(spark, tmp_path: Path) -> None:
    path = {"path": str(tmp_path)}
    made = [make_sink(spark, kind, path, (), "q", "name", SCHEMA) for kind in ("parquet", "console", "noop", "memory")]
    made += [
        make_sink(spark, "xml", path, (), "q", None, SCHEMA),
        make_table_sink(spark, "t", None, {}, (), "q", SCHEMA),
    ]
    assert [pickle.loads(pickle.dumps(sink)) for sink in made] == made


@pytest.mark.parametrize(
    ("kind", "options", "columns", "problem", "message"),
    [
        ("delta", {"path": "/tmp/x"}, (), ArgumentError, "Spark has no format 'delta'"),
        ("avro", {"path": "/tmp/x"}, (), ArgumentError, "spark.jars.packages"),
        ("iceberg", {}, (), ArgumentError, "no format 'iceberg'"),
        ("parkett", {"path": "/tmp/x"}, (), ArgumentError, "no format 'parkett'"),
        ("parquet", {}, (), ArgumentError, "a parquet sink needs a path"),
        ("json", {"path": __file__}, (), ArgumentError, "the path of a sink is a file"),
        ("memory", {}, (), ArgumentError, r"call queryName\(...\) first"),
        ("console", {"numRows": "many"}, (), ArgumentError, "not a number, got 'many'"),
        ("csv", {"path": "/tmp/x"}, ("land",), ColumnError, "got 'land' .* choose from id, country, n"),
        ("csv", {"path": "/tmp/x"}, ("id", "Country", "n"), ColumnError, "no column is left"),
    ],
)
def test_what_cannot_work_is_refused_at_once(spark, kind, options, columns, problem, message) -> None:
    with pytest.raises(problem, match=message):
        make_sink(spark, kind, options, columns, "q", None, SCHEMA)


def test_paths_are_completed_as_spark_does(spark) -> None:
    assert qualified(spark, "file:///a b/c/") == "file:/a b/c"
    assert qualified(spark, "s3a://bucket/key") == "s3a://bucket/key"
    assert qualified(spark, "/no/100%/{a}:b") == "file:/no/100%/{a}:b"
    assert qualified(spark, "relative/x") == f"file:{Path.cwd()}/relative/x"
    spark.conf.set("fs.defaultFS", "hdfs://127.0.0.1:8020/")
    try:
        assert qualified(spark, "/logs/a") == "hdfs://127.0.0.1:8020/logs/a"
        assert qualified(spark, "file:/logs/a") == "file:/logs/a"
    finally:
        spark.conf.unset("fs.defaultFS")


def committed_log(spark, tmp_path: Path, batches: int) -> tuple[Path, Path]:
    """Write batches as a query does, the second one empty, and mark all but the last as committed."""
    log, marks = tmp_path / "log", tmp_path / "first" / "unskew" / "commit"
    sink = sink_to(spark, log, partition_by=("country",))
    marks.mkdir(parents=True)
    for batch in range(batches):
        sink(rows_of(spark, 0 if batch == 1 else 5), batch)
        if batch < batches - 1:
            (marks / str(batch)).touch()
    (marks / f"{batches}.tmp").touch()
    return log, marks


@pytest.mark.slow
def test_committed_batches_are_read_in_any_session_and_once(spark, tmp_path: Path) -> None:
    log, marks = committed_log(spark, tmp_path, batches=4)

    def read(session) -> list[tuple[int, str | None]]:
        rows = unskew.read_committed(
            session, str(log), "id long, country string", checkpoint=str(tmp_path / "first"), batches_per_trigger=2
        )
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "second")).format("parquet")
        writer.trigger(availableNow=True).start(str(tmp_path / "read")).awaitTermination()
        read = session.read.schema("id long, country string").parquet(str(tmp_path / "read"))
        return sorted((row["id"], row["country"] or "") for row in read.collect())

    expected = [(n, ["fr", "a/b c", ""][n % 3]) for n in range(5)]
    assert read(spark) == sorted(expected * 2), "batch 1 is empty, batch 3 not committed"
    (marks / "3").touch()
    assert read(spark.newSession()) == sorted(expected * 3)
    assert read(spark) == sorted(expected * 3)


def test_only_committed_batches_are_offered_and_lost_ones_are_noticed(tmp_path: Path) -> None:
    from unskew.spark.committed import CommittedReader
    from unskew.versions.sources import ReadAllAvailable

    log, checkpoint = tmp_path / "log", tmp_path / "checkpoint"
    reader = CommittedReader(str(log), str(checkpoint), 2, StructType().add("n", "long"))
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == {"batch": 0}
    for batch in range(4):
        (log / f"batch_id={batch}").mkdir(parents=True)
        pq.write_table(pa.table({"n": [batch]}), log / f"batch_id={batch}" / "part-00000.parquet")
    (checkpoint / "unskew" / "commit").mkdir(parents=True)
    (checkpoint / "commits").mkdir()
    (checkpoint / "unskew" / "commit" / "2").touch()
    (checkpoint / "commits" / "3").touch()
    assert reader.latestOffset({"batch": 0}, reader.getDefaultReadLimit()) == {"batch": 2}
    assert reader.latestOffset({"batch": 2}, ReadAllAvailable()) == {"batch": 3}, "Spark's own commits do not count"
    files = reader.partitions({"batch": 1}, {"batch": 3})
    assert [batch.to_pydict() for file in files for batch in reader.read(file)] == [{"n": [1]}, {"n": [2]}]
    (log / "batch_id=1" / "part-00000.parquet").unlink()
    with pytest.raises(CheckpointError, match="gone"):
        reader.partitions({"batch": 1}, {"batch": 3})
    (log / "batch_id=1" / "_SUCCESS").touch()
    assert len(reader.partitions({"batch": 1}, {"batch": 3})) == 1, "a batch that wrote no file is empty"
