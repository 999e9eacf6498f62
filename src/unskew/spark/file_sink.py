"""Files in which a reader sees each row exactly once, whoever writes a batch, and however often."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import uuid4

import pyarrow.fs
from pyspark.sql import DataFrame, DataFrameWriter

from unskew.errors import CheckpointError, SessionError
from unskew.state.files import located

CODEC_INSIDE = ("parquet", "orc", "avro")  # the files say how they are compressed, so their names need not
STAGING = "_unskew"  # readers pass over names that begin with an underscore
DONE = "_SUCCESS"
SPARK_FILE = re.compile(r"part-(?P<task>\d+)-.*[-.]c(?P<piece>\d+)(?P<ending>(\.\w+)*)")
MOVES_AT_ONCE = 16


@dataclass(frozen=True)
class FileSink:
    """Files below a path, where each batch has a folder ``batch_id=N`` and a reader sees each row exactly once.

    Spark writes a batch to a hidden folder of this attempt, ``_unskew/<batch>-<random>``. Then each file moves to a
    name that depends only on its batch and its place in it: ``batch_id=7/country=fr/part-00002.parquet``. So a second
    attempt replaces files with equal ones, even if both run at once. An empty ``_SUCCESS`` comes last. Only what
    attempts at earlier batches left in ``_unskew`` is deleted.

    If the folder holds a file that this attempt does not write, the rows had other partitions before, or another query
    writes here. Either would double rows, so the sink raises a `CheckpointError`.

    Files of a batch appear one by one; `unskew.read_committed` reads whole batches only. On top of Spark's own write,
    an attempt lists four folders and moves its files, sixteen at a time: on a local disk, about the time that
    ``mode("overwrite")`` takes.
    """

    kind: str
    path: str
    options: Mapping[str, str] = field(repr=False)  # may hold passwords
    partition_by: tuple[str, ...] = ()

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        filesystem, root = located(self.path)
        attempt = f"{STAGING}/{batch_id}-{uuid4().hex}"
        frame_writer(rows, self.kind, self.options, self.partition_by).save(f"{self.path}/{attempt}")
        staged, target = f"{root}/{attempt}", f"{root}/batch_id={batch_id}"
        places = {name: file_place(name, self.kind) for name in data_files(filesystem, staged)}
        if not places and not rows.isEmpty():
            raise SessionError(
                "the files that Spark wrote cannot be seen from the driver",
                where=f"{self.path}/{attempt}",
                hint="choose a path that the driver and all executors share",
            )
        _check_files(filesystem, target, set(places.values()))
        for folder in {f"{target}/{place}".rpartition("/")[0] for place in places.values()} or {target}:
            filesystem.create_dir(folder, recursive=True)
        sources, targets = [f"{staged}/{name}" for name in places], [f"{target}/{place}" for place in places.values()]
        with ThreadPoolExecutor(MOVES_AT_ONCE) as pool:
            list(pool.map(partial(move_file, filesystem), sources, targets))
        _check_files(filesystem, target, set(places.values()))
        filesystem.open_output_stream(f"{target}/{DONE}").close()
        _remove_attempts(filesystem, f"{root}/{STAGING}", batch_id, staged)


def data_files(filesystem: pyarrow.fs.FileSystem, folder: str) -> list[str]:
    """Return the files below a folder that a reader takes for data, relative to it and sorted.

    Names that begin with a dot or an underscore are hidden, but a partition column may begin with an underscore.
    """
    found = filesystem.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True, recursive=True))
    names = (info.path[len(folder) :].lstrip("/") for info in found if info.type == pyarrow.fs.FileType.File)
    hidden = re.compile(r"(^|/)(\.|_[^=/]*(/|$))")
    return sorted(name for name in names if not hidden.search(name))


def file_place(name: str, kind: str) -> str:
    """Return the lasting name of a file that Spark wrote: its task, and its piece if the task wrote several.

    >>> file_place("country=fr/part-00002-0a3bca0e-c2.c000.snappy.parquet", "parquet")
    'country=fr/part-00002.parquet'
    >>> file_place("part-00000-0a3bca0e-c001.csv.gz", "csv")
    'part-00000-001.csv.gz'
    """
    folder, slash, file = name.rpartition("/")
    parts = SPARK_FILE.fullmatch(file)
    if parts is None:
        raise SessionError(
            "Spark gave a file a name that unskew does not know", got=name, hint="use Spark's own commit protocol"
        )
    piece = f"-{parts['piece']}" if int(parts["piece"]) else ""
    ending = f".{kind}" if kind in CODEC_INSIDE else parts["ending"]
    return f"{folder}{slash}part-{parts['task']}{piece}{ending}"


def move_file(filesystem: pyarrow.fs.FileSystem, source: str, target: str) -> None:
    """Move a file over one that may be there; on a local disk, make its contents safe from a power cut first."""
    if isinstance(filesystem, pyarrow.fs.LocalFileSystem):
        with Path(source).open("rb") as file:
            os.fsync(file.fileno())
    try:
        filesystem.move(source, target)
    except OSError:
        # HDFS does not rename over a file, but the one that is there has the same rows
        if filesystem.get_file_info(target).type != pyarrow.fs.FileType.File:
            raise


def _check_files(filesystem: pyarrow.fs.FileSystem, folder: str, expected: set[str]) -> None:
    strangers = sorted(set(data_files(filesystem, folder)) - expected)
    if strangers:
        raise CheckpointError(
            f"the folder of this batch holds {len(strangers)} file(s) that the batch does not write",
            where=folder,
            got=strangers[0],
            hint="give each query and each new checkpoint an output path of its own, and keep the sink's options",
        )


def _remove_attempts(filesystem: pyarrow.fs.FileSystem, folder: str, batch_id: int, own: str) -> None:
    """Remove our own staging folder, and those of earlier batches: whoever still writes one was replaced."""
    found = filesystem.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True))
    numbers = {info.path: info.base_name.partition("-")[0] for info in found}
    earlier = [path for path, number in numbers.items() if number.isdecimal() and int(number) < batch_id]
    for attempt in (own, *earlier):
        with suppress(OSError):  # its owner, or another driver, may remove it at the same time
            filesystem.delete_dir(attempt)


def frame_writer(
    rows: DataFrame, kind: str, options: Mapping[str, str], partition_by: tuple[str, ...]
) -> DataFrameWriter:
    """Return Spark's writer of a format."""
    writer = rows.write.format(kind).options(**options)
    return writer.partitionBy(*partition_by) if partition_by else writer
