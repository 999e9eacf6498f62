"""The keys that get an entry, and the scales by which their placement is judged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Column = NDArray[np.float64]
Channels = NDArray[np.int32]

PENALTY_FLOOR = 1e-12  # or one perfectly balanced resource would hide the others in the product


class Items(NamedTuple):
    """Keys to place, heaviest first, equal ones by position. A named tuple, so that compiled code can take it whole.

    Parameters
    ----------
    channels
        Channels to place on.
    share
        Share of all tuples of each item.
    load
        One row per distinct resource that is not constant: what each item takes of it.
    multiplicity
        How many resources each row stands for.
    deviation
        Tolerated deviation from the mean, over the mean, of each row (theta in Gedik).
    base_load
        One row per resource, one column per channel: load that lies there whatever is decided.
    state
        What moving each item costs (beta_s of its share).
    current, home
        Channel that has the item now, and channel the slots give it.
    migration
        Migration cost before any item is placed: keys that lose their entry and go home.
    ideal_migration
        Migration cost of moving an equal share to each channel, the unit of the migration penalty.
    """

    channels: int
    share: Column
    load: NDArray[np.float64]
    multiplicity: NDArray[np.int64]
    deviation: Column
    base_load: NDArray[np.float64]
    state: Column
    current: Channels
    home: Channels
    migration: float
    ideal_migration: float


@njit(cache=True)
def beats(score: float, other: float) -> bool:
    """Tell whether a score is lower than another by more than rounding. Scores that none beats are tied."""
    return score < other - 1e-12 * max(1.0, abs(other))


@njit(cache=True, error_model="numpy")
def unit_of_gaps(deviation: float, total: float, channels: int) -> float:
    """Return one over the max - min that counts as 1 in the balance penalty; 0 where there is no load to balance."""
    return channels / (deviation * total) if total > 0.0 else 0.0


@njit(cache=True)
def weigh_gap(gap: float, multiplicity: int) -> float:
    """Return a resource's factor in the balance penalty: its max - min in units, to the power it counts."""
    penalty = max(gap, PENALTY_FLOOR)
    if multiplicity == 1:
        return penalty
    return penalty * penalty if multiplicity == 2 else penalty * penalty * penalty


@njit(cache=True)
def combine_gaps(product: float, resources: int) -> float:
    """Return the geometric mean of one to three penalties from their product (rho in Gedik)."""
    if resources == 1:
        return product
    return float(np.sqrt(product) if resources == 2 else np.cbrt(product))
