"""Rows of one batch, grouped by key; keys are compared exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray
from pyarrow import types

from unskew.errors import ArgumentError

Hashes = NDArray[np.int64]
Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class Groups:
    """The distinct keys of some rows, in the order of their first appearance, and the rows of each.

    Parameters
    ----------
    hashes
        Hash of each group's key, int64[G]. Different keys that share a hash are different groups.
    keys
        The key columns, one row per group, of plain types.
    group_of_row
        Group of each row, int64[n]; empty if there are keys but no rows (timers).

    Examples
    --------
    >>> from unskew.hashing import hash_keys
    >>> rows = pa.table({"user": ["ada", "bob", "ada"], "amount": [1, 2, 3]})
    >>> groups = group_rows(rows, hash_keys(rows, "user"), ["user"])
    >>> len(groups), groups.keys["user"].to_pylist(), groups.group_of_row.tolist(), groups.counts.tolist()
    (2, ['ada', 'bob'], [0, 1, 0], [2, 1])
    >>> groups.order.tolist(), groups.starts.tolist()
    ([0, 2, 1], [0, 2, 3])
    """

    hashes: Hashes
    keys: pa.Table
    group_of_row: Numbers

    def __len__(self) -> int:
        return len(self.hashes)

    @cached_property
    def counts(self) -> Numbers:
        """Number of rows of each group, int64[G]."""
        return np.bincount(self.group_of_row, minlength=len(self)).astype(np.int64, copy=False)

    @cached_property
    def starts(self) -> Numbers:
        """Where each group starts in `order`, int64[G + 1]."""
        return np.concatenate(([0], np.cumsum(self.counts)))

    @cached_property
    def order(self) -> Numbers:
        """The rows of group 0, then of group 1, ..., each group's rows in source order, int64[n]."""
        return _kernel_order(self.group_of_row, self.starts)

    def one_row_each(self) -> Groups:
        """Return the same keys as the groups of a table that has one row per group, in group order."""
        return Groups(self.hashes, self.keys, np.arange(len(self)))

    def apart(self, labels: NDArray[np.int32]) -> tuple[Groups, NDArray[np.int32]]:
        """Group by key and label; returns the groups and the label of each.

        >>> groups = Groups(np.array([5]), pa.table({"user": ["ada"]}), np.array([0, 0, 0]))
        >>> apart, labels = groups.apart(np.array([2, 1, 2], np.int32))
        >>> apart.keys["user"].to_pylist(), apart.group_of_row.tolist(), labels.tolist()
        (['ada', 'ada'], [0, 1, 0], [2, 1])
        """
        codes = self.group_of_row * (1 + int(labels.max(initial=0))) + labels
        group_of_row, first_row = kernel_group(codes)
        whole = self.group_of_row[first_row]
        return Groups(self.hashes[whole], self.keys.take(pa.array(whole)), group_of_row), labels[first_row]

    def subset(self, where: Mask) -> Groups:
        """Return the groups for which `where` holds, without rows."""
        chosen = np.flatnonzero(where)
        return Groups(self.hashes[chosen], self.keys.take(pa.array(chosen)), np.empty(0, np.int64))


def group_rows(rows: pa.Table, hashes: Hashes, key: Sequence[str]) -> Groups:
    """Group rows whose key columns are equal; null equals null and NaN equals NaN.

    Equal keys must have equal hashes. The result is exact even if different keys share a hash, because every row is
    compared with the first row of its group. O(rows); each key that shares a hash with another costs one more pass.
    """
    if len(hashes) != rows.num_rows:
        raise ArgumentError("every row needs a hash", got=(rows.num_rows, len(hashes)))
    hashes = np.ascontiguousarray(hashes, np.int64)
    columns = rows.select(list(key)).combine_chunks()
    columns = columns.cast(plain_schema(columns.schema))
    group_of_row, first_row = kernel_group(hashes)
    keys = columns.take(pa.array(first_row))
    if len(first_row) < len(hashes):
        alike = same_keys(columns, keys.take(pa.array(group_of_row)))
        if not alike.all():
            group_of_row, first_row = _separate(columns, group_of_row, first_row, alike)
            keys = columns.take(pa.array(first_row))
    return Groups(hashes[first_row], keys, group_of_row)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with dictionaries and views replaced by plain types, which all Arrow functions support."""
    return pa.schema([pa.field(field.name, _plain_type(field.type)) for field in schema])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if types.is_string_view(kind):
        return pa.string()
    return pa.binary() if types.is_binary_view(kind) else kind


def _separate(columns: pa.Table, group_of_row: Numbers, first_row: Numbers, alike: Mask) -> tuple[Numbers, Numbers]:
    """Give keys that share a hash groups of their own, then number all groups by first appearance."""
    group_of_row, leaders = group_of_row.copy(), list(first_row)
    strangers = np.flatnonzero(~alike)
    while strangers.size:
        # the first stranger of each group leads a new group; who does not match it waits for the next round
        old, led_by = np.unique(group_of_row[strangers], return_inverse=True)
        leader = np.full(len(old), len(group_of_row))
        np.minimum.at(leader, led_by, strangers)
        matches = same_keys(columns.take(pa.array(strangers)), columns.take(pa.array(leader[led_by])))
        group_of_row[strangers[matches]] = len(leaders) + led_by[matches]
        leaders.extend(leader)
        strangers = strangers[~matches]
    order = np.argsort(leaders)
    return np.argsort(order)[group_of_row], np.array(leaders, np.int64)[order]


def same_keys(left: pa.Table, right: pa.Table) -> Mask:
    """Tell for each row whether two tables of one schema hold equal keys; null equals null, NaN NaN, and -0.0 0.0."""
    matches = np.ones(left.num_rows, np.bool_)
    for one, other in zip(left.columns, right.columns, strict=True):
        matches &= _same(joined(one), joined(other))
    return matches


def joined(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without a copy if it has one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _same(left: pa.Array, right: pa.Array) -> Mask:
    values = _same_values(left, right)
    if left.null_count == 0 and right.null_count == 0:
        return values
    left_valid, right_valid = _boolean(left.is_valid()), _boolean(right.is_valid())
    return np.where(left_valid & right_valid, values, left_valid == right_valid)


def _same_values(left: pa.Array, right: pa.Array) -> Mask:
    """Compare two arrays; the result is arbitrary where either is null."""
    kind = left.type
    if types.is_dictionary(kind):
        return _same(left.dictionary_decode(), right.dictionary_decode())
    if types.is_struct(kind):
        matches = np.ones(len(left), np.bool_)
        for one, other in zip(left.flatten(), right.flatten(), strict=True):
            matches &= _same(one, other)
        return matches
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _same_lists(left, right)
    if types.is_null(kind):
        return np.ones(len(left), np.bool_)
    matches = _boolean(pc.fill_null(pc.equal(left, right), False))
    if types.is_floating(kind):
        matches |= _boolean(pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
    return matches


def _same_lists(left: pa.Array, right: pa.Array) -> Mask:
    lengths, other_lengths = _lengths(left), _lengths(right)
    matches: Mask = lengths == other_lengths
    rows = np.flatnonzero(matches & (lengths > 0))
    if rows.size:
        at = pa.array(rows)
        elements = _same(left.take(at).flatten(), right.take(at).flatten())
        starts = np.cumsum(lengths[rows]) - lengths[rows]
        matches[rows] = np.logical_and.reduceat(elements, starts)
    return matches


def _lengths(lists: pa.Array) -> Numbers:
    """Return the number of elements of each list, -1 for null."""
    return np.asarray(pc.fill_null(pc.cast(pc.list_value_length(lists), pa.int64()), -1).to_numpy(zero_copy_only=False))


def _boolean(array: pa.Array) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False))


@njit(cache=True)
def kernel_group(hashes: Hashes) -> tuple[Numbers, Numbers]:
    """Number the distinct hashes by first appearance; returns the number of each row and the first row of each."""
    n = len(hashes)
    bits = 4
    while (1 << bits) < 2 * n:
        bits += 1
    shift, last = np.uint64(64 - bits), (1 << bits) - 1
    bucket_group = np.full(1 << bits, -1, np.int32)
    group_of_row, first_row = np.empty(n, np.int64), np.empty(n, np.int64)
    groups = 0
    for row in range(n):
        hashed = hashes[row]
        bucket = np.int64((np.uint64(hashed) * _GOLDEN) >> shift)
        group = bucket_group[bucket]
        while group >= 0 and hashes[first_row[group]] != hashed:
            bucket = (bucket + 1) & last
            group = bucket_group[bucket]
        if group < 0:
            group = groups
            bucket_group[bucket] = group
            first_row[group] = row
            groups += 1
        group_of_row[row] = group
    return group_of_row, first_row[:groups].copy()


@njit(cache=True)
def _kernel_order(group_of_row: Numbers, starts: Numbers) -> Numbers:
    """Return the rows sorted by group, stable (a counting sort)."""
    place = starts[:-1].copy()
    order = np.empty(len(group_of_row), np.int64)
    for row in range(len(group_of_row)):
        group = group_of_row[row]
        order[place[group]] = row
        place[group] += 1
    return order
