"""Static power of two choices: a key chooses once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from unskew.splitters.choices import Channels, Hashes, Loads, Salts, salts
from unskew.splitters.owners import WholeKeys
from unskew.splitters.pkg import two_choices


@dataclass(frozen=True, kw_only=True)
class StaticPoTC(WholeKeys):
    """Gives a key, when it first appears, the less loaded of its two candidates for good (PoTC in the paper).

    Keys stay whole, so no channel can have less than the hottest key's share; and all sources have to agree on every
    key's owner. A tie goes to the first candidate.

    Parameters
    ----------
    distinct
        Whether the two candidates of a key are always different; see `candidates`.

    References
    ----------
    Nasir et al., Partial Key Grouping, sections 3 and 6.2.

    Examples
    --------
    >>> routed = StaticPoTC(distinct=True).route(np.array([42, 42, 7, 42]), loads=[1, 0, 0, 0, 0])
    >>> routed.channels.tolist(), len(routed.memory)
    ([2, 2, 0, 2], 2)
    """

    name: ClassVar[str] = "static-potc"
    summary: ClassVar[str] = "a new key gets the less loaded of two choices, and stays there"

    distinct: bool = False

    def _follow(self, keys: Hashes, key_of: Channels, owner: Channels, loads: Loads, channels: Channels) -> None:
        distinct = self.distinct and len(loads) > 1
        _kernel_first_sight(keys, key_of, salts(self.seed, 2), distinct, owner, loads, channels)


@njit(cache=True)
def _kernel_first_sight(
    keys: Hashes,
    key_of: Channels,
    salts: Salts,
    distinct: bool,
    owner: Channels,
    loads: Loads,
    channels: Channels,
) -> None:
    for row in range(len(key_of)):
        key = key_of[row]
        if owner[key] < 0:
            owner[key] = np.int32(two_choices(keys[key], salts, distinct, loads))
        loads[owner[key]] += 1
        channels[row] = owner[key]
