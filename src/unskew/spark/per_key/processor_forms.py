"""The two forms of a stateful processor: pandas frames, and rows."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types
from pyspark.sql import Row

from unskew.spark.per_key.frame_output import FrameOutput
from unskew.spark.per_key.frames import Frames, key_tuples
from unskew.spark.per_key.plain_values import together
from unskew.spark.per_key.processor import Keys, Output, Processor
from unskew.versions.arrow import to_arrow_schema


class PandasProcessor(Processor):
    """Runs a processor written for ``transformWithStateInPandas``.

    It sees the frames that Spark makes: numbers have 64 bits, and a column whose name is no Python name is called by
    its place, such as ``_3``.
    """

    def key_tuples(self, keys: pa.Table) -> Keys:
        return [tuple(map(_plain, key)) for key in key_tuples(keys, self.settings)]

    def timer_keys(self, keys: pa.Table) -> list[Row]:
        """Return what Spark makes of the keys of ``handleInputRows``, in which null may be NaN and times are local."""
        row = Row(*self.key)
        return [row(*self.key_values.as_kept(key)) for key in self.key_tuples(keys)]

    def inputs(self, rows: pa.RecordBatch, starts: NDArray[np.int64]) -> Callable[[int], Iterator[Any]]:
        named: Any = namedtuple("named", rows.schema.names, rename=True)  # type: ignore[misc]
        columns = [column.cast(_wide(column.type)) for column in rows.columns]
        return Frames(pa.RecordBatch.from_arrays(columns, list(named._fields)), starts, self.settings)

    def new_output(self, describe: Callable[[int], str]) -> Output:
        return FrameOutput(self.output, self.settings, describe, spare=True)


class RowProcessor(Processor):
    """Runs a processor written for ``transformWithState``, which takes and yields rows."""

    def key_tuples(self, keys: pa.Table) -> Keys:
        return list(zip(*(column.to_pylist() for column in keys.columns), strict=True))

    def inputs(self, rows: pa.RecordBatch, starts: NDArray[np.int64]) -> Callable[[int], Iterator[Any]]:
        row, columns, places = Row(*rows.schema.names), [each.to_pylist() for each in rows.columns], starts.tolist()

        def of_group(number: int) -> Iterator[Row]:
            start, stop = places[number], places[number + 1]
            return _rows(row, zip(*[column[start:stop] for column in columns], strict=True))

        return of_group

    def new_output(self, describe: Callable[[int], str]) -> Output:
        return RowsOut(to_arrow_schema(self.output, timezone="UTC"), self.output_schema, describe)


class RowsOut:
    """Takes in rows, and converts them together as Spark does one call's: by name, and strictly."""

    def __init__(self, made: pa.Schema, wanted: pa.Schema, describe: Callable[[int], str]) -> None:
        self._made, self._wanted, self._describe = made, wanted, describe
        self._rows: list[dict[str, Any]] = []
        self._owners: list[int] = []

    def take(self, result: Any, owner: int) -> None:
        for row in result:
            self._rows.append(row.asDict(True))
            self._owners.append(owner)

    def to_arrow(self) -> pa.Table:
        convert = partial(pa.Table.from_pylist, schema=self._made)
        return together(convert, self._rows, self._owners, self._describe).cast(self._wanted)


def _rows(names: Row, values: Iterable[tuple[Any, ...]]) -> Iterator[Row]:
    """Yield ``names(*each)``, in half the time."""
    make = tuple.__new__
    for each in values:
        row = make(Row, each)
        row.__dict__["__fields__"] = names
        yield row


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _wide(kind: pa.DataType) -> pa.DataType:
    if types.is_integer(kind):
        return pa.int64()
    return pa.float64() if types.is_floating(kind) else kind
