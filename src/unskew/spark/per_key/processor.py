"""A stateful processor written for Spark's ``transformWithState``: calls per key and per timer, with state."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from itertools import starmap
from time import perf_counter, thread_time
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types
from pyspark.errors import PySparkRuntimeError
from pyspark.serializers import CPickleSerializer
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError
from unskew.operators import Clock, Operator, Updated
from unskew.operators.base import TimeMode, require_column
from unskew.spark.per_key.arrow_settings import ArrowSettings
from unskew.spark.per_key.calls import Blaming, Demand, described
from unskew.spark.per_key.processor_handle import (
    EVENT_TIME,
    NO_TIME,
    PROCESSING_TIME,
    Described,
    ProcessorHandle,
)
from unskew.spark.per_key.quick_frames import quick_frames
from unskew.spark.per_key.restored_state import columns_for, restore
from unskew.spark.per_key.slabs import is_late, on_time, slabs, without_warm_up
from unskew.spark.per_key.spark_values import SparkValues
from unskew.spark.per_key.state_variables import DEADLINE, TIMERS
from unskew.state import Groups, KeyedState
from unskew.state.chunks import Columns
from unskew.versions.arrow import from_arrow_schema

TIME_MODES: dict[str, tuple[str, TimeMode]] = {
    "none": (NO_TIME, "none"),
    "processingtime": (PROCESSING_TIME, "processing"),
    "eventtime": (EVENT_TIME, "event"),
}
NEVER = -1  # Spark's time where there is none

Keys = list[tuple[Any, ...]]


class Output(Protocol):
    """Takes in what the methods of a processor return, and converts it together."""

    def take(self, result: Any, owner: int) -> None: ...

    def to_arrow(self) -> pa.Table: ...


class Processor(Operator):
    """Runs a `StatefulProcessor` on the keys of a channel.

    In every batch a channel calls ``init``, then ``handleInputRows`` for every key with rows that are not late, then
    ``handleExpiredTimer`` for every timer that has come, in the order of the timers, and ``close``. A key is one row of
    state: the columns of each variable, its timers, and the earliest time at which it is due.

    ``init`` also runs once on the driver, on a copy of the processor, to learn the variables.
    """

    hidden: tuple[str, ...] = ()  # columns of the input that the processor does not see

    def __init__(
        self,
        processor: StatefulProcessor,
        output: StructType,
        time_mode: str,
        settings: ArrowSettings | None = None,
        event_time_column: str = "",
    ) -> None:
        if not isinstance(processor, StatefulProcessor):
            raise ArgumentError("this is not a StatefulProcessor", got=processor)
        if not isinstance(output, StructType):
            raise ArgumentError("the output schema must be a StructType", got=output)
        if time_mode.lower() not in TIME_MODES:
            hint = "one of None, ProcessingTime, EventTime"
            raise ArgumentError("there is no such time mode", got=time_mode, hint=hint)
        self.processor, self.output, self.settings = processor, output, settings or ArrowSettings()
        self.spark_time_mode, self.time_mode = TIME_MODES[time_mode.lower()]
        self.deadline = None if self.spark_time_mode == NO_TIME else DEADLINE
        self.event_time_column = event_time_column
        if event_time_column:
            require_column(self.output_schema, event_time_column, types.is_timestamp, "event time is a timestamp")
        self.variables = learned(processor, self.spark_time_mode)

    def __repr__(self) -> str:
        kept = (str(each) for each in self.variables if not each.deleted)
        return f"Processor({self.spark_time_mode}; {'; '.join(kept)})"

    def continues(self, known: str) -> bool:
        """Tell whether a processor has all the state variables of an earlier one, as they were; it may have more."""
        before, now = ({*text.removeprefix("Processor(").removesuffix(")").split("; ")} for text in (known, repr(self)))
        return before <= now

    def check(self) -> None:
        super().check()
        if self.spark_time_mode == EVENT_TIME and self.event_time is None:
            hint = "call withWatermark(...) on the stream before balance"
            raise ArgumentError("timers in event time need a watermark", hint=hint)

    @cached_property
    def value_schema(self) -> pa.Schema:
        return value_schema(self.variables, self.spark_time_mode)

    def state_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        """Take over variables and timers; see `columns_for`."""
        return columns_for(self.variables, self.deadline is not None, self.key, schema)

    def taken_over(self, rows: pa.Table) -> tuple[pa.Table, NDArray[np.bool_]]:
        """Write the state with a handle, as the processor itself would."""
        handle = ProcessorHandle(self.spark_time_mode, self.variables)
        nothing = Columns.of(self.key_schema, self.value_schema).empty_values(len(rows))
        restore(handle, self.variables, self.key, nothing, rows)
        values, _, there = handle.results()
        return values, there

    @cached_property
    def key_values(self) -> SparkValues:
        return SparkValues(from_arrow_schema(self.key_schema))

    @property
    def output_schema(self) -> pa.Schema:
        return self.settings.arrow_schema(self.output)

    @abstractmethod
    def key_tuples(self, keys: pa.Table) -> Keys:
        """Return keys as ``handleInputRows`` gets them."""

    def timer_keys(self, keys: pa.Table) -> list[Row]:
        """Return keys as ``handleExpiredTimer`` gets them."""
        tuples: Any = self.key_values.to_python(keys.to_struct_array().combine_chunks())
        return list(starmap(Row(*self.key), tuples))

    @abstractmethod
    def inputs(self, rows: pa.RecordBatch, starts: NDArray[np.int64]) -> Callable[[int], Iterator[Any]]:
        """Return access to the rows of each group; `rows` lie group after group, from `starts` on."""

    @abstractmethod
    def new_output(self, describe: Callable[[int], str]) -> Output:
        """Return what takes in the output of many calls."""

    @quick_frames()
    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> Updated:
        """Call the processor for the keys with rows, then for the timers that have come."""
        late_by = clock.previous_watermark_ms if self.spark_time_mode == EVENT_TIME else None
        order, starts, late_rows = on_time(groups, rows, self.event_time, late_by)
        processor, handle, now = self.begin(clock)
        demand, output = Demand(), [self.output_schema.empty_table()]
        seconds, ran = np.zeros(len(groups)), np.zeros(len(groups))
        handle.attach(state.get(groups)[0])
        keys = self.key_tuples(groups.keys)
        describe = partial(described, "handleInputRows", keys, clock)
        for slab, places, batch in slabs(rows.drop_columns(list(self.hidden)), order, starts):
            made, inputs = self.new_output(describe), self.inputs(batch, places)
            for number, group in enumerate(slab.tolist()):
                handle.group = group
                started, began = perf_counter(), thread_time()
                try:
                    made.take(processor.handleInputRows(keys[group], inputs(number), now), group)
                except Exception as error:
                    error.add_note(describe(group))
                    raise
                seconds[group], ran[group] = perf_counter() - started, thread_time() - began
            output.append(made.to_arrow())
        handle.write(state, groups)
        seconds = without_warm_up(type(self.processor), demand.of_calls(seconds, ran), np.diff(starts))
        handle.stage = "DATA_PROCESSED"
        output.append(self._timers(state, processor, handle, now, clock))
        handle.stage = "TIMER_PROCESSED"
        processor.close()
        rows = pa.concat_tables(output)
        if self.event_time_column:
            _refuse_late(rows.column(self.event_time_column), clock.previous_watermark_ms or 0)
        return Updated(rows, seconds, late_rows)

    def begin(self, clock: Clock) -> tuple[StatefulProcessor, ProcessorHandle, TimerValues]:
        """Return a processor of its own for a channel and a batch, its handle, and the time it sees."""
        watermark = clock.watermark_ms or 0
        now = TimerValues(clock.processing_time_ms, watermark)
        if self.spark_time_mode == NO_TIME:
            now = TimerValues(NEVER, NEVER)
        processor = copy.copy(self.processor)
        now_ms = watermark if self.spark_time_mode == EVENT_TIME else clock.processing_time_ms
        handle = ProcessorHandle(self.spark_time_mode, self.variables, now_ms)
        processor.init(handle)
        handle.stage = "INITIALIZED"
        return processor, handle, now

    def _timers(
        self, state: KeyedState, processor: StatefulProcessor, handle: ProcessorHandle, now: TimerValues, clock: Clock
    ) -> pa.Table:
        """Call the processor for the timers that have come, and forget what has expired."""
        if self.deadline is None:
            return self.output_schema.empty_table()
        groups = state.due(handle.now_ms)
        handle.attach(state.get(groups)[0])
        keys = self.timer_keys(groups.keys)
        describe = partial(described, "handleExpiredTimer", keys, clock)
        made = self.new_output(describe)
        for time, group in handle.due_timers():
            handle.group = group
            with Blaming(describe, group):
                info = ExpiredTimerInfo(time)
                made.take(processor.handleExpiredTimer(key=keys[group], timerValues=now, expiredTimerInfo=info), group)
            handle.deleteTimer(time)
        handle.write(state, groups)
        return made.to_arrow()


def value_schema(variables: Iterable[Described], time_mode: str) -> pa.Schema:
    """Return the columns of a key's state."""
    nobody = ProcessorHandle(time_mode)
    fields = [field for each in variables if not each.deleted for field in each.made(nobody).fields]
    if time_mode != NO_TIME or not fields:
        fields.append(pa.field(TIMERS, pa.list_(pa.int64())))
    if time_mode != NO_TIME:
        fields.append(pa.field(DEADLINE, pa.int64()))
    return pa.schema(fields)


def learned(processor: StatefulProcessor, time_mode: str) -> tuple[Described, ...]:
    """Return the state variables that a processor asks for."""
    pickled: Any = CPickleSerializer()
    one = pickled.loads(pickled.dumps(processor))  # init leaves its marks on a copy, as in Spark
    handle = ProcessorHandle(time_mode)
    one.init(handle)
    one.close()
    return tuple(handle.described.values())


def _refuse_late(times: pa.ChunkedArray, watermark_ms: int) -> None:
    """Refuse rows that a stage behind this one would drop, as Spark does."""
    late = is_late(times, watermark_ms)
    if late.any():
        emitted = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())[int(np.argmax(late))].as_py()
        raise PySparkRuntimeError(
            "[EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED] Previous node emitted a row with "
            f"eventTime={emitted} which is older than current_watermark_value={watermark_ms}\n"
            "This can lead to correctness issues in the stateful operators downstream in the execution pipeline.\n"
            "Please correct the operator logic to emit rows after current global watermark value. SQLSTATE: 42815"
        )
