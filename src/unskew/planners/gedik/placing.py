"""Placing items one by one: what scan and redist share."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.planners.gedik.items import Column, Items, beats, combine_gaps, unit_of_gaps, weigh_gap
from unskew.planners.gedik.utility import utility

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]


@njit(cache=True)
def note_extremes(loads: Matrix, extremes: Matrix, emptiest: Numbers) -> None:
    """Write per resource the highest, lowest and second lowest load and the total, and which channel is the lowest."""
    for k in range(loads.shape[0]):
        highest, lowest, second, total, where = -np.inf, np.inf, np.inf, 0.0, 0
        for channel in range(loads.shape[1]):
            load = loads[k, channel]
            total += load
            highest = max(highest, load)
            if load < lowest:
                lowest, second, where = load, lowest, channel
            elif load < second:
                second = load
        extremes[k, 0], extremes[k, 1], extremes[k, 2], extremes[k, 3] = highest, lowest, second, total
        emptiest[k] = where


@njit(cache=True)
def gap_with(added: float, load: float, is_emptiest: bool, extremes: Column) -> float:
    """Return max - min if `added` comes to a channel with `load`. Costs O(1)."""
    lowest = min(extremes[2], load + added) if is_emptiest else extremes[1]
    return float(max(extremes[0], load + added) - lowest)


@njit(cache=True)
def score_channels(
    items: Items,
    item: int,
    kind: int,
    divisor: float,
    migration: float,
    loads: Matrix,
    extremes: Matrix,
    emptiest: Numbers,
    scores: Column,
) -> float:
    """Write the utility of adding the item to each channel, over `divisor`; return the best one."""
    rows, channels = loads.shape
    resources = int(items.multiplicity.sum())
    best = np.inf
    for channel in range(channels):
        product = 1.0
        for k in range(rows):
            added = items.load[k, item]
            gap = gap_with(added, loads[k, channel], channel == emptiest[k], extremes[k])
            unit = unit_of_gaps(items.deviation[k], extremes[k, 3] + added, channels)
            product *= weigh_gap(gap * unit, items.multiplicity[k])
        cost = migration + (items.state[item] if channel != items.current[item] else 0.0)
        score = utility(kind, combine_gaps(product, resources), cost / items.ideal_migration)
        scores[channel] = score / divisor
        best = min(best, scores[channel])
    return best


@njit(cache=True)
def choose_channel(best: float, own: int, scores: Column) -> int:
    """Return a channel whose score the best does not beat: the item's own, else the lowest number."""
    if own < len(scores) and not beats(best, scores[own]):
        return own
    channel = 0
    while beats(best, scores[channel]):
        channel += 1
    return channel


@njit(cache=True)
def put(items: Items, item: int, channel: int, loads: Matrix) -> float:
    """Add the item to the channel's loads; return what moving it costs."""
    for k in range(loads.shape[0]):
        loads[k, channel] += items.load[k, item]
    return float(items.state[item]) if channel != items.current[item] else 0.0
