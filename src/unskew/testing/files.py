"""Write the batches of a stream as files that Spark reads one by one."""

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

    Spark reads the oldest file first, so each file gets a time one second after the file before it. A file appears in
    the folder once it is complete; a query may already be running. Holds one table at a time if `tables` is a
    generator.

    Parameters
    ----------
    folder
        Created if missing. Keep other files out: Spark ignores files a week older than the newest it has read.
    tables
        The rows of each batch.
    first
        The number of the first table, and the name of its file. To continue, pass the number of files already there.
    row_group_size
        Rows in each row group, the unit by which tasks share a file. By default all rows, up to a million.

    Returns
    -------
    str
        The folder, as Spark takes it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = write_batches(folder, [pa.table({"user": [n, 7]}) for n in range(2)])
    ...     _ = write_batches(folder, [pa.table({"user": [8]})], first=2)
    ...     sorted(os.listdir(folder))
    ['00000.parquet', '00001.parquet', '00002.parquet']

    Read them as a stream::

        spark.readStream.schema("user long").option("maxFilesPerTrigger", 1).parquet(write_batches(folder, tables))
    """
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables, first):
        path = home / f"{number:05d}.parquet"
        if path.exists():
            hint = "a query that has read it would miss the new rows; pass first= to write after the last one"
            raise ArgumentError(f"batch {number} exists already", where=str(path), hint=hint)
        hidden = home / f".{path.name}"
        pq.write_table(table, hidden, row_group_size=row_group_size)
        os.utime(hidden, (FIRST_SECOND + number,) * 2)
        hidden.replace(path)
    return str(folder)
