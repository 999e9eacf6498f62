"""A stream joined with a table that changes slowly, one way: rows of the stream look their key up."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from pyarrow import types

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.base import INPUT, Clock, Mask, Numbers, Operator, OutputMode, require_column
from unskew.operators.histories import has_null_key
from unskew.state.groups import Groups, plain_schema
from unskew.state.keyed_state import KeyedState

How = Literal["inner", "left"]

_NONE = -1


class TableJoin(Operator):
    """Gives every row of a stream the latest row of a table that has its key.

    Both come as one stream, with a column that says what a row is: a row of the stream, or the new version of a row of
    the table, which replaces the one before. ``unskew.tagged(key, users=changes, clicks=clicks)`` makes such a stream,
    with the table's columns named ``users_...``. Name the table first; then a batch's changes count before the rows
    that look them up. Later changes do not affect earlier output. Rows whose key is null find nothing.

    Costs O(rows) per batch; keeps one row of the table per key.

    Parameters
    ----------
    table
        The name of the table in the column `input`, and the beginning of its columns' names, before ``_``.
    how
        ``"inner"``, or ``"left"`` to keep rows that find nothing, with nulls.
    input
        The column that says what a row is.

    Examples
    --------
    >>> from unskew.testing import run
    >>> rows = pa.table({
    ...     "user": ["ada", "ada", "bob", "ada", "ada"],
    ...     "input": ["users", "clicks", "clicks", "users", "clicks"],
    ...     "users_city": ["Rome", None, None, "Oslo", None],
    ...     "clicks_page": [None, "start", "start", None, "end"],
    ... })
    >>> for row in run(TableJoin("users", how="left"), [rows], key="user").outputs[0].to_pylist():
    ...     print(*row.values())
    ada Oslo end
    ada Rome start
    bob None start
    """

    memory = "constant"
    output_mode: OutputMode = "append"

    def __init__(self, table: str, *, how: How = "inner", input: str = INPUT) -> None:
        if how not in get_args(How):
            raise ArgumentError("there is no such join", got=how, hint=f"one of {', '.join(get_args(How))}")
        self.table, self.how, self.input = table, how, input

    def __repr__(self) -> str:
        return f"TableJoin({self.table!r}, how={self.how!r}, input={self.input!r})"

    def check(self) -> None:
        super().check()
        plain = plain_schema(self.input_schema)
        require_column(plain, self.input, types.is_string, "the column that says what a row is must hold strings")
        if not self._table_columns:
            hint = f"columns named {self.table}_...; there are {', '.join(self.input_schema.names)}"
            raise ColumnError("the table has no columns", got=self.table, hint=hint)

    @property
    def value_schema(self) -> pa.Schema:
        plain = plain_schema(self.input_schema)
        return pa.schema([plain.field(name) for name in self._table_columns])

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([field for field in plain_schema(self.input_schema) if field.name != self.input])

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        held, exists = state.get(groups)
        inputs = rows.column(self.input).cast(pa.string())
        is_table = np.asarray(pc.fill_null(pc.equal(inputs, self.table), False).to_numpy())
        is_table &= ~has_null_key(groups)[groups.group_of_row]
        found, latest = _kernel_look_up(groups.order, groups.starts, is_table, exists)
        versions = pa.concat_tables([held, rows.select(self._table_columns).cast(held.schema)]).combine_chunks()
        changed = latest >= len(groups)
        state.put(groups, versions.take(pa.array(latest, mask=latest == _NONE)), where=changed)
        asks = np.asarray(pc.fill_null(pc.not_equal(inputs, self.table), True).to_numpy())
        shown = np.flatnonzero(asks & (found != _NONE) if self.how == "inner" else asks)
        matches = versions.take(pa.array(found[shown], mask=found[shown] == _NONE))
        own = rows.take(pa.array(shown))
        columns = [(matches if name in self._table_columns else own).column(name) for name in self.output_schema.names]
        return pa.Table.from_arrays(columns, names=self.output_schema.names).cast(self.output_schema)

    @property
    def _table_columns(self) -> list[str]:
        start = f"{self.table}_"
        return [name for name in self.input_schema.names if name.startswith(start) and name not in self.key]


@njit(cache=True)
def _kernel_look_up(order: Numbers, starts: Numbers, is_table: Mask, exists: Mask) -> tuple[Numbers, Numbers]:
    """Return the version that each row finds, and the last one of each group.

    Versions are numbered: first those held, one per group, then the rows of the batch.
    """
    groups = len(starts) - 1
    found, latest = np.full(len(order), _NONE, np.int64), np.full(groups, _NONE, np.int64)
    for group in range(groups):
        version = group if exists[group] else _NONE
        for i in range(starts[group], starts[group + 1]):
            if is_table[order[i]]:
                version = groups + order[i]
            found[order[i]] = version
        latest[group] = version
    return found, latest
