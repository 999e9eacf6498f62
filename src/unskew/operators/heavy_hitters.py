"""The most frequent items per key, in a fixed number of entries, with bounds on the counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from unskew.errors import ArgumentError, require_number
from unskew.hashing import xxhash64
from unskew.operators.base import Mergeable, Numbers, refuse_key_names, require_column
from unskew.operators.histories import as_lists
from unskew.operators.lists import concatenated, cut, lengths_of, starts_of
from unskew.operators.ranking import ranked
from unskew.operators.reductions import valid_rows
from unskew.state.groups import Groups, group_rows, plain_schema


class HeavyHitters(Mergeable):
    """Keeps the `capacity` most frequent items of every key and yields the first `k`, as SpaceSaving does.

    With N the items of a key so far (nulls are passed over), and for each item shown:

    - ``count - error <= true <= count``, and ``error <= N / capacity``;
    - every item that makes up more than ``N / capacity`` is held.

    This holds for the state of a channel, for parts that were merged in any order, and for keys whose parts lie on
    several channels; the error of an item is the sum of what each part may be wrong by. See `HeaviestKeys` for the
    heavy hitters of a whole stream.

    Each batch is counted exactly and then cut to `capacity` entries. The greatest count that was ever cut off, which is
    at most SpaceSaving's least count, bounds the error; so counts are exact until something is cut off. Costs
    O(distinct items of the batch + capacity) per key and batch.

    Parameters
    ----------
    item
        The column to count values of.
    capacity
        Entries per key.
    k
        How many to show, the most frequent first; all that are held by default.

    References
    ----------
    Metwally, Agrawal and El Abbadi, Efficient computation of frequent and top-k elements in data streams, ICDT 2005.
    Nasir et al., Partial Key Grouping, section 4.2. See also `unskew.sketches.SpaceSaving`.

    Examples
    --------
    >>> from unskew.testing import run
    >>> words = pa.table({"shop": ["a"] * 6, "word": ["tea", "tea", "ink", "tea", "ink", "jam"]})
    >>> result = run(HeavyHitters("word", capacity=10, k=2), [words, words.slice(3)], key="shop")
    >>> for row in result.outputs[1].to_pylist():
    ...     print(row["n"], row["top"])
    9 [{'item': 'tea', 'count': 4, 'error': 0}, {'item': 'ink', 'count': 3, 'error': 0}]
    """

    memory = "constant"

    def __init__(self, item: str, *, capacity: int = 100, k: int | None = None) -> None:
        require_number("capacity", capacity)
        if capacity < 1:
            raise ArgumentError("a sketch has at least one entry", got=capacity)
        if k is not None:
            require_number("k, at most the capacity", k, 1, capacity)
        self.item, self.capacity, self.k = item, capacity, k

    def __repr__(self) -> str:
        return f"HeavyHitters({self.item!r}, capacity={self.capacity}, k={self.k})"

    def check(self) -> None:
        require_column(self.input_schema, self.item)
        super().check()
        xxhash64([pa.nulls(0, self._item_type)], names=[self.item])  # raises if items cannot be hashed
        refuse_key_names(self.key, ("n", "top"))

    @property
    def columns_needed(self) -> tuple[str, ...]:
        return (self.item,)

    @property
    def value_schema(self) -> pa.Schema:
        """The items held, the most frequent first, with counts and errors; and what an item not held has at most."""
        items, counts = pa.list_(self._item_type), pa.list_(pa.int64())
        return pa.schema({"items": items, "counts": counts, "errors": counts, "floor": pa.int64(), "n": pa.int64()})

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([*self.key_schema, pa.field("n", pa.int64()), pa.field("top", pa.list_(self._entry_type))])

    def lift(self, rows: pa.Table, groups: Groups) -> pa.Table:
        items = rows.column(self.item).combine_chunks().cast(self._item_type)
        valid = valid_rows(items)
        group = groups.group_of_row[valid]
        distinct = _distinct(group, items.filter(pa.array(valid)))
        counted = np.bincount(group, minlength=len(groups))
        nothing = np.zeros(len(groups), np.int64)
        return self._kept(distinct, distinct.counts, np.zeros(len(distinct), np.int64), nothing, counted)

    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        """Add up what is known of each item; a part that does not hold it may have seen it as often as its floor."""
        items, part = concatenated(values.column("items").combine_chunks())
        count, error = (values.column(name).combine_chunks().flatten().to_numpy() for name in ("counts", "errors"))
        floor = values.column("floor").fill_null(0).to_numpy()
        floors = _sum(floor, groups.group_of_row, len(groups))
        distinct = _distinct(groups.group_of_row[part], items)
        floor_of_item = floors[distinct.keys.column("group").to_numpy()]
        count = _sum(count - floor[part], distinct.group_of_row, len(distinct)) + floor_of_item
        error = _sum(error - floor[part], distinct.group_of_row, len(distinct)) + floor_of_item
        counted = _sum(values.column("n").fill_null(0).to_numpy(), groups.group_of_row, len(groups))
        return self._kept(distinct, count, error, floors, counted)

    def finish(self, keys: pa.Table, values: pa.Table) -> pa.Table:
        columns = [values.column(name).combine_chunks() for name in ("items", "counts", "errors")]
        lengths = lengths_of(columns[0])
        most = self.capacity if self.k is None else self.k
        shown = pa.array(_place_in_list(lengths) < most)
        arrays = [column.flatten().filter(shown) for column in columns]
        entries = pa.StructArray.from_arrays(arrays, fields=list(self._entry_type))
        top = cut(entries, np.minimum(lengths, most))
        return pa.Table.from_arrays([*keys.columns, values.column("n"), top], schema=self.output_schema)

    @property
    def _item_type(self) -> pa.DataType:
        return plain_schema(self.input_schema).field(self.item).type

    @property
    def _entry_type(self) -> pa.StructType:
        return pa.struct({"item": self._item_type, "count": pa.int64(), "error": pa.int64()})

    def _kept(self, distinct: Groups, count: Numbers, error: Numbers, floor: Numbers, counted: Numbers) -> pa.Table:
        """Return the greatest counts of each group, equal ones by the item's hash."""
        group, items = distinct.keys.column("group").to_numpy(), distinct.keys.column("item")
        order, starts = ranked(group, len(counted), -count, xxhash64([items], names=[self.item]))
        sizes = np.diff(starts)
        rank = _place_in_list(sizes)
        kept, first_cut = order[rank < self.capacity], order[rank == self.capacity]
        floor[group[first_cut]] = count[first_cut]
        flat = pa.table({"items": items.take(pa.array(kept)), "counts": count[kept], "errors": error[kept]})
        lists = as_lists(flat, starts_of(np.minimum(sizes, self.capacity)))
        columns = [*lists.columns, pa.array(floor), pa.array(counted, pa.int64())]
        return pa.Table.from_arrays(columns, schema=self.value_schema)


def _place_in_list(lengths: Numbers) -> Numbers:
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _distinct(group: Numbers, items: pa.Array) -> Groups:
    entries = pa.table({"group": group, "item": items})
    return group_rows(entries, xxhash64(entries.columns, names=entries.column_names), ["group", "item"])


def _sum(values: Numbers, group: Numbers, groups: int) -> Numbers:
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, values)
    return total
