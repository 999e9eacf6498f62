"""The frames that a per-key function returns, put together as one Arrow table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkRuntimeError, PySparkTypeError
from pyspark.sql.types import StructType

from unskew.spark.per_key.arrow_settings import ArrowSettings


@dataclass(eq=False)
class _Kind:
    """Frames whose columns have the same names and types."""

    positions: list[int]  # of the declared columns in the frames
    columns: list[list[Any]]  # the arrays of each declared column
    frames: list[int] = field(default_factory=list)  # their numbers in the output


class FrameOutput:
    """Takes in frames, checks them as Spark does, and converts them together, a few microseconds for each frame.

    Frames are joined column by column with others of the same column types, then cast to the declared types by Spark's
    own rules. Empty frames count for nothing. Errors describe the owner of the frame that is wrong. With `spare`,
    frames may have columns that are not declared, which count for nothing, as from a stateful processor.
    """

    def __init__(
        self, schema: StructType, settings: ArrowSettings, describe: Callable[[int], str] = str, spare: bool = False
    ) -> None:
        self._schema, self._settings, self._describe, self._spare = schema, settings, describe, spare
        self._kinds: dict[tuple[Any, ...], _Kind] = {}
        self._lengths: list[int] = []
        self._owners: list[int] = []

    def take(self, result: Any, owner: int) -> None:
        """Run through the frames that a function returned for their owner."""
        if isinstance(result, pd.DataFrame):
            raise _wrong_result("iterable of pandas.DataFrame", result)
        try:
            frames = iter(result)
        except TypeError:
            raise _wrong_result("iterable", result) from None
        for frame in frames:
            if not isinstance(frame, pd.DataFrame):
                raise _wrong_result("iterator of pandas.DataFrame", frame)
            self._append(frame, owner)

    def to_arrow(self) -> pa.Table:
        """Return the rows of all frames, in the order in which they came."""
        batches = [self._convert(kind) for kind in self._kinds.values()]
        table = pa.Table.from_batches(batches, self._settings.arrow_schema(self._schema))
        if len(batches) < 2:
            return table
        lengths = np.array(self._lengths)
        frames = np.concatenate([kind.frames for kind in self._kinds.values()])
        starts = np.empty(len(lengths), np.int64)
        starts[frames] = np.cumsum(lengths[frames]) - lengths[frames]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return table.take(pa.array(np.repeat(starts, lengths) + within))

    def _append(self, frame: Any, owner: int) -> None:
        names, width = frame.columns._values, len(self._schema)
        if len(names) != width and (len(names) or len(frame)) and not (self._spare and len(names) > width):
            raise PySparkRuntimeError(
                errorClass="RESULT_COLUMN_SCHEMA_MISMATCH",
                messageParameters={"expected": str(width), "actual": str(len(names))},
            )
        if not len(frame):
            return
        arrays = [frame._mgr.iget_values(i) for i in range(len(names))]
        signature = (*names.tolist(), *[array.dtype for array in arrays])
        kind = self._kinds.get(signature)
        if kind is None:
            kind = self._kinds[signature] = _Kind(self._positions(names.tolist()), [[] for _ in range(width)])
        for column, position in zip(kind.columns, kind.positions, strict=True):
            column.append(arrays[position])
        kind.frames.append(len(self._lengths))
        self._lengths.append(len(frame))
        self._owners.append(owner)

    def _positions(self, names: list[Any]) -> list[int]:
        """Return the position of each declared column in frames with such names."""
        wanted = self._schema.names
        if not self._settings.columns_by_name or not any(isinstance(name, str) for name in names):
            return list(range(len(wanted)))
        missing, extra = sorted({*wanted} - {*names}), [name for name in names if name not in wanted]
        extra = [] if self._spare else extra
        if missing or extra:
            raise PySparkRuntimeError(
                errorClass="RESULT_COLUMN_NAMES_MISMATCH",
                messageParameters={
                    "missing": f" Missing: {', '.join(missing)}." if missing else "",
                    "extra": f" Unexpected: {', '.join(map(str, extra))}." if extra else "",
                },
            )
        return [names.index(name) for name in wanted]

    def _convert(self, kind: _Kind) -> pa.RecordBatch:
        try:
            return self._settings.to_arrow([pd.Series(_joined(column)) for column in kind.columns], self._schema)
        except Exception:
            for frame, arrays in zip(kind.frames, zip(*kind.columns, strict=True), strict=True):
                try:  # frame by frame, so that the error tells whose it is
                    self._settings.to_arrow([pd.Series(array) for array in arrays], self._schema)
                except Exception as error:
                    error.add_note(self._describe(self._owners[frame]))
                    raise
            raise


def _joined(arrays: list[Any]) -> Any:
    if isinstance(arrays[0], np.ndarray):
        return np.concatenate(arrays)
    return type(arrays[0])._concat_same_type(arrays)


def _wrong_result(expected: str, got: object) -> PySparkTypeError:
    return PySparkTypeError(
        errorClass="UDF_RETURN_TYPE", messageParameters={"expected": expected, "actual": type(got).__name__}
    )
