"""Aggregates over sessions on event time: runs of rows with no long pause between them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numba import njit

from unskew.errors import ArgumentError
from unskew.operators.base import Clock, Updated
from unskew.operators.durations import microseconds
from unskew.operators.lists import concatenated
from unskew.operators.pairs import pairs_of
from unskew.operators.windowed import END, START, Mask, Numbers, Windowed, Windows, bare_groups
from unskew.state.groups import Groups
from unskew.state.index import fixed
from unskew.state.keyed_state import KeyedState


class SessionAggregate(Windowed):
    """Aggregates per key and session, as ``groupBy(key, session_window(time, gap))`` in Spark.

    A row opens a session that ends `gap` later; sessions of a key that overlap or touch are one. Output is in append
    mode, the only one that Spark allows for sessions: a session is put out when the watermark has reached its end. See
    `Windowed` for state. A row is late if the session that it would open alone is late, whatever it could have been
    joined to, so rows are not combined before they travel.

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
        super().__init__(on, "append", {**(aggregates or {}), **columns})
        self.gap = gap
        self._gap = microseconds(gap)
        if self._gap <= 0:
            raise ArgumentError("a pause that ends a session has a length", got=gap)

    def __repr__(self) -> str:
        results = ", ".join(f"{name!r}: {text!r}" for name, text in self.aggregates.items())
        return f"SessionAggregate({self.gap!r}, on={self.on!r}, aggregates={{{results}}}){self._placed}"

    @property
    def time_lists(self) -> tuple[str, ...]:
        """Starts and ends."""
        return (START, END)

    def ends(self, values: pa.Table, start: Numbers) -> Numbers:
        """Return what the state says."""
        column = values.column(END)
        ends, _ = concatenated(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())
        return np.asarray(ends.to_numpy())

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> Updated:
        """Join rows that are not late to the sessions held."""
        times, valid = self.times_of(rows)
        late_until, late_rows = self.late_until(clock), 0
        taken = np.ones(len(times), np.bool_) if valid is None else valid
        if late_until is not None:
            late = taken & (times + self._gap <= late_until)
            late_rows, taken = int(late.sum()), taken & ~late
        group_of_row = groups.group_of_row
        if not taken.all():
            rows, times, group_of_row = rows.filter(pa.array(taken)), times[taken], group_of_row[taken]
        new = self._sessions_of(rows, times, group_of_row, len(groups))
        held, _ = state.get(groups)
        joined = self._joined(self.windows_in(held, np.arange(len(groups))).followed_by(new))
        touched = np.bincount(new.group, minlength=len(groups)) > 0
        state.put(groups, self.as_values(joined, len(groups)), where=touched)
        return Updated(self.output_schema.empty_table(), late_rows=late_rows)

    def _sessions_of(self, rows: pa.Table, times: Numbers, group_of_row: Numbers, groups: int) -> Windows:
        """Return the sessions that rows alone make."""
        pairs = pairs_of(group_of_row, times // self._gap, groups)  # rows of a pair are never further apart than a gap
        first, last = _kernel_range(fixed(times), fixed(pairs.pair_of_row), len(pairs))
        session_of_pair, opens = _kernel_join(fixed(pairs.group), first, last + self._gap)
        starts = np.flatnonzero(opens)
        end = np.maximum.reduceat(last, starts) + self._gap if len(starts) else last
        states = self._aggregate.lift(rows, bare_groups(len(starts), session_of_pair[pairs.pair_of_row]))
        return Windows(pairs.group[starts], first[starts], end, states)

    def _joined(self, sessions: Windows) -> Windows:
        """Return sessions with those that overlap or touch made one."""
        order = np.lexsort((sessions.start, sessions.group))
        group, start, end = sessions.group[order], sessions.start[order], sessions.end[order]
        session_of_part, opens = _kernel_join(fixed(group), fixed(start), fixed(end))
        starts = np.flatnonzero(opens)
        session = np.empty(len(order), np.int64)
        session[order] = session_of_part
        end = np.maximum.reduceat(end, starts) if len(starts) else end
        states = self._aggregate.merge(sessions.states, bare_groups(len(starts), session))
        return Windows(group[starts], start[starts], end, states)


@njit(cache=True)
def _kernel_range(times: Numbers, pair_of_row: Numbers, pairs: int) -> tuple[Numbers, Numbers]:
    """Return the first and last time of each pair."""
    first = np.full(pairs, np.iinfo(np.int64).max)
    last = np.full(pairs, np.iinfo(np.int64).min)
    for row in range(len(times)):
        pair = pair_of_row[row]
        first[pair] = min(first[pair], times[row])
        last[pair] = max(last[pair], times[row])
    return first, last


@njit(cache=True)
def _kernel_join(group: Numbers, start: Numbers, end: Numbers) -> tuple[Numbers, Mask]:
    """Number the sessions that spans make, which lie group by group, starts rising; says which spans open one."""
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
