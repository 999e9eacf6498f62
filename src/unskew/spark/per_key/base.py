"""What the drop-in and the lean form share: one call per key and batch, with state, timeouts and late rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError, require_number
from unskew.operators import Clock, Operator, Updated
from unskew.operators.base import Mask, TimeMode, beside_key, require_state
from unskew.spark.per_key.arrow_settings import ArrowSettings
from unskew.spark.per_key.calls import STATE, TIMEOUT, Demand, KeyCalls
from unskew.spark.per_key.plain_values import PlainValues
from unskew.spark.per_key.slabs import on_time, slabs, without_warm_up
from unskew.state import Groups, KeyedState

Inputs = Callable[[int], Any]  # gives the rows of a group as the function gets them; called once per group

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

    hidden: tuple[str, ...] = ()  # columns of the input that the function does not see

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
    def shown_schema(self) -> pa.Schema:
        """The columns that the function sees."""
        return pa.schema([field for field in self.input_schema if field.name not in self.hidden])

    @property
    def value_schema(self) -> pa.Schema:
        fields = [pa.field(STATE, self.values.kind)]
        return pa.schema(fields if self.deadline is None else [*fields, pa.field(TIMEOUT, pa.int64())])

    def state_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        """Take over states that have no timeout, too."""
        state, *timeout = (beside_key(name, self.key) for name in self.value_schema.names)
        require_state(schema, (*self.key, state))
        return (state, *(name for name in timeout if name in schema.names))

    def taken_over(self, rows: pa.Table) -> tuple[pa.Table, Mask]:
        """Nothing is known of a key that has neither a state nor a timeout."""
        timeout = beside_key(TIMEOUT, self.key)
        if self.deadline is not None and timeout not in rows.column_names:
            rows = rows.append_column(timeout, pa.nulls(len(rows), pa.int64()))
        values, known = super().taken_over(rows)
        known = np.logical_or.reduce([column.is_valid().to_numpy() for column in values.columns])
        return values, known

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
        late_by = clock.previous_watermark_ms if self.timeout == GroupStateTimeout.EventTimeTimeout else None
        order, starts, late_rows = on_time(groups, rows, self.event_time, late_by)
        calls = self._calls(state, groups, clock, timed_out=False)
        output = [
            self.call(calls, slab.tolist(), self.inputs(batch, places, clock))
            for slab, places, batch in slabs(rows.drop_columns(list(self.hidden)), order, starts)
        ]
        calls.write(state, groups, self.values, with_deadlines=self.deadline is not None)
        seconds = demand.of_calls(np.array(calls.seconds), np.array(calls.processor_seconds))
        return Updated(self._joined(output), without_warm_up(self.function, seconds, np.diff(starts)), late_rows)

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

    def _joined(self, tables: list[pa.Table]) -> pa.Table:
        return pa.concat_tables([self.output_schema.empty_table(), *tables])
