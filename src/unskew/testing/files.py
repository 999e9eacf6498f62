"""The batches of a stream as files that Spark reads one by one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from unskew.errors import ArgumentError

FIRST_SECOND = 1_700_000_000


def write_batches(
    folder: str | os.PathLike[str], tables: Iterable[pa.Table], *, first: int = 0, row_group_size: int | None = None
) -> str:
    """Write a Parquet file for each table, so that Spark with ``maxFilesPerTrigger=1`` reads them as batches in order.

    Spark reads the oldest file first, and files of the same millisecond in any order. So every file's time is set:
    a second after that of the number before it, whenever and in whatever order they were written. A file appears in
    the folder when it is whole and has its time; a query may be running on it. Holds one table at a time, if `tables`
    is a generator.

    Parameters
    ----------
    folder
        Made if it does not exist. No other files should be in it: after the first batch Spark passes over those that
        are a week older than the newest that it has read.
    tables
        The rows of each batch.
    first
        The number of the first table, and the name of its file. To go on, give the number of those that are there.
    row_group_size
        Rows in each row group, which is what tasks share a file by. All rows in one unless told, up to a million.

    Returns
    -------
    str
        The folder, as Spark takes it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> with TemporaryDirectory() as folder:
    ...     _ = write_batches(folder, [pa.table({"user": rng.integers(0, 10, 5)}) for _ in range(2)])
    ...     _ = write_batches(folder, [pa.table({"user": rng.integers(0, 10, 5)})], first=2)
    ...     sorted(os.listdir(folder))
    ['00000.parquet', '00001.parquet', '00002.parquet']

    A stream of them::

        spark.readStream.schema("user long").option("maxFilesPerTrigger", 1).parquet(write_batches(folder, tables))
    """
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables, first):
        path = home / f"{number:05d}.parquet"
        if path.exists():
            hint = "a query that has read it would not see the new rows; go on with first=, after the last one"
            raise ArgumentError(f"there is a batch {number} already", where=str(path), hint=hint)
        hidden = home / f".{path.name}"
        pq.write_table(table, hidden, row_group_size=row_group_size)
        os.utime(hidden, (FIRST_SECOND + number,) * 2)
        hidden.replace(path)
    return str(folder)
