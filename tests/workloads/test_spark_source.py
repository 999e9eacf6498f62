from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from unskew.errors import ArgumentError
from unskew.versions.sources import ReadAllAvailable, ReadMaxRows
from unskew.workloads import workload
from unskew.workloads.spark_source import Reading, Slice, WorkloadReader, WorkloadSource, WorkloadStreamReader, register


def rows_of(name: str, intervals: range, rows: int, **options: object) -> pa.Table:
    chosen = workload(name, **options)
    return pa.Table.from_batches([chosen.rows(interval, rows) for interval in intervals])


def stream_reader(**options: str) -> WorkloadStreamReader:
    return WorkloadStreamReader(Reading.from_options(options))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "options"), [("zipf", {"exponent": "1.2", "keys": "1e4", "seed": "5"}), ("words", {}), ("edges", {})]
)
def test_a_batch_read_equals_the_generator(spark: SparkSession, name: str, options: dict[str, str]) -> None:
    register(spark)
    source = spark.read.format("unskew").option("workload", name).options(**options)
    frame = source.options(rowsPerBatch=1001, batches=2, partitions=2).load()
    expected = rows_of(name, range(2), 1001, **options)
    assert frame.toArrow().cast(expected.schema).equals(expected)


@pytest.mark.spark
@pytest.mark.slow
def test_a_stream_ends_resumes_and_replays(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    seen: dict[int, list[pa.Table]] = {}

    def run(batches: int, fail_at: int | None = None) -> None:
        def keep(frame: DataFrame, batch: int) -> None:
            seen.setdefault(batch, []).append(frame.toArrow())
            if batch == fail_at:
                raise RuntimeError("the sink is full")

        source = spark.readStream.format("unskew").option("keys", 1000).option("rowsPerBatch", 500)
        events = source.option("batches", batches).option("firstInterval", 2).load()
        writer = events.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="the sink is full"):
        run(batches=3, fail_at=1)
    run(batches=3)
    run(batches=4)
    assert {batch: len(tables) for batch, tables in seen.items()} == {0: 1, 1: 2, 2: 1, 3: 1}
    assert seen[1][0].equals(seen[1][1])
    everything = pa.concat_tables([seen[batch][-1] for batch in range(4)])
    expected = rows_of("zipf", range(2, 6), 500, keys=1000)
    assert everything.cast(expected.schema).equals(expected)


@pytest.mark.spark
def test_wrong_options_are_refused_when_loading(spark: SparkSession) -> None:
    register(spark)
    with pytest.raises(AnalysisException, match=r"no workload of that name, got 'zipff'\. Hint: did you mean 'zipf'"):
        spark.readStream.format("unskew").option("workload", "zipff").load()
    with pytest.raises(AnalysisException, match=r"expected a whole number, got 'many' \(in option 'keys'"):
        spark.read.format("unskew").option("keys", "many").load()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rowsperbatch": "0"}, "expected 1 or more, got 0 .in option 'rowsPerBatch'"),
        ({"batches": "few"}, "expected a whole number, got 'few' .in option 'batches'"),
        ({"partitions": "0"}, "option 'partitions'"),
        ({"firstinterval": "-1"}, "option 'firstInterval'"),
        ({"rowsperbatches": "5"}, "did you mean 'rowsPerBatch'"),
        ({"exponents": "1"}, "did you mean 'exponent'"),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Reading.from_options(options)


def test_names_of_options_have_no_case() -> None:
    assert Reading.from_options({"ROWSPERBATCH": "5", "Path": "ignored"}).rows_per_batch == 5


def test_offsets_advance_one_interval_a_trigger_until_the_end() -> None:
    reader = stream_reader(batches="3", rowsPerBatch="10", firstInterval="4")
    offset, visited = reader.initialOffset(), []
    for _ in range(5):
        visited.append(offset["interval"])
        offset = reader.latestOffset(offset, reader.getDefaultReadLimit())
    assert visited == [4, 5, 6, 7, 7]
    assert reader.latestOffset({"interval": 4}, ReadAllAvailable()) == {"interval": 7}
    assert reader.latestOffset({"interval": 9}, ReadAllAvailable()) == {"interval": 9}  # never backwards
    assert reader.partitions({"interval": 7}, {"interval": 7}) == []


def test_an_endless_stream_goes_on_but_is_never_available_now() -> None:
    reader = stream_reader()
    assert reader.latestOffset({"interval": 41}, ReadMaxRows(1)) == {"interval": 42}
    assert reader.latestOffset({"interval": 41}, ReadAllAvailable()) == {"interval": 42}
    with pytest.raises(ArgumentError, match="batches"):
        reader.prepareForTriggerAvailableNow()
    stream_reader(batches="1").prepareForTriggerAvailableNow()


def test_a_task_reads_its_slice_in_bounded_pieces() -> None:
    reading = Reading.from_options({"rowsPerBatch": "250_001", "partitions": "2", "keys": "10"})
    assert WorkloadReader(reading).partitions() == [Slice(0, 0), Slice(0, 1)]
    pieces = list(reading.batches(Slice(0, 1)))
    assert [piece.num_rows for piece in pieces] == [100_000, 25_001]
    whole = workload("zipf", keys=10).rows(0, 250_001, partition=1, partitions=2)
    assert pa.Table.from_batches(pieces).combine_chunks().equals(pa.Table.from_batches([whole]))


def test_the_format_is_called_unskew() -> None:
    assert WorkloadSource.name() == "unskew"
    assert WorkloadSource({"workload": "words"}).schema().simpleString() == (
        "struct<key:string,event_time:timestamp,value:double,sequence:bigint>"
    )
