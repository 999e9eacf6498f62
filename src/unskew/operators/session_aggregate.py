"""Aggregates over sessions on event time: runs of rows with no long pause between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numba import njit

from unskew.errors import ArgumentError
from unskew.operators.base import Clock, Mask, Numbers, Updated
from unskew.operators.durations import microseconds
from unskew.operators.pairs import pairs_of
from unskew.operators.presum import Presum, quoted, state_column
from unskew.operators.windowed import PANE_COLUMN, Windowed, Windows, bare_groups, instants
from unskew.state.groups import Groups
from unskew.state.index import fixed
from unskew.state.keyed_state import KeyedState

LATE_COLUMN, LATE_ROWS = "__unskew_late", "session.late_rows"


class SessionAggregate(Windowed):
    """Aggregates per key and session, as ``groupBy(key, session_window(time, gap))`` in Spark.

    A row opens a session that ends `gap` later; sessions of a key that overlap or touch are one. Output is in append
    mode, the only one that Spark allows for sessions: a session is put out when the watermark has reached its end. See
    `Windowed` for state. A row is late if the session that it would open alone is late, even if another session could
    have taken it in. Late rows are passed over before the others are combined.

    O(rows), and for each key with rows a sort of its open sessions.

    Parameters
    ----------
    gap
        The pause that ends a session, such as ``"30 minutes"``.
    on
        The column of times; by default the one with the watermark.
    aggregates, columns
        Name of each result, and what it is; see `Aggregate`.

    Examples
    --------
    >>> from unskew.testing import run
    >>> minutes = lambda *times: pa.array([60_000_000 * time for time in times], pa.timestamp("us"))
    >>> first = pa.table({"user": ["ada", "ada", "ada"], "ts": minutes(1, 14, 4)})
    >>> second = pa.table({"user": ["ada", "ada"], "ts": minutes(8, 40)})
    >>> operator = SessionAggregate("5 minutes", n="count")
    >>> result = run(operator, [first, second, second.slice(0, 0)], key="user", watermark=("ts", "10 minutes"))
    >>> for row in result.outputs[2].to_pylist():
    ...     print(row["user"], row["session_window"]["start"].time(), row["session_window"]["end"].time(), row["n"])
    ada 00:01:00 00:13:00 3
    ada 00:14:00 00:19:00 1
    """

    output_column = "session_window"

    def __init__(
        self, gap: str, on: str | None = None, aggregates: Mapping[str, str] | None = None, **columns: str
    ) -> None:
        super().__init__(on, "append", self.named(aggregates, columns))
        self.gap = gap
        self._gap = microseconds(gap)
        if self._gap <= 0:
            raise ArgumentError("the gap of a session must be longer than zero", got=gap)

    def __repr__(self) -> str:
        return self._described(repr(self.gap), f"on={self.on!r}")

    @property
    def combined_schema(self) -> pa.Schema:
        return super().combined_schema.append(pa.field(LATE_ROWS, pa.int64()))

    def could_have_made(self, start: Numbers, end: Numbers) -> bool:
        return not np.any(end - start < self._gap)

    def lift(self, rows: pa.Table, groups: Groups) -> pa.Table:
        times, valid = instants(rows, self.time)
        return self.as_values(self._sessions_of(rows, times, groups, valid), len(groups))

    def combine(self, rows: pa.Table, groups: Groups, clock: Clock | None = None) -> tuple[pa.Table, Groups]:
        times, taken = instants(rows, self.time)
        late_rows = np.zeros(len(groups), np.int64)
        late_until = None if clock is None else self.late_until(clock)
        if late_until is not None:
            late = taken & (times + self._gap <= late_until)
            late_rows, taken = np.bincount(groups.group_of_row[late], minlength=len(groups)), taken & ~late
        sessions = self.combined_rows(groups.keys, self._sessions_of(rows, times, groups, taken))
        return sessions.append_column(self.combined_schema.field(LATE_ROWS), pa.array(late_rows)), groups.one_row_each()

    def presum(self, clock: Clock) -> Presum | None:
        """Have Spark aggregate by spans of the pause's length; rows of one span are of one session."""
        made = self._aggregate.presum(clock)
        if made is None or not self.commutative:
            return None
        time, late_until = quoted(self.time), self.late_until(clock)
        late = "false" if late_until is None else f"{time} <= timestamp_micros({late_until - self._gap})"
        states = ("count(*)", f"min({time})", f"max({time})", *made.states)
        return replace(made, groups={PANE_COLUMN: self.pane_sql(self._gap), LATE_COLUMN: late}, states=states)

    def from_presum(self, rows: pa.Table) -> pa.Table:
        """Make every row a state with one session, or with none if its rows are late."""
        first, valid = instants(rows, state_column(1))
        last, _ = instants(rows, state_column(2))
        late = rows.column(LATE_COLUMN).fill_null(False).to_numpy()
        windows = Windows(np.arange(len(rows)), first, last + self._gap, self.states_in(rows))
        sessions = self.combined_rows(rows.select(list(self.key)), windows.only(valid & ~late))
        late_rows = np.where(late, rows.column(state_column(0)).to_numpy(), 0)
        return sessions.append_column(self.combined_schema.field(LATE_ROWS), pa.array(late_rows))

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> Updated:
        self.absorbed(state, groups, self.windows_in(rows, groups.group_of_row))
        late_rows = int(rows.column(LATE_ROWS).to_numpy().sum())
        return Updated(self.output_schema.empty_table(), late_rows=late_rows)

    def united(self, windows: Windows, groups: int) -> tuple[Windows, Numbers]:
        """Make one session of those that overlap or touch."""
        order = np.lexsort((windows.start, windows.group))
        group, start, end = windows.group[order], windows.start[order], windows.end[order]
        session_of_part, opens = _kernel_join(fixed(group), fixed(start), fixed(end))
        starts = np.flatnonzero(opens)
        session = np.empty(len(order), np.int64)
        session[order] = session_of_part
        end = np.maximum.reduceat(end, starts) if len(starts) else end
        states = self._aggregate.merge(windows.states, bare_groups(len(starts), session))
        return Windows(group[starts], start[starts], end, states), session

    def _sessions_of(self, rows: pa.Table, times: Numbers, groups: Groups, taken: Mask) -> Windows:
        """Return the sessions that the taken rows make by themselves; where order matters, one for each row."""
        group_of_row = groups.group_of_row
        if not taken.all():
            rows, times, group_of_row = rows.filter(pa.array(taken)), times[taken], group_of_row[taken]
        if not self.commutative:
            order = np.argsort(group_of_row, kind="stable")
            each = bare_groups(len(order), np.arange(len(order)))
            states, start = self._aggregate.lift(rows.take(pa.array(order)), each), times[order]
            return Windows(group_of_row[order], start, start + self._gap, states)
        # rows of a pair are never further apart than a gap
        pairs = pairs_of(group_of_row, times // self._gap, len(groups))
        first, last = _kernel_range(fixed(times), fixed(pairs.pair_of_row), len(pairs))
        session_of_pair, opens = _kernel_join(fixed(pairs.group), first, last + self._gap)
        starts = np.flatnonzero(opens)
        end = np.maximum.reduceat(last, starts) + self._gap if len(starts) else last
        states = self._aggregate.lift(rows, bare_groups(len(starts), session_of_pair[pairs.pair_of_row]))
        return Windows(pairs.group[starts], first[starts], end, states)


@njit(cache=True)
def _kernel_range(times: Numbers, pair_of_row: Numbers, pairs: int) -> tuple[Numbers, Numbers]:
    first = np.full(pairs, np.iinfo(np.int64).max)
    last = np.full(pairs, np.iinfo(np.int64).min)
    for row in range(len(times)):
        pair = pair_of_row[row]
        first[pair] = min(first[pair], times[row])
        last[pair] = max(last[pair], times[row])
    return first, last


@njit(cache=True)
def _kernel_join(group: Numbers, start: Numbers, end: Numbers) -> tuple[Numbers, Mask]:
    """Return the session of each span, and which spans open one. Spans lie group by group, starts rising."""
    session, opens = np.empty(len(group), np.int64), np.zeros(len(group), np.bool_)
    number, until = -1, 0
    for span in range(len(group)):
        if span == 0 or group[span] != group[span - 1] or start[span] > until:
            number += 1
            until = end[span]
            opens[span] = True
        until = max(until, end[span])
        session[span] = number
    return session, opens
