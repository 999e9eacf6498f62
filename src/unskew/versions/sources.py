"""Python sources of streams.

Since 4.2 Spark tells them where a batch starts and how much it may read, and lets them prepare for the trigger
``availableNow``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql import datasource

from unskew.versions import SPARK

__all__ = [
    "LIMITS_READS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxFiles",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "stream_reader",
]

LIMITS_READS = SPARK >= (4, 2)

if LIMITS_READS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:  # type: ignore[no-redef]
        """How much a batch may read."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """All there is."""

    class ReadMaxFiles(ReadLimit):  # type: ignore[no-redef]
        """So many files."""

        def __init__(self, max_files: int) -> None:
            self.max_files = max_files

    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """So many rows."""

        def __init__(self, max_rows: int) -> None:
            self.max_rows = max_rows

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Nobody asks."""


def stream_reader(reader: Any, start: Callable[[], dict[str, int]]) -> datasource.DataSourceStreamReader:
    """Return a reader as this Spark calls it. Before 4.2 it reads all there is after what `start` returns."""
    return reader if LIMITS_READS else _UnlimitedReader(reader, start)


class _UnlimitedReader(datasource.DataSourceStreamReader):
    def __init__(self, reader: Any, start: Callable[[], dict[str, int]]) -> None:
        self._reader, self._start = reader, start

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return self._reader.initialOffset()  # type: ignore[no-any-return]

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        return self._reader.latestOffset(self._start(), ReadAllAvailable())  # type: ignore[no-any-return]

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[datasource.InputPartition]:
        return self._reader.partitions(start, end)  # type: ignore[no-any-return]

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        return self._reader.read(partition)  # type: ignore[no-any-return]
