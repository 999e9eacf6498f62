"""What a single move or swap of items does to a table: the arithmetic under readj."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.planners.gedik.items import Items, Matrix, Numbers, combine_gaps, unit_of_gaps, utility, weigh_gap
from unskew.planners.problem import Channels, Column

NO_GAIN = -1e300  # finite, so that it can be compared with slack

# what `describe_pairs` notes on two channels: their loads, the extremes of all other loads, the unit of gaps, and the
# bounds of a useful shift
SOURCE, TARGET, HIGHEST, LOWEST, UNIT, LEAST, MOST = range(7)

# rows of a crowd: share, what moving adds to the migration penalty, channel before, what a certain step adds to the
# penalty, load of the first resource; further ones follow
SHARE, STATE, CURRENT, COST, LOAD = range(5)


class Now(NamedTuple):
    """The table as a step finds it."""

    kind: int  # which utility counts
    resources: int
    balance_penalty: float
    migration_penalty: float
    utility: float


@njit(cache=True)
def measure(items: Items, owner: Channels, loads: Matrix, gaps: Column, units: Column) -> float:
    """Write loads, gaps and their units afresh from the owners, so that no error adds up; return the penalty."""
    loads[:] = items.base_load
    product = 1.0
    for k in range(len(gaps)):
        for item in range(len(owner)):
            loads[k, owner[item]] += items.load[k, item]
        gaps[k] = loads[k].max() - loads[k].min()
        units[k] = unit_of_gaps(items.deviation[k], loads[k].sum(), items.channels)
        product *= weigh_gap(gaps[k] * units[k], items.multiplicity[k])
    return combine_gaps(product, int(items.multiplicity.sum()))


@njit(cache=True)
def migration_cost(items: Items, owner: Channels) -> float:
    """Return the migration cost of all keys if `owner` has the items."""
    state, current, cost = items.state, items.current, items.migration
    for item in range(len(owner)):
        if owner[item] != current[item]:
            cost += state[item]
    return cost


@njit(cache=True)
def describe_pairs(
    loads: Matrix, gaps: Column, units: Column, pairs: NDArray[np.float64], useful: NDArray[np.bool_]
) -> None:
    """Note for each resource what a shift from channel i to j needs to know, and whether any amount can be useful.

    A shift narrows the gap of a resource if its amount lies between two bounds, which follow from the pairs of loads
    that could make up the new gap. The bounds are a little too wide, never too narrow. They are the wrong way round for
    a resource that no shift can help.
    """
    rows, channels = loads.shape
    useful[:] = False
    for k in range(rows):
        ascending, gap = np.argsort(loads[k]), gaps[k]
        for i in range(channels):
            for j in range(i + 1, channels):
                low, high = 0, channels - 1
                while low < channels and (ascending[low] == i or ascending[low] == j):
                    low += 1
                while high >= 0 and (ascending[high] == i or ascending[high] == j):
                    high -= 1
                lowest = loads[k, ascending[low]] if low < channels else np.inf
                highest = loads[k, ascending[high]] if high >= 0 else -np.inf
                source, target = loads[k, i], loads[k, j]
                least, most = np.inf, -np.inf
                if highest - lowest < gap:
                    rounding = 1e-12 * (source + target + gap)
                    least = max(highest - target - gap, source - lowest - gap, (source - target - gap) / 2) - rounding
                    most = min(gap - highest + source, gap + lowest - target, (gap + source - target) / 2) + rounding
                useful[i, j] = useful[j, i] = useful[i, j] or least < most
                there, back = pairs[i, j, k], pairs[j, i, k]
                there[SOURCE], there[TARGET], there[LEAST], there[MOST] = source, target, least, most
                back[SOURCE], back[TARGET], back[LEAST], back[MOST] = target, source, -most, -least
                there[HIGHEST] = back[HIGHEST] = highest
                there[LOWEST] = back[LOWEST] = lowest
                there[UNIT] = back[UNIT] = units[k]


@njit(cache=True)
def gather_crowd(
    items: Items, owner: Channels, movable: NDArray[np.bool_], members: Numbers, starts: Numbers, crowd: Matrix
) -> None:
    """List the items that may be moved by channel, heaviest first, and where each channel's part begins.

    The crowd gets a column for each of them, in the same order, and a last one for nobody, who weighs nothing.
    """
    share, load, state, current = items.share, items.load, items.state, items.current
    unit = 1.0 / items.ideal_migration
    starts[:] = 0
    for item in range(len(owner)):
        starts[owner[item] + 1] += movable[item]
    for channel in range(1, len(starts)):
        starts[channel] += starts[channel - 1]
    for item in range(len(owner)):
        if movable[item]:
            place = starts[owner[item]]
            starts[owner[item]] += 1
            members[place] = item
            crowd[SHARE, place], crowd[CURRENT, place] = share[item], current[item]
            crowd[STATE, place] = state[item] * unit
            for k in range(load.shape[0]):
                crowd[LOAD + k, place] = load[k, item]
    for channel in range(len(starts) - 1, 0, -1):
        starts[channel] = starts[channel - 1]
    starts[0] = 0
    crowd[:, -1] = 0.0


@njit(cache=True)
def note_costs(starts: Numbers, source: int, target: int, crowd: Matrix) -> None:
    """Write what it adds to the migration penalty if an item of a channel goes to another; negative if it returns."""
    for place in range(starts[source], starts[source + 1]):
        current, state = crowd[CURRENT, place], crowd[STATE, place]
        crowd[COST, place] = state if current == source else (-state if current == target else 0.0)


@njit(cache=True, error_model="numpy")
def gains_of_shifts(
    now: Now, pair: Matrix, multiplicity: Numbers, crowd: Matrix, goer: int, start: int, end: int, gains: Column
) -> float:
    """Write the gain in utility per share shifted if the goer changes channels with each of the others in turn.

    The goer goes from channel i of the pair to j, the others from j to i. All are columns of the crowd. The gain is
    `NO_GAIN` where the balance penalty does not fall or both weigh the same. Returns the best gain. Loops are kept
    apart and free of exceptions so that they become vector instructions.
    """
    size, products = end - start, gains[start:end]
    for k in range(len(multiplicity)):
        shifted_back, load = crowd[LOAD + k, start:end], crowd[LOAD + k, goer]
        source, target = pair[k, SOURCE] - load, pair[k, TARGET] + load
        highest, lowest, unit, power = pair[k, HIGHEST], pair[k, LOWEST], pair[k, UNIT], multiplicity[k]
        for place in range(size):
            less, more = source + shifted_back[place], target - shifted_back[place]
            gap = max(highest, less, more) - min(lowest, less, more)
            factor = weigh_gap(gap * unit, power)
            products[place] = products[place] * factor if k else factor
    if now.resources > 1:
        product = now.balance_penalty**now.resources
        for place in range(size):
            products[place] = combine_gaps(products[place], now.resources) if products[place] < product else np.inf
    shares, share = crowd[SHARE, start:end], crowd[SHARE, goer]
    costs, cost = crowd[COST, start:end], now.migration_penalty + crowd[COST, goer]
    kind, before, limit = now.kind, now.utility, now.balance_penalty * (1.0 - 1e-12)
    for place in range(size):
        penalty, shifted_share = products[place], abs(share - shares[place])
        gain = (before - utility(kind, penalty, cost + costs[place])) / shifted_share
        products[place] = gain if penalty < limit and shifted_share > 0.0 else NO_GAIN
    best = NO_GAIN
    for place in range(size):
        best = max(best, products[place])
    return best


@njit(cache=True)
def least_penalty(pair: Matrix, multiplicity: Numbers) -> float:
    """Return the balance penalty that no shift between two channels can go below: that of all other channels."""
    product = 1.0
    for k in range(len(multiplicity)):
        product *= weigh_gap((pair[k, HIGHEST] - pair[k, LOWEST]) * pair[k, UNIT], multiplicity[k])
    return combine_gaps(product, int(multiplicity.sum()))
