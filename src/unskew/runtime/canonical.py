"""An order of rows that does not depend on the order in which they came."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from unskew.hashing import xxhash64


def canonical_indices(rows: pa.Table) -> NDArray[np.int64]:
    """Return an order of rows that depends on their contents alone; equal rows are interchangeable.

    Rows are sorted by a hash of 64 bits. Columns may have any type that Spark knows, also those that cannot be keys.

    >>> tags = pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64()))
    >>> rows = pa.table({"n": [1, 2, None], "tags": tags})
    >>> other = rows.take([2, 0, 1])
    >>> rows.take(canonical_indices(rows)).equals(other.take(canonical_indices(other)))
    True
    """
    batches = rows.to_batches()
    hashes = [xxhash64([part for column in batch.columns for part in _parts(column)]) for batch in batches]
    return np.asarray(pc.sort_indices(pa.array(np.concatenate(hashes)))).astype(np.int64)


def _parts(array: pa.Array) -> Iterator[pa.Array]:
    """Yield arrays whose hashes together tell values apart to the bit.

    The hash of a key does not show where nulls are, where inner lists end, or whether a zero is negative.
    """
    kind = array.type
    yield array.is_valid()
    if types.is_map(kind):
        array = array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    if types.is_struct(array.type):
        for field in array.flatten():
            yield from _parts(field)
    elif types.is_list(array.type):
        lengths = pc.list_value_length(array).fill_null(0)
        yield lengths
        starts = pa.array(np.concatenate(([0], np.cumsum(lengths.to_numpy()))), pa.int32())
        for elements in _parts(array.flatten()):
            yield pa.ListArray.from_arrays(starts, elements)
    elif types.is_floating(kind):
        yield array.view(pa.int64() if types.is_float64(kind) else pa.int32())
    else:
        yield array
