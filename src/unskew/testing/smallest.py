"""Finding a small example of what a large one shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

Batches = list[pa.Table]

_MOST_TRIES = 150


def smallest(batches: Sequence[pa.Table], fails: Callable[[Batches], bool], tries: int = _MOST_TRIES) -> Batches:
    """Leave out batches, then runs of rows, shorter and shorter, as long as what remains still fails.

    Tries about as many times as there are batches, and a few times for each row that remains and each halving.

    Examples
    --------
    >>> batches = [pa.table({"n": [1, 2, 3, 4]}), pa.table({"n": [5, 6]})]
    >>> [batch.to_pydict() for batch in smallest(batches, lambda some: any(3 in b["n"].to_pylist() for b in some))]
    [{'n': [3]}]
    """
    found = list(batches)

    def becomes(candidate: Batches) -> bool:
        nonlocal found, tries
        if tries == 0 or not any(batch.num_rows for batch in candidate):
            return False
        tries -= 1
        smaller = fails(candidate)
        if smaller:
            found = candidate
        return smaller

    for number in reversed(range(len(found))):
        becomes(found[:number] + found[number + 1 :])
    length = max(batch.num_rows for batch in found)
    while length > 1:
        length = (length + 1) // 2
        for number in range(len(found)):
            start = 0
            while start < (rows := found[number]).num_rows:
                rest = pa.concat_tables([rows.slice(0, start), rows.slice(start + length)])
                if not becomes([*found[:number], rest, *found[number + 1 :]]):
                    start += length
    return found
