"""Where hot keys go: new ones by two choices, those of overloaded channels by best fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.planners.smalops.app_state import Costs, kernel_worth_moving

Column = NDArray[np.float64]
Channels = NDArray[np.int32]
Places = NDArray[np.int64]


class Streams(NamedTuple):
    """Hot keys as columns, in the order in which ties are broken.

    Parameters
    ----------
    load
        What each weighs (R_k).
    rate
        Messages per second.
    move_seconds
        What moving its state takes (t_SM).
    """

    load: Column
    rate: Column
    move_seconds: Column


def two_choices(hashes: NDArray[np.int64], channels: int, seed: int) -> Channels:
    """Return two different channels for each key, a function of its hash and the seed; one channel is chosen twice.

    Examples
    --------
    >>> two_choices(np.array([7, 8]), channels=4, seed=0).tolist()
    [[0, 3], [0, 2]]
    """
    drawn = np.empty((len(hashes), 2), np.int32)
    _kernel_two_choices(hashes, channels, np.uint64(seed % 2**64), drawn)
    return drawn


@njit(cache=True)
def _kernel_two_choices(hashes: NDArray[np.int64], channels: int, seed: np.uint64, drawn: Channels) -> None:
    """Draw from SplitMix64 of the hash; the second draw is among the channels that are left."""
    for i in range(len(hashes)):
        z = np.uint64(hashes[i]) ^ (seed * np.uint64(0x9E3779B97F4A7C15))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
        first = np.int64((z & np.uint64(0xFFFFFFFF)) % np.uint64(channels))
        second = first
        if channels > 1:
            second = np.int64((z >> np.uint64(32)) % np.uint64(channels - 1))
            second += second >= first
        drawn[i, 0], drawn[i, 1] = first, second


@njit(cache=True)
def kernel_place_new(
    streams: Streams, order: Places, drawn: Channels, costs: Costs, owner: Channels, loads: Column, rates: Column
) -> int:
    """Send each new key, in the order given, to the lighter of its two channels; return how many the rule kept back.

    Its own channel counts it from then on. `owner`, `loads` and `rates` are changed in place.
    """
    refused = 0
    for place in range(len(order)):
        i, a, b = order[place], drawn[place, 0], drawn[place, 1]
        here, there = owner[i], a if loads[a] <= loads[b] else b
        if there != here and not kernel_worth_moving(
            costs, streams.move_seconds[i], streams.rate[i], rates[here] + streams.rate[i], rates[there], here, there
        ):
            there = here
            refused += 1
        owner[i] = there
        loads[there] += streams.load[i]
        rates[there] += streams.rate[i]
    return refused


@njit(cache=True)
def kernel_rebalance(
    streams: Streams,
    ascending: Places,
    first: Places,
    sources: Places,
    costs: Costs,
    owner: Channels,
    loads: Column,
    rates: Column,
) -> int:
    """Take streams off the overloaded channels; return how many moves the rule kept back.

    Parameters
    ----------
    ascending, first
        Streams of channel s, the lightest first: ``ascending[first[s]:first[s + 1]]``.
    sources
        Overloaded channels, the heaviest first.
    owner, loads, rates
        Changed in place.
    """
    mean, refused = loads.mean(), 0
    for s in sources:
        for i in ascending[first[s] : first[s + 1]]:
            if loads[s] <= mean:
                break
            load, best, best_gap = streams.load[i], -1, np.inf
            for t in range(len(loads)):
                if loads[t] < mean and abs((loads[s] - load) - (loads[t] + load)) < loads[s] - loads[t]:
                    gap = abs((load + loads[t]) - mean)
                    if gap < best_gap:
                        best, best_gap = t, gap
            if best < 0:
                continue
            if not kernel_worth_moving(costs, streams.move_seconds[i], streams.rate[i], rates[s], rates[best], s, best):
                refused += 1
                continue
            owner[i] = best
            loads[s] -= load
            loads[best] += load
            rates[s] -= streams.rate[i]
            rates[best] += streams.rate[i]
    return refused
