"""Partial key grouping, the power of two choices for every tuple, and Greedy-d with d choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import njit

from unskew.errors import ArgumentError, require_number
from unskew.splitters.base import Routed, Splitter
from unskew.splitters.choices import MOST_WORKERS, Channels, Hashes, Loads, Salts, kernel_draw_distinct, place, salts


@dataclass(frozen=True, kw_only=True)
class PartialKeyGrouping(Splitter):
    """Sends every tuple to the less loaded of its key's two candidates; a tie goes to the first.

    It remembers only the loads, so sources need not agree on anything, and it follows drift without further ado. A key
    lives on at most two channels: state at most doubles, and a total is the sum of at most two partials. The load is
    balanced while no key has more than about ``2 / workers`` of the tuples. Section 3 of Partial Key Grouping.

    Parameters
    ----------
    distinct
        Whether the two candidates of a key are always different; see `candidates`.

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
        return min(2, workers)

    def _route(self, hashes: Hashes, loads: Loads, memory: Any) -> Routed:
        channels = np.empty(len(hashes), np.int32)
        _kernel_two_choices(hashes, salts(self.seed, 2), self.distinct and len(loads) > 1, loads, channels)
        return Routed(channels, loads)


@dataclass(frozen=True, kw_only=True)
class GreedyD(Splitter):
    """Sends every tuple to the least loaded of its key's `choices` candidates; a tie goes to the earlier one.

    One choice is key grouping, two are partial key grouping, and many more than ``n ln n`` come close to shuffling. A
    key lives on at most `choices` channels. The load stays balanced as long as no key has more than about
    ``choices / workers`` of the tuples; beyond that the imbalance grows with the stream. Sections 3 and 5 of Partial
    Key Grouping.

    Parameters
    ----------
    choices
        Candidates of a key (d in the paper).
    distinct
        Whether candidates of a key are all different; see `candidates`.

    Examples
    --------
    >>> hot = np.full(9, 42)
    >>> GreedyD(choices=3, distinct=True).route(hot, loads=np.zeros(5)).loads.tolist()
    [0, 3, 3, 0, 3]
    """

    name: ClassVar[str] = "greedy-d"
    summary: ClassVar[str] = "each tuple to the least loaded of its key's d choices"

    choices: int = 4
    distinct: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("choices", self.choices, most=MOST_WORKERS)
        if self.choices < 1:
            raise ArgumentError("a key needs at least one choice", where="greedy-d", got=self.choices)

    def most_channels(self, workers: int) -> int:
        return min(self.choices, workers)

    def _route(self, hashes: Hashes, loads: Loads, memory: Any) -> Routed:
        drawn = min(self.choices, len(loads)) if self.distinct else self.choices
        channels = np.empty(len(hashes), np.int32)
        _kernel_greedy(hashes, salts(self.seed, drawn), self.distinct, loads, channels)
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


@njit(cache=True)
def _kernel_greedy(hashes: Hashes, salts: Salts, distinct: bool, loads: Loads, channels: Channels) -> None:
    workers, choices = len(loads), len(salts)
    taken, drawn = np.empty(choices, np.int32), np.empty(choices, np.int32)
    for row in range(len(hashes)):
        if distinct:
            kernel_draw_distinct(hashes[row], salts, workers, taken, drawn)
        else:
            for i in range(choices):
                drawn[i] = np.int32(place(np.uint64(hashes[row]), salts[i], np.uint64(workers)))
        chosen = np.uint64(drawn[0])
        for i in range(1, choices):
            other = np.uint64(drawn[i])
            chosen = other if loads[other] < loads[chosen] else chosen
        loads[chosen] += 1
        channels[row] = chosen
