"""Histories: rows that are kept per key, as list columns of the state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from unskew.operators.lists import lengths_of
from unskew.state.groups import plain_schema

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

HELD = -1


@dataclass(frozen=True, eq=False)
class Histories:
    """The rows of each group, one group after the other: first those that were held, then the new ones.

    Parameters
    ----------
    rows
        All of them.
    starts
        Where each group starts in `rows`, int64[G + 1].
    new_row
        Which row of the batch each is, int64[n]; `HELD` for those that were held.

    Examples
    --------
    >>> held = pa.table({"price": [[1, 2], None]})
    >>> order, starts = np.array([1, 0, 2]), np.array([0, 1, 3])
    >>> histories = extended(held, pa.table({"price": [7, 8, 9]}), order, starts)
    >>> histories.rows["price"].to_pylist(), histories.starts.tolist(), histories.new_row.tolist()
    ([1, 2, 8, 7, 9], [0, 3, 5], [-1, -1, 1, 0, 2])
    >>> histories.kept(histories.rows["price"].to_numpy() != 2)["price"].to_pylist()
    [[1, 8], [7, 9]]
    """

    rows: pa.Table
    starts: Numbers
    new_row: Numbers

    @property
    def group_of_row(self) -> Numbers:
        """Group of each row."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def kept(self, where: Mask) -> pa.Table:
        """Return the rows for which `where` holds as list columns, one list per group."""
        before = np.concatenate(([0], np.cumsum(where)))
        return as_lists(self.rows.filter(pa.array(where)), before[self.starts])


def extended(held: pa.Table, rows: pa.Table, order: Numbers, starts: Numbers) -> Histories:
    """Put a batch's rows behind those that are held.

    Parameters
    ----------
    held
        List columns, one row per group; null where nothing is held.
    rows
        Columns of the same names.
    order, starts
        Rows of group 0, of group 1, ..., and where each group starts among them, as in `Groups`.
    """
    rows = rows.select(held.column_names)
    rows = rows.cast(plain_schema(rows.schema))
    lists = [column.combine_chunks() for column in held.columns]
    lengths, elements = lengths_of(lists[0]), [column.flatten() for column in lists]
    both = pa.concat_tables([pa.Table.from_arrays(elements, schema=rows.schema), rows]).combine_chunks()
    positions, all_starts = _kernel_interleave(lengths, order, starts)
    new_row = np.where(positions < len(elements[0]), HELD, positions - len(elements[0]))
    return Histories(both.take(pa.array(positions)), all_starts, new_row)


def list_schema(schema: pa.Schema, names: list[str]) -> pa.Schema:
    """Return the list columns that keep rows of these columns."""
    return pa.schema(
        [pa.field(field.name, pa.list_(field.type)) for field in plain_schema(schema) if field.name in names]
    )


def as_lists(rows: pa.Table, starts: Numbers) -> pa.Table:
    """Return rows as list columns; list i holds the rows from ``starts[i]`` to ``starts[i + 1]``."""
    offsets = pa.array(starts, pa.int32())
    lists = [pa.ListArray.from_arrays(offsets, column.combine_chunks()) for column in rows.columns]
    return pa.Table.from_arrays(lists, rows.column_names)


@njit(cache=True)
def _kernel_interleave(lengths: Numbers, order: Numbers, starts: Numbers) -> tuple[Numbers, Numbers]:
    """Return positions among held rows, which come first, and new ones, group by group; and where groups start."""
    total_held = lengths.sum()
    positions = np.empty(total_held + len(order), np.int64)
    all_starts = np.zeros(len(lengths) + 1, np.int64)
    place = held = 0
    for group in range(len(lengths)):
        for _ in range(lengths[group]):
            positions[place] = held
            place, held = place + 1, held + 1
        for i in range(starts[group], starts[group + 1]):
            positions[place] = total_held + order[i]
            place += 1
        all_starts[group + 1] = place
    return positions, all_starts
