"""What windows on event time share: aggregates per key and window, kept as lists per key."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self, get_args

import numpy as np
import pyarrow as pa
from pyarrow import types

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.aggregate import Aggregate
from unskew.operators.base import (
    Clock,
    Mask,
    Mergeable,
    Numbers,
    OutputMode,
    require_column,
    require_state,
    side_by_side,
)
from unskew.operators.lists import concatenated, cut, one_array
from unskew.operators.native_buffers import BUFFERS
from unskew.operators.presum import quoted
from unskew.state.groups import Groups
from unskew.state.keyed_state import KeyedState

DEADLINE, START, END = "window.deadline", "window.start", "window.end"
PANE_COLUMN = "__unskew_pane"


@dataclass(frozen=True)
class Windows:
    """Windows of groups, one row each, with their aggregates; group by group, in the order of their starts."""

    group: Numbers
    start: Numbers  # microseconds since the epoch
    end: Numbers
    states: pa.Table

    def __len__(self) -> int:
        return len(self.group)

    def only(self, where: Mask) -> Windows:
        if where.all():
            return self
        rows = pa.array(np.flatnonzero(where))
        return Windows(self.group[where], self.start[where], self.end[where], self.states.take(rows))

    def followed_by(self, other: Windows) -> Windows:
        """Return both, without any order."""
        pairs = ((self.group, other.group), (self.start, other.start), (self.end, other.end))
        group, start, end = (np.concatenate(pair) for pair in pairs)
        return Windows(group, start, end, pa.concat_tables([self.states, other.states]))


class Windowed(Mergeable):
    """Aggregates per key and window of event time, with the results of Spark's windowed ``groupBy`` in the same mode.

    A key's state is one row: lists of its open windows' starts and of their aggregates. So a key moves with all its
    windows, and a batch touches the keys that have rows, not the windows that are open.

    As in Spark, rows without a time are passed over. A window is late if it ended at or before the watermark of the
    batch before; a row's part in it is passed over. A window is closed when it ends at or before the watermark, and its
    state is dropped. Append mode puts it out then, once; update mode puts it out in every batch that changes it.
    Without a watermark on the window's column nothing is late and nothing is dropped. In complete mode all windows are
    put out in every batch; nothing is late and nothing is dropped there either.
    """

    memory = "constant"
    splittable = False  # a key has a row for each of its windows, and these depend on time
    output_column: ClassVar[str] = "window"
    place: int | None = None  # where the window stands among the output's key columns; by default behind them
    length: int | None = None  # of all windows, in microseconds; if None, each has its own, and the state lists ends

    def __init__(self, on: str | None, output_mode: OutputMode, aggregates: Mapping[str, str]) -> None:
        if output_mode not in get_args(OutputMode):
            hint = f"one of {', '.join(get_args(OutputMode))}"
            raise ArgumentError("there is no such output mode", got=output_mode, hint=hint)
        self.on, self.output_mode = on, output_mode
        if on is not None and not isinstance(on, str):
            raise ArgumentError("the column of times must be a name", where="on", got=on)
        self.aggregates = dict(aggregates)
        self._aggregate = Aggregate(**self.aggregates)

    @staticmethod
    def named(aggregates: Mapping[str, str] | None, columns: Mapping[str, str]) -> dict[str, str]:
        """Return all aggregates by name, whichever way they were given."""
        fits = isinstance(aggregates, Mapping) and all(isinstance(name, str) for name in aggregates)
        if aggregates is not None and not fits:
            raise ArgumentError("aggregates must map names to calls", got=aggregates, hint='such as {"n": "count"}')
        return {**(aggregates or {}), **columns}

    def placed(self, place: int) -> Self:
        """Return the same operator with the window at this place among the output's columns."""
        moved = copy.copy(self)
        moved.place = place
        return moved

    def check(self) -> None:
        if self.on is None and self.event_time is None:
            hint = 'name it with on="...", or call withWatermark(...) on the stream before balance'
            raise ArgumentError("windows need a column of times", hint=hint)
        require_column(self.input_schema, self.time, types.is_timestamp, "windows need a column of timestamps")
        if self.output_column in (*self.key, *self.aggregates):
            raise ArgumentError("the window itself has this name", got=self.output_column, hint="choose another name")
        self._aggregate = self._aggregate.bind(self.input_schema, self.key)
        self.memory = self._aggregate.memory
        self.time_mode = "event" if self.has_watermark else "none"
        self.deadline = DEADLINE if self.has_watermark else None
        if self.output_mode == "append" and not self.has_watermark:
            raise ArgumentError(
                "append mode needs a watermark on the window's column: without one no window is ever closed",
                got=self.time,
                hint='call withWatermark(...) on the stream before balance, or choose output_mode="update"',
            )
        super().check()
        self.commutative = self._aggregate.commutative

    @property
    def time(self) -> str:
        return self.on or self.event_time or ""

    @property
    def has_watermark(self) -> bool:
        """Whether the stream has a watermark on the column of times, and the output mode heeds it."""
        return self.event_time == self.time and self.output_mode != "complete"

    @property
    def columns_needed(self) -> tuple[str, ...]:
        return (self.time, *self._aggregate.columns_needed)

    @property
    def output_key(self) -> tuple[str, ...]:
        return (*self.key, self.output_column)

    @property
    def value_schema(self) -> pa.Schema:
        """When the first window closes, in milliseconds, if there is a watermark; then the lists."""
        deadline = [pa.field(DEADLINE, pa.int64())] if self.has_watermark else []
        times = [pa.field(name, pa.list_(pa.int64())) for name in self._time_lists]
        states = [pa.field(field.name, pa.list_(field.type)) for field in self._aggregate.value_schema]
        return pa.schema([*deadline, *times, *states])

    @property
    def output_schema(self) -> pa.Schema:
        instant = pa.timestamp("us", self.input_schema.field(self.time).type.tz)
        window = pa.field(self.output_column, pa.struct([pa.field("start", instant), pa.field("end", instant)]))
        columns = list(self._aggregate.output_schema)
        return pa.schema([*columns[: self._place], window, *columns[self._place :]])

    @abstractmethod
    def united(self, windows: Windows, groups: int) -> tuple[Windows, Numbers]:
        """Return windows with those that are one merged, and which of these each part went to."""

    def state_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        """Take over the windows and buffers of a native query, too."""
        if BUFFERS not in schema.names:
            return super().state_columns(schema)
        require_state(schema, (*self.key, self.output_column, BUFFERS))
        self._aggregate.check_buffers(schema)
        return (self.output_column, BUFFERS)

    def taken_over(self, rows: pa.Table) -> tuple[pa.Table, Mask]:
        """Make every row a state with one window; those of a key are merged where they arrive."""
        if BUFFERS not in rows.column_names:
            return super().taken_over(rows)
        window, number = one_array(rows.column(self.output_column)), np.arange(len(rows))
        start, end = (instant.cast(pa.int64()).to_numpy() for instant in window.flatten())
        if not self.could_have_made(start, end):
            what = "the windows of the native query are not those of this one"
            raise ColumnError(what, where=f"column {self.output_column!r}", hint="give the same window to both")
        states = self._aggregate.from_buffers(one_array(rows.column(BUFFERS)))
        return self.as_values(Windows(number, start, end, states), len(rows)), np.ones(len(rows), np.bool_)

    @abstractmethod
    def could_have_made(self, start: Numbers, end: Numbers) -> bool:
        """Tell whether all windows, from and to these instants, may be this operator's."""

    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        windows, _ = self.united(self.windows_in(values, groups.group_of_row), len(groups))
        return self.as_values(windows, len(groups))

    def finish(self, keys: pa.Table, values: pa.Table) -> pa.Table:
        return self.rows_of(keys, self.windows_in(values, np.arange(len(values))))

    def absorbed(self, state: KeyedState, groups: Groups, new: Windows) -> Windows:
        """Merge new windows into the state held, and return those that changed."""
        held, _ = state.get(groups)
        before = self.windows_in(held, np.arange(len(groups)))
        merged, window_of_part = self.united(before.followed_by(new), len(groups))
        touched = np.bincount(new.group, minlength=len(groups)) > 0
        state.put(groups, self.as_values(merged, len(groups)), where=touched)
        changed = np.zeros(len(merged), np.bool_)
        changed[window_of_part[len(before) :]] = True
        return merged.only(changed) if self.output_mode == "update" else merged

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        """Close the windows that the watermark has passed."""
        if not self.has_watermark or clock.watermark_ms is None:
            return super().expire(state, clock)
        due = state.due(clock.watermark_ms)
        if not len(due):
            return self.output_schema.empty_table()
        held, _ = state.get(due)
        windows = self.windows_in(held, np.arange(len(due)))
        closed = windows.end <= clock.watermark_ms * 1000
        open_windows = windows.only(~closed)
        left = np.bincount(open_windows.group, minlength=len(due)) > 0
        state.put(due, self.as_values(open_windows, len(due)), where=left)
        state.remove(due, where=~left)
        if self.output_mode == "update":
            return self.output_schema.empty_table()
        return self.rows_of(due.keys, windows.only(closed))

    def windows_in(self, values: pa.Table, group_of_row: Numbers) -> Windows:
        """Return the windows in states, with the groups that the states belong to."""
        starts, state_of_window = concatenated(one_array(values.column(START)))
        start, schema = starts.to_numpy(), self._aggregate.value_schema
        lists = {name: one_array(values.column(name)).flatten() for name in (*schema.names, *self._time_lists[1:])}
        end = lists[END].to_numpy() if self.length is None else start + self.length
        states = pa.Table.from_arrays([lists[name] for name in schema.names], schema=schema)
        return Windows(group_of_row[state_of_window], start, end, states)

    def as_values(self, windows: Windows, groups: int) -> pa.Table:
        """Return the states of groups, from windows that lie group by group."""
        lengths = np.bincount(windows.group, minlength=groups)
        columns = []
        if self.has_watermark:
            first, filled = np.cumsum(lengths) - lengths, lengths > 0
            deadline = np.zeros(groups, np.int64)
            deadline[filled] = -(-windows.end[first[filled]] // 1000)
            columns.append(pa.array(deadline, mask=~filled))
        times = {START: windows.start, END: windows.end}
        columns += [cut(pa.array(times[name]), lengths) for name in self._time_lists]
        columns += [cut(one_array(column), lengths) for column in windows.states.columns]
        return pa.Table.from_arrays(columns, schema=self.value_schema)

    def rows_of(self, keys: pa.Table, windows: Windows) -> pa.Table:
        """Return the output rows of windows of these keys."""
        columns = self._aggregate.finish(keys.take(pa.array(windows.group)), windows.states).columns
        window = self.output_schema.field(self.output_column).type
        times = [pa.array(each).cast(window[0].type) for each in (windows.start, windows.end)]
        columns.insert(self._place, pa.StructArray.from_arrays(times, fields=list(window)))
        return pa.Table.from_arrays(columns, schema=self.output_schema)

    def combined_rows(self, keys: pa.Table, windows: Windows) -> pa.Table:
        """Return the key columns and values of rows, from windows whose groups are these rows."""
        return side_by_side(keys.cast(self.key_schema), self.as_values(windows, len(keys)))

    def pane_sql(self, length: int, offset: int = 0) -> str:
        """Return SQL for the start of the span of `length` microseconds that a row's time lies in."""
        spans = ", ".join(f"'{span} microseconds'" for span in (length, length, offset))
        return f"window({quoted(self.time)}, {spans}).start"

    def states_in(self, rows: pa.Table) -> pa.Table:
        """Return the states that Spark has added up: the last columns of its rows."""
        schema = self._aggregate.value_schema
        return rows.select(rows.column_names[-len(schema) :]).rename_columns(schema.names).cast(schema)

    def late_until(self, clock: Clock) -> int | None:
        """Return the instant, in microseconds, up to which a window is late; None if none ever is."""
        return (clock.previous_watermark_ms or 0) * 1000 if self.has_watermark else None

    @property
    def _time_lists(self) -> tuple[str, ...]:
        return (START, END) if self.length is None else (START,)

    @property
    def _place(self) -> int:
        return len(self.key) if self.place is None else self.place

    def _described(self, *given: str) -> str:
        """Return the operator's repr, from the settings that come before its aggregates."""
        placed = "" if self.place is None else f".placed({self.place})"
        return f"{type(self).__name__}({', '.join([*given, f'aggregates={self.aggregates}'])}){placed}"


def instants(rows: pa.Table, name: str) -> tuple[Numbers, Mask]:
    """Return times in microseconds, and which rows have one."""
    column = one_array(rows.column(name))
    column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column.cast(pa.int64()).fill_null(0).to_numpy(), column.is_valid().to_numpy(zero_copy_only=False)


def bare_groups(groups: int, group_of_row: Numbers) -> Groups:
    """Return groups by number alone, for aggregates, which do not look at keys."""
    return Groups(np.zeros(groups, np.int64), pa.table({}), group_of_row)
