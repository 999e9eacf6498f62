"""What a job is refused for before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from unskew.errors import ArgumentError, MissingPackageError
from unskew.jobs import Job
from unskew.jobs.connectors import connector_settings, require_delta
from unskew.jobs.sources import require_source

NEEDED = {"source": "parquet:in", "sink": "parquet:out", "key": "user", "aggregate": "count"}


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        ("data/clicks", "data/clicks"),
        ("data/clicks", "data/clicks/"),
        ("data/clicks", "data/clicks/out"),
        ("data/clicks", "data"),
        ("data/clicks", "."),
        ("data/clicks", "data/other/../clicks/out"),
        ("data/clicks", "linked/out"),
        ("data/clicks", "file:{here}/data/clicks"),
        ("file:///{here}/data/clicks", "data/clicks/out"),
        ("data/2024-*", "data/2024-01"),
        ("data/2024-*", "data"),
        ("data/clicks/a.parquet", "data/clicks"),
        ("s3a://bucket/clicks", "s3://bucket/clicks/out"),
        ("hdfs://host:9000/clicks", "hdfs://host:9000/"),
    ],
)
def test_a_sink_that_shares_a_folder_with_the_source(tmp_path: Path, monkeypatch, source: str, sink: str) -> None:
    (tmp_path / "data" / "clicks").mkdir(parents=True)
    (tmp_path / "linked").symlink_to(tmp_path / "data" / "clicks")
    monkeypatch.chdir(tmp_path)
    source, sink = (each.replace("{here}", str(tmp_path)) for each in (source, sink))
    for kind in ("parquet", "delta"):
        with pytest.raises(ArgumentError, match=r"share a folder, got .*in sink.*beside the source"):
            Job(**{**NEEDED, "source": f"parquet:{source}", "sink": f"{kind}:{sink}"})


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        ("clicks", "clicks-out"),
        ("data/2024-*", "data/out"),
        ("s3a://bucket/clicks", "s3a://other/clicks"),
        ("/clicks", "hdfs://host/clicks"),
    ],
)
def test_a_sink_beside_the_source(source: str, sink: str) -> None:
    assert Job(**{**NEEDED, "source": f"csv:{source}", "sink": f"csv:{sink}"}).to_place.address == sink


def test_a_checkpoint_in_the_source_unless_spark_skips_its_folder() -> None:
    for wrong in ("in", "in/checkpoint"):
        with pytest.raises(ArgumentError, match="the checkpoint lies in the source"):
            Job(**NEEDED, checkpoint=wrong)
    for right in ("in/_checkpoint", "in/.hidden/checkpoint", "beside", "."):
        assert Job(**NEEDED, checkpoint=right).checkpoint_location == right


def test_a_source_that_is_not_there(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clicks").mkdir()
    for there in ("clicks", f"file:{tmp_path}/clicks", "cli*", "{clicks,views}", "s3a://bucket/in", "hdfs://host/in"):
        require_source(Job(**{**NEEDED, "source": f"parquet:{there}"}))
    with pytest.raises(ArgumentError, match=r"does not exist, got 'parquet:clickz' .in source.*did you mean 'clicks'"):
        require_source(Job(**{**NEEDED, "source": "parquet:clickz"}))
    for missing in ("/no/such/folder", f"file://{tmp_path}/none", "x*"):
        with pytest.raises(ArgumentError, match=r"the source does not exist.*must exist when the job starts"):
            require_source(Job(**{**NEEDED, "source": f"parquet:{missing}"}))
    require_source(Job(**{**NEEDED, "source": "parquet:/in"}, conf={"spark.hadoop.fs.defaultFS": "hdfs://host"}))
    require_source(Job(**{**NEEDED, "source": "parquet:/in"}, master="yarn"))
    for pattern in ("in/[^a]*", r"in/\_x"):  # Hadoop's patterns are not Python's
        require_source(Job(**{**NEEDED, "source": f"parquet:{pattern}"}))


def test_delta_needs_its_package(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("pyspark.__path__", [str(tmp_path)])
    given = {**NEEDED, "sink": "delta:out"}
    with pytest.raises(MissingPackageError, match=r"Delta package .*delta:out.*--package io[.]delta:delta-spark"):
        require_delta(Job(**given))
    package = "io.delta:delta-spark_2.13:4.0.0"
    require_delta(Job(**given, packages=(package,)))
    settings = connector_settings(Job(**given, packages=(package,)))
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    own = {"spark.jars": "my-delta.jar", "spark.sql.extensions": "mine"}
    require_delta(Job(**given, conf=own))
    assert [*connector_settings(Job(**given, conf=own))] == ["spark.sql.catalog.spark_catalog"]
    with pytest.raises(MissingPackageError):  # a setting that only happens to have the word in it
        require_delta(Job(**given, conf={"spark.sql.warehouse.dir": "/data/delta-lake"}))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "delta-spark_2.13-4.0.0.jar").touch()
    require_delta(Job(**given))
    assert Job(**given).checkpoint_location == "out/_unskew_checkpoint"
