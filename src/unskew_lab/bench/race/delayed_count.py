"""A running count in which every tuple takes its time, as in the papers' measurements."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unskew.load.statistics import add_up
from unskew.operators import Clock, Mergeable
from unskew.state import Groups, KeyedState
from unskew_lab.bench.work import spend

Where = Literal["owner", "worker"]


class DelayedCount(Mergeable):
    """Counts the rows of each key, and takes its time for each of them where the work is done.

    Waiting instead of working lets a few cores imitate many saturated machines: a channel that waits holds no core.
    The time is spent by the ``"owner"``, the channel that gets the tuple, or by the ``"worker"``, where a splitting
    scheme has sent it; owners then only add up. With `even_tuples`, every owner waits for that many tuples, whatever
    it was sent: with an even share of the batch, nothing but the balance is perfect.

    >>> from unskew.testing import run
    >>> rows = pa.table({"key": ["a", "b", "a"]})
    >>> run(DelayedCount(0.0), [rows], key="key").outputs[0].to_pylist()
    [{'key': 'a', 'n': 2}, {'key': 'b', 'n': 1}]
    """

    def __init__(self, seconds_per_tuple: float, where: Where = "owner", even_tuples: float | None = None) -> None:
        self.seconds_per_tuple, self.where, self.even_tuples = seconds_per_tuple, where, even_tuples

    def __repr__(self) -> str:
        return "DelayedCount()"

    @property
    def value_schema(self) -> pa.Schema:
        return pa.schema([("n", pa.int64())])

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([*self.key_schema, ("n", pa.int64())])

    def lift(self, rows: pa.Table, groups: Groups) -> pa.Table:
        if self.where == "worker":
            spend(self.seconds_per_tuple * rows.num_rows, "wait")
        return pa.table([pa.array(groups.counts)], schema=self.value_schema)

    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        counts = pc.fill_null(values.column("n"), 0).to_numpy()
        total = add_up(counts, groups.group_of_row, len(groups)).astype(np.int64)
        return pa.table([pa.array(total)], schema=self.value_schema)

    def finish(self, keys: pa.Table, values: pa.Table) -> pa.Table:
        return pa.Table.from_arrays([*keys.columns, *values.columns], schema=self.output_schema)

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        if self.where == "owner":
            sent: Any = pc.sum(rows.column("n")).as_py() or 0
            spend(self.seconds_per_tuple * (sent if self.even_tuples is None else self.even_tuples), "wait")
        return super().update(state, groups, rows, clock)
