"""Batches as files: whole, in order, and read by Spark one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unskew.errors import ArgumentError
from unskew.testing import write_batches


def numbered(*numbers: int) -> list[pa.Table]:
    return [pa.table({"n": [number]}) for number in numbers]


def by_time(folder: Path) -> list[int]:
    """Return what is in the files, the oldest first; no two are of the same second."""
    files = {int(path.stat().st_mtime): path for path in folder.iterdir()}
    assert len(files) == len(list(folder.iterdir()))
    return [pq.read_table(files[second])["n"][0].as_py() for second in sorted(files)]


def test_times_are_in_the_order_of_the_numbers_not_of_writing(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert write_batches(folder, numbered(3, 4), first=3) == str(folder)
    assert write_batches(str(folder), numbered(0, 1, 2)) == str(folder)
    assert by_time(folder) == [0, 1, 2, 3, 4]
    assert sorted(path.name for path in folder.iterdir()) == [f"0000{number}.parquet" for number in range(5)]


def test_each_table_is_written_before_the_next_is_made(tmp_path: Path) -> None:
    seen = []

    def tables() -> Iterator[pa.Table]:
        for table in numbered(0, 1, 2):
            seen.append(len(list(tmp_path.iterdir())))
            yield table

    write_batches(tmp_path, tables())
    assert seen == [0, 1, 2]


def test_rows_of_a_row_group_can_be_said(tmp_path: Path) -> None:
    write_batches(tmp_path, [pa.table({"n": range(10)})], row_group_size=4)
    assert pq.ParquetFile(tmp_path / "00000.parquet").metadata.num_row_groups == 3


def test_a_batch_is_not_written_over(tmp_path: Path) -> None:
    write_batches(tmp_path, numbered(0, 1))
    with pytest.raises(ArgumentError, match=r"batch 1 exists already .*00001\.parquet.*Hint: .* first="):
        write_batches(tmp_path, numbered(7), first=1)
    assert by_time(tmp_path) == [0, 1]


@pytest.mark.spark
def test_spark_reads_one_per_batch_in_order(spark, tmp_path: Path) -> None:
    """Also those that come between two starts of a query. The later ones are written first, so as to be older."""
    write_batches(tmp_path / "data", numbered(2, 3), first=2)
    write_batches(tmp_path / "data", numbered(0, 1))
    read: list[list[int]] = []
    files = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "data"))
    writer = files.writeStream.foreachBatch(lambda rows, _: read.append([row.n for row in rows.collect()]))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()
    write_batches(tmp_path / "data", numbered(4, 5), first=4)
    writer.start().awaitTermination()
    assert read == [[0], [1], [2], [3], [4], [5]]
