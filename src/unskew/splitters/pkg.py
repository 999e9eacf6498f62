"""Partial key grouping: the power of two choices for every tuple."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import njit

from unskew.splitters.base import Routed, Splitter
from unskew.splitters.choices import Channels, Hashes, Loads, Salts, place, salts


@dataclass(frozen=True, kw_only=True)
class PartialKeyGrouping(Splitter):
    """Sends every tuple to the less loaded of its key's two candidates; a tie goes to the first.

    Nothing is remembered but the loads, so sources need not agree on anything and drift is followed by itself. A key
    lives on at most two channels: state at most doubles, and a total is the sum of at most two partials. Balanced
    while no key has more than about ``2 / workers`` of the tuples.

    Parameters
    ----------
    distinct
        Whether the two candidates of a key are always different; see `candidates`.

    References
    ----------
    Nasir et al., Partial Key Grouping, section 3.

    Examples
    --------
    >>> hot = np.full(6, 42)
    >>> PartialKeyGrouping(distinct=True).route(hot, loads=np.zeros(5)).loads.tolist()
    [0, 0, 3, 0, 3]
    """

    name: ClassVar[str] = "pkg"
    summary: ClassVar[str] = "partial key grouping: each tuple to the less loaded of its key's two choices"

    distinct: bool = False

    def most_channels(self, workers: int) -> int:
        """Return two."""
        return min(2, workers)

    def _route(self, hashes: Hashes, loads: Loads, memory: Any) -> Routed:
        channels = np.empty(len(hashes), np.int32)
        _kernel_two_choices(hashes, salts(self.seed, 2), self.distinct and len(loads) > 1, loads, channels)
        return Routed(channels, loads)


@njit(cache=True, inline="always")
def two_choices(key_hash: Any, salts: Salts, distinct: bool, loads: Loads) -> Any:
    """Return the less loaded of two candidates; called from kernels only."""
    workers = np.uint64(len(loads))
    first = place(np.uint64(key_hash), salts[0], workers)
    second = place(np.uint64(key_hash), salts[1], workers - np.uint64(distinct))
    second += np.uint64(distinct and second >= first)
    # no branch: which of the two is less loaded cannot be predicted
    return first ^ ((first ^ second) & -np.uint64(loads[second] < loads[first]))


@njit(cache=True)
def _kernel_two_choices(hashes: Hashes, salts: Salts, distinct: bool, loads: Loads, channels: Channels) -> None:
    for row in range(len(hashes)):
        chosen = two_choices(hashes[row], salts, distinct, loads)
        loads[chosen] += 1
        channels[row] = chosen
