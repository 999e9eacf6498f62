"""Rows of a stream in the order of their times, as far as that is settled."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.base import Clock, Operator, OutputMode, Updated, require_column
from unskew.operators.event_times import in_microseconds, sorted_by_time
from unskew.operators.histories import Histories, extended, list_schema
from unskew.state.groups import Groups, plain_schema
from unskew.state.keyed_state import KeyedState

Mask = NDArray[np.bool_]

EARLIEST_MS = "unskew.earliest_ms"


class ProgressiveSort(Operator):
    """Holds rows back until no earlier row of their key can come, then yields them by time.

    Needs a watermark on the time. In each batch come the rows up to the watermark, those of a key in the order of their
    times, rows of the same time in the order in which they arrived; all of them lie behind those of the batches before.
    So whoever reads a key's rows one after the other, batch by batch, reads them sorted, however they came. Late rows
    are passed over and counted; rows without a time are passed over.

    Costs O(n log n) for the n rows held of a key, in each batch in which the key has rows or some are due; keeps the
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgressiveSort) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def check(self) -> None:
        """Refuse a time that is no timestamp, or not the one of the watermark."""
        super().check()
        kind = require_column(self.input_schema, self.time).type
        if not types.is_timestamp(kind):
            raise ColumnError("the time must be a timestamp", where=f"column {self.time!r}", got=str(kind))
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
        """The columns of the input."""
        return plain_schema(self.input_schema)

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> Updated:
        """Hold the rows back."""
        times = in_microseconds(rows.column(self.time))
        usable = np.asarray(times.is_valid().to_numpy(zero_copy_only=False))
        on_time = usable
        if clock.previous_watermark_ms is not None:
            on_time = usable & (times.fill_null(0).to_numpy() > clock.previous_watermark_ms * 1000)
        order = groups.order[on_time[groups.order]]
        counts = np.bincount(groups.group_of_row[on_time], minlength=len(groups))
        held, _ = state.get(groups)
        histories = extended(held.drop_columns([EARLIEST_MS]), rows, order, np.concatenate(([0], np.cumsum(counts))))
        at = in_microseconds(histories.rows.column(self.time)).to_numpy()
        self._keep(state, groups, histories, at, np.ones(len(at), np.bool_), counts > 0)
        return Updated(self.output_schema.empty_table(), late_rows=int(usable.sum() - on_time.sum()))

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        """Let rows go up to the watermark."""
        if clock.watermark_ms is None:
            return self.output_schema.empty_table()
        groups = state.due(clock.watermark_ms)
        held, _ = state.get(groups)
        nothing = np.zeros(len(groups) + 1, np.int64)
        empty = self.input_schema.empty_table()
        histories = extended(held.drop_columns([EARLIEST_MS]), empty, nothing[:0], nothing)
        histories, at = sorted_by_time(histories, in_microseconds(histories.rows.column(self.time)).to_numpy())
        due = at <= clock.watermark_ms * 1000
        keys = groups.keys.take(pa.array(histories.group_of_row[due]))
        rows = histories.rows.filter(pa.array(due))
        columns = [(keys if name in self.key else rows).column(name) for name in self.output_schema.names]
        self._keep(state, groups, histories, at, ~due, np.ones(len(groups), np.bool_))
        return pa.Table.from_arrays(columns, schema=self.output_schema)

    def _keep(
        self, state: KeyedState, groups: Groups, histories: Histories, at: NDArray[np.int64], needed: Mask, where: Mask
    ) -> None:
        """Hold what is needed of the groups for which `where` holds; of which nothing is, nothing is held."""
        earliest = np.full(len(groups), np.iinfo(np.int64).max)
        np.minimum.at(earliest, histories.group_of_row[needed], at[needed])
        some = np.bincount(histories.group_of_row[needed], minlength=len(groups)) > 0
        earliest_ms = pa.array(-(-earliest // 1000))
        state.put(groups, histories.kept(needed).append_column(EARLIEST_MS, earliest_ms), where=where & some)
        state.remove(groups, where=where & ~some)
