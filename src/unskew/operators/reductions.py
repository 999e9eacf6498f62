"""Reduces whole Arrow columns to one value per group: sums, smallest and greatest. Nulls count for nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit, uint64
from numpy.typing import NDArray
from pyarrow import types

from unskew.errors import RangeError
from unskew.hashing.buffers import fixed_width
from unskew.operators.base import Floats, Mask, Numbers
from unskew.state.groups import Groups
from unskew.state.index import fixed

_NONE = -1
_GREATEST = np.int64(2**63 - 1)


def sum_by_group(values: pa.Array, groups: Groups) -> pa.Array:
    """Add up values of type int64, float64 or decimal128 per group, in the order of the rows; null where there is none.

    Raises `RangeError` if a sum of integers or decimals leaves the range of its type.
    """
    group_of_row, valid = fixed(groups.group_of_row), valid_rows(values)
    any_valid = np.zeros(len(groups), np.bool_)
    if types.is_decimal(values.type):
        words = np.zeros((len(groups), 2), np.uint64)
        fits = _kernel_sum_wide(
            fixed_width(values, np.dtype((np.uint64, 2))), valid, group_of_row, words, any_valid, *_bound(values.type)
        )
        array = pa.Array.from_buffers(
            values.type, len(groups), [pa.py_buffer(np.packbits(any_valid, bitorder="little")), pa.py_buffer(words)]
        )
    else:
        sums: NDArray[Any] = np.zeros(len(groups), values.type.to_pandas_dtype())
        kernel = _kernel_sum_float if types.is_floating(values.type) else _kernel_sum_int
        fits = kernel(fixed_width(values, sums.dtype), valid, group_of_row, sums, any_valid)
        array = pa.array(sums, mask=~any_valid)
    if not fits:
        raise RangeError(f"a sum is out of the range of {values.type}", hint="sum a wider decimal, or a double")
    return array


def extreme_rows(values: pa.Array, groups: Groups, *, greatest: bool) -> Numbers:
    """Return the row of the smallest or greatest value of each group, the first of equals; -1 where there is none.

    Values are in Spark's order: NaN is the greatest.
    """
    rows = np.full(len(groups), _NONE, np.int64)
    _kernel_extreme(fixed(sortable(values)), valid_rows(values), fixed(groups.group_of_row), greatest, rows)
    return rows


def take_rows(values: pa.Array, rows: Numbers) -> pa.Array:
    """Return the values of rows, null where the row is -1."""
    return values.take(pa.array(rows, mask=rows == _NONE))


def sortable(values: pa.Array) -> NDArray[Any]:
    """Return int64 or float64 numbers in the order of the values: the values themselves, or their ranks."""
    kind = values.type
    if types.is_floating(kind):
        return fixed_width(values, kind.to_pandas_dtype()).astype(np.float64, copy=False)
    if types.is_signed_integer(kind) or types.is_temporal(kind):
        return fixed_width(values, np.dtype(f"i{kind.bit_width // 8}")).astype(np.int64, copy=False)
    encoded = values.dictionary_encode()  # words repeat, and comparing them is what takes long
    ranks = np.append(pc.rank(encoded.dictionary, tiebreaker="dense").to_numpy(), 0).astype(np.int64)
    return np.asarray(ranks[encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()])


def whole_numbers(values: pa.Array) -> Numbers:
    """Return int64 numbers in the order of the values, equal where these are; NaN is the greatest, -0.0 equals 0.0."""
    numbers = sortable(values)
    if numbers.dtype.kind == "f":
        floats, numbers = numbers, np.empty(len(numbers), np.int64)
        _kernel_float_order(fixed(floats), numbers)
    return fixed(numbers)


def valid_rows(values: pa.Array) -> Mask:
    """Tell which values are not null."""
    if values.null_count == 0:
        return fixed(np.ones(len(values), np.bool_))
    return fixed(values.is_valid().to_numpy(zero_copy_only=False))


def _bound(kind: pa.DataType) -> tuple[np.uint64, np.uint64]:
    """Return the smallest magnitude that has too many digits, as two words."""
    bound = 10**kind.precision
    return np.uint64(bound & 0xFFFF_FFFF_FFFF_FFFF), np.uint64(bound >> 64)


@njit(cache=True)
def _kernel_sum_int(values: Numbers, valid: Mask, group_of_row: Numbers, sums: Numbers, any_valid: Mask) -> bool:
    fits = True
    for row in range(len(values)):
        if valid[row]:
            group, value = group_of_row[row], values[row]
            total = sums[group] + value
            # it overflows if both terms have the sign that the total has not
            fits &= ((sums[group] ^ total) & (value ^ total)) >= 0
            sums[group] = total
            any_valid[group] = True
    return fits


@njit(cache=True)
def _kernel_sum_float(values: Floats, valid: Mask, group_of_row: Numbers, sums: Floats, any_valid: Mask) -> bool:
    for row in range(len(values)):
        if valid[row]:
            group = group_of_row[row]
            sums[group] += values[row]
            any_valid[group] = True
    return True


@njit(cache=True)
def _kernel_sum_wide(
    words: NDArray[np.uint64],
    valid: Mask,
    group_of_row: Numbers,
    sums: NDArray[np.uint64],
    any_valid: Mask,
    bound_low: np.uint64,
    bound_high: np.uint64,
) -> bool:
    """Add up 128-bit integers, low word first; tells whether every magnitude stayed below the bound."""
    fits = True
    for row in range(len(words)):
        if valid[row]:
            group = group_of_row[row]
            low = sums[group, 0] + words[row, 0]
            carry = uint64(1) if low < words[row, 0] else uint64(0)
            high = sums[group, 1] + words[row, 1] + carry
            # it overflows if both terms have the sign that the total has not
            if ((sums[group, 1] ^ high) & (words[row, 1] ^ high)) >> uint64(63):
                fits = False
            negative = high >> uint64(63) != 0
            sums[group, 0], sums[group, 1] = low, high
            any_valid[group] = True
            if negative:
                low = ~low + uint64(1)
                high = ~high + (uint64(1) if low == 0 else uint64(0))
            if high > bound_high or (high == bound_high and low >= bound_low):
                fits = False
    return fits


@njit(cache=True)
def _kernel_extreme(values: NDArray[Any], valid: Mask, group_of_row: Numbers, greatest: bool, rows: Numbers) -> None:
    """Find the row with the least or greatest value of each group, the first of equal ones; NaN is the greatest."""
    for row in range(len(values)):
        if valid[row]:
            group, value = group_of_row[row], values[row]
            if rows[group] == _NONE:
                rows[group] = row
                continue
            best = values[rows[group]]
            less = value < best or (np.isnan(best) and not np.isnan(value))
            more = value > best or (np.isnan(value) and not np.isnan(best))
            if (greatest and more) or (not greatest and less):
                rows[group] = row


@njit(cache=True)
def _kernel_float_order(values: Floats, numbers: Numbers) -> None:
    """Turn the bits of floats into whole numbers of the same order, NaN the greatest; -0.0 equals 0.0."""
    bits = values.view(np.int64)
    for row in range(len(values)):
        if np.isnan(values[row]):
            numbers[row] = _GREATEST
        elif bits[row] < 0:
            numbers[row] = -(bits[row] & _GREATEST)
        else:
            numbers[row] = bits[row]
