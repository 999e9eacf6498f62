"""What an operator is: a vectorised function of a batch's rows, grouped by key, and of the keys' state.

A runtime calls an operator once per batch and channel, whatever the number of keys:

    state = KeyedState.open(store, operator.key_schema, operator.value_schema, slots=4096, deadline=operator.deadline)
    groups = state.group(rows, hashes)
    rows, groups = operator.combine(rows, groups)      # unless the router has done so already
    output = operator.update(state, groups, rows, clock)
    timed_out = operator.expire(state, clock)
    state.commit(nonce)
"""

from __future__ import annotations

import copy
import difflib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.groups import Groups
from unskew.operators.state import KeyedState

if TYPE_CHECKING:
    from unskew.load.resources import ResourceFunction

EVENT_TIME_METADATA = b"unskew.event_time"

INPUT, TIME = "input", "time"
"""Columns of rows that come from several streams: the name of a row's stream, and its event time."""

TimeMode = Literal["none", "processing", "event"]
OutputMode = Literal["update", "append"]


@dataclass(frozen=True)
class Clock:
    """The time of a batch, the same on every channel and in every attempt.

    Parameters
    ----------
    batch_id
        Number of the batch.
    processing_time_ms
        When the batch was started.
    watermark_ms
        Up to where event time is complete; None without event time. Timeouts fire by it.
    previous_watermark_ms
        The watermark of the batch before; rows are late by it.
    """

    batch_id: int
    processing_time_ms: int
    watermark_ms: int | None = None
    previous_watermark_ms: int | None = None


class Operator(ABC):
    """Turns the rows of a batch and the state of their keys into output rows and new state.

    An operator is a plain value: picklable, without resources, equal to another one that prints alike. ``repr`` is
    what a checkpoint remembers it by. It is described once and bound to its input before it runs; an operator
    that is bound knows `input_schema` and `key`.

    Subclasses give the schemas and `update`. The output must be a function of the arguments: a batch may run again.
    """

    mergeable: ClassVar[bool] = False
    """Whether several channels may hold partial state of one key (see `Mergeable`)."""

    learns: ClassVar[bool] = False
    """Whether something is learned from each batch that all tasks have to know in the next one (see `Learner`)."""

    memory: ClassVar[str | ResourceFunction] = "linear"
    """How a key's state grows with its share of the rows: ``"constant"``, ``"linear"``, ``"quadratic"`` or own."""

    compute: ClassVar[str | ResourceFunction] = "linear"
    """How the work on a key grows with its share of the rows; where cost is measured, measurement wins."""

    output_mode: OutputMode = "update"
    """What output rows mean: in ``"update"`` mode they replace earlier ones of the same `output_key`."""

    deadline: str | None = None
    """The int64 state column, in milliseconds, by which `KeyedState.due` finds keys whose time has come."""

    time_mode: TimeMode = "none"
    """The time that `expire` goes by: with ``"event"`` or ``"processing"``, batches without rows call it too."""

    seconds: NDArray[np.float64] | None = None
    """What each group of the last `update` took, where that was measured; planning goes by rows where it was not."""

    late_rows: int = 0
    """Rows that the last `update` passed over because they came too late."""

    input_schema: pa.Schema
    key: tuple[str, ...]

    def bind(self, input_schema: pa.Schema, key: tuple[str, ...]) -> Self:
        """Return a copy that knows its input, or raise `ColumnError` or `ArgumentError` if it cannot work on it."""
        bound = copy.copy(self)
        bound.input_schema, bound.key = input_schema, tuple(key)
        bound.check()
        return bound

    def check(self) -> None:
        """Raise if the operator cannot work on `input_schema` and `key`; called by `bind`."""
        if not self.key:
            raise ArgumentError("an operator needs a key", hint="name at least one key column")
        for name in self.key:
            require_column(self.input_schema, name)

    @property
    def key_schema(self) -> pa.Schema:
        """The key columns."""
        return pa.schema([self.input_schema.field(name).remove_metadata() for name in self.key])

    @property
    def event_time(self) -> str | None:
        """The column on which the stream has a watermark, if it has one."""
        name = (self.input_schema.metadata or {}).get(EVENT_TIME_METADATA)
        return None if name is None else name.decode()

    @property
    @abstractmethod
    def value_schema(self) -> pa.Schema:
        """The state of a key."""

    @property
    @abstractmethod
    def output_schema(self) -> pa.Schema:
        """What `update` and `expire` return."""

    @property
    def splittable(self) -> bool:
        """Whether keys may be split: partial states are merged into one output row per key, and time plays no part."""
        return self.mergeable and self.time_mode == "none"

    @property
    def output_key(self) -> tuple[str, ...]:
        """The output columns by which a row replaces an earlier one; by default the key."""
        return self.key

    @property
    def result_schema(self) -> pa.Schema:
        """What the user gets to see; by default the output."""
        return self.output_schema

    def taught(self, lesson: bytes) -> Self:
        """Return the operator as it is in a batch; only a `Learner` is another one then."""
        return self

    def expand(self, rows: pa.Table) -> pa.Table:
        """Turn rows of the stream into rows with the operator's key, where they are read; by default they have it."""
        return rows

    @property
    def combined_schema(self) -> pa.Schema:
        """The rows that `update` works on, the ones that `combine` makes."""
        return self.input_schema

    def combine(self, rows: pa.Table, groups: Groups) -> tuple[pa.Table, Groups]:
        """Shrink rows before `update` sees them, in the router or in the channel; by default they stay as they are."""
        return rows, groups

    @abstractmethod
    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        """Take in the rows of a batch (`combined_schema`, grouped by `groups`), change state, return output rows."""

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        """Let the keys time out whose time has come; called after `update`, also in batches without rows."""
        return self.output_schema.empty_table()


class Mergeable(Operator):
    """An operator whose state can be made in parts and put together in any order: counts, sums, extremes, sketches.

    Subclasses say how rows become state (`lift`), how states become one (`merge`), and what of it is shown
    (`finish`). From these follow the running update, combining before the shuffle, and split keys.

    `update` returns exactly one row per group, in group order.
    """

    mergeable: ClassVar[bool] = True

    commutative: bool = True
    """Whether states may be merged in any order; where not, in the order in which their rows came."""

    @property
    def splittable(self) -> bool:
        """Whether keys may be split; parts of a key know nothing of the order of their rows."""
        return super().splittable and self.commutative

    @abstractmethod
    def lift(self, rows: pa.Table, groups: Groups) -> pa.Table:
        """Return the state that the rows of each group alone amount to (`value_schema`, one row per group)."""

    @abstractmethod
    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        """Return one state per group from any number of states (`value_schema`); all-null states count for nothing."""

    @abstractmethod
    def finish(self, keys: pa.Table, values: pa.Table) -> pa.Table:
        """Return the output rows of keys in these states, in the same order."""

    def check(self) -> None:
        """Refuse state columns that are named like key columns: combined rows hold both."""
        super().check()
        both = sorted({*self.key} & {*self.value_schema.names})
        if both:
            raise ArgumentError("a result has the name of a key column", got=both[0], hint="choose another name")

    @property
    def combined_schema(self) -> pa.Schema:
        """The key columns and the state columns."""
        return pa.schema([*self.key_schema, *self.value_schema])

    def combine(self, rows: pa.Table, groups: Groups) -> tuple[pa.Table, Groups]:
        """Turn rows into one partial state per key."""
        return _side_by_side(groups.keys, self.lift(rows, groups)), groups.one_row_each()

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        """Merge partial states, any number per key, into the state held."""
        values = self._merged(state, groups, rows.select(self.value_schema.names))
        state.put(groups, values)
        return self.finish(groups.keys, values)

    def absorb(self, state: KeyedState, rows: pa.Table) -> None:
        """Install what `KeyedState.extract` gave elsewhere, merging it with what is held: how a split key ends."""
        groups, values = state.group_stored(rows)
        state.put(groups, self._merged(state, groups, values))

    def _merged(self, state: KeyedState, groups: Groups, values: pa.Table) -> pa.Table:
        held, _ = state.get(groups)
        both = pa.concat_tables([held, values.cast(held.schema)])
        group_of_row = np.concatenate([np.arange(len(groups)), groups.group_of_row])
        return self.merge(both, Groups(groups.hashes, groups.keys, group_of_row))


def require_column(schema: pa.Schema, name: str) -> pa.Field:
    """Return the one column of that name, or raise `ColumnError`."""
    places = schema.get_all_field_indices(name)
    if not places:
        near = difflib.get_close_matches(name, schema.names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}" if near else f"one of {', '.join(schema.names)}"
        raise ColumnError("there is no column of that name", got=name, hint=hint)
    if len(places) > 1:
        raise ColumnError(f"{len(places)} columns have the same name", got=name, hint="rename all but one")
    return schema.field(places[0])


def _side_by_side(keys: pa.Table, values: pa.Table) -> pa.Table:
    return pa.Table.from_arrays(keys.columns + values.columns, schema=pa.schema([*keys.schema, *values.schema]))
