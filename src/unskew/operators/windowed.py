"""What windows on event time share: aggregates per key and window, kept as lists per key."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.aggregate import Aggregate
from unskew.operators.base import Clock, Mergeable, OutputMode, require_column
from unskew.operators.lists import concatenated, cut
from unskew.operators.presum import quoted
from unskew.state.groups import Groups
from unskew.state.keyed_state import KeyedState

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

DEADLINE, START, END = "window.deadline", "window.start", "window.end"
PANE_COLUMN = "__unskew_pane"


@dataclass(frozen=True)
class Windows:
    """Windows of groups, one row each, with their aggregates; group by group, in the order of their starts.

    Parameters
    ----------
    group
        The group that each belongs to, int64[n].
    start, end
        Microseconds since the epoch, int64[n].
    states
        The aggregates' state, n rows.
    """

    group: Numbers
    start: Numbers
    end: Numbers
    states: pa.Table

    def __len__(self) -> int:
        return len(self.group)

    def only(self, where: Mask) -> Windows:
        """Return those for which `where` holds."""
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
    """Aggregates per key and window of event time; says what Spark's windowed ``groupBy`` says in the same mode.

    A key's state is one row: lists of its open windows' starts and of their aggregates. So a key moves with all its
    windows, and a batch touches the keys that have rows, not the windows that are open.

    As in Spark: rows without a time are passed over. A window is late, and a row's part in it passed over, if it ended
    at or before the watermark of the batch before. A window is closed when it ends at or before the watermark: in
    append mode it is put out then, once; in update mode windows are put out in every batch that changes them. Either
    way its state is dropped. Without a watermark on the window's column nothing is late and nothing is dropped.
    In complete mode all windows are put out in every batch; nothing is late and nothing is dropped there either.
    """

    memory = "constant"
    output_column: ClassVar[str] = "window"
    place: int | None = None
    """Where the window stands among the key columns of the output; by default it stands behind them."""

    def __init__(self, on: str | None, output_mode: OutputMode, aggregates: Mapping[str, str]) -> None:
        if output_mode not in get_args(OutputMode):
            raise ArgumentError(
                "there is no such output mode", got=output_mode, hint=f"one of {', '.join(get_args(OutputMode))}"
            )
        self.on, self.output_mode = on, output_mode
        self.aggregates = dict(aggregates)
        self._aggregate = Aggregate(**self.aggregates)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def placed(self, place: int) -> Self:
        """Return the same operator with the window at this place among the output's columns."""
        moved = copy.copy(self)
        moved.place = place
        return moved

    def check(self) -> None:
        """Refuse columns that cannot be used so, and append mode without a watermark."""
        if self.on is None and self.event_time is None:
            raise ArgumentError(
                "windows need a column of times",
                hint='name it with on="...", or call withWatermark(...) on the stream before balance',
            )
        kind = require_column(self.input_schema, self.time).type
        if not types.is_timestamp(kind):
            raise ColumnError("windows need a column of timestamps", where=f"column {self.time!r}", got=str(kind))
        taken = [name for name in (*self.key, *self.aggregates) if name == self.output_column]
        if taken:
            raise ArgumentError("the window itself has this name", got=taken[0], hint="choose another name")
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
    def splittable(self) -> bool:
        """No: a key has a row for each of its windows, and these depend on time."""
        return False

    @property
    def time(self) -> str:
        """The column of times."""
        return self.on or self.event_time or ""

    @property
    def has_watermark(self) -> bool:
        """Whether the column of times is the one that the stream has a watermark on, and the watermark matters."""
        return self.event_time == self.time and self.output_mode != "complete"

    @property
    def columns_needed(self) -> tuple[str, ...]:
        """The time and the columns that are aggregated."""
        return (self.time, *self._aggregate.columns_needed)

    @property
    def output_key(self) -> tuple[str, ...]:
        """The key and the window."""
        return (*self.key, self.output_column)

    @property
    def value_schema(self) -> pa.Schema:
        """When the first window closes, in milliseconds, if there is a watermark; then the lists."""
        deadline = [pa.field(DEADLINE, pa.int64())] if self.has_watermark else []
        times = [pa.field(name, pa.list_(pa.int64())) for name in self.time_lists]
        states = [pa.field(field.name, pa.list_(field.type)) for field in self._aggregate.value_schema]
        return pa.schema([*deadline, *times, *states])

    @property
    def output_schema(self) -> pa.Schema:
        """The key columns, among them the window as a struct of start and end, and the aggregates."""
        instant = pa.timestamp("us", self.input_schema.field(self.time).type.tz)
        window = pa.field(self.output_column, pa.struct([pa.field("start", instant), pa.field("end", instant)]))
        columns = list(self._aggregate.output_schema)
        return pa.schema([*columns[: self._place], window, *columns[self._place :]])

    @property
    @abstractmethod
    def time_lists(self) -> tuple[str, ...]:
        """The lists of the state that are times."""

    @abstractmethod
    def ends(self, values: pa.Table, start: Numbers) -> Numbers:
        """Return when windows end, from the lists of the state and their starts."""

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
        values = self.as_values(open_windows, len(due))
        state.put(due, values, where=left)
        state.remove(due, where=~left)
        if self.output_mode == "update":
            return self.output_schema.empty_table()
        return self.rows_of(due.keys, windows.only(closed))

    def windows_in(self, values: pa.Table, group_of_row: Numbers) -> Windows:
        """Return the windows in states, with the groups that the states belong to."""
        starts, state_of_window = concatenated(_array(values, START))
        start = starts.to_numpy()
        names = self._aggregate.value_schema.names
        states = pa.Table.from_arrays(
            [_array(values, name).flatten() for name in names], schema=self._aggregate.value_schema
        )
        return Windows(group_of_row[state_of_window], start, self.ends(values, start), states)

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
        columns += [cut(pa.array(times[name]), lengths) for name in self.time_lists]
        columns += [cut(_joined(column), lengths) for column in windows.states.columns]
        return pa.Table.from_arrays(columns, schema=self.value_schema)

    def rows_of(self, keys: pa.Table, windows: Windows) -> pa.Table:
        """Return the output rows of windows of these keys."""
        of_keys = self._aggregate.finish(keys.take(pa.array(windows.group)), windows.states)
        window = self.output_schema.field(self.output_column)
        instants = [pa.array(each).cast(window.type[0].type) for each in (windows.start, windows.end)]
        column = pa.StructArray.from_arrays(instants, fields=[window.type[0], window.type[1]])
        columns, at = of_keys.columns, self._place
        return pa.Table.from_arrays([*columns[:at], column, *columns[at:]], schema=self.output_schema)

    @property
    def _place(self) -> int:
        return len(self.key) if self.place is None else self.place

    @property
    def _placed(self) -> str:
        return "" if self.place is None else f".placed({self.place})"

    def pane_sql(self, length: int, offset: int = 0) -> str:
        """Return SQL for the start of the span of `length` microseconds that a row's time lies in."""
        spans = ", ".join(f"'{span} microseconds'" for span in (length, length, offset))
        return f"window({quoted(self.time)}, {spans}).start"

    def combined_rows(self, keys: pa.Table, windows: Windows) -> pa.Table:
        """Return the key columns and values of rows, from windows whose groups are these rows."""
        values = self.as_values(windows, len(keys))
        schema = pa.schema([*self.key_schema, *self.value_schema])
        return pa.Table.from_arrays([*keys.cast(self.key_schema).columns, *values.columns], schema=schema)

    def states_in(self, rows: pa.Table) -> pa.Table:
        """Return the states that Spark has added up, which are the last columns of what it gave."""
        schema = self._aggregate.value_schema
        return rows.select(rows.column_names[-len(schema) :]).rename_columns(schema.names).cast(schema)

    def late_until(self, clock: Clock) -> int | None:
        """Return the instant, in microseconds, up to which a window is late; None if none ever is."""
        return (clock.previous_watermark_ms or 0) * 1000 if self.has_watermark else None


def instants(rows: pa.Table, name: str) -> tuple[Numbers, Mask]:
    """Return times in microseconds, and which rows have one."""
    column = _array(rows, name)
    column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column.cast(pa.int64()).fill_null(0).to_numpy(), column.is_valid().to_numpy(zero_copy_only=False)


def bare_groups(groups: int, group_of_row: Numbers) -> Groups:
    """Return groups by number alone, for aggregates, which do not look at keys."""
    return Groups(np.zeros(groups, np.int64), pa.table({}), group_of_row)


def _array(table: pa.Table, name: str) -> pa.Array:
    return _joined(table.column(name))


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
