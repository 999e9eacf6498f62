"""The committed output of one query as the input of another: how balanced stages are chained.

Spark allows one stateful operator of our kind in a query. A pipeline of several stages is several queries, each with
its own routing table, statistics and moves, and between two of them a durable log: the folders ``batch_id=N`` that a
file sink writes, of which the next query sees only those whose batch the first one has committed. A batch that runs
again overwrites its folder before it is committed, so the second stage never sees what the first one took back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError, CheckpointError
from unskew.spark.checkpoint_files import CheckpointFiles
from unskew.spark.files import located

FORMAT = "unskew-committed"


def read_committed(
    spark: SparkSession, path: str, schema: StructType | str, *, checkpoint: str, batches_per_trigger: int = 1
) -> DataFrame:
    """Return a stream of what a query has written to Parquet folders ``batch_id=N``, batch by batch, once committed.

    Parameters
    ----------
    spark
        The session.
    path
        Where the query writes: ``.format("parquet").start(path)``.
    schema
        Its columns that are wanted.
    checkpoint
        The query's ``checkpointLocation``, which says what is committed.
    batches_per_trigger
        Its batches that make up one of the new stream's, at most.

    Notes
    -----
    Reads local disks, and what Arrow can (S3, GCS, HDFS); a path without a scheme belongs to the session's default
    filesystem, as it does where the query is started. Batches are read in order and each exactly once, as offsets are
    their numbers; folders must not be removed before they are read.

    Examples
    --------
    ::

        sessions = unskew.balance(clicks, "user").apply(...).writeStream.option("checkpointLocation", first)
        sessions.format("parquet").start(log)
        second = unskew.balance(unskew.read_committed(spark, log, schema, checkpoint=first), "page")
    """
    if batches_per_trigger < 1:
        raise ArgumentError("a trigger has to read something", got=batches_per_trigger)
    spark.dataSource.register(CommittedSource)
    path, checkpoint = (CheckpointFiles(spark, place).root for place in (path, checkpoint))
    reader = spark.readStream.format(FORMAT).schema(schema)
    return reader.options(checkpoint=checkpoint, batches=batches_per_trigger).load(path)


@dataclass(frozen=True)
class BatchFile(InputPartition):
    """One file of one batch."""

    uri: str


class CommittedSource(DataSource):
    """The source behind `read_committed`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader."""
        return CommittedReader(self.options["path"], self.options["checkpoint"], int(self.options["batches"]), schema)


class CommittedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offers committed batches in order; an offset is the number of the first batch that is still to read."""

    def __init__(self, path: str, checkpoint: str, batches: int, schema: StructType) -> None:
        self.path, self.checkpoint, self.batches = path, checkpoint, batches
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self._end: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the first batch."""
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return as many batches as one trigger reads."""
        return ReadMaxFiles(self.batches)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the batch after those that are committed, or fewer if the limit says so."""
        first, last = int(start["batch"]), self._committed() + 1
        if not isinstance(limit, ReadAllAvailable):
            last = min(last, first + self.batches)
        return {"batch": max(first, last)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take what is committed by now as all there is."""
        self._end = self._committed()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the files of the batches between two offsets."""
        found: list[InputPartition] = []
        for batch in range(int(start["batch"]), int(end["batch"])):
            folder = f"{self.path}/batch_id={batch}"
            names = [entry for entry in _entries(folder) if entry.endswith(".parquet")]
            if not names:
                raise CheckpointError(
                    "the rows of a committed batch are gone", where=folder, hint="keep folders until they are read"
                )
            found += [BatchFile(f"{folder}/{name}") for name in sorted(names)]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a file."""
        assert isinstance(partition, BatchFile)
        filesystem, path = located(partition.uri)
        table = pa.parquet.read_table(path, filesystem=filesystem, partitioning=None, columns=self.schema.names)
        yield from table.select(self.schema.names).cast(self.schema).to_batches()

    def _committed(self) -> int:
        """Return the last batch that is committed, -1 if none is."""
        if self._end is not None:
            return self._end
        return max((int(name) for name in _entries(f"{self.checkpoint}/commits") if name.isdigit()), default=-1)


def _entries(folder: str) -> list[str]:
    """Return the names in a folder, none if it does not exist."""
    filesystem, path = located(folder)
    selector = pyarrow.fs.FileSelector(path, allow_not_found=True)
    return [info.base_name for info in filesystem.get_file_info(selector)]
