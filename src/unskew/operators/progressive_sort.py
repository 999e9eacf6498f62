"""Rows of a stream in the order of their times, as far as that is settled."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import types

from unskew.errors import ArgumentError
from unskew.operators.base import Clock, Mask, Numbers, Operator, OutputMode, Updated, require_column
from unskew.operators.histories import Histories, extended, in_microseconds, list_schema
from unskew.operators.reductions import valid_rows
from unskew.state.groups import Groups, plain_schema
from unskew.state.keyed_state import KeyedState

EARLIEST_MS = "unskew.earliest_ms"


class ProgressiveSort(Operator):
    """Holds rows back until no earlier row of their key can come, then yields them by time.

    Needs a watermark on the time. Each batch yields the rows up to the watermark, those of a key in the order of their
    times, rows of the same time in the order in which they arrived. They are later than all rows of the batches before,
    so you read a key's rows sorted, batch by batch, however they came. Late rows are passed over and counted; rows
    without a time are passed over.

    Costs O(n log n) for the n rows held of a key, in each batch in which the key has rows or some are due. Keeps the
    rows that are not due yet.

    Parameters
    ----------
    time
        The column of the event time; the one of the watermark.

    References
    ----------
    Gedik, section 3.1 (operators whose state is a window of time).

    Examples
    --------
    >>> from unskew.testing import run
    >>> def rows(*minutes):
    ...     times = pa.array([60_000_000 * minute for minute in minutes], pa.timestamp("us"))
    ...     return pa.table({"user": ["ada"] * len(minutes), "ts": times})
    >>> batches = [rows(3, 1, 9), rows(7, 20), rows(20).slice(1)]
    >>> outputs = run(ProgressiveSort("ts"), batches, key="user", watermark=("ts", "5 minutes")).outputs
    >>> [[f"{row['ts']:%M}" for row in output.to_pylist()] for output in outputs]
    [[], ['01', '03'], ['07', '09']]
    """

    output_mode: OutputMode = "append"
    deadline = EARLIEST_MS
    time_mode = "event"

    def __init__(self, time: str) -> None:
        self.time = time

    def __repr__(self) -> str:
        return f"ProgressiveSort({self.time!r})"

    def check(self) -> None:
        super().check()
        require_column(self.input_schema, self.time, types.is_timestamp, "the time must be a timestamp")
        if self.time in self.key:
            raise ArgumentError("the time cannot be part of the key", got=self.time)
        if self.event_time != self.time:
            hint = f'call withWatermark("{self.time}", ...) on the stream before balance'
            raise ArgumentError("a sort needs a watermark on its time", got=self.event_time, hint=hint)

    @property
    def value_schema(self) -> pa.Schema:
        """The rows held back, and the time of the first that will be due."""
        kept = list_schema(self.input_schema, [name for name in self.input_schema.names if name not in self.key])
        return kept.append(pa.field(EARLIEST_MS, pa.int64()))

    @property
    def output_schema(self) -> pa.Schema:
        return plain_schema(self.input_schema)

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> Updated:
        times = in_microseconds(rows.column(self.time))
        on_time = usable = valid_rows(times)
        if clock.previous_watermark_ms is not None:
            on_time = usable & (times.fill_null(0).to_numpy() > clock.previous_watermark_ms * 1000)
        histories, at = self._histories(state, groups, rows, on_time)
        has_new = np.bincount(groups.group_of_row[on_time], minlength=len(groups)) > 0
        self._keep(state, groups, histories, at, np.ones(len(at), np.bool_), has_new)
        return Updated(self.output_schema.empty_table(), late_rows=int(usable.sum() - on_time.sum()))

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        if clock.watermark_ms is None:
            return self.output_schema.empty_table()
        groups = state.due(clock.watermark_ms)
        histories, at = self._histories(state, groups, self.input_schema.empty_table())
        histories, at = histories.sorted_by_time(at)
        due = at <= clock.watermark_ms * 1000
        keys = groups.keys.take(pa.array(histories.group_of_row[due]))
        rows = histories.rows.filter(pa.array(due))
        columns = [(keys if name in self.key else rows).column(name) for name in self.output_schema.names]
        self._keep(state, groups, histories, at, ~due, np.ones(len(groups), np.bool_))
        return pa.Table.from_arrays(columns, schema=self.output_schema)

    def _histories(
        self, state: KeyedState, groups: Groups, rows: pa.Table, where: Mask | None = None
    ) -> tuple[Histories, Numbers]:
        held, _ = state.get(groups)
        histories = extended(held.drop_columns([EARLIEST_MS]), rows, groups, where)
        return histories, in_microseconds(histories.rows.column(self.time)).to_numpy()

    def _keep(
        self, state: KeyedState, groups: Groups, histories: Histories, at: Numbers, needed: Mask, where: Mask
    ) -> None:
        """Hold the needed rows of the groups for which `where` holds."""
        earliest = np.full(len(groups), np.iinfo(np.int64).max)
        np.minimum.at(earliest, histories.group_of_row[needed], at[needed])
        some = histories.has_any(needed)
        earliest_ms = pa.array(-(-earliest // 1000))
        state.put(groups, histories.kept(needed).append_column(EARLIEST_MS, earliest_ms), where=where & some)
        state.remove(groups, where=where & ~some)
