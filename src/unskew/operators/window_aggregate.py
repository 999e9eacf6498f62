"""Aggregates over windows of fixed length on event time: tumbling and sliding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from unskew.errors import ArgumentError
from unskew.operators.base import Clock, Numbers, OutputMode, Updated
from unskew.operators.durations import microseconds
from unskew.operators.pairs import pairs_in_runs, pairs_of
from unskew.operators.presum import Presum
from unskew.operators.windowed import PANE_COLUMN, Windowed, Windows, bare_groups, instants
from unskew.state.groups import Groups
from unskew.state.keyed_state import KeyedState


class WindowAggregate(Windowed):
    """Aggregates per key and window, as ``groupBy(key, window(time, size, slide))`` in Spark.

    Windows begin at multiples of `slide` since the epoch, in UTC, plus `offset`, and include their start but not their
    end. See `Windowed` for late rows, output and state. `late_rows` counts what Spark's own figure
    ``numRowsDroppedByWatermark`` counts: pairs of key and window that a batch had late rows for.

    Rows are aggregated once, into panes that no window cuts. Panes travel to the key's channel, and go to their windows
    there. O(rows), and for each key with rows the windows that it has open.

    Parameters
    ----------
    size
        Length of the windows, such as ``"10 minutes"``.
    slide
        From the start of one window to the next; by default `size`: windows tumble.
    offset
        Where the first window after the epoch starts (``startTime`` in Spark).
    on
        The column of times; by default the one with the watermark.
    output_mode
        ``"append"``, ``"update"`` or ``"complete"``, as Spark defines them.
    aggregates, columns
        Name of each result, and what it is; see `Aggregate`.

    Examples
    --------
    >>> from unskew.testing import run
    >>> minutes = lambda *times: pa.array([60_000_000 * time for time in times], pa.timestamp("us"))
    >>> first = pa.table({"user": ["ada", "bob", "ada"], "ts": minutes(1, 2, 12)})
    >>> second = pa.table({"user": ["ada", "ada"], "ts": minutes(8, 31)})
    >>> operator = WindowAggregate("10 minutes", n="count")
    >>> result = run(operator, [first, second, second.slice(0, 0)], key="user", watermark=("ts", "5 minutes"))
    >>> for batch, output in enumerate(result.outputs):
    ...     for row in output.to_pylist():
    ...         print(batch, row["user"], row["window"]["start"].time(), row["n"])
    2 ada 00:00:00 2
    2 ada 00:10:00 1
    2 bob 00:00:00 1
    """

    def __init__(
        self,
        size: str,
        slide: str | None = None,
        offset: str = "0 seconds",
        on: str | None = None,
        output_mode: OutputMode = "append",
        aggregates: Mapping[str, str] | None = None,
        **columns: str,
    ) -> None:
        super().__init__(on, output_mode, self.named(aggregates, columns))
        self.size, self.slide, self.offset = size, slide or size, offset
        self._size, self._slide = microseconds(self.size), microseconds(self.slide)
        if self._size <= 0:
            raise ArgumentError("a window must be longer than zero", got=size)
        if not 0 < self._slide <= self._size:
            raise ArgumentError("windows must slide by more than zero and at most their size", got=slide)
        self.length, self._offset = self._size, microseconds(offset) % self._slide

    def __repr__(self) -> str:
        mode = f"output_mode={self.output_mode!r}"
        return self._described(repr(self.size), repr(self.slide), f"offset={self.offset!r}", f"on={self.on!r}", mode)

    def could_have_made(self, start: Numbers, end: Numbers) -> bool:
        return not (np.any(end - start != self._size) or np.any((start - self._offset) % self._slide))

    def lift(self, rows: pa.Table, groups: Groups) -> pa.Table:
        parts = self._parts(rows, groups)
        return self.as_values(self._spread(parts, len(groups)) if self._in_panes else parts, len(groups))

    def combine(self, rows: pa.Table, groups: Groups, clock: Clock | None = None) -> tuple[pa.Table, Groups]:
        """Turn rows into one partial state per key; where windows overlap, it holds panes in place of windows."""
        return self.combined_rows(groups.keys, self._parts(rows, groups)), groups.one_row_each()

    def presum(self, clock: Clock) -> Presum | None:
        """Have Spark aggregate by pane, or by window where windows tumble."""
        made = self._aggregate.presum(clock)
        if made is None or (self._overlap and not self._in_panes):
            return None
        return replace(made, groups={PANE_COLUMN: self.pane_sql(self._pane, self._offset % self._pane)})

    def from_presum(self, rows: pa.Table) -> pa.Table:
        """Make every row a state with one pane."""
        start, valid = instants(rows, PANE_COLUMN)
        windows = Windows(np.arange(len(rows)), start, start + self._size, self.states_in(rows))
        return self.combined_rows(rows.select(list(self.key)), windows.only(valid))

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> Updated:
        """Merge partial states, except what is late, into the state held; in update mode, return what has changed."""
        windows = self.windows_in(rows, groups.group_of_row)
        if self._in_panes:
            windows = self._spread(windows, len(groups))
        elif rows.num_rows > len(groups):
            windows, _ = self.united(windows, len(groups))
        late_until, late_rows = self.late_until(clock), 0
        if late_until is not None:
            on_time = windows.end > late_until
            late_rows = len(windows) - int(on_time.sum())
            windows = windows.only(on_time)
        changed = self.absorbed(state, groups, windows)
        if self.output_mode != "update":
            return Updated(self.output_schema.empty_table(), late_rows=late_rows)
        return Updated(self.rows_of(groups.keys, changed), late_rows=late_rows)

    def united(self, windows: Windows, groups: int) -> tuple[Windows, Numbers]:
        pairs = pairs_in_runs(windows.group, windows.start, groups)
        states = self._aggregate.merge(windows.states, bare_groups(len(pairs), pairs.pair_of_row))
        return Windows(pairs.group, pairs.number, pairs.number + self._size, states), pairs.pair_of_row

    @property
    def _in_panes(self) -> bool:
        """Whether rows are aggregated into panes first: where windows overlap, unless the order of rows matters."""
        return self._overlap and self._aggregate.commutative

    @property
    def _overlap(self) -> bool:
        return self._slide < self._size

    @property
    def _pane(self) -> int:
        """The length of panes, which no window cuts, in microseconds."""
        return int(np.gcd(self._size, self._slide))

    def _parts(self, rows: pa.Table, groups: Groups) -> Windows:
        times, valid = instants(rows, self.time)
        group_of_row = groups.group_of_row
        if not valid.all():
            rows, times, group_of_row = rows.filter(pa.array(valid)), times[valid], group_of_row[valid]
        if self._overlap and not self._in_panes:
            row_of_window, start = self._windows_of(times)
            rows, group_of_row = rows.take(pa.array(row_of_window)), group_of_row[row_of_window]
        else:
            start = (times - self._offset) // self._pane * self._pane + self._offset
        pairs = pairs_of(group_of_row, start, len(groups))
        states = self._aggregate.lift(rows, bare_groups(len(pairs), pairs.pair_of_row))
        return Windows(pairs.group, pairs.number, pairs.number + self._size, states)

    def _spread(self, panes: Windows, groups: int) -> Windows:
        pane_of_window, start = self._windows_of(panes.start)
        states = panes.states.take(pa.array(pane_of_window))
        return self.united(Windows(panes.group[pane_of_window], start, start + self._size, states), groups)[0]

    def _windows_of(self, times: Numbers) -> tuple[Numbers, Numbers]:
        """Return the windows that each time lies in: the number of the time, and the start of the window."""
        count = -(-self._size // self._slide)
        last = (times - self._offset) // self._slide * self._slide + self._offset
        starts = last[:, None] - self._slide * np.arange(count - 1, -1, -1)
        if self._size % self._slide == 0:
            return np.repeat(np.arange(len(times)), count), starts.ravel()
        number, which = np.nonzero(starts + self._size > times[:, None])
        return number, starts[number, which]
