"""What an operator is: a vectorised function of a batch's rows, grouped by key, and of the keys' state.

A runtime calls an operator once per batch and channel, whatever the number of keys:

    state = KeyedState.open(store, operator.key_schema, operator.value_schema, slots=4096, deadline=operator.deadline)
    groups = state.group(rows, hashes)
    rows, groups = operator.combine(rows, groups, clock)   # unless the router has done so already
    output = operator.update(state, groups, rows, clock)
    timed_out = operator.expire(state, clock)
    state.commit(nonce)
"""

from __future__ import annotations

import copy
import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.presum import Presum
from unskew.state.groups import Groups
from unskew.state.keyed_state import KeyedState

if TYPE_CHECKING:
    from unskew.load.resources import ResourceFunction

EVENT_TIME_METADATA = b"unskew.event_time"

# columns of rows that come from several streams: the name of a row's stream, and its event time
INPUT, TIME = "input", "time"

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

TimeMode = Literal["none", "processing", "event"]
OutputMode = Literal["update", "append", "complete"]


@dataclass(frozen=True)
class Clock:
    """The time of a batch, the same on every channel and in every attempt."""

    batch_id: int
    processing_time_ms: int  # when the batch started
    watermark_ms: int | None = None  # event time is complete up to here; decides what times out
    previous_watermark_ms: int | None = None  # the watermark of the batch before: decides what is late


@dataclass(frozen=True, eq=False)
class Updated:
    """What `Operator.update` made of a batch, for operators that have more to report than their output."""

    output: pa.Table
    seconds: Floats | None = None  # how long each group took; if None, planners count rows instead
    late_rows: int = 0  # rows that were dropped because they were late


class Operator(ABC):
    """Turns the rows of a batch and the state of their keys into output rows and new state.

    An operator is a plain value. You can pickle it, it holds no resources, and it equals every operator with the same
    ``repr``. A checkpoint stores the ``repr`` to recognise its operator. You describe an operator once; `bind` then
    tells it its input. A bound operator knows `input_schema` and `key`.

    Subclasses define the schemas and `update`. The output must depend on the arguments alone, because a batch may run
    again.
    """

    # whether several channels may hold partial state of one key (see `Mergeable`)
    mergeable: ClassVar[bool] = False

    # whether the operator learns from each batch, for all tasks of the next one (see `Learner`)
    learns: ClassVar[bool] = False

    # how a key's state grows with its share of the rows: "constant", "linear", "quadratic" or your own function
    memory: str | ResourceFunction = "linear"

    # how the work on a key grows with its share of the rows; where the work is measured, the measurement counts
    compute: ClassVar[str | ResourceFunction] = "linear"

    # "update": an output row replaces an earlier one with the same `output_key`; "append": it does not.
    # "complete": a batch's rows replace those of all batches before. Every channel with state is called in every batch,
    # and `expire` returns what it holds.
    output_mode: OutputMode = "update"

    # the int64 state column that says, in milliseconds, when a key is due (see `KeyedState.due`)
    deadline: str | None = None

    # the time that `expire` goes by; unless it is "none", batches without rows call `expire` too
    time_mode: TimeMode = "none"

    input_schema: pa.Schema
    key: tuple[str, ...]

    def bind(self, input_schema: pa.Schema, key: tuple[str, ...]) -> Self:
        """Return a copy that knows its input. Raise `ColumnError` or `ArgumentError` if the input does not fit."""
        bound = copy.copy(self)
        bound.input_schema, bound.key = input_schema, tuple(key)
        bound.check()
        return bound

    def continues(self, known: str) -> bool:
        """Tell whether the operator can go on from the state of the one whose ``repr`` is `known`."""
        return known == repr(self)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash(repr(self))

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
    def columns_needed(self) -> tuple[str, ...] | None:
        """The columns that the operator looks at besides its key and event time, in any order; None stands for all.

        Override this if the operator needs fewer. An operator that returns or keeps whole rows needs all.
        """
        return None

    @property
    def columns_read(self) -> tuple[str, ...]:
        """The columns of the stream that the operator needs, in the stream's order.

        The runtime reads only these, and binds the operator to a schema of only these. Its `repr`, its results, and the
        schemas of its state and output must stay the same.
        """
        return self._columns_read_of(self.input_schema, self.key)

    def _columns_read_of(self, stream_schema: pa.Schema, stream_key: tuple[str, ...]) -> tuple[str, ...]:
        if self.columns_needed is None:
            return tuple(stream_schema.names)
        needed = {*stream_key, *self.columns_needed, self.event_time if self.time_mode == "event" else None}
        return tuple(name for name in stream_schema.names if name in needed)

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
        """Whether keys may be split: the operator must be mergeable, and must not depend on time."""
        return self.mergeable and self.time_mode == "none"

    @property
    def output_key(self) -> tuple[str, ...]:
        """The output columns that identify a row, so that it can replace an earlier one; by default the key."""
        return self.key

    @property
    def result_schema(self) -> pa.Schema:
        """The rows that the user sees; by default the output."""
        return self.output_schema

    def state_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        """Return the columns that `taken_over` wants of a table of state with this schema, besides the key.

        Raise `ColumnError` if it lacks one. By default these are the columns that ``unskew.read_state`` gives.
        """
        names = tuple(beside_key(name, self.key) for name in self.value_schema.names)
        require_state(schema, (*self.key, *names))
        return names

    def taken_over(self, rows: pa.Table) -> tuple[pa.Table, Mask]:
        """Return the state (`value_schema`) that rows of another query's state tell, and which rows tell any."""
        values = self.value_schema
        arrays = [rows.column(beside_key(name, self.key)) for name in values.names]
        return pa.Table.from_arrays(arrays, values.names), np.ones(len(rows), np.bool_)

    def taught(self, lesson: bytes) -> Self:
        """Return the operator with the lesson of a batch; only a `Learner` changes."""
        return self

    def expand(self, rows: pa.Table) -> pa.Table:
        """Turn rows of the stream into the operator's own rows, in the task that reads them; by default keep them."""
        return rows

    @property
    def combined_schema(self) -> pa.Schema:
        """The rows that `combine` makes and `update` works on."""
        return self.input_schema

    def combine(self, rows: pa.Table, groups: Groups, clock: Clock | None = None) -> tuple[pa.Table, Groups]:
        """Shrink rows before `update` sees them, in the router or in the channel; by default keep them.

        Without a clock no row is late.
        """
        return rows, groups

    def presum(self, clock: Clock) -> Presum | None:
        """Return how Spark can do what `combine` does; None if it cannot."""
        return None

    def from_presum(self, rows: pa.Table) -> pa.Table:
        """Turn what `presum` gave, the key columns first, into rows that `update` works on (`combined_schema`)."""
        raise NotImplementedError

    @abstractmethod
    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table | Updated:
        """Take in the rows of a batch (`combined_schema`, grouped by `groups`). Change state and return output rows."""

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        """Time out the keys that are due. Called after `update`; see `time_mode` for batches without rows."""
        return self.output_schema.empty_table()


class Mergeable(Operator):
    """An operator whose state can be made in parts and merged later: counts, sums, extremes, sketches.

    Subclasses say how to turn rows into state (`lift`), how to merge states (`merge`) and how to turn state into output
    (`finish`). This class does the rest: it updates state, combines rows before the shuffle, and merges split keys.

    `update` returns exactly one row per group, in group order; in complete mode it returns none.
    """

    mergeable: ClassVar[bool] = True

    # whether states may be merged in any order; if not, they are merged in the order in which their rows came
    commutative: bool = True

    @property
    def splittable(self) -> bool:
        """Whether keys may be split. The order of rows is lost between parts, so states must merge in any order.

        In complete mode they may not: a channel puts out all that it holds, and would put out its part of a key.
        """
        return super().splittable and self.commutative and self.output_mode != "complete"

    @abstractmethod
    def lift(self, rows: pa.Table, groups: Groups) -> pa.Table:
        """Return a state per group, made from its rows and nothing else (`value_schema`, in group order)."""

    @abstractmethod
    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        """Merge any number of states (`value_schema`) into one per group. Pass over a state that is all null."""

    def finish(self, keys: pa.Table, values: pa.Table) -> pa.Table:
        """Return the output rows of these keys and their states, in the same order; by default the states."""
        return side_by_side(keys, values)

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([*self.key_schema, *self.value_schema])

    def check(self) -> None:
        """Refuse a state column with the name of a key column, because combined rows hold both."""
        super().check()
        refuse_key_names(self.key, self.value_schema.names)

    @property
    def combined_schema(self) -> pa.Schema:
        return pa.schema([*self.key_schema, *self.value_schema])

    def combine(self, rows: pa.Table, groups: Groups, clock: Clock | None = None) -> tuple[pa.Table, Groups]:
        """Turn rows into one partial state per key."""
        return side_by_side(groups.keys, self.lift(rows, groups)), groups.one_row_each()

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        """Merge partial states into the state held. A key may have any number of them."""
        values = self._merged(state, groups, rows.select(self.value_schema.names))
        state.put(groups, values)
        return self.output_schema.empty_table() if self.output_mode == "complete" else self.finish(groups.keys, values)

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        """In complete mode, return the output rows of all keys held; reads the channel's whole state."""
        if self.output_mode != "complete":
            return super().expire(state, clock)
        groups, values = state.group_stored(pa.concat_tables([state.row_schema.empty_table(), *state.scan()]))
        return self.finish(groups.keys, values)

    def absorb(self, state: KeyedState, rows: pa.Table) -> None:
        """Merge state that `KeyedState.extract` gave on another channel into the state held. This ends a split."""
        groups, values = state.group_stored(rows)
        state.put(groups, self._merged(state, groups, values))

    def _merged(self, state: KeyedState, groups: Groups, values: pa.Table) -> pa.Table:
        held, _ = state.get(groups)
        both = pa.concat_tables([held, values.cast(held.schema)])
        group_of_row = np.concatenate([np.arange(len(groups)), groups.group_of_row])
        return self.merge(both, Groups(groups.hashes, groups.keys, group_of_row))


def require_column(
    schema: pa.Schema, name: str, fits: Callable[[pa.DataType], bool] | None = None, otherwise: str = ""
) -> pa.Field:
    """Return the one column of that name. Raise `ColumnError` if there is none, or if its type does not fit."""
    if not isinstance(name, str):
        raise ColumnError("a column is given by its name", got=name, hint=f"one of {', '.join(schema.names)}")
    places = schema.get_all_field_indices(name)
    if not places:
        near = difflib.get_close_matches(name, schema.names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}" if near else f"one of {', '.join(schema.names)}"
        raise ColumnError("there is no column of that name", got=name, hint=hint)
    if len(places) > 1:
        raise ColumnError(f"{len(places)} columns have the same name", got=name, hint="rename all but one")
    column = schema.field(places[0])
    if fits is not None and not fits(column.type):
        raise ColumnError(otherwise, where=f"column {name!r}", got=str(column.type))
    return column


def beside_key(name: str, key: Iterable[str]) -> str:
    """Return what a column of state is called beside the key columns."""
    return f"state_{name}" if name in key else name


def require_state(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise `ColumnError` if a table of state lacks a column."""
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise ColumnError("the initial state lacks a column", got=missing[0], hint=f"it needs {', '.join(names)}")


def refuse_key_names(key: Iterable[str], results: Iterable[str]) -> None:
    """Raise if a result has the name of a key column."""
    names = [*results]
    both = [name for name in key if name in names]
    if both:
        raise ArgumentError("a result has the name of a key column", got=both[0], hint="rename one of them")


def side_by_side(keys: pa.Table, values: pa.Table) -> pa.Table:
    """Return the columns of both tables."""
    return pa.Table.from_arrays(keys.columns + values.columns, schema=pa.schema([*keys.schema, *values.schema]))
