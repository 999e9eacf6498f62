"""Keys that are alike, counted: the compact statistics that channels report and planners work on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.errors import FormatError
from unskew.planners.fang.hlhe import discretise
from unskew.planners.problem import Channels, Column

_FLOATS = [("cost", pa.float64()), ("state", pa.float64())]
SCHEMA = pa.schema([(name, pa.int32()) for name in ("next", "current", "home")] + _FLOATS + [("copies", pa.int64())])


@dataclass(frozen=True, eq=False)
class Records:
    """Rows that each stand for `copies` keys with the same owners and about the same cost and state.

    Rows are unique in their first five fields and sorted by `current`, `home`, `cost`, `state`, `next`. There are at
    most O(channels ** 3 * cost values * state values) of them, however many keys there are. See section IV of Fang
    et al.

    Examples
    --------
    >>> records = Records.of_rows([(0, 1, 0, 4, 4, 2), (0, 1, 1, 8, 8, 1)])
    >>> records.loads(2).tolist()
    [16.0, 0.0]
    >>> Records.from_arrow(records.to_arrow()).copies.tolist()
    [2, 1]
    """

    next: Channels  # channel that will own the keys; before planning, the one that owns them now
    current: Channels
    home: Channels
    cost: Column  # representative values, see `discretise`
    state: Column
    copies: NDArray[np.int64]  # how many keys the row stands for

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[int, int, int, float, float, int]]) -> Records:
        """Build records from rows (next, current, home, cost, state, copies); equal rows are added up."""
        columns = list(zip(*rows, strict=True)) or [()] * 6
        return _counted(*(np.asarray(c, f.type.to_pandas_dtype()) for c, f in zip(columns, SCHEMA, strict=True)))[0]

    @classmethod
    def of_keys(
        cls,
        cost: ArrayLike,
        state: ArrayLike,
        current: ArrayLike,
        home: ArrayLike,
        *,
        degree: int,
        cost_unit: float | None = None,
        state_unit: float | None = None,
    ) -> tuple[Records, NDArray[np.int64]]:
        """Count keys that are alike after discretising; return the records and, for every key, its row."""
        owner = np.asarray(current, np.int32)
        values = discretise(cost, degree, cost_unit), discretise(state, degree, state_unit)
        return _counted(owner, owner, np.asarray(home, np.int32), *values, np.ones(len(owner), np.int64))

    @classmethod
    def merge(cls, reports: Sequence[Records]) -> Records:
        """Add up the records of several channels, which must share their units."""
        columns = (np.concatenate([getattr(report, name) for report in reports]) for name in SCHEMA.names)
        return _counted(*columns)[0]

    def to_arrow(self) -> pa.Table:
        """Return the records as a table with one column per field."""
        return pa.table([pa.array(getattr(self, name)) for name in SCHEMA.names], schema=SCHEMA)

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Records:
        """Read what `to_arrow` wrote; raises `FormatError` if columns are missing."""
        missing = [name for name in SCHEMA.names if name not in table.column_names]
        if missing:
            raise FormatError("compact records lack a column", where=missing[0], got=table.column_names)
        columns = table.select(SCHEMA.names).cast(SCHEMA).combine_chunks()
        return _counted(*(columns[name].to_numpy() for name in SCHEMA.names))[0]

    def __len__(self) -> int:
        return len(self.copies)

    def loads(self, channels: int) -> Column:
        """Return the estimated cost per channel that the keys put on their next owners."""
        return np.bincount(self.next, self.cost * self.copies, channels).astype(np.float64)

    def find(self, other: Records) -> NDArray[np.int64]:
        """Return, for each row of `other`, the row of these records with the same owners, cost and state.

        These records must be as reported, with one row per such combination; -1 where there is none.
        """
        both = [np.concatenate([getattr(self, n), getattr(other, n)]) for n in ("current", "home", "cost", "state")]
        codes = _codes(*both)
        row_of = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
        row_of[codes[: len(self)]] = np.arange(len(self))
        return row_of[codes[len(self) :]]

    def take(self, rows: NDArray[np.int64]) -> Records:
        """Return some of the rows."""
        return replace(self, **{name: getattr(self, name)[rows] for name in SCHEMA.names})


def _codes(*columns: NDArray[np.generic]) -> NDArray[np.int64]:
    """Number the distinct rows of the columns, in the order of their first appearance."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = pa.array(column).dictionary_encode()
        codes = codes * max(1, len(encoded.dictionary)) + encoded.indices.to_numpy()
        codes = pa.array(codes).dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def _counted(
    next_channel: Channels, current: Channels, home: Channels, cost: Column, state: Column, copies: NDArray[np.int64]
) -> tuple[Records, NDArray[np.int64]]:
    """Add up equal rows; returns the records and the record of every row."""
    codes = _codes(next_channel, current, home, cost, state)
    distinct = int(codes.max(initial=-1)) + 1
    example = np.zeros(distinct, np.int64)
    example[codes[::-1]] = np.arange(len(codes))[::-1]
    order = np.lexsort([column[example] for column in (next_channel, state, cost, home, current)])
    total = np.bincount(codes, copies, distinct).astype(np.int64)
    position = np.empty(distinct, np.int64)
    position[order] = np.arange(distinct)
    row = example[order]
    records = Records(next_channel[row], current[row], home[row], cost[row], state[row], total[order])
    return records, position[codes]
