"""Off-Greedy: all keys are known beforehand, the most frequent is placed first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from unskew.splitters.choices import Channels, Hashes, Loads
from unskew.splitters.owners import WholeKeys


@dataclass(frozen=True, kw_only=True)
class OffGreedy(WholeKeys):
    """Places whole keys by falling frequency, each on the least loaded channel; it sees all tuples beforehand.

    The best that schemes with one channel per key can be hoped to do, and not one that a stream could run: only the
    loads at the end mean something. Equal frequencies are taken by hash, equal loads by channel number.

    References
    ----------
    Nasir et al., Partial Key Grouping, section 6.2.

    Examples
    --------
    >>> OffGreedy().route(np.array([7, 8, 8, 9, 9, 9]), loads=np.zeros(2)).channels.tolist()
    [1, 1, 1, 0, 0, 0]
    """

    name: ClassVar[str] = "off-greedy"
    summary: ClassVar[str] = "knows all keys beforehand, places the most frequent first (a yardstick)"
    online: ClassVar[bool] = False

    def _follow(self, keys: Hashes, key_of: Channels, owner: Channels, loads: Loads, channels: Channels) -> None:
        tuples = np.bincount(key_of, minlength=len(keys))
        np.add.at(loads, owner[owner >= 0], tuples[owner >= 0])
        _kernel_place(np.lexsort((keys, -tuples)), tuples, owner, loads)
        channels[:] = owner[key_of]


@njit(cache=True)
def _kernel_place(order: Loads, tuples: Loads, owner: Channels, loads: Loads) -> None:
    for key in order:
        if owner[key] < 0:
            owner[key] = np.int32(np.argmin(loads))
            loads[owner[key]] += tuples[key]
