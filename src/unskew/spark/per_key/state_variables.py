"""The state variables of a stateful processor, for many keys at once: what Spark's classes do, over columns.

A variable's columns become Python values when a key first asks for them, for all keys of the channel at once, and only
what has changed becomes columns again.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ListState, MapState, ValueState
from pyspark.sql.types import StructType

from unskew.errors import StateError
from unskew.spark.per_key.plain_values import State
from unskew.spark.per_key.spark_values import MapKey, SparkValues

TIMERS, DEADLINE = "timers_ms", "deadline_ms"


def expiry_column(name: str) -> str:
    """Return the name of the column that says when a variable's content expires."""
    return f"{name}_expires_ms"


class Turn(Protocol):
    """Whose turn it is."""

    group: int | None  # the key that the processor is called for
    now_ms: int  # the time of the batch


class Variable(ABC):
    """What a variable of any kind holds for each key of a batch: None, or its content.

    With a time to live, `_expiries` has the form of the content, and what has expired is left out when the columns are
    converted: nothing else can expire within a batch.
    """

    fields: tuple[pa.Field, ...]  # its columns: the content, and if that can expire, when
    deleted = False  # by the processor's init
    _held: list[pa.Array]
    _contents: list[Any] | None
    _expiries: list[Any]

    def __init__(self, name: str, turn: Turn, ttl_ms: int | None, kinds: Sequence[pa.DataType]) -> None:
        self.name, self._turn, self.ttl_ms = name, turn, ttl_ms
        names = (name, expiry_column(name))
        self.fields = tuple(map(pa.field, names, kinds if ttl_ms is not None else kinds[:1]))

    def attach(self, held: pa.Table) -> None:
        """Begin with the state of some keys, one row each."""
        self._held = [held.column(field.name).combine_chunks() for field in self.fields]
        self._contents, self._expiries, self.changed = None, [], set[int]()

    @property
    def contents(self) -> list[Any]:
        if self._contents is None:
            self._contents = self._to_python(self._held[0])
            if self.ttl_ms is not None:
                self._expiries = self._expiries_to_python(self._held[1])
                self._leave_out(self._turn.now_ms)
        return self._contents

    def columns(self) -> list[pa.Array]:
        """Return the columns as the calls have left them."""
        if not self.changed:
            return self._held
        changed, rows = sorted(self.changed), len(self.contents)
        new = self._to_arrow(changed)
        if len(changed) == rows:
            return new
        place = np.arange(rows)
        place[changed] = rows + np.arange(len(changed))
        pairs = zip(self._held, new, strict=True)
        return [pa.concat_arrays([old, fresh.cast(old.type)]).take(pa.array(place)) for old, fresh in pairs]

    @abstractmethod
    def earliest(self, group: int) -> int | None:
        """Return when the first part of a key's content expires."""

    @abstractmethod
    def _to_python(self, column: pa.Array) -> list[Any]: ...

    @abstractmethod
    def _expiries_to_python(self, column: pa.Array) -> list[Any]: ...

    @abstractmethod
    def _leave_out(self, now_ms: int) -> None:
        """Take out what has expired, and count its keys as changed."""

    @abstractmethod
    def _to_arrow(self, groups: list[int]) -> list[pa.Array]: ...

    @property
    def _group(self) -> int:
        if self.deleted:
            raise PySparkRuntimeError(
                f"Error checking value state exists: state variable {self.name} has been deleted."
            )
        group = self._turn.group
        if group is None:
            raise StateError(
                "state can be used only while a key is handled",
                where=f"state {self.name!r}",
                hint="use state in the handle methods",
            )
        return group

    def _content(self) -> Any:
        group = self._group
        return self.contents[group]

    def _set(self, content: Any, expiries: Any = None) -> None:
        group = self._group
        self.contents[group] = content
        if self.ttl_ms is not None:
            self._expiries[group] = expiries
        self.changed.add(group)

    def _expiry(self) -> int:
        return self._turn.now_ms + (self.ttl_ms or 0)

    def exists(self) -> bool:
        """Tell whether the key has a content."""
        return self._content() is not None

    def clear(self) -> None:
        """Forget the key's content."""
        if self._content() is not None:
            self._set(None)


class ValueVariable(Variable, ValueState):
    """One tuple per key."""

    def __init__(self, name: str, turn: Turn, ttl_ms: int | None, schema: StructType) -> None:
        self._values = SparkValues(schema)
        super().__init__(name, turn, ttl_ms, (self._values.kind, pa.int64()))

    def get(self) -> State | None:
        value: State | None = self._content()
        return value

    def update(self, newValue: State) -> None:  # noqa: N803
        self._set(self._values.as_kept(newValue), self._expiry())

    def earliest(self, group: int) -> int | None:
        expiry: int | None = self._expiries[group]
        return expiry

    def _to_python(self, column: pa.Array) -> list[Any]:
        return self._values.to_python(column)

    def _expiries_to_python(self, column: pa.Array) -> list[Any]:
        return list(column.to_pylist())

    def _leave_out(self, now_ms: int) -> None:
        for group, expiry in enumerate(self._expiries):
            if expiry is not None and expiry <= now_ms:
                self.contents[group] = self._expiries[group] = None
                self.changed.add(group)

    def _to_arrow(self, groups: list[int]) -> list[pa.Array]:
        columns = [self._values.to_arrow([self.contents[group] for group in groups])]
        if self.ttl_ms is not None:
            columns.append(pa.array([self._expiries[group] for group in groups], pa.int64()))
        return columns


class ListVariable(Variable, ListState):
    """A list of tuples per key, each with its own expiry.

    Until somebody asks for a list, what is appended waits in `_added`: then no list has to become Python values.
    """

    _added: dict[int, list[State]]

    def __init__(self, name: str, turn: Turn, ttl_ms: int | None, schema: StructType) -> None:
        self._values = SparkValues(schema)
        super().__init__(name, turn, ttl_ms, (pa.list_(self._values.kind), pa.list_(pa.int64())))

    def attach(self, held: pa.Table) -> None:
        super().attach(held)
        self._added = {}

    def columns(self) -> list[pa.Array]:
        if not self._added:
            return super().columns()
        return [with_added(self._held[0], self._added, self._values.to_arrow)]

    def get(self) -> Iterator[State]:
        return iter(tuple(self._content() or ()))

    def put(self, newState: list[State]) -> None:  # noqa: N803
        values = self._taken(newState)
        self._set(values, [self._expiry()] * len(values))

    def appendValue(self, newState: State) -> None:  # noqa: N802, N803
        self._append([self._values.as_kept(newState)])

    def appendList(self, newState: list[State]) -> None:  # noqa: N802, N803
        self._append(self._taken(newState))

    def _taken(self, values: Iterable[State]) -> list[State]:
        taken = [self._values.as_kept(value) for value in values]
        if not taken:
            raise PySparkRuntimeError(
                "Error updating value state: [ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE] Illegal value provided to "
                f"the State Store Cannot write empty list values to State Store for StateName {self.name}."
                " SQLSTATE: 42601"
            )
        return taken

    def _append(self, values: list[State]) -> None:
        if self._contents is None and self.ttl_ms is None:
            self._added.setdefault(self._group, []).extend(values)
            self.changed.add(self._group)
            return
        held, expiries = self._content(), [self._expiry()] * len(values)
        if held is None:
            self._set(values, expiries)
            return
        held.extend(values)
        if self.ttl_ms is not None:
            self._expiries[self._group].extend(expiries)
        self.changed.add(self._group)

    def earliest(self, group: int) -> int | None:
        return min(self._expiries[group] or (), default=None)

    def _to_python(self, column: pa.Array) -> list[Any]:
        lists = cut_up(self._values.to_python(column.flatten()), column)
        for group, values in self._added.items():
            lists[group] = [*(lists[group] or ()), *values]
        self._added = {}
        return lists

    def _expiries_to_python(self, column: pa.Array) -> list[Any]:
        return list(column.to_pylist())

    def _leave_out(self, now_ms: int) -> None:
        for group, expiries in enumerate(self._expiries):
            if expiries and min(expiries) <= now_ms:
                kept = [place for place, expiry in enumerate(expiries) if expiry > now_ms]
                self._expiries[group] = [expiries[place] for place in kept] or None
                self.contents[group] = [self.contents[group][place] for place in kept] or None
                self.changed.add(group)

    def _to_arrow(self, groups: list[int]) -> list[pa.Array]:
        columns = [listed([self.contents[group] for group in groups], self._values.to_arrow)]
        if self.ttl_ms is not None:
            columns.append(pa.array([self._expiries[group] for group in groups], pa.list_(pa.int64())))
        return columns


class MapVariable(Variable, MapState):
    """A map from tuples to tuples per key, each entry with its own expiry. Entries keep the order in which they came.

    Spark's own order is that of its store's bytes, which it does not promise.
    """

    def __init__(self, name: str, turn: Turn, ttl_ms: int | None, keys: StructType, values: StructType) -> None:
        self._keys, self._values, self._row = SparkValues(keys), SparkValues(values), Row(*values.names)
        self._entry = pa.struct([("key", self._keys.kind), ("value", self._values.kind)])
        super().__init__(name, turn, ttl_ms, (pa.list_(self._entry), pa.list_(pa.int64())))

    def getValue(self, key: State) -> State | None:  # noqa: N802
        value = (self._content() or {}).get(self._kept(key))
        return None if value is None else self._row(*value)

    def containsKey(self, key: State) -> bool:  # noqa: N802
        return self._kept(key) in (self._content() or {})

    def updateValue(self, key: State, value: State) -> None:  # noqa: N802
        key, value = self._kept(key), self._values.as_kept(value)
        held = self._content()
        if held is None:
            self._set({key: value}, {key: self._expiry()})
            return
        held[key] = value
        if self.ttl_ms is not None:
            self._expiries[self._group][key] = self._expiry()
        self.changed.add(self._group)

    def iterator(self) -> Iterator[tuple[State, State]]:
        return iter(tuple((self._content() or {}).items()))

    def keys(self) -> Iterator[State]:
        return iter(tuple(self._content() or ()))

    def values(self) -> Iterator[State]:
        return iter(tuple((self._content() or {}).values()))

    def removeKey(self, key: State) -> None:  # noqa: N802
        key, held = self._kept(key), self._content()
        if held is None or key not in held:
            return
        del held[key]
        if self.ttl_ms is not None:
            del self._expiries[self._group][key]
        if held:
            self.changed.add(self._group)
        else:
            self._set(None)

    def _kept(self, key: State) -> State:
        kept = self._keys.as_kept(key)
        return kept if self._keys.hashable else MapKey(kept)

    def earliest(self, group: int) -> int | None:
        return min((self._expiries[group] or {}).values(), default=None)

    def _to_python(self, column: pa.Array) -> list[Any]:
        keys, values = column.flatten().flatten()
        found: Iterable[Any] = self._keys.to_python(keys)
        entries = zip(found if self._keys.hashable else map(MapKey, found), self._values.to_python(values), strict=True)
        return [None if pairs is None else dict(pairs) for pairs in cut_up(list(entries), column)]

    def _expiries_to_python(self, column: pa.Array) -> list[Any]:
        pairs = zip(self.contents, column.to_pylist(), strict=True)
        return [None if content is None else dict(zip(content, times, strict=True)) for content, times in pairs]

    def _leave_out(self, now_ms: int) -> None:
        for group, expiries in enumerate(self._expiries):
            gone = [key for key, expiry in (expiries or {}).items() if expiry <= now_ms]
            if gone:
                for content in (self.contents, self._expiries):
                    content[group] = {key: each for key, each in content[group].items() if key not in gone} or None
                self.changed.add(group)

    def _to_arrow(self, groups: list[int]) -> list[pa.Array]:
        contents = [self.contents[group] for group in groups]
        columns = [listed([content and list(content.items()) for content in contents], self._entries)]
        if self.ttl_ms is not None:
            expiries = [self._expiries[group] for group in groups]
            times = [each and [each[key] for key in content] for each, content in zip(expiries, contents, strict=True)]
            columns.append(pa.array(times, pa.list_(pa.int64())))
        return columns

    def _entries(self, pairs: list[tuple[State, State]]) -> pa.StructArray:
        arrays = [self._keys.to_arrow([key for key, _ in pairs]), self._values.to_arrow([each for _, each in pairs])]
        return pa.StructArray.from_arrays(arrays, fields=list(self._entry))


class Timers(Variable):
    """The timers of each key, in order; a key has a timer of one time once."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(TIMERS, turn, None, (pa.list_(pa.int64()),))

    def register(self, time_ms: int) -> None:
        time_ms, held = operator.index(time_ms), self._content() or []
        if time_ms not in held:
            self._set(sorted([*held, time_ms]))

    def delete(self, time_ms: int) -> None:
        held = self._content() or []
        if time_ms in held:
            self._set([each for each in held if each != time_ms] or None)

    def listed(self) -> Iterator[int]:
        return iter(tuple(self._content() or ()))

    def earliest(self, group: int) -> int | None:
        timers = self.contents[group]
        return timers[0] if timers else None

    def _to_python(self, column: pa.Array) -> list[Any]:
        return list(column.to_pylist())

    def _expiries_to_python(self, column: pa.Array) -> list[Any]:
        raise NotImplementedError

    def _leave_out(self, now_ms: int) -> None:
        raise NotImplementedError

    def _to_arrow(self, groups: list[int]) -> list[pa.Array]:
        return [pa.array([self.contents[group] for group in groups], pa.list_(pa.int64()))]


def cut_up(flat: list[Any], lists: pa.ListArray) -> list[list[Any] | None]:
    """Return the elements of lists, which `flat` holds side by side, list by list; None for null."""
    lengths = lists.value_lengths().to_pylist()
    ends = accumulate(length or 0 for length in lengths)
    return [None if length is None else flat[end - length : end] for length, end in zip(lengths, ends, strict=True)]


def listed(contents: list[list[Any] | None], to_arrow: Any) -> pa.ListArray:
    """Return lists as a column; `to_arrow` converts the elements of all."""
    offsets = [0, *accumulate(len(content or ()) for content in contents)]
    elements = to_arrow([element for content in contents for element in content or ()])
    absent = pa.array([content is None for content in contents], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, mask=absent)


def with_added(lists: pa.ListArray, added: dict[int, list[Any]], to_arrow: Any) -> pa.ListArray:
    """Return lists with elements added at the end of some; `to_arrow` converts these."""
    groups, old = sorted(added), lists.flatten()
    new = to_arrow([element for group in groups for element in added[group]])
    lengths, more = lists.value_lengths().fill_null(0).to_numpy(), np.zeros(len(lists), np.int64)
    more[groups] = [len(added[group]) for group in groups]
    place = np.empty(len(old) + len(new), np.int64)
    place[np.arange(len(old)) + np.repeat(np.cumsum(more) - more, lengths)] = np.arange(len(old))
    place[np.arange(len(new)) + np.repeat(np.cumsum(lengths), more)] = len(old) + np.arange(len(new))
    elements = pa.concat_arrays([old, new.cast(old.type)]).take(pa.array(place))
    offsets = pa.array(np.append(0, np.cumsum(lengths + more)), pa.int32())
    absent = pa.array((more == 0) & lists.is_null().to_numpy(zero_copy_only=False))
    return pa.ListArray.from_arrays(offsets, elements, mask=absent).cast(lists.type)
