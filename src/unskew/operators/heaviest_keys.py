"""The most frequent keys of a whole stream, in bounded memory, with bounds on the counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from unskew.errors import ArgumentError, require_number
from unskew.hashing import hash_keys, xxhash64
from unskew.operators.base import refuse_key_names, require_column
from unskew.operators.heavy_hitters import HeavyHitters
from unskew.operators.learner import MergingLearner, from_bytes, to_bytes
from unskew.state.groups import plain_schema

BUCKET, ITEM = "bucket", "item"
RANK, COUNT, ERROR, ROWS = "rank", "count", "error", "rows"


class HeaviestKeys(MergingLearner):
    """Finds the `k` most frequent keys of a stream, as SpaceSaving does.

    Each batch yields the whole list: ``rank`` from 1 on, the key, its ``count`` and the ``error`` of the count, and the
    ``rows`` of the stream so far. Null is a key, as in Spark's ``groupBy``. After every batch:

    - ``count - error <= true count <= count``;
    - a key that is not in the list has at most the count of the last one that is.

    Keys lie in buckets by their hash. Channels own buckets, and keep one sketch for each; see `HeavyHitters`. A key is
    in one bucket only, so its error is that of one sketch: at most the bucket's rows over `capacity`, which is about
    ``rows / (buckets * capacity)``. While no bucket has had more than `capacity` keys, all counts are exact. Both
    bounds hold whatever the number of channels, and when buckets are moved or split.

    Costs O(rows + capacity) per bucket and batch. Channels hold ``buckets * capacity`` entries; the driver and each
    record hold ``buckets * k``.

    Parameters
    ----------
    k
        Keys in the list.
    capacity
        Entries of each bucket, at least `k`; twice as many by default.
    buckets
        Number of buckets; choose more than channels, so that channels can share them evenly. Fixed for the life of a
        checkpoint.

    References
    ----------
    Metwally, Agrawal and El Abbadi, Efficient computation of frequent and top-k elements in data streams, ICDT 2005.
    Nasir et al., Partial Key Grouping, section 4.2.

    Examples
    --------
    >>> from unskew.testing import run
    >>> visits = pa.table({"url": ["/", "/a", "/", "/b", None, "/"]})
    >>> for row in run(HeaviestKeys(k=2), [visits, visits.slice(3, 2)], key="url").outputs[1].to_pylist():
    ...     print(row)
    {'rank': 1, 'url': '/', 'count': 3, 'error': 0, 'rows': 8}
    {'rank': 2, 'url': '/b', 'count': 2, 'error': 0, 'rows': 8}
    """

    memory = "constant"

    def __init__(self, k: int = 100, *, capacity: int | None = None, buckets: int = 64) -> None:
        for name, number in (("k", k), ("buckets", buckets), ("capacity", k if capacity is None else capacity)):
            require_number(name, number, 1)
        self.k, self.capacity, self.buckets = k, 2 * k if capacity is None else capacity, buckets
        if self.capacity < k:
            raise ArgumentError(f"a bucket needs room for all {k} keys of the list", where="capacity", got=capacity)

    def __repr__(self) -> str:
        of = f", of={list(self.stream_key)}" if self.stream_key else ""
        return f"HeaviestKeys(k={self.k}, capacity={self.capacity}, buckets={self.buckets}{of})"

    columns_needed = ()
    output_key = (RANK,)  # the list never gets shorter

    def own_input(self) -> tuple[pa.Schema, tuple[str, ...]]:
        for name in self.stream_key:
            require_column(self.stream_schema, name)
        hash_keys(self.stream_schema.empty_table(), self.stream_key)  # raises if keys cannot be hashed
        refuse_key_names(self.stream_key, (RANK, COUNT, ERROR, ROWS))
        schema = pa.schema({BUCKET: pa.int32(), ITEM: self._item_type})
        self.channel_operator = HeavyHitters(ITEM, capacity=self.capacity, k=self.k).bind(schema, (BUCKET,))
        return schema, (BUCKET,)

    @property
    def result_schema(self) -> pa.Schema:
        numbers = [pa.field(name, pa.int64()) for name in (COUNT, ERROR, ROWS)]
        return pa.schema([pa.field(RANK, pa.int32()), *self._item_type, *numbers])

    def expand(self, rows: pa.Table) -> pa.Table:
        keys = rows.select(list(self.stream_key)).cast(pa.schema(list(self._item_type)))
        bucket = np.mod(hash_keys(keys, self.stream_key), self.buckets).astype(np.int32)
        items = pa.StructArray.from_arrays([c.combine_chunks() for c in keys.columns], fields=list(self._item_type))
        return pa.table([pa.array(bucket), items], schema=self.input_schema)

    def learn(self, learned: bytes, output: pa.Table) -> bytes:
        known = pa.concat_tables([output.cast(self.output_schema), self._known(learned)])
        _, newest = np.unique(known.column(BUCKET).to_numpy(), return_index=True)
        return to_bytes(known.take(pa.array(newest)))

    def lesson_of(self, learned: bytes) -> bytes:
        return b""  # tasks need not know the list

    def result(self, learned: bytes, output: pa.Table) -> pa.Table:
        """Return the most frequent keys of all buckets, equal ones by their hash."""
        known = self._known(learned)
        entries = known.column("top").combine_chunks().flatten()
        items, counts, errors = entries.flatten()
        order = np.lexsort((xxhash64([items], names=[ITEM]), -counts.to_numpy()))[: self.k]
        rows = int(known.column("n").to_numpy().sum())
        columns = [column.take(pa.array(order)) for column in (*items.flatten(), counts, errors)]
        ranks = pa.array(np.arange(1, len(order) + 1), pa.int32())
        return pa.table([ranks, *columns, np.full(len(order), rows)], schema=self.result_schema)

    @property
    def _item_type(self) -> pa.StructType:
        return pa.struct(list(plain_schema(pa.schema([self.stream_schema.field(name) for name in self.stream_key]))))

    def _known(self, learned: bytes) -> pa.Table:
        return from_bytes(learned) if learned else self.output_schema.empty_table()
