"""Jobs that run, beside Spark SQL on the same files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from unskew.cli import main
from unskew.errors import ArgumentError, CheckpointError, ColumnError, MissingPackageError
from unskew.jobs import Job
from unskew.jobs.dry_run import preview
from unskew.jobs.query import start
from unskew.jobs.run import run
from unskew.jobs.view import LiveView, NoView, line, picture
from unskew.testing import write_batches
from unskew.workloads.flights import flights_file

pytestmark = pytest.mark.spark

FILES = 3


@pytest.fixture(scope="module")
def flights(tmp_path_factory) -> Path:
    """Give a folder with the first 15,000 flights as they are, in three files."""
    folder = tmp_path_factory.mktemp("flights")
    table = pa.Table.from_pandas(pd.read_csv(flights_file(), nrows=15_000), preserve_index=False)
    write_batches(folder, [table.slice(number * 5_000, 5_000) for number in range(FILES)])
    return folder


def run_main(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    printed = capsys.readouterr()
    return int(stopped.value.code or 0), printed.out, printed.err


def last_rows(spark, folder: Path, kind: str, key: list[str], **options) -> list:
    """Return the last row of every key, as somebody would who reads what a job has written."""
    rows = spark.read.options(**options).format(kind).load(str(folder))
    keys = ", ".join(key)
    rows.createOrReplaceTempView("written")
    found = spark.sql(f"select max_by(struct(*), batch_id) as last from written group by {keys}").select("last.*")
    return sorted(map(tuple, found.drop("batch_id").collect()), key=repr)


def test_flights_as_spark_sql_counts_them(spark, flights, tmp_path, capsys) -> None:
    """Two key columns, nulls in key and values, through the command line, with output as JSON."""
    out = tmp_path / "out"
    code, printed, _ = run_main(
        capsys,
        *("run", "--source", f"parquet:{flights}", "--source-option", "maxFilesPerTrigger=1"),
        *("--key", "tailnum, origin", "--where", "month = 1", "--column", "late=arr_delay > 0"),
        *("--aggregate", "count, sum(distance) as miles, count(air_time), max(dep_delay), min(late), avg(distance)"),
        *("--channels", "3", "--planner", "mixed", "--tolerance", "0.01", "--sink", f"parquet:{out}", "--json"),
    )
    assert code == 0
    result = json.loads(printed)
    assert [batch["batchId"] for batch in result["batches"]] == list(range(FILES))
    assert result["rows"] == 15_000
    spark.read.parquet(str(flights)).createOrReplaceTempView("flights")
    expected = spark.sql(
        """
        select tailnum, origin, count(*), sum(distance), count(air_time), max(dep_delay), min(arr_delay > 0),
               avg(distance)
        from flights where month = 1 group by tailnum, origin
        """
    )
    assert last_rows(spark, out, "parquet", ["tailnum", "origin"]) == sorted(map(tuple, expected.collect()), key=repr)


def test_a_job_goes_on_where_it_ended(spark, flights, tmp_path) -> None:
    """From CSV to JSON and then again, with one more file."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "a.csv").write_text("user,amount\nada,1\nbob,2\nada,3\n")
    job = Job(source=f"csv:{source}", key="user", aggregate="count, sum(amount)", sink=f"json:{out}", channels=2)
    assert run(job, NoView()).rows == 3
    assert run(job, NoView()).rows == 0
    (source / "b.csv").write_text("user,amount\nada,10\ncy,5\n")
    assert run(job, NoView()).rows == 2
    found = last_rows(spark, out, "json", ["user"])
    assert found == [(1, 2, "bob"), (1, 5, "cy"), (3, 14, "ada")]  # count, sum_amount, user: JSON's columns are sorted
    with pytest.raises(ArgumentError, match="has the output of another job"):
        start(spark, Job(**{**vars(job), "checkpoint": str(tmp_path / "other")}))


@pytest.mark.slow
def test_a_workload_on_the_console(spark, tmp_path, capsys) -> None:
    code, printed, _ = run_main(
        capsys,
        *("run", "--source", "workload:zipf", "--source-option", "rowsPerBatch=500", "--source-option", "keys=20"),
        *("--source-option", "batches=2", "--key", "key", "--operator", "aggregate", "--with", "n=count"),
        *("--sink", "console", "--channels", "2"),
    )
    assert code == 0
    assert printed.count("\nbatch ") == printed.count("\nBatch: ") == 2
    assert "Done: 1,000 rows in 2 batches" in printed


def test_a_dry_run_tells_the_skew_and_writes_nothing(spark, flights, tmp_path, capsys) -> None:
    """Every row of a history reaches its channel, so the fullest one decides."""
    history = ("--operator", "history", "--with", "rows=3", "--with", "mean=mean(distance)")
    options = ("--source", f"parquet:{flights}", "--key", "carrier", *history, "--channels", "4")
    sink = ("--sink", f"parquet:{tmp_path / 'out'}", "--dry-run")
    code, printed, _ = run_main(capsys, "run", *options, *sink, "--json")
    assert code == 0
    shown = json.loads(printed)
    rows = spark.read.parquet(str(flights)).groupBy("carrier").count().collect()
    shares = sorted(((row["count"] / 15_000, row["carrier"]) for row in rows), reverse=True)
    skew = shown["skew"]
    assert [(key["share"], key["key"]) for key in skew["hot_keys"]] == shares[:5]
    assert (skew["rows"], skew["distinct_keys"]) == (15_000, len(rows))
    assert sum(skew["loads_before"]) == sum(skew["loads_after"]) == 15_000
    for side in ("before", "after"):
        loads = skew[f"loads_{side}"]
        assert skew["report"][f"overload_{side}"] == pytest.approx(max(loads) / (15_000 / 4) - 1)
    assert skew["speedup"] == pytest.approx(max(skew["loads_before"]) / max(skew["loads_after"]))
    assert skew["speedup"] > 1.1
    assert not (tmp_path / "out").exists()
    code, printed, _ = run_main(capsys, "run", *options, *sink)
    assert (code, "\nrows per channel by hash" in printed, shares[0][1] in printed) == (0, True, True)
    assert f"{skew['speedup']:.2f} times as fast" in printed
    code, printed, _ = run_main(capsys, "run", *options[:-1], "8", *sink, "--json")
    too_heavy = [carrier for share, carrier in shares if share > 1.02 / 8]
    assert (code, json.loads(printed)["skew"]["unsplittable"]) == (0, too_heavy)
    assert too_heavy


def test_a_dry_run_looks_at_the_checkpoint(spark, tmp_path, capsys) -> None:
    """It says how far the job has come, and refuses what a start would refuse."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "a.csv").write_text("user,amount\nada,1\nbob,2\nada,3\n")
    given = {"source": f"csv:{source}", "key": "user", "aggregate": "count", "sink": f"json:{out}", "channels": 2}
    assert preview(spark, Job(**given)).batches_done == 0
    assert not out.exists()
    run(Job(**given), NoView())
    assert preview(spark, Job(**given)).batches_done == 1
    with pytest.raises(CheckpointError, match="written with operator"):
        preview(spark, Job(**{**given, "aggregate": "sum(amount)"}))
    (tmp_path / "file").touch()
    (tmp_path / "native" / "state" / "0").mkdir(parents=True)
    elsewhere = {**given, "sink": "console"}
    with pytest.raises(CheckpointError, match="the checkpoint is a file"):
        preview(spark, Job(**elsewhere, checkpoint=str(tmp_path / "file")))
    with pytest.raises(CheckpointError, match="belongs to a query of Spark alone"):
        preview(spark, Job(**elsewhere, checkpoint=str(tmp_path / "native")))
    with pytest.raises(ArgumentError, match="has the output of another job"):
        preview(spark, Job(**given, checkpoint=str(tmp_path / "new")))
    options = ("--source", given["source"], "--key", "user", "--aggregate", "count", "--sink", given["sink"])
    code, printed, _ = run_main(capsys, "run", *options, "--dry-run")
    assert (code, "goes on after 1 batch" in printed) == (0, True)


def test_a_delta_sink_without_its_package_is_refused_in_a_running_session(spark, flights, tmp_path) -> None:
    job = Job(source=f"parquet:{flights}", key="carrier", aggregate="count", sink=f"delta:{tmp_path / 'o'}")
    with pytest.raises(MissingPackageError, match=r"Delta package .*--package io[.]delta:delta-spark"):
        start(spark, job)
    with pytest.raises(MissingPackageError, match=r"Delta package .*--package io[.]delta:delta-spark"):
        preview(spark, job)


@pytest.mark.parametrize(
    "operator",
    [
        ("--aggregate", "count, sum(distance)"),
        ("--operator", "histogram", "--with", "column=distance"),
        ("--operator", "heaviest-keys", "--with", "k=5"),
        ("--operator", "decision-tree", "--with", 'features=["distance"]', "--with", 'classes=["UA", "DL"]'),
    ],
    ids=["sum", "histogram", "heaviest", "tree"],
)
def test_a_dry_run_promises_nothing_where_rows_are_combined_first(spark, flights, tmp_path, capsys, operator) -> None:
    """A hot key is one row of each partition there, however many rows it has."""
    options = ("--source", f"parquet:{flights}", "--key", "carrier", *operator, "--channels", "4")
    sink = ("--sink", f"parquet:{tmp_path / 'out'}", "--dry-run")
    code, printed, _ = run_main(capsys, "run", *options, *sink, "--json")
    skew = json.loads(printed)["skew"]
    assert code == 0
    assert skew["combined"]
    keys, cores = skew["distinct_keys"], spark.sparkContext.defaultParallelism
    assert keys <= sum(skew["loads_before"]) <= keys * cores
    assert skew["hot_keys"][0]["share"] > 0.15
    assert 0.98 < skew["speedup"] < 1.02
    code, printed, _ = run_main(capsys, "run", *options, *sink)
    assert code == 0
    assert "combined rows per channel by hash" in printed
    assert "little or nothing" in printed
    assert "times as fast" not in printed


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"source": "parquet:/no/such/folder"}, ArgumentError, "Path does not exist.*in source.*must exist"),
        ({"key": "airline"}, ColumnError, "no column of that name, got 'airline'"),
        ({"aggregate": "sum(price)"}, ColumnError, "no column of that name, got 'price'"),
        ({"where": "month ="}, ArgumentError, r"got 'month =' \(in where\)"),
        ({"columns": {"x": "nothing + 1"}}, ArgumentError, r"in column x\)"),
        ({"schema": "carrier strng"}, ArgumentError, r"in schema\)"),
        ({"watermark": "time_hour"}, ArgumentError, "a column and a delay"),
        ({"planner": "mixd"}, ArgumentError, "did you mean 'mixed'"),
    ],
)
def test_jobs_that_spark_would_refuse(spark, flights, tmp_path, changed, error, message) -> None:
    job = {"source": f"parquet:{flights}", "key": "carrier", "aggregate": "count", "sink": f"parquet:{tmp_path / 'o'}"}
    with pytest.raises(error, match=message):
        start(spark, Job(**{**job, **changed}))


@pytest.mark.parametrize("role", ["source", "sink"])
def test_a_connector_that_cannot_be_fetched_is_asked_for(spark, flights, tmp_path, monkeypatch, role) -> None:
    def fails(session) -> None:
        raise MissingPackageError("no network")

    monkeypatch.setattr("unskew.jobs.connectors.ensure_connector", fails)
    job = {"source": f"parquet:{flights}", "key": "carrier", "aggregate": "count", "sink": f"parquet:{tmp_path / 'o'}"}
    with pytest.raises(MissingPackageError, match=r"--package org[.]apache[.]spark:spark-sql-kafka"):
        start(spark, Job(**{**job, role: "kafka:localhost:9/t"}))


def test_what_is_shown(spark, flights, tmp_path) -> None:
    from rich.console import Console

    job = Job(source=f"parquet:{flights}", key="carrier", aggregate="count", sink=f"csv:{tmp_path / 'o'}", channels=2)
    outcome = run(job, NoView())
    console = Console(width=100, record=True, file=io.StringIO(), force_terminal=True)
    with LiveView(console, job) as view:
        view.show(outcome.batches)
    console.print(picture(job, outcome.batches))
    shown = console.export_text()
    assert "15,000 rows" in shown
    assert "hottest key UA" in line(outcome.batches[0])
    assert preview(spark, job, sample_rows=100).skew.rows == 100
