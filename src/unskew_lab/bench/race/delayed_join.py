"""A windowed self-join in which every tuple takes its time."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from unskew.operators import Clock, Updated
from unskew.operators.self_join import SelfJoin
from unskew.state import Groups, KeyedState
from unskew_lab.bench.work import spend


class DelayedJoin(SelfJoin):
    """Pairs rows of a key that are close in time, and waits for each row as `DelayedCount` does. Keys cannot be split.

    >>> from datetime import datetime
    >>> from unskew.testing import run
    >>> at = [datetime(2024, 1, 1, 9, minute) for minute in (0, 3, 30)]
    >>> rows = pa.table({"key": ["a"] * 3, "event_time": at, "sequence": [1, 2, 3]})
    >>> run(DelayedJoin(0.0, "5 minutes"), [rows], key="key").outputs[0].num_rows
    4
    """

    def __init__(self, seconds_per_tuple: float, within: str, even_tuples: float | None = None) -> None:
        super().__init__("event_time", within, columns=["sequence"])
        self.seconds_per_tuple, self.even_tuples = seconds_per_tuple, even_tuples

    def __repr__(self) -> str:
        return "DelayedJoin()"

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> Updated:
        made = super().update(state, groups, rows, clock)
        spend(self.seconds_per_tuple * (rows.num_rows if self.even_tuples is None else self.even_tuples), "wait")
        return replace(made, seconds=None)  # planners go by the rows, which is what takes the time
