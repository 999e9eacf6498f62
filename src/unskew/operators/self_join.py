"""Pairs of rows of one stream that share a key and lie close together in time."""

from __future__ import annotations

import operator as op
import re
import time
from collections.abc import Sequence
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray
from pyarrow import types

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.base import Clock, Operator, OutputMode, Updated, require_column
from unskew.operators.durations import microseconds
from unskew.operators.event_times import has_null_key, in_microseconds, sorted_by_time
from unskew.operators.histories import HELD, Histories, extended, list_schema
from unskew.operators.reductions import valid_rows
from unskew.state.groups import Groups, plain_schema
from unskew.state.keyed_state import KeyedState

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

LEFT, RIGHT = "left_", "right_"
COMPARISONS = {"<": op.lt, "<=": op.le, "=": op.eq, "!=": op.ne, ">=": op.ge, ">": op.gt}
UNTIL_MS = "unskew.until_ms"


class SelfJoin(Operator):
    """Yields each pair of rows of a key in which the right one is not earlier than the left one, nor much later.

    Exactly the rows of this join in SQL, each as soon as the later-arriving of its two rows is there::

        SELECT * FROM rows l JOIN rows r ON l.key = r.key AND r.time BETWEEN l.time AND l.time + INTERVAL within

    So a row is paired with itself, and rows of the same instant with each other both ways; `where` can exclude that.
    Rows without a time, and rows of which a key column is null, have no partner.

    On a stream with a watermark on `time`, rows that are late as Spark judges it (at or before the watermark of the
    batch before) are passed over, and rows are forgotten once no row that may still come can be their partner: when
    their key has rows again, or when all rows of the key can be forgotten. Without a watermark nothing is forgotten, as
    in Spark.

    Costs O(rows of the key within the window + pairs) in each batch in which a key has rows. The time of `update` is
    shared out to keys by that, so that planners see the work and not the rows.

    Parameters
    ----------
    time
        The column of the event time, a timestamp.
    within
        How much later the right row may be, both ends included, such as ``"10 minutes"``.
    columns
        What pairs show of each row; by default all columns but the key.
    where
        Which pairs to keep, an Arrow expression on the output's columns: the key columns by their names, others as
        ``left_<name>`` and ``right_<name>``. Or two of them compared in words, ``"left_id < right_id"``.
    sides
        Two boolean columns that say of each row whether it may be the left one of a pair, and the right one; by default
        it may be both. With them a key that is too hot for one channel can be cut into cells, see the gallery.
    pair_seconds
        How long each pair takes besides; imitates costly work on pairs in measurements.

    References
    ----------
    Fang et al., section V.A (the Stock workload).

    Examples
    --------
    >>> from datetime import datetime
    >>> from unskew.testing import run
    >>> at = [datetime(2024, 1, 1, 9, minute) for minute in (0, 3, 30)]
    >>> trades = pa.table({"stock": ["a", "a", "a"], "at": at, "id": [1, 2, 3]})
    >>> join = SelfJoin("at", "5 minutes", columns=["id"], where=pc.field("left_id") < pc.field("right_id"))
    >>> run(join, [trades.slice(0, 1), trades.slice(1)], key="stock").outputs[1].to_pylist()
    [{'stock': 'a', 'left_id': 1, 'right_id': 2}]
    """

    compute = "quadratic"
    output_mode: OutputMode = "append"
    deadline = UNTIL_MS

    def __init__(
        self,
        time: str,
        within: str,
        *,
        columns: Sequence[str] | None = None,
        where: pc.Expression | str | None = None,
        sides: Sequence[str] | None = None,
        pair_seconds: float = 0.0,
    ) -> None:
        self.time, self.within, self.pair_seconds = time, within, pair_seconds
        self.columns = None if columns is None else tuple(columns)
        self.sides = () if sides is None else tuple(sides)
        if len(self.sides) not in (0, 2):
            raise ArgumentError("a pair has two sides", got=self.sides, hint="name a column for each")
        self._within_us = microseconds(within)
        if self._within_us < 0:
            raise ArgumentError("the right row may not lie before the left one", got=within)
        self.where = _comparison(where) if isinstance(where, str) else where
        if self.where is not None and not isinstance(self.where, pc.Expression):
            hint = 'such as pyarrow.compute.field("left_id") < pyarrow.compute.field("right_id")'
            raise ArgumentError("the condition must be an Arrow expression", got=where, hint=hint)
        if pair_seconds < 0:
            raise ArgumentError("a pair cannot take less than no time", got=pair_seconds)

    def __repr__(self) -> str:
        # what pairs cost is no part of what the state means
        shown = [repr(self.time), repr(self.within)]
        shown += [] if self.columns is None else [f"columns={self.columns}"]
        shown += [] if self.where is None else [f"where={self.where}"]
        shown += [f"sides={self.sides}"] if self.sides else []
        return f"SelfJoin({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SelfJoin) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def bind(self, input_schema: pa.Schema, key: tuple[str, ...]) -> Self:
        """Return a copy that knows its input; with a watermark, time passes for it."""
        bound = super().bind(input_schema, key)
        bound.time_mode = "none" if bound.event_time is None else "event"
        return bound

    def check(self) -> None:
        """Refuse a time that is no timestamp or not the one of the watermark, and columns that do not exist."""
        super().check()
        kind = require_column(self.input_schema, self.time).type
        if not types.is_timestamp(kind):
            raise ColumnError("the time must be a timestamp", where=f"column {self.time!r}", got=str(kind))
        if self.event_time not in (None, self.time):
            raise ArgumentError(f"the watermark is on {self.event_time!r}", got=self.time, hint="join by that column")
        for name in self._shown:
            require_column(self.input_schema, name)
        for name in self.sides:
            kind = require_column(self.input_schema, name).type
            if not types.is_boolean(kind):
                raise ColumnError("a side is a truth value", where=f"column {name!r}", got=str(kind))
        if self.where is not None:
            try:
                self.output_schema.empty_table().filter(self.where)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
                hint = f"its columns are {', '.join(self.output_schema.names)}"
                raise ArgumentError(f"the condition does not work: {error}", got=str(self.where), hint=hint) from None

    @property
    def columns_needed(self) -> tuple[str, ...]:
        """The time, the sides and what pairs show; `where` sees nothing else."""
        return (self.time, *self.sides, *self._shown)

    @property
    def value_schema(self) -> pa.Schema:
        """The rows of a key that may still find partners, by time; and when none of them can any more."""
        kept = list_schema(self.input_schema, [self.time, *self.sides, *self._shown])
        return kept.append(pa.field(UNTIL_MS, pa.int64()))

    @property
    def output_schema(self) -> pa.Schema:
        """The key columns, and the other columns of both rows."""
        shown = [plain_schema(self.input_schema).field(name) for name in self._shown]
        sides = [field.with_name(side + field.name) for side in (LEFT, RIGHT) for field in shown]
        return pa.schema([*self.key_schema, *sides])

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> Updated:
        """Pair new rows with those held and with each other."""
        started = time.perf_counter()
        times = in_microseconds(rows.column(self.time))
        usable = valid_rows(times) & ~has_null_key(groups)[groups.group_of_row]
        late = usable & False
        if self.event_time is not None and clock.previous_watermark_ms is not None:
            late = times.fill_null(0).to_numpy() <= clock.previous_watermark_ms * 1000
        late_rows = int((late & valid_rows(times)).sum())
        histories = self._histories(state, groups, rows, usable & ~late)
        histories, at = sorted_by_time(histories, in_microseconds(histories.rows.column(self.time)).to_numpy())
        left, right = self._pairs(at, histories)
        output = self._output(groups, histories, left, right)
        self._keep(state, groups, histories, at, clock)
        time.sleep(self.pair_seconds * output.num_rows)
        pairs = np.bincount(histories.group_of_row[left], minlength=len(groups))
        work = np.diff(histories.starts) + pairs + 1.0
        return Updated(output, (time.perf_counter() - started) * work / max(1.0, work.sum()), late_rows)

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        """Forget the keys of which no row can find a partner any more."""
        if self.event_time is not None and clock.watermark_ms is not None:
            state.remove(state.due(clock.watermark_ms))
        return self.output_schema.empty_table()

    @property
    def _shown(self) -> tuple[str, ...]:
        others = tuple(name for name in self.input_schema.names if name not in (*self.key, *self.sides))
        return others if self.columns is None else self.columns

    def _histories(self, state: KeyedState, groups: Groups, rows: pa.Table, usable: Mask) -> Histories:
        held, _ = state.get(groups)
        order, starts = groups.order, groups.starts
        if not usable.all():
            order = order[usable[order]]
            starts = np.concatenate(([0], np.cumsum(np.bincount(groups.group_of_row[usable], minlength=len(groups)))))
        return extended(held.drop_columns([UNTIL_MS]), rows, order, starts)

    def _pairs(self, at: Numbers, histories: Histories) -> tuple[Numbers, Numbers]:
        """Return left and right row of each pair that has a new row in it."""
        is_new, nothing = histories.new_row != HELD, np.empty(0, np.int64)
        leads, follows = (_is_true(histories.rows, name) for name in self.sides or (None, None))
        given = at, is_new, leads, histories.starts, self._within_us
        pairs = _kernel_pairs(*given, nothing, nothing)
        left, right = np.empty(pairs, np.int64), np.empty(pairs, np.int64)
        _kernel_pairs(*given, left, right)
        return (left[follows[right]], right[follows[right]]) if self.sides else (left, right)

    def _output(self, groups: Groups, histories: Histories, left: Numbers, right: Numbers) -> pa.Table:
        shown = histories.rows.select(list(self._shown))
        keys = groups.keys.take(pa.array(histories.group_of_row[left]))
        columns = [column for side in (left, right) for column in shown.take(pa.array(side)).columns]
        output = pa.Table.from_arrays([*keys.columns, *columns], schema=self.output_schema)
        return output if self.where is None else output.filter(self.where)

    def _keep(self, state: KeyedState, groups: Groups, histories: Histories, at: Numbers, clock: Clock) -> None:
        """Hold what may still find partners: other rows of this batch lie behind the watermark of the one before."""
        needed = np.ones(len(at), np.bool_)
        if self.event_time is not None and clock.previous_watermark_ms is not None:
            needed = at + self._within_us > clock.previous_watermark_ms * 1000
        latest = np.zeros(len(groups), np.int64)
        np.maximum.at(latest, histories.group_of_row, at)
        until_ms = pa.array(-((-latest - self._within_us) // 1000))
        has_new = np.zeros(len(groups), np.bool_)
        has_new[histories.group_of_row[histories.new_row != HELD]] = True
        left_over = np.bincount(histories.group_of_row[needed], minlength=len(groups)) > 0
        state.put(groups, histories.kept(needed).append_column(UNTIL_MS, until_ms), where=has_new & left_over)
        state.remove(groups, where=~left_over)


def _is_true(rows: pa.Table, name: str | None) -> Mask:
    if name is None:
        return np.ones(rows.num_rows, np.bool_)
    return np.array(pc.fill_null(rows.column(name), False))


def _comparison(text: str) -> pc.Expression:
    """Return what words such as ``"left_id < right_id"`` say."""
    words = re.fullmatch(r"\s*(\w+)\s*(<=|>=|!=|<|>|=)\s*(\w+)\s*", text)
    if words is None:
        raise ArgumentError("the condition compares two columns", got=text, hint='such as "left_id < right_id"')
    return COMPARISONS[words[2]](pc.field(words[1]), pc.field(words[3]))


@njit(cache=True)
def _kernel_pairs(
    at: Numbers, is_new: Mask, leads: Mask, starts: Numbers, within_us: int, left: Numbers, right: Numbers
) -> int:
    """Count the pairs whose left row leads, and fill them in unless `left` and `right` are empty. O(rows + pairs)."""
    fill, pairs = len(left) > 0, 0
    new_rows = np.flatnonzero(is_new)
    first_new = last_new = 0
    for group in range(len(starts) - 1):
        stop = starts[group + 1]
        first = last = starts[group]
        for row in range(starts[group], stop):
            while at[first] < at[row]:
                first += 1
            while last < stop and at[last] <= at[row] + within_us:
                last += 1
            while first_new < len(new_rows) and new_rows[first_new] < first:
                first_new += 1
            while last_new < len(new_rows) and new_rows[last_new] < last:
                last_new += 1
            if not leads[row]:
                continue
            found = last - first if is_new[row] else last_new - first_new
            if fill:
                for i in range(found):
                    left[pairs + i] = row
                    right[pairs + i] = first + i if is_new[row] else new_rows[first_new + i]
            pairs += found
    return pairs
