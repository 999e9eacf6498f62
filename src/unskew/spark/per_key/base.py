"""What the drop-in and the lean form share: one call per key and batch, with state, timeouts and late rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError, require_number
from unskew.operators import Clock, Operator, Updated
from unskew.operators.base import TimeMode
from unskew.runtime.cutting import sizes_in_order, taken
from unskew.spark.per_key.arrow_settings import ArrowSettings
from unskew.spark.per_key.calls import STATE, TIMEOUT, Demand, KeyCalls
from unskew.spark.per_key.plain_values import PlainValues
from unskew.state import Groups, KeyedState

Inputs = Callable[[int], Any]  # gives the rows of a group as the function gets them; called once per group

ROWS_CONVERTED_AT_ONCE, BYTES_CONVERTED_AT_ONCE = 1 << 17, 256 << 20

_WARM: set[str] = set()  # functions that have been called in this process

TIMEOUTS: dict[str, TimeMode] = {
    GroupStateTimeout.NoTimeout: "none",
    GroupStateTimeout.ProcessingTimeTimeout: "processing",
    GroupStateTimeout.EventTimeTimeout: "event",
}


class PerKeyFunction(Operator):
    """Calls a function for every key that has rows, then for every key that has timed out.

    A key is kept as the struct ``state`` and, with timeouts, ``timeout_ms``; it may have a timeout and no state. The
    state's schema and the kind of timeout identify the operator in a checkpoint: the function may change between two
    starts, as it may under Spark.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        output: StructType,
        state: StructType,
        timeout: str = GroupStateTimeout.NoTimeout,
        settings: ArrowSettings | None = None,
        max_call_seconds: float | None = None,
    ) -> None:
        if not callable(function):
            raise ArgumentError("this is not a function", got=function)
        for name, schema in (("output", output), ("state", state)):
            if not isinstance(schema, StructType):
                raise ArgumentError(f"the {name} schema must be a StructType", got=schema)
            ArrowSettings().arrow_schema(schema)  # Spark says which types Arrow does not have
        if timeout not in TIMEOUTS:
            raise ArgumentError("there is no such timeout", got=timeout, hint=f"one of {', '.join(TIMEOUTS)}")
        if max_call_seconds is not None:
            require_number("max_call_seconds", max_call_seconds, 0.001, whole=False)
        self.function, self.output, self.state, self.max_call_seconds = function, output, state, max_call_seconds
        self.timeout, self.settings = timeout, settings or ArrowSettings()
        self.time_mode = TIMEOUTS[timeout]
        self.deadline = None if timeout == GroupStateTimeout.NoTimeout else TIMEOUT

    def __repr__(self) -> str:
        return f"PerKeyFunction(state={self.state.simpleString()!r}, timeout={self.timeout!r})"

    def bind(self, input_schema: pa.Schema, key: tuple[str, ...]) -> Self:
        """Return a copy that knows its input; with a watermark on the stream, the function sees it."""
        bound = super().bind(input_schema, key)
        if bound.event_time is not None and bound.time_mode == "none":
            bound.time_mode = "event"
        return bound

    def check(self) -> None:
        super().check()
        if self.timeout == GroupStateTimeout.EventTimeTimeout and self.event_time is None:
            hint = "call withWatermark(...) on the stream before balance"
            raise ArgumentError("timeouts in event time need a watermark", hint=hint)

    @property
    def value_schema(self) -> pa.Schema:
        fields = [pa.field(STATE, self.values.kind)]
        return pa.schema(fields if self.deadline is None else [*fields, pa.field(TIMEOUT, pa.int64())])

    @property
    def output_schema(self) -> pa.Schema:
        return self.settings.arrow_schema(self.output)

    @property
    @abstractmethod
    def values(self) -> PlainValues:
        """How state is shown to the function."""

    @abstractmethod
    def key_tuples(self, keys: pa.Table) -> list[tuple[Any, ...]]:
        """Return keys as the function gets them."""

    @abstractmethod
    def inputs(self, rows: pa.RecordBatch, starts: NDArray[np.int64], clock: Clock) -> Inputs:
        """Return access to the rows of each group; `rows` lie group after group, from `starts` on."""

    @abstractmethod
    def inputs_of_timeouts(self, clock: Clock) -> Inputs:
        """Return the same for keys that have timed out, which have no rows."""

    @abstractmethod
    def call(self, calls: KeyCalls, groups: list[int], inputs: Inputs) -> pa.Table:
        """Call the function for groups, the i-th with ``inputs(i)``; return its output."""

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> Updated:
        """Call the function for every key with rows that are not late."""
        demand = Demand()
        order, starts, late_rows = self._on_time(groups, rows, clock)
        calls = self._calls(state, groups, clock, timed_out=False)
        output = [
            self.call(calls, slab.tolist(), self.inputs(_batch(rows, order[starts[slab[0]] : end]), places, clock))
            for slab, places, end in _slabs(starts, _bytes_before(rows, order))
        ]
        calls.write(state, groups, self.values, with_deadlines=self.deadline is not None)
        seconds = demand.of_calls(np.array(calls.seconds), np.array(calls.processor_seconds))
        return Updated(self._joined(output), self._without_warm_up(seconds, np.diff(starts)), late_rows)

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        """Call the function for the keys whose timeout lies before the clock."""
        now = clock.watermark_ms if self.time_mode == "event" else clock.processing_time_ms
        if self.deadline is None or now is None:
            return self.output_schema.empty_table()
        groups = state.due(now - 1)
        calls = self._calls(state, groups, clock, timed_out=True)
        output = self.call(calls, list(range(len(groups))), self.inputs_of_timeouts(clock))
        calls.write(state, groups, self.values, with_deadlines=True)
        return self._joined([output])

    def _calls(self, state: KeyedState, groups: Groups, clock: Clock, timed_out: bool) -> KeyCalls:
        held, _ = state.get(groups)
        states = self.values.to_python(held.column(STATE).combine_chunks())
        deadlines = [None] * len(groups) if self.deadline is None else held.column(TIMEOUT).to_pylist()
        return KeyCalls(clock, timed_out, self.key_tuples(groups.keys), states, deadlines)

    def _without_warm_up(self, seconds: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what each call took; the first in this process, which pays for imports, as its rows suggest.

        Otherwise one key on every channel would look as heavy as all others together in the first batches.
        """
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        called = np.flatnonzero(rows)
        if name in _WARM or len(called) < 2:
            return seconds
        _WARM.add(name)
        first, others = called[0], called[1:]
        usual = seconds[others].sum() / rows[others].sum()
        seconds[first] = min(seconds[first], usual * rows[first])
        return seconds

    def _on_time(
        self, groups: Groups, rows: pa.Table, clock: Clock
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Return the rows that are not late, group after group, where groups start among them, and how many are late.

        As under Spark, rows can be late only with timeouts in event time.
        """
        if self.timeout != GroupStateTimeout.EventTimeTimeout or clock.previous_watermark_ms is None:
            return groups.order, groups.starts, 0
        late = _is_late(rows.column(self.event_time), clock.previous_watermark_ms)
        if not late.any():
            return groups.order, groups.starts, 0
        counts = np.bincount(groups.group_of_row[~late], minlength=len(groups))
        return groups.order[~late[groups.order]], np.concatenate(([0], np.cumsum(counts))), int(late.sum())

    def _joined(self, tables: list[pa.Table]) -> pa.Table:
        return pa.concat_tables([self.output_schema.empty_table(), *tables])


def _bytes_before(rows: pa.Table, order: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the bytes before each row in an order, and of all rows; None if they fit into one slab."""
    if rows.nbytes <= BYTES_CONVERTED_AT_ONCE:
        return None
    return np.concatenate(([0], np.cumsum(sizes_in_order(rows, order))))


def _slabs(
    starts: NDArray[np.int64], bytes_before: NDArray[np.int64] | None = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], int]]:
    """Cut groups into runs of limited size; yield the groups that have rows, where each starts, and the end."""
    counts = np.diff(starts)
    ends_slab = np.diff(starts[:-1] // ROWS_CONVERTED_AT_ONCE) != 0
    if bytes_before is not None:
        ends_slab |= np.diff(bytes_before[starts[:-1]] // BYTES_CONVERTED_AT_ONCE) != 0
    for groups in np.split(np.arange(len(counts)), np.flatnonzero(ends_slab) + 1):
        filled = groups[counts[groups] > 0]
        if len(filled):
            end = int(starts[groups[-1] + 1])
            yield filled, np.append(starts[filled], end) - starts[filled[0]], end


def _batch(rows: pa.Table, order: NDArray[np.int64]) -> pa.RecordBatch:
    return taken(rows, order).combine_chunks().to_batches()[0]


def _is_late(column: pa.ChunkedArray, watermark_ms: int) -> NDArray[np.bool_]:
    """Tell which rows lie at or before a watermark; a window counts by its end, null is never late."""
    if pa.types.is_struct(column.type):
        column = pc.struct_field(column, "end")
    microseconds = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    late = pc.fill_null(pc.less_equal(microseconds, watermark_ms * 1000), False)
    return np.asarray(late.to_numpy(zero_copy_only=False))
