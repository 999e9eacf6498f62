"""Which keys were hot lately, and for how many windows they have not been: the planner's memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.planners.memory import Memory

Hashes = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Cooling:
    """Keys that are hot or were lately.

    Parameters
    ----------
    hashes
        The keys, ascending.
    cool_windows
        Windows in a row that each was not hot; 0 for hot keys.

    Examples
    --------
    >>> cooling = Cooling().next(np.array([3, 8]), windows=2)
    >>> cooling = cooling.next(np.array([3]), windows=2)
    >>> cooling.hashes.tolist(), cooling.cool_windows.tolist()
    ([3, 8], [0, 1])
    >>> cooling.next(np.array([3]), windows=2).hashes.tolist()
    [3]
    """

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.int64))
    cool_windows: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))

    @classmethod
    def of_memory(cls, memory: Memory) -> Cooling:
        """Return what a memory holds; nothing if it is empty."""
        table = memory.tables.get("hot_keys")
        return cls() if table is None else cls(table["hash"].to_numpy(), table["cool_windows"].to_numpy())

    def to_memory(self) -> Memory:
        """Return it as a planner's memory."""
        return Memory({}, {"hot_keys": pa.table({"hash": self.hashes, "cool_windows": self.cool_windows})})

    def holds(self, hashes: Hashes) -> Mask:
        """Tell which of the keys are hot or were lately."""
        return _among(hashes, self.hashes)

    def next(self, hot: Hashes, windows: int) -> Cooling:
        """Return it after a window in which exactly `hot` were hot; keys cool for `windows` windows are dropped."""
        hot = np.sort(hot)
        cool = ~_among(self.hashes, hot)
        since = self.cool_windows[cool] + 1
        stay = since < windows
        hashes = np.concatenate([hot, self.hashes[cool][stay]])
        order = np.argsort(hashes, kind="stable")
        return Cooling(
            hashes[order], np.concatenate([np.zeros(len(hot), np.int32), since[stay].astype(np.int32)])[order]
        )


def _among(hashes: Hashes, ascending: Hashes) -> Mask:
    """Tell which hashes stand in a sorted list; several times as fast as `numpy.isin`, which sorts or hashes both."""
    if not len(ascending):
        return np.zeros(len(hashes), bool)
    place = np.minimum(np.searchsorted(ascending, hashes), len(ascending) - 1)
    found: Mask = ascending[place] == hashes
    return found
