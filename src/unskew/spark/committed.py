"""The committed output of one query as the input of another: how balanced stages are chained.

A query has one balanced operator, so a pipeline of several stages is several queries, each with its own routing table.
Between two of them lies a durable log: the folders ``batch_id=N`` that a file sink writes. The second query reads a
folder once the first one has committed its batch, with the mark ``unskew/commit/N`` in its checkpoint. From then on
the folder is complete and never changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from unskew.errors import CheckpointError, require_number
from unskew.spark.check import check_session
from unskew.spark.file_sink import DONE, data_files
from unskew.spark.paths import qualified
from unskew.state.files import located
from unskew.versions.arrow import to_arrow_schema
from unskew.versions.sources import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
    stream_reader,
)

FORMAT = "unskew-committed"
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def read_committed(
    spark: SparkSession, path: str, schema: StructType | str, *, checkpoint: str, batches_per_trigger: int = 1
) -> DataFrame:
    """Return a stream of the Parquet folders ``batch_id=N`` that a query writes, batch by batch, once committed.

    Batches are read in order, each exactly once, from local disks and what else Arrow reaches (S3, GCS, HDFS). Keep
    folders until they are read: a committed batch whose folder is gone is an error. A folder with neither a file nor
    ``_SUCCESS``, which every sink leaves there, counts as gone.

    Parameters
    ----------
    spark
        The session.
    path
        Where the query writes: ``.format("parquet").start(path)``. As in the query, a path without a scheme belongs to
        the session's default filesystem.
    schema
        The columns that you want. They may include columns that the query partitions its output by, except timestamps,
        which folders spell without their time zone.
    checkpoint
        The query's ``checkpointLocation``, which says what is committed.
    batches_per_trigger
        How many of the query's batches make up one batch of the new stream, at most. Before Spark 4.2 a batch takes
        all that are committed.

    Examples
    --------
    ::

        sessions = unskew.balance(clicks, "user").apply(...).writeStream.option("checkpointLocation", first)
        sessions.format("parquet").start(log)
        second = unskew.balance(unskew.read_committed(spark, log, schema, checkpoint=first), "page")
    """
    check_session(spark)
    require_number("batches_per_trigger", batches_per_trigger, 1)
    path, checkpoint = (qualified(spark, place) for place in (path, checkpoint))
    reader = spark.readStream.format(_registered(spark)).schema(schema)
    return reader.options(checkpoint=checkpoint, batches=batches_per_trigger).load(path)


def _registered(spark: SparkSession) -> str:
    """Register the source with a session, and return its name there.

    Spark keeps sources by session, but asks the thread's active session whether a name is taken. So a session that does
    not have the plain name may be refused it, and needs a new one. Checkpoints do not store the name.
    """
    try:
        spark.dataSource.register(CommittedSource)
        return FORMAT
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    name = f"{FORMAT}-{uuid4().hex}"
    spark.dataSource.register(type("NamedSource", (CommittedSource,), {"name": classmethod(lambda cls: name)}))
    return name


@dataclass(frozen=True)
class BatchFile(InputPartition):
    """One file of one batch."""

    folder: str
    place: str  # below the folder; it spells the partition columns


class CommittedSource(DataSource):
    """The source behind `read_committed`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = self.options
        reader = CommittedReader(options["path"], options["checkpoint"], int(options["batches"]), schema)
        return stream_reader(reader, reader.initialOffset)


class CommittedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offers committed batches in order; an offset is the number of the next batch to read."""

    def __init__(self, path: str, checkpoint: str, batches: int, schema: StructType) -> None:
        self.path, self.checkpoint, self.batches = path, checkpoint, batches
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self._end: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxFiles(self.batches)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        first, last = int(start["batch"]), self._committed() + 1
        if not isinstance(limit, ReadAllAvailable):
            last = min(last, first + self.batches)
        return {"batch": max(first, last)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._end = self._committed()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        found: list[InputPartition] = []
        for batch in range(int(start["batch"]), int(end["batch"])):
            folder = f"{self.path}/batch_id={batch}"
            filesystem, place = located(folder)
            names = [name for name in data_files(filesystem, place) if name.endswith(".parquet")]
            if not names and filesystem.get_file_info(f"{place}/{DONE}").type != pyarrow.fs.FileType.File:
                raise CheckpointError(
                    "the rows of a committed batch are gone", where=folder, hint="keep folders until they are read"
                )
            found += [BatchFile(folder, name) for name in names]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, BatchFile)
        filesystem, folder = located(partition.folder)
        values = partition_values(partition.place)
        inside = [name for name in self.schema.names if name not in values]
        path = f"{folder}/{partition.place}"
        table = pa.parquet.read_table(path, filesystem=filesystem, partitioning=None, columns=inside)
        for column in self.schema:
            if column.name in values:
                value = pa.scalar(values[column.name], pa.string()).cast(column.type)
                table = table.append_column(column, pa.repeat(value, table.num_rows))
        yield from table.select(self.schema.names).cast(self.schema).to_batches()

    def _committed(self) -> int:
        """Return the last committed batch, -1 if there is none."""
        if self._end is not None:
            return self._end
        filesystem, folder = located(f"{self.checkpoint}/unskew/commit")
        marks = filesystem.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True))
        return max((int(mark.base_name) for mark in marks if mark.base_name.isdecimal()), default=-1)


def partition_values(place: str) -> dict[str, str | None]:
    """Return the values of the partition columns, from the folders of a file.

    >>> partition_values("country=fr/city=a%2Fb/day=__HIVE_DEFAULT_PARTITION__/part-00000.parquet")
    {'country': 'fr', 'city': 'a/b', 'day': None}
    """
    pairs = (folder.partition("=") for folder in place.split("/")[:-1])
    return {unquote(name): None if value == NULL_FOLDER else unquote(value) for name, _, value in pairs}
