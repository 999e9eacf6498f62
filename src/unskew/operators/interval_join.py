"""Pairs of rows of two streams that share a key and lie close together in time."""

from __future__ import annotations

import time
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from unskew.errors import ArgumentError
from unskew.operators.base import INPUT, TIME, Clock, Mask, Numbers, Operator, OutputMode, Updated, require_column
from unskew.operators.durations import microseconds
from unskew.operators.histories import Histories, extended, has_null_key, in_microseconds, list_schema, pairs_within
from unskew.operators.reductions import valid_rows
from unskew.state.groups import Groups, plain_schema
from unskew.state.keyed_state import KeyedState

How = Literal["inner", "left"]

LEFT_TIME, RIGHT_TIME, MATCHED, UNTIL_MS = "unskew.left", "unskew.right", "unskew.matched", "unskew.until_ms"
NEVER = np.iinfo(np.int64).max


class IntervalJoin(Operator):
    """Joins two streams on their key where the right row's time lies in an interval around the left one's.

    Works on the rows of `unskew.tagged`, on streams with watermarks, and gives the rows of this join in Spark, each as
    soon as the later-arriving of its two rows is there::

        SELECT * FROM l JOIN r ON l.key = r.key
        AND r.time BETWEEN l.time + INTERVAL earliest AND l.time + INTERVAL latest

    A left join also gives each left row without a partner, with nulls, once the watermark shows that none can come any
    more. Rows that are late (at or before the watermark of the batch before) are passed over. Once no row that may
    still come can be a row's partner, the row is forgotten: when its key has rows again, or with the key's last row.

    Costs O(rows of the key that are held + pairs) in each batch in which a key has rows. The time of `update` is
    attributed to keys in proportion, so that planners see the work and not the rows.

    Parameters
    ----------
    left, right
        Names of the two streams.
    earliest, latest
        From where to where the right row's time lies, seen from the left row's: ``"-5 minutes"``, ``"1 hour"``.
    how
        ``"inner"`` or ``"left"``.

    Examples
    --------
    >>> from datetime import datetime
    >>> from unskew.testing import run
    >>> rows = pa.table(
    ...     {
    ...         "user": ["ada", "ada", "ada"],
    ...         "input": ["orders", "payments", "payments"],
    ...         "time": [datetime(2024, 1, 1, 9, minute) for minute in (0, 3, 30)],
    ...         "orders_id": [1, None, None],
    ...         "payments_id": [None, 7, 8],
    ...     }
    ... )
    >>> join = IntervalJoin("orders", "payments", earliest="0 seconds", latest="10 minutes")
    >>> run(join, [rows], key="user", watermark=("time", "1 hour")).outputs[0].to_pylist()
    [{'user': 'ada', 'orders_id': 1, 'payments_id': 7}]
    """

    compute = "quadratic"
    output_mode: OutputMode = "append"
    deadline = UNTIL_MS
    time_mode = "event"

    def __init__(self, left: str, right: str, *, earliest: str, latest: str, how: How = "inner") -> None:
        self.left, self.right, self.earliest, self.latest, self.how = left, right, earliest, latest, how
        self._earliest_us, self._latest_us = microseconds(earliest), microseconds(latest)
        if self._earliest_us > self._latest_us:
            raise ArgumentError("an interval must not end before it begins", got=(earliest, latest))
        if how not in get_args(How):
            raise ArgumentError("there is no such join", got=how, hint=f"one of {', '.join(get_args(How))}")
        if left == right:
            raise ArgumentError("a join needs two streams", got=left, hint="SelfJoin pairs the rows of one")

    def __repr__(self) -> str:
        interval = f"earliest={self.earliest!r}, latest={self.latest!r}"
        return f"IntervalJoin({self.left!r}, {self.right!r}, {interval}, how={self.how!r})"

    def check(self) -> None:
        super().check()
        require_column(self.input_schema, INPUT)
        if self.event_time != TIME:
            hint = "give both streams a watermark, then unskew.tagged(key, left=..., right=...)"
            raise ArgumentError("the rows have no common event time", got=self.event_time, hint=hint)
        for side in (self.left, self.right):
            if not self._columns_of(side):
                raise ArgumentError("there is no stream of that name", got=side, hint=f"{self.input_schema.names}")

    @property
    def columns_needed(self) -> tuple[str, ...]:
        return (INPUT, TIME, *self._shown)

    @property
    def value_schema(self) -> pa.Schema:
        """The rows of both streams that may still find partners, by time; and when there is next something to do."""
        lists = list_schema(self.input_schema, self._shown)
        times = [pa.field(name, pa.list_(pa.int64())) for name in (LEFT_TIME, RIGHT_TIME)]
        return pa.schema([*lists, *times, (MATCHED, pa.list_(pa.bool_())), (UNTIL_MS, pa.int64())])

    @property
    def output_schema(self) -> pa.Schema:
        schema = plain_schema(self.input_schema)
        return pa.schema([*self.key_schema, *(schema.field(name) for name in self._shown)])

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> Updated:
        started = time.perf_counter()
        at = in_microseconds(rows.column(TIME))
        there, until_us = valid_rows(at), _microseconds_of(clock.previous_watermark_ms)
        late = there & (at.fill_null(0).to_numpy() <= until_us)
        keyless = has_null_key(groups)
        usable = there & ~late & ~(keyless[groups.group_of_row] & (self.how == "inner"))
        held, _ = state.get(groups)
        left = self._side(self.left, held, groups, rows, at, usable)
        right = self._side(self.right, held, groups, rows, at, usable & ~keyless[groups.group_of_row])
        times = _times(left, LEFT_TIME), _times(right, RIGHT_TIME)
        i, j, pairs = pairs_within(left, times[0], right, times[1], self._earliest_us, self._latest_us)
        matched = left.rows.column(MATCHED).to_numpy().copy()
        matched[i] = True
        # where the interval ends before the left row, its time may be over though the row itself is not late
        alone = self._alone(groups, left, right, matched, until_us)
        output = pa.concat_tables([self._joined(groups, left, right, i, j), alone])
        self._keep(state, groups, left, right, matched, until_us)
        work = np.diff(left.starts) + np.diff(right.starts) + pairs + 1.0
        seconds = (time.perf_counter() - started) * work / max(1.0, work.sum())
        return Updated(output, seconds, int(late.sum()))

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        """Forget rows that can find no partner any more; a left join gives those that never had one."""
        if clock.watermark_ms is None:
            return self.output_schema.empty_table()
        groups = state.due(clock.watermark_ms)
        held, _ = state.get(groups)
        none = self.input_schema.empty_table()
        times, nobody = in_microseconds(none.column(TIME)), np.empty(0, np.bool_)
        left, right = (self._side(side, held, groups, none, times, nobody) for side in (self.left, self.right))
        matched = left.rows.column(MATCHED).to_numpy()
        until_us = _microseconds_of(clock.watermark_ms)
        self._keep(state, groups, left, right, matched, until_us)
        return self._alone(groups, left, right, matched, until_us)

    def _columns_of(self, side: str) -> list[str]:
        """Return the columns that start with a stream's name, except those that start with the other's longer one."""
        other = self.right if side == self.left else self.left
        names = [name for name in self.input_schema.names if name.startswith(f"{side}_") and name not in self.key]
        return [name for name in names if len(other) <= len(side) or not name.startswith(f"{other}_")]

    @property
    def _shown(self) -> list[str]:
        return [*self._columns_of(self.left), *self._columns_of(self.right)]

    def _side(self, side: str, held: pa.Table, groups: Groups, rows: pa.Table, at: pa.Array, usable: Mask) -> Histories:
        """Return all rows of one stream, each group's by time."""
        time_column, *flags = (LEFT_TIME, MATCHED) if side == self.left else (RIGHT_TIME,)
        new = rows.append_column(time_column, at).append_column(MATCHED, pa.array(np.zeros(len(rows), np.bool_)))
        chosen = usable & (rows.column(INPUT).to_numpy(zero_copy_only=False) == side) if len(rows) else usable
        histories = extended(held.select([*self._columns_of(side), time_column, *flags]), new, groups, chosen)
        return histories.sorted_by_time(_times(histories, time_column))[0]

    def _joined(self, groups: Groups, left: Histories, right: Histories, i: Numbers, j: Numbers | None) -> pa.Table:
        """Return rows `i` of the left beside rows `j` of the right, or beside nothing."""
        keys = groups.keys.take(pa.array(left.group_of_row[i]))
        ours = left.rows.select(self._columns_of(self.left)).take(pa.array(i)).columns
        theirs = right.rows.select(self._columns_of(self.right))
        others = theirs.take(pa.nulls(len(i), pa.int64()) if j is None else pa.array(j)).columns
        return pa.Table.from_arrays([*keys.columns, *ours, *others], schema=self.output_schema)

    def _alone(self, groups: Groups, left: Histories, right: Histories, matched: Mask, until_us: int) -> pa.Table:
        """Return what a left join gives for the rows that `_keep` forgets: those that never had a partner."""
        if self.how == "inner":
            return self.output_schema.empty_table()
        alone = np.flatnonzero(~matched & (_times(left, LEFT_TIME) + self._latest_us <= until_us))
        return self._joined(groups, left, right, alone, None)

    def _keep(
        self, state: KeyedState, groups: Groups, left: Histories, right: Histories, matched: Mask, until_us: int
    ) -> None:
        """Hold what may still find partners, and say when there is next something to do."""
        left_ends, right_ends = _times(left, LEFT_TIME) + self._latest_us, _times(right, RIGHT_TIME) - self._earliest_us
        left_needed, right_needed = left_ends > until_us, right_ends > until_us
        next_us = np.full(len(groups), -NEVER)
        np.maximum.at(next_us, left.group_of_row[left_needed], left_ends[left_needed])
        np.maximum.at(next_us, right.group_of_row[right_needed], right_ends[right_needed])
        if self.how == "left":  # the first left row without a partner has to be given when its time is over
            alone = left_needed & ~matched
            np.minimum.at(next_us, left.group_of_row[alone], left_ends[alone])
        rows = left.rows.set_column(left.rows.column_names.index(MATCHED), MATCHED, pa.array(matched))
        sides = Histories(rows, left.starts, left.new_row).kept(left_needed), right.kept(right_needed)
        columns = {name: side.column(name) for side in sides for name in side.column_names}
        columns[UNTIL_MS] = pa.array(-(-next_us // 1000))
        values = pa.table([columns[name] for name in self.value_schema.names], schema=self.value_schema)
        anything = left.has_any(left_needed) | right.has_any(right_needed)
        state.put(groups, values, where=anything)
        state.remove(groups, where=~anything)


def _microseconds_of(watermark_ms: int | None) -> int:
    return -NEVER if watermark_ms is None else watermark_ms * 1000


def _times(side: Histories, name: str) -> Numbers:
    return np.asarray(side.rows.column(name).to_numpy(), np.int64)
