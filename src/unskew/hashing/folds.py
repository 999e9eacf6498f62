"""How arrays of each Arrow type are folded into running hashes, as Spark does for the type they become there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray
from pyarrow import types

from unskew.errors import ColumnError, KeyTypeError
from unskew.hashing.buffers import byte_ranges, fixed_width, is_bytes, validity
from unskew.hashing.kernels import (
    Hashes,
    _kernel_bytes,
    _kernel_doubles,
    _kernel_floats,
    _kernel_ints,
    _kernel_longs,
    _kernel_restore_nulls,
    _kernel_wide_decimals,
)

Fold = Callable[[pa.Array, Hashes], None]

_FIXED_WIDTH: dict[pa.DataType, tuple[Callable[..., None], DTypeLike]] = {
    pa.int8(): (_kernel_ints, np.int8),
    pa.int16(): (_kernel_ints, np.int16),
    pa.int32(): (_kernel_ints, np.int32),
    pa.date32(): (_kernel_ints, np.int32),
    pa.int64(): (_kernel_longs, np.int64),
    pa.float32(): (_kernel_floats, np.uint32),
    pa.float64(): (_kernel_doubles, np.uint64),
}
_DIGITS_IN_A_LONG = 18
_MOST_DIGITS = 38
_TAGS_OF_OPAQUE_STRUCTS = {b"variant", b"geometry", b"geography"}


def fold_of(kind: pa.DataType, where: str) -> Fold:
    """Return the function that folds arrays of type `kind` into running hashes, in place; nulls keep their hash.

    Types that Spark does not have or does not hash raise a `KeyTypeError` that names `where`.
    """
    fold = _fold_of_temporal(kind, where) or _fold_of_nested(kind, where) or _fold_of_plain(kind)
    if fold is None:
        raise KeyTypeError("a key of this type cannot be hashed", where=where, got=str(kind), hint=_hint(kind))
    return _sparing_nulls(fold)


def _sparing_nulls(fold: Fold) -> Fold:
    def fold_valid(array: pa.Array, hashes: Hashes) -> None:
        if array.null_count == 0:
            fold(array, hashes)
        elif array.null_count < len(array):
            before = hashes.copy()
            fold(array, hashes)
            _kernel_restore_nulls(validity(array), array.offset, before, hashes)

    return fold_valid


def _fold_of_plain(kind: pa.DataType) -> Fold | None:
    if types.is_null(kind):
        return lambda array, hashes: None
    if types.is_boolean(kind):
        return lambda array, hashes: _kernel_ints(fixed_width(array.cast(pa.int8()), np.int8), hashes)
    if kind in _FIXED_WIDTH:
        kernel, dtype = _FIXED_WIDTH[kind]
        return lambda array, hashes: kernel(fixed_width(array, dtype), hashes)
    if types.is_decimal(kind) and kind.precision <= _MOST_DIGITS:
        return _fold_of_decimal(kind)
    if is_bytes(kind):
        return lambda array, hashes: _kernel_bytes(*byte_ranges(array), hashes)
    return None


def _fold_of_decimal(kind: pa.DataType) -> Fold:
    same_value = pa.decimal128(kind.precision, kind.scale)

    def words(array: pa.Array) -> NDArray[np.uint64]:
        array = array if array.type == same_value else array.cast(same_value)
        return fixed_width(array, np.dtype((np.uint64, 2)))

    if kind.precision <= _DIGITS_IN_A_LONG:
        return lambda array, hashes: _kernel_longs(words(array)[:, 0], hashes)
    return lambda array, hashes: _kernel_wide_decimals(words(array), hashes)


def _fold_of_temporal(kind: pa.DataType, where: str) -> Fold | None:
    if types.is_time64(kind):
        target = pa.time64("ns")
    elif types.is_timestamp(kind):
        target = pa.timestamp("us", kind.tz)
    elif types.is_duration(kind):
        target = pa.duration("us")
    else:
        return None

    def fold(array: pa.Array, hashes: Hashes) -> None:
        if kind.unit == "ns" and target.unit == "us":
            _kernel_longs(fixed_width(array, np.int64) // 1000, hashes)
            return
        try:
            _kernel_longs(fixed_width(array.cast(target), np.int64), hashes)
        except pa.ArrowInvalid as error:
            what, hint = "a time is out of Spark's range", f"Spark keeps {target}: cast or filter the column first"
            raise ColumnError(what, where=where, got=str(error), hint=hint) from None

    return fold


def _fold_of_nested(kind: pa.DataType, where: str) -> Fold | None:
    if types.is_dictionary(kind):
        return _fold_of_dictionary(fold_of(kind.value_type, where))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _fold_of_list(fold_of(kind.value_type, f"{where}, element"))
    if types.is_struct(kind) and not any(_TAGS_OF_OPAQUE_STRUCTS & (field.metadata or {}).keys() for field in kind):
        folds = [fold_of(field.type, f"{where}, field {field.name!r}") for field in kind]

        def fold(array: pa.Array, hashes: Hashes) -> None:
            for fold_field, values in zip(folds, array.flatten(), strict=True):
                fold_field(values, hashes)

        return fold
    return None


def _fold_of_dictionary(fold_values: Fold) -> Fold:
    def fold(array: pa.Array, hashes: Hashes) -> None:
        values = array.dictionary
        if 0 < len(values) <= len(array) and (hashes == hashes[0]).all():
            hashed = np.full(len(values), hashes[0])
            fold_values(values, hashed)
            codes = fixed_width(array.indices, array.indices.type.to_pandas_dtype())
            np.take(hashed, codes, out=hashes, mode="clip")  # codes under nulls are arbitrary
        else:
            fold_values(array.dictionary_decode(), hashes)

    return fold


def _fold_of_list(fold_elements: Fold) -> Fold:
    def fold(array: pa.Array, hashes: Hashes) -> None:
        elements = array.flatten()
        lengths = pc.list_value_length(array).fill_null(0).to_numpy()
        starts = np.cumsum(lengths) - lengths
        rows, position = np.flatnonzero(lengths), 0
        while rows.size:
            running = hashes[rows]
            fold_elements(elements.take(pa.array(starts[rows] + position)), running)
            hashes[rows] = running
            position += 1
            rows = rows[lengths[rows] > position]

    return fold


def _hint(kind: pa.DataType) -> str:
    if types.is_map(kind):
        return "a map has no fixed order of entries: use its sorted entries, or single ones"
    if types.is_unsigned_integer(kind):
        return "Spark has no unsigned integers: cast the key to int64 or decimal(20, 0)"
    if types.is_decimal(kind):
        return f"Spark's decimals have at most {_MOST_DIGITS} digits"
    if types.is_date64(kind):
        return "cast the key to date32"
    if types.is_struct(kind):
        return "Spark does not group variants, geometries and geographies: extract a plain field"
    return "cast the key to a type that Spark can group by"
