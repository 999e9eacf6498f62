"""The lean form of a per-key function: NumPy arrays in, tuples out."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cached_property
from time import perf_counter, thread_time
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import ArgumentError, require_number
from unskew.operators import Clock
from unskew.spark.per_key.arrow_settings import ArrowSettings
from unskew.spark.per_key.base import Inputs, PerKeyFunction
from unskew.spark.per_key.calls import KeyCalls, Limit, check_state
from unskew.spark.per_key.plain_values import PlainValues, State, to_python
from unskew.spark.per_key.rows import Output, RowBatch, RowOutput, Rows


class Keep(Enum):
    """The type of `KEEP`."""

    KEEP = "KEEP"


KEEP: Final = Keep.KEEP  # returned in place of a state, which stays as it is and is not written

Key = tuple[Any, ...]
Result = tuple[State | Keep | None, Output] | tuple[State | Keep | None, Output, int | None]
Lean = Callable[[Key, Rows, State | None], Result]


class LeanFunction(PerKeyFunction):
    """Calls ``func(key, rows, state)``, which returns ``(state, output)`` or ``(state, output, deadline_ms)``.

    The key's next call gets the returned state: a tuple of the state schema's fields, None to forget the key, or
    `KEEP`. Output is a tuple for one row, a list of tuples, a dict of columns for many rows, or None. A deadline holds
    until the key's next call, which sets another one or none. Each key costs a few microseconds beside the function's
    own time.

    Examples
    --------
    >>> from pyspark.sql.types import LongType, StringType, StructType
    >>> from unskew.hashing import hash_keys
    >>> from unskew.state import KeyedState, MemoryStore
    >>> def total(key, rows, state):
    ...     n = (state[0] if state else 0) + rows["amount"].sum()
    ...     return (n,), (key[0], n)
    >>> output, kept = StructType().add("user", StringType()).add("n", LongType()), StructType().add("n", LongType())
    >>> rows = pa.table({"user": ["ada", "bob", "ada"], "amount": [1, 2, 3]})
    >>> operator = LeanFunction(total, output, kept).bind(rows.schema, ("user",))
    >>> with KeyedState.open(MemoryStore(), operator.key_schema, operator.value_schema, slots=8) as state:
    ...     groups = state.group(rows, hash_keys(rows, "user"))
    ...     for batch_id in range(2):
    ...         print(operator.update(state, groups, rows, Clock(batch_id, 0)).output.to_pydict())
    {'user': ['ada', 'bob'], 'n': [4, 2]}
    {'user': ['ada', 'bob'], 'n': [8, 4]}
    """

    @cached_property
    def values(self) -> PlainValues:
        return PlainValues(pa.struct(list(ArrowSettings().arrow_schema(self.state))))

    def key_tuples(self, keys: pa.Table) -> list[Key]:
        return list(zip(*[to_python(column.combine_chunks()) for column in keys.columns], strict=True))

    def inputs(self, rows: pa.RecordBatch, starts: NDArray[np.int64], clock: Clock) -> Inputs:
        batch, places = RowBatch(rows, clock), starts.tolist()
        return lambda number: Rows(batch, places[number], places[number + 1])

    def inputs_of_timeouts(self, clock: Clock) -> Inputs:
        nothing = pa.RecordBatch.from_pylist([], self.shown_schema)
        rows = Rows(RowBatch(nothing, clock), 0, 0, timed_out=True)
        return lambda number: rows

    def call(self, calls: KeyCalls, groups: list[int], inputs: Inputs) -> pa.Table:
        output = RowOutput(self.output_schema, calls.describe)
        function, fields, timeouts = self.function, len(self.state), self.deadline is not None
        limit = Limit(self.max_call_seconds)
        for number, group in enumerate(groups):
            started, ran = perf_counter(), thread_time()
            try:
                with limit:
                    result = function(calls.keys[group], inputs(number), calls.states[group])
                if not isinstance(result, (tuple, list)) or len(result) not in (2, 3):
                    what = "a function returns (state, output) or (state, output, deadline_ms)"
                    raise ArgumentError(what, got="None" if result is None else result)
                state, rows, deadline = result if len(result) == 3 else (*result, None)
                output.take(rows, group)
                if state is not None and state is not KEEP:
                    check_state(state, fields)
                if deadline is not None:
                    self._check_deadline(deadline, calls.clock)
            except BaseException as error:
                raise calls.explained(group, error) from None
            calls.stay()
            calls.seconds[group] = perf_counter() - started
            calls.processor_seconds[group] = thread_time() - ran
            if state is KEEP:
                if not timeouts or deadline == calls.deadlines[group]:
                    continue
                state = calls.states[group]
            if state is None and deadline is None:
                calls.remove(group)
            else:
                calls.put(group, state, deadline)
        return output.to_arrow()

    def _check_deadline(self, deadline_ms: int, clock: Clock) -> None:
        if self.deadline is None:
            raise ArgumentError("timeouts are off", got=deadline_ms, hint="name a timeout when the stream is built")
        require_number("deadline_ms", deadline_ms)
        now = clock.watermark_ms if self.time_mode == "event" else clock.processing_time_ms
        if now is not None and deadline_ms < now:
            raise ArgumentError(f"a deadline lies before the clock, which is at {now}", got=deadline_ms)
