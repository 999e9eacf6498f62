"""The last rows of every key, and statistics over them for each new row."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from pyarrow import types

from unskew.errors import ArgumentError, RangeError, require_number
from unskew.hashing.buffers import fixed_width
from unskew.operators.base import Clock, Floats, Mask, Numbers, Operator, OutputMode, require_column
from unskew.operators.histories import HELD, extended, list_schema
from unskew.operators.lists import starts_of
from unskew.operators.reductions import take_rows, valid_rows
from unskew.state.groups import Groups
from unskew.state.keyed_state import KeyedState

MOMENTS = ("sum", "mean", "variance", "stddev")
PICKS = ("min", "max", "first", "last")
FUNCTIONS = ("count", *MOMENTS, "median", *PICKS)

_CALL = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*", re.DOTALL)
_NONE = -1


class History(Operator):
    """Yields every row with statistics over the last `rows` rows of its key, itself among them.

    The same as ``function(column) OVER (PARTITION BY key ORDER BY arrival ROWS BETWEEN rows - 1 PRECEDING AND CURRENT
    ROW)`` in SQL, over an endless stream. Rows of a key count in the order in which they arrive: that of their source
    partition. Nulls are passed over; a statistic of no value is null (a count 0, a variance of one value null); NaN is
    the greatest float. ``first`` and ``last`` take nulls too.

    Costs O(`rows`) for each new row and statistic. Keeps at most `rows` rows per key, and only the columns that the
    statistics need. A key's history is written again in every batch in which the key has rows.

    Parameters
    ----------
    rows
        Length of the history, in rows.
    statistics
        Name of each result, and what it is: ``"count(column)"``, or ``sum``, ``mean``, ``variance`` and ``stddev``
        (those of a sample), ``median``, ``min``, ``max``, ``first`` or ``last`` of a column.

    References
    ----------
    Shah et al., Flux, section 2 (the windowed group-by with history).

    Examples
    --------
    >>> from unskew.testing import run
    >>> trades = pa.table({"stock": ["a", "b", "a", "a"], "price": [1.0, 8.0, 3.0, 8.0]})
    >>> result = run(History(2, mean="mean(price)", before="first(price)"), [trades], key="stock")
    >>> for row in result.outputs[0].to_pylist():
    ...     print(row)
    {'stock': 'a', 'price': 1.0, 'mean': 1.0, 'before': 1.0}
    {'stock': 'a', 'price': 3.0, 'mean': 2.0, 'before': 1.0}
    {'stock': 'a', 'price': 8.0, 'mean': 5.5, 'before': 3.0}
    {'stock': 'b', 'price': 8.0, 'mean': 8.0, 'before': 8.0}
    """

    memory = "constant"
    output_mode: OutputMode = "append"

    def __init__(self, rows: int, **statistics: str) -> None:
        require_number("rows", rows)
        if rows < 1:
            raise ArgumentError("a history has at least one row", got=rows)
        if not statistics:
            raise ArgumentError("there is no statistic", hint='name a result, for instance mean="mean(price)"')
        self.rows, self.statistics = rows, statistics
        self._calls = {name: _parsed(name, text) for name, text in statistics.items()}

    def __repr__(self) -> str:
        return f"History({', '.join([str(self.rows), *(f'{n}={text!r}' for n, text in self.statistics.items())])})"

    def check(self) -> None:
        super().check()
        self.__dict__.pop("_kept", None)  # a copy of a bound operator has those of its old input
        for name, (function, column) in self._calls.items():
            require_column(self.input_schema, column)
            if name in self.input_schema.names:
                raise ArgumentError("a result has the name of a column", got=name, hint="choose another name")
            if function in (*MOMENTS, "median"):
                require_column(self.input_schema, column, _is_number, f"{function} works on numbers")

    @property
    def value_schema(self) -> pa.Schema:
        """The last values of each column that a statistic needs, oldest first."""
        return list_schema(self.input_schema, self._kept)

    @property
    def output_schema(self) -> pa.Schema:
        results = [pa.field(name, self._type(*call)) for name, call in self._calls.items()]
        return pa.schema([*(field.remove_metadata() for field in self.input_schema), *results])

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        """Append the rows to their keys' histories. Return them in the order in which they came."""
        held, _ = state.get(groups)
        histories = extended(held, rows, groups)
        ends = histories.starts[1:][histories.group_of_row]
        state.put(groups, histories.kept(np.arange(len(ends)) >= ends - self.rows))
        new = np.flatnonzero(histories.new_row != HELD)
        windows = Windows(histories.rows, histories.starts[histories.group_of_row[new]], new, self.rows)
        in_order = np.empty(len(new), np.int64)
        in_order[histories.new_row[new]] = np.arange(len(new))
        results = [windows.statistic(*call).take(pa.array(in_order)) for call in self._calls.values()]
        return pa.Table.from_arrays([*rows.columns, *results], schema=self.output_schema)

    @cached_property
    def _kept(self) -> list[str]:
        return [name for name in self.input_schema.names if name in {column for _, column in self._calls.values()}]

    def _type(self, function: str, column: str) -> pa.DataType:
        kind = self.value_schema.field(column).type.value_type
        if function in PICKS:
            return kind
        return pa.int64() if function == "count" or (function == "sum" and types.is_integer(kind)) else pa.float64()


class Windows:
    """Statistics over windows of rows. Each row of `new` has one: itself and at most ``length - 1`` rows before."""

    def __init__(self, rows: pa.Table, first: Numbers, new: Numbers, length: int) -> None:
        self._rows, self._starts, self._ends = rows, np.maximum(first, new - length + 1), new + 1
        self._moments_of: dict[str, tuple[Floats, Floats]] = {}

    def statistic(self, function: str, column: str) -> pa.Array:
        values = self._rows.column(column).combine_chunks()
        if function in ("first", "last"):
            return values.take(pa.array(self._starts if function == "first" else self._ends - 1))
        if function in ("min", "max"):
            ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
            found = _kernel_extremes(ranks, valid_rows(values), self._starts, self._ends, function == "max")
            return take_rows(values, found)
        before = starts_of(valid_rows(values))
        count = before[self._ends] - before[self._starts]
        if function == "count":
            return pa.array(count)
        if function == "median":
            return pa.array(_kernel_medians(*_floats(values), self._starts, self._ends), mask=count == 0)
        if function == "sum" and types.is_integer(values.type):
            return self._whole_sums(values, count == 0)
        total, squares = self._moments(column, count)
        if function == "sum":
            return pa.array(total, mask=count == 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            if function == "mean":
                return pa.array(total / count, mask=count == 0)
            variance = squares / (count - 1)
            return pa.array(variance if function == "variance" else np.sqrt(variance), mask=count < 2)

    def _moments(self, column: str, count: Numbers) -> tuple[Floats, Floats]:
        if column not in self._moments_of:
            floats, valid = _floats(self._rows.column(column).combine_chunks())
            self._moments_of[column] = _kernel_moments(floats, valid, self._starts, self._ends, count)
        return self._moments_of[column]

    def _whole_sums(self, values: pa.Array, nothing: Mask) -> pa.Array:
        wide = fixed_width(values.cast(pa.int64()), np.int64)
        sums, fits = _kernel_whole_sums(wide, valid_rows(values), self._starts, self._ends)
        if not fits:
            raise RangeError("a sum is out of the range of int64", hint="sum a double")
        return pa.array(sums, mask=nothing)


def _parsed(name: str, text: str) -> tuple[str, str]:
    call = _CALL.fullmatch(text) if isinstance(text, str) else None
    if call is None or call[1].lower() not in FUNCTIONS or not call[2]:
        hint = f"one of {', '.join(f'{function}(column)' for function in FUNCTIONS)}"
        raise ArgumentError("this is not a statistic", where=f"result {name!r}", got=text, hint=hint)
    return call[1].lower(), call[2]


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_signed_integer(kind) or types.is_floating(kind))


def _floats(values: pa.Array) -> tuple[Floats, Mask]:
    return fixed_width(values.cast(pa.float64(), safe=False), np.float64), valid_rows(values)


@njit(cache=True)
def _kernel_moments(
    values: Floats, valid: Mask, starts: Numbers, ends: Numbers, counts: Numbers
) -> tuple[Floats, Floats]:
    """Return the sum and the sum of squared distances from the mean, each window anew: batches leave no trace."""
    total, squares = np.zeros(len(starts)), np.zeros(len(starts))
    for window in range(len(starts)):
        for row in range(starts[window], ends[window]):
            if valid[row]:
                total[window] += values[row]
        mean = total[window] / max(1, counts[window])
        for row in range(starts[window], ends[window]):
            if valid[row]:
                squares[window] += (values[row] - mean) ** 2
    return total, squares


@njit(cache=True)
def _kernel_whole_sums(values: Numbers, valid: Mask, starts: Numbers, ends: Numbers) -> tuple[Numbers, bool]:
    sums, fits = np.zeros(len(starts), np.int64), True
    for window in range(len(starts)):
        for row in range(starts[window], ends[window]):
            if valid[row]:
                total = sums[window] + values[row]
                # it overflows if both terms have the sign that the total has not
                fits &= ((sums[window] ^ total) & (values[row] ^ total)) >= 0
                sums[window] = total
    return sums, fits


@njit(cache=True)
def _kernel_medians(values: Floats, valid: Mask, starts: Numbers, ends: Numbers) -> Floats:
    medians = np.zeros(len(starts))
    for window in range(len(starts)):
        chosen = np.sort(values[starts[window] : ends[window]][valid[starts[window] : ends[window]]])
        middle = len(chosen) // 2
        if len(chosen) % 2:
            medians[window] = chosen[middle]
        elif len(chosen):
            medians[window] = (chosen[middle - 1] + chosen[middle]) / 2
    return medians


@njit(cache=True)
def _kernel_extremes(ranks: Numbers, valid: Mask, starts: Numbers, ends: Numbers, greatest: bool) -> Numbers:
    """Return the row with the least or greatest value of each window, the first of equal ones; `_NONE` without any."""
    rows = np.full(len(starts), _NONE, np.int64)
    for window in range(len(starts)):
        for row in range(starts[window], ends[window]):
            if valid[row]:
                best = rows[window]
                if best == _NONE or (ranks[row] > ranks[best] if greatest else ranks[row] < ranks[best]):
                    rows[window] = row
    return rows
