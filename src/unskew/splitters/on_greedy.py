"""On-Greedy: a new key goes to the least loaded channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from unskew.splitters.choices import Channels, Hashes, Loads
from unskew.splitters.owners import WholeKeys


@dataclass(frozen=True, kw_only=True)
class OnGreedy(WholeKeys):
    """Gives a key, when it first appears, the least loaded of all channels for good; the lowest number among equals.

    Keys stay whole, and all sources have to agree on every key's owner.

    References
    ----------
    Nasir et al., Partial Key Grouping, section 6.2.

    Examples
    --------
    >>> OnGreedy().route(np.array([42, 42, 7, 8, 42]), loads=[1, 0, 0]).channels.tolist()
    [1, 1, 2, 0, 1]
    """

    name: ClassVar[str] = "on-greedy"
    summary: ClassVar[str] = "a new key gets the least loaded channel, and stays there"

    def _follow(self, keys: Hashes, key_of: Channels, owner: Channels, loads: Loads, channels: Channels) -> None:
        _kernel_first_sight(key_of, owner, loads, channels)


@njit(cache=True)
def _kernel_first_sight(key_of: Channels, owner: Channels, loads: Loads, channels: Channels) -> None:
    for row in range(len(key_of)):
        key = key_of[row]
        if owner[key] < 0:
            owner[key] = np.int32(np.argmin(loads))
        loads[owner[key]] += 1
        channels[row] = owner[key]
