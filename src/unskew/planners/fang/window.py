"""State over a window of intervals: what a key would carry along if it moved."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from unskew.planners.memory import Memory
from unskew.planners.problem import Column, Problem

Hashes = NDArray[np.int64]


def remember(problem: Problem, memory: Memory, window: int) -> Memory:
    """Return a memory of the state reported in the last `window` intervals; what is older is erased.

    Each interval is a table ``state_0`` (the one that ended), ``state_1`` and so on, with the columns `hash` (sorted)
    and `state`. A window of one needs no memory.

    >>> first = Problem.of_keys([5, 1], channels=2, current=[0, 1], home=[0, 1])
    >>> second = Problem.of_keys([2, 2], channels=2, current=[0, 1], home=[0, 1])
    >>> memory = remember(second, remember(first, Memory(), 3), 3)
    >>> windowed_state(second, memory).tolist()
    [7.0, 3.0]
    """
    if window == 1:
        return Memory()
    hashes, state = problem.hashes, problem.state
    if (order := _order(hashes)) is not None:
        hashes, state = hashes[order], state[order]
    tables = {"state_0": pa.table({"hash": hashes, "state": state})}
    for age in range(1, window):
        if f"state_{age - 1}" in memory.tables:
            tables[f"state_{age}"] = memory.tables[f"state_{age - 1}"]
    return Memory({}, tables)


def windowed_state(problem: Problem, memory: Memory) -> Column:
    """Return the state of each key, added up over the intervals that `remember` kept."""
    if not memory.tables:
        return problem.state
    order = _order(problem.hashes)
    hashes, total = problem.hashes if order is None else problem.hashes[order], np.zeros(len(problem.hashes))
    for name in sorted(memory.tables):
        table = memory.tables[name]
        _kernel_add(hashes, total, table["hash"].to_numpy(), table["state"].to_numpy())
    if order is None:
        return total
    result = np.empty_like(total)
    result[order] = total
    return result


def _order(hashes: Hashes) -> NDArray[np.int64] | None:
    """Return how to sort the hashes, or None if they are sorted, as they nearly always are."""
    return None if (hashes[1:] >= hashes[:-1]).all() else np.argsort(hashes, kind="stable")


@njit(cache=True)
def _kernel_add(hashes: Hashes, total: Column, other_hashes: Hashes, other: Column) -> None:
    """Add `other` to `total` where the hashes agree; both lists of hashes are sorted."""
    j = 0
    for i in range(len(hashes)):
        while j < len(other_hashes) and other_hashes[j] < hashes[i]:
            j += 1
        if j < len(other_hashes) and other_hashes[j] == hashes[i]:
            total[i] += other[j]
