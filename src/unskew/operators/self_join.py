"""Pairs of rows of one stream that share a key and lie close together in time."""

from __future__ import annotations

import operator as op
import re
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from unskew.errors import ArgumentError, require_list, require_number
from unskew.operators.base import Clock, Mask, Numbers, Operator, OutputMode, Updated, require_column
from unskew.operators.durations import microseconds
from unskew.operators.histories import (
    HELD,
    Histories,
    extended,
    has_null_key,
    in_microseconds,
    list_schema,
    pairs_within,
)
from unskew.operators.reductions import valid_rows
from unskew.state.groups import Groups, plain_schema
from unskew.state.keyed_state import KeyedState

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
    attributed to keys in proportion, so that planners see the work and not the rows.

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
        Two boolean columns that say whether a row may be the left one of a pair, and the right one; by default it may
        be both. With them you can cut a key that is too hot for one channel into cells, see the gallery.
    pair_seconds
        Extra time to spend on each pair; imitates costly work in measurements.

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
        self.columns = None if columns is None else require_list("columns", columns)
        self.sides = () if sides is None else require_list("sides", sides)
        if len(self.sides) not in (0, 2):
            raise ArgumentError("a pair has two sides", got=self.sides, hint="name a column for each")
        self._within_us = microseconds(within)
        if self._within_us < 0:
            raise ArgumentError("the right row may not lie before the left one", got=within)
        self.where = _comparison(where) if isinstance(where, str) else where
        if self.where is not None and not isinstance(self.where, pc.Expression):
            hint = 'such as pyarrow.compute.field("left_id") < pyarrow.compute.field("right_id")'
            raise ArgumentError("the condition must be an Arrow expression", got=where, hint=hint)
        require_number("pair_seconds", pair_seconds, whole=False)
        if pair_seconds < 0:
            raise ArgumentError("a pair cannot take negative time", got=pair_seconds)

    def __repr__(self) -> str:
        # what pairs cost is no part of what the state means
        shown = [repr(self.time), repr(self.within)]
        shown += [] if self.columns is None else [f"columns={self.columns}"]
        shown += [] if self.where is None else [f"where={self.where}"]
        shown += [f"sides={self.sides}"] if self.sides else []
        return f"SelfJoin({', '.join(shown)})"

    def check(self) -> None:
        super().check()
        self.time_mode = "none" if self.event_time is None else "event"
        require_column(self.input_schema, self.time, types.is_timestamp, "the time must be a timestamp")
        if self.event_time not in (None, self.time):
            raise ArgumentError(f"the watermark is on {self.event_time!r}", got=self.time, hint="join by that column")
        for name in self._shown:
            require_column(self.input_schema, name)
        for name in self.sides:
            require_column(self.input_schema, name, types.is_boolean, "a side must be a boolean")
        if self.where is not None:
            try:
                self.output_schema.empty_table().filter(self.where)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
                hint = f"its columns are {', '.join(self.output_schema.names)}"
                raise ArgumentError(f"the condition does not work: {error}", got=str(self.where), hint=hint) from None

    @property
    def columns_needed(self) -> tuple[str, ...]:
        return (self.time, *self.sides, *self._shown)

    @property
    def value_schema(self) -> pa.Schema:
        """The rows that may still find partners, by time; and until when one of them can."""
        kept = list_schema(self.input_schema, [self.time, *self.sides, *self._shown])
        return kept.append(pa.field(UNTIL_MS, pa.int64()))

    @property
    def output_schema(self) -> pa.Schema:
        shown = [plain_schema(self.input_schema).field(name) for name in self._shown]
        sides = [field.with_name(side + field.name) for side in (LEFT, RIGHT) for field in shown]
        return pa.schema([*self.key_schema, *sides])

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> Updated:
        started = time.perf_counter()
        times = in_microseconds(rows.column(self.time))
        usable = valid_rows(times) & ~has_null_key(groups)[groups.group_of_row]
        late = usable & False
        if self.event_time is not None and clock.previous_watermark_ms is not None:
            late = times.fill_null(0).to_numpy() <= clock.previous_watermark_ms * 1000
        late_rows = int((late & valid_rows(times)).sum())
        held, _ = state.get(groups)
        histories = extended(held.drop_columns([UNTIL_MS]), rows, groups, usable & ~late)
        histories, at = histories.sorted_by_time(in_microseconds(histories.rows.column(self.time)).to_numpy())
        leads, follows = (_is_true(histories.rows, name) for name in self.sides or (None, None))
        left, right, _ = pairs_within(histories, at, histories, at, 0, self._within_us, leads)
        if self.sides:
            left, right = left[follows[right]], right[follows[right]]
        output = self._output(groups, histories, left, right)
        self._keep(state, groups, histories, at, clock)
        time.sleep(self.pair_seconds * output.num_rows)
        pairs = np.bincount(histories.group_of_row[left], minlength=len(groups))
        work = np.diff(histories.starts) + pairs + 1.0
        return Updated(output, (time.perf_counter() - started) * work / max(1.0, work.sum()), late_rows)

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        if self.event_time is not None and clock.watermark_ms is not None:
            state.remove(state.due(clock.watermark_ms))
        return self.output_schema.empty_table()

    @property
    def _shown(self) -> tuple[str, ...]:
        others = tuple(name for name in self.input_schema.names if name not in (*self.key, *self.sides))
        return others if self.columns is None else self.columns

    def _output(self, groups: Groups, histories: Histories, left: Numbers, right: Numbers) -> pa.Table:
        shown = histories.rows.select(list(self._shown))
        keys = groups.keys.take(pa.array(histories.group_of_row[left]))
        columns = [column for side in (left, right) for column in shown.take(pa.array(side)).columns]
        output = pa.Table.from_arrays([*keys.columns, *columns], schema=self.output_schema)
        return output if self.where is None else output.filter(self.where)

    def _keep(self, state: KeyedState, groups: Groups, histories: Histories, at: Numbers, clock: Clock) -> None:
        """Hold what may still find partners: rows to come lie after the watermark of the batch before."""
        needed = np.ones(len(at), np.bool_)
        if self.event_time is not None and clock.previous_watermark_ms is not None:
            needed = at + self._within_us > clock.previous_watermark_ms * 1000
        latest = np.zeros(len(groups), np.int64)
        np.maximum.at(latest, histories.group_of_row, at)
        until_ms = pa.array(-((-latest - self._within_us) // 1000))
        has_new, left_over = histories.has_any(histories.new_row != HELD), histories.has_any(needed)
        state.put(groups, histories.kept(needed).append_column(UNTIL_MS, until_ms), where=has_new & left_over)
        state.remove(groups, where=~left_over)


def _is_true(rows: pa.Table, name: str | None) -> Mask:
    if name is None:
        return np.ones(rows.num_rows, np.bool_)
    return np.array(pc.fill_null(rows.column(name), False))


def _comparison(text: str) -> pc.Expression:
    words = re.fullmatch(r"\s*(\w+)\s*(<=|>=|!=|<|>|=)\s*(\w+)\s*", text)
    if words is None:
        raise ArgumentError("the condition compares two columns", got=text, hint='such as "left_id < right_id"')
    return COMPARISONS[words[2]](pc.field(words[1]), pc.field(words[3]))
