"""What Spark's own aggregates keep of a key, its buffers, as the state of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from unskew.errors import ColumnError, RangeError
from unskew.operators.aggregate_distinct import ApproximateDistinct
from unskew.operators.aggregate_functions import Count, Max, Mean, Min, Result, Sum
from unskew.operators.aggregate_order import First, Last, MaxBy
from unskew.operators.aggregate_variance import VarPop
from unskew.operators.base import Numbers
from unskew.operators.lists import cut

BUFFERS = "buffers"  # the column of a table of state that holds them, a struct

_MOST_DIGITS_OF_A_LONG, _MOST_DIGITS_OF_A_DOUBLE = 18, 15  # up to so many Spark adds up decimals without their point
_EXACT = 1 << 53  # a double holds all whole numbers up to here
_REGISTER_BITS, _REGISTERS_PER_WORD = 6, 10
_ANY = ""

Buffers = list[tuple[str, pa.DataType]]


def buffers_of(result: Result) -> Buffers:
    """Return the buffers that Spark keeps for an aggregate, by name and type; `ColumnError` if they cannot be read."""
    kinds = [column.type for column in result.columns]
    if isinstance(result, Count):
        return [("count", pa.int64())]
    if isinstance(result, Sum):
        if not types.is_decimal(kinds[0]):
            return [("sum", result.kind)]
        whole = kinds[0].precision + 10 <= _MOST_DIGITS_OF_A_LONG
        return [("sum", pa.int64())] if whole else [("sum", result.kind), ("isEmpty", pa.bool_())]
    if isinstance(result, Mean):
        return [("sum", pa.float64() if _mean_of_wholes(result) else result.state[0].type), ("count", pa.int64())]
    if isinstance(result, Min | Max):
        return [("max" if result.greatest else "min", result.kind)]
    if isinstance(result, VarPop):
        return [(name, pa.float64()) for name in ("n", "avg", "m2")]
    if isinstance(result, First):
        return [("last" if isinstance(result, Last) else "first", kinds[0]), ("valueSet", pa.bool_())]
    if isinstance(result, MaxBy):
        return [(_ANY, kind) for kind in kinds]  # their names differ between versions
    if isinstance(result, ApproximateDistinct):
        return [(f"MS[{word}]", pa.int64()) for word in range((1 << result.bits) // _REGISTERS_PER_WORD + 1)]
    raise ColumnError(
        "what Spark keeps for this aggregate cannot be taken over",
        got=result.name,
        hint="leave it out, or let it begin anew in a query of its own",
    )


def shared_by(result: Result, nullable: bool) -> tuple[Any, ...]:
    """Return what two aggregates have in common if Spark keeps one set of buffers for both."""
    columns = tuple(column.name for column in result.columns)
    if isinstance(result, Count) and not nullable:
        columns = ()  # Spark counts rows
    options = tuple(option.lower() for option in result.options if option.lower() != "false")
    return type(result), columns, options


def check_buffers(wanted: Buffers, found: pa.StructType) -> None:
    """Refuse buffers of other aggregates, or of the same in another order. A found name may have a number behind it."""
    there = [(field.name.rpartition("_")[0], field.type) for field in found]
    fits = len(there) == len(wanted) and all(
        name in (_ANY, other) and _same(kind, of_other)
        for (name, kind), (other, of_other) in zip(wanted, there, strict=True)
    )
    if not fits:
        raise ColumnError(
            "these are not the aggregates of the native query",
            where=f"column {BUFFERS!r}",
            got=_listed(there),
            hint=f"name the same aggregates in the same order; those of this query keep {_listed(wanted)}",
        )


def state_from_buffers(result: Result, buffers: Sequence[pa.Array]) -> list[pa.Array]:
    """Return the state that an aggregate would have, had it seen the rows that the buffers come from."""
    if isinstance(result, Sum) and types.is_decimal(result.kind):
        return [_decimal_sum(result, *buffers)]
    if isinstance(result, Mean):
        total, count = buffers
        if _mean_of_wholes(result):
            total = _without_point(_whole(total, result), result.state[0].type)
        return [pc.if_else(pc.equal(count, 0), None, total), count]
    if isinstance(result, VarPop):
        return [buffers[0].cast(pa.int64()), *buffers[1:]]
    if isinstance(result, ApproximateDistinct):
        return [_registers(result, buffers)]
    return list(buffers)


def _mean_of_wholes(result: Mean) -> bool:
    kind = result.columns[0].type
    return bool(types.is_decimal(kind) and kind.precision + 4 <= _MOST_DIGITS_OF_A_DOUBLE)


def _decimal_sum(result: Sum, total: pa.Array, empty: pa.Array | None = None) -> pa.Array:
    if empty is None:
        return _without_point(total, result.kind)
    if pc.any(pc.and_(pc.is_null(total), pc.invert(empty))).as_py():
        raise RangeError("a sum of the native query has overflowed", where=f"result {result.name!r}")
    return pc.if_else(empty, None, total)


def _whole(numbers: pa.Array, result: Mean) -> pa.Array:
    largest = pc.max(pc.abs(numbers)).as_py()
    if largest is not None and largest >= _EXACT:
        what = "Spark has rounded the sum behind this mean, so that it cannot be taken over exactly"
        raise RangeError(what, where=f"result {result.name!r}", got=largest)
    return numbers.cast(pa.int64())


def _without_point(numbers: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Return the decimals that have these digits."""
    low = numbers.fill_null(0).to_numpy()
    words = np.stack([low, low >> 63], axis=1)
    valid = np.packbits(numbers.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
    return pa.Array.from_buffers(kind, len(numbers), [pa.py_buffer(valid), pa.py_buffer(np.ascontiguousarray(words))])


def _registers(result: ApproximateDistinct, words: Sequence[pa.Array]) -> pa.Array:
    """Return the registers that are not zero. Spark packs ten into a word."""
    packed: Numbers = np.stack([word.to_numpy() for word in words], axis=1)
    shifts = _REGISTER_BITS * np.arange(_REGISTERS_PER_WORD)
    ranks = (packed[:, :, None] >> shifts) & ((1 << _REGISTER_BITS) - 1)
    ranks = ranks.reshape(len(packed), -1)[:, : 1 << result.bits]
    group, register = np.nonzero(ranks)
    kind = result.state[0].type
    entries = pa.array(register << _REGISTER_BITS | ranks[group, register]).cast(kind.value_type)
    return cut(entries, np.bincount(group, minlength=len(packed))).cast(kind)


def _same(kind: pa.DataType, other: pa.DataType) -> bool:
    if types.is_timestamp(kind) and types.is_timestamp(other):
        return bool((kind.tz is None) == (other.tz is None))  # the zone that instants are shown in does not matter
    return bool(kind == other)


def _listed(buffers: Buffers) -> str:
    return ", ".join(f"{name or 'any'} {kind}" for name, kind in buffers)
