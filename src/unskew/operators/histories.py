"""Histories: rows that are kept per key, as list columns of the state, and their times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from numba import njit

from unskew.operators.base import Mask, Numbers
from unskew.operators.lists import lengths_of, starts_of
from unskew.state.groups import Groups, plain_schema

HELD = -1


@dataclass(frozen=True, eq=False)
class Histories:
    """The rows of each group, one group after the other: first those that were held, then the new ones.

    >>> held, groups = pa.table({"price": [[1, 2], None]}), Groups(np.arange(2), pa.table({}), np.array([1, 0, 1]))
    >>> histories = extended(held, pa.table({"price": [7, 8, 9]}), groups)
    >>> histories.rows["price"].to_pylist(), histories.starts.tolist(), histories.new_row.tolist()
    ([1, 2, 8, 7, 9], [0, 3, 5], [-1, -1, 1, 0, 2])
    >>> histories.kept(histories.rows["price"].to_numpy() != 2)["price"].to_pylist()
    [[1, 8], [7, 9]]
    """

    rows: pa.Table
    starts: Numbers  # where each group starts in `rows`, int64[G + 1]
    new_row: Numbers  # which row of the batch each is; `HELD` for those that were held

    @property
    def group_of_row(self) -> Numbers:
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def kept(self, where: Mask) -> pa.Table:
        """Return the rows for which `where` holds as list columns, one list per group."""
        return as_lists(self.rows.filter(pa.array(where)), starts_of(where)[self.starts])

    def has_any(self, where: Mask) -> Mask:
        """Return for each group whether `where` holds for any of its rows."""
        before = starts_of(where)[self.starts]
        return before[1:] > before[:-1]

    def sorted_by_time(self, at: Numbers) -> tuple[Histories, Numbers]:
        """Return each group's rows by time, and the times; rows of the same time keep their order."""
        order = _kernel_order(at, self.starts)
        if not len(order):
            return self, at
        return Histories(self.rows.take(pa.array(order)), self.starts, self.new_row[order]), at[order]


def extended(held: pa.Table, rows: pa.Table, groups: Groups, where: Mask | None = None) -> Histories:
    """Put a batch's rows, or those for which `where` holds, behind those that are held.

    `held` has list columns, one row per group, null where nothing is held; `rows` has columns of the same names.
    """
    order, starts = groups.order, groups.starts
    if where is not None and not where.all():
        order = order[where[order]]
        starts = starts_of(np.bincount(groups.group_of_row[where], minlength=len(groups)))
    rows = rows.select(held.column_names)
    rows = rows.cast(plain_schema(rows.schema))
    lists = [column.combine_chunks() for column in held.columns]
    elements = [column.flatten() for column in lists]
    both = pa.concat_tables([pa.Table.from_arrays(elements, schema=rows.schema), rows]).combine_chunks()
    positions, all_starts = _kernel_interleave(lengths_of(lists[0]), order, starts)
    new_row = np.where(positions < len(elements[0]), HELD, positions - len(elements[0]))
    return Histories(both.take(pa.array(positions)), all_starts, new_row)


def list_schema(schema: pa.Schema, names: list[str]) -> pa.Schema:
    """Return the list columns that keep rows of these columns."""
    kept = [field for field in plain_schema(schema) if field.name in names]
    return pa.schema([pa.field(field.name, pa.list_(field.type)) for field in kept])


def as_lists(rows: pa.Table, starts: Numbers) -> pa.Table:
    """Return rows as list columns; list i holds the rows from ``starts[i]`` to ``starts[i + 1]``."""
    offsets = pa.array(starts, pa.int32())
    lists = [pa.ListArray.from_arrays(offsets, column.combine_chunks()) for column in rows.columns]
    return pa.Table.from_arrays(lists, rows.column_names)


def in_microseconds(column: pa.ChunkedArray) -> pa.Array:
    """Return timestamps as microseconds since 1970, null where they are null."""
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).combine_chunks()


def has_null_key(groups: Groups) -> Mask:
    """Return for each group whether a column of its key is null: such rows have no partner in SQL."""
    return reduce(np.logical_or, [np.asarray(column.is_null().to_numpy()) for column in groups.keys.columns])


def pairs_within(
    left: Histories,
    left_at: Numbers,
    right: Histories,
    right_at: Numbers,
    earliest_us: int,
    latest_us: int,
    leads: Mask | None = None,
) -> tuple[Numbers, Numbers, Numbers]:
    """Return the rows of each pair with a new row in it, and how many pairs each group has. O(rows + pairs).

    In a pair the right row lies between `earliest_us` and `latest_us` after the left one, and the left one leads. Both
    sides are sorted by time.
    """
    leads = np.ones(len(left_at), np.bool_) if leads is None else leads
    sides = left_at, left.new_row != HELD, leads, left.starts, right_at, right.new_row != HELD, right.starts
    nothing = np.empty(0, np.int64)
    pairs = _kernel_pairs(*sides, earliest_us, latest_us, nothing, nothing)
    i, j = np.empty(pairs.sum(), np.int64), np.empty(pairs.sum(), np.int64)
    _kernel_pairs(*sides, earliest_us, latest_us, i, j)
    return i, j, pairs


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


@njit(cache=True)
def _kernel_order(at: Numbers, starts: Numbers) -> Numbers:
    """Return the rows of each group by time, stable; empty if they are in order already."""
    order, sorted_already = np.arange(len(at)), True
    for group in range(len(starts) - 1):
        start, stop = starts[group], starts[group + 1]
        for row in range(start + 1, stop):
            if at[row] < at[row - 1]:
                order[start:stop] = start + np.argsort(at[start:stop], kind="mergesort")
                sorted_already = False
                break
    return order[:0] if sorted_already else order


@njit(cache=True)
def _kernel_pairs(
    left_at: Numbers,
    left_new: Mask,
    leads: Mask,
    left_starts: Numbers,
    right_at: Numbers,
    right_new: Mask,
    right_starts: Numbers,
    earliest_us: int,
    latest_us: int,
    left: Numbers,
    right: Numbers,
) -> Numbers:
    """Count each group's pairs, and fill them in unless `left` and `right` are empty."""
    pairs, fill, place = np.zeros(len(left_starts) - 1, np.int64), len(left) > 0, 0
    new_rows = np.flatnonzero(right_new)
    first_new = last_new = 0
    for group in range(len(left_starts) - 1):
        stop = right_starts[group + 1]
        first = last = right_starts[group]
        for i in range(left_starts[group], left_starts[group + 1]):
            while first < stop and right_at[first] < left_at[i] + earliest_us:
                first += 1
            last = max(first, last)
            while last < stop and right_at[last] <= left_at[i] + latest_us:
                last += 1
            while first_new < len(new_rows) and new_rows[first_new] < first:
                first_new += 1
            while last_new < len(new_rows) and new_rows[last_new] < last:
                last_new += 1
            if not leads[i]:
                continue
            found = last - first if left_new[i] else last_new - first_new
            if fill:
                for n in range(found):
                    left[place + n] = i
                    right[place + n] = first + n if left_new[i] else new_rows[first_new + n]
            place += found
            pairs[group] += found
    return pairs
