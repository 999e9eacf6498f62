"""The keys that get an entry, and how a table of them is judged."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.planners.problem import Channels, Column

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]

PENALTY_FLOOR = 1e-12  # or one perfectly balanced resource would hide the others in the product

# balance alone; plus migration; plus its logarithm; times migration; times its logarithm
UTILITIES = ("a", "apm", "aplm", "atm", "atlm")


class Items(NamedTuple):
    """Keys to place, heaviest first, equal ones by position. A named tuple, so that compiled code can take it whole."""

    channels: int
    share: Column  # of all tuples
    load: Matrix  # one row per distinct resource that is not constant: what each item takes of it
    multiplicity: Numbers  # how many resources each row stands for
    deviation: Column  # tolerated deviation from the mean, over the mean, of each row (theta in Gedik)
    base_load: Matrix  # a row per resource, a column per channel: load that lies there whatever is decided
    state: Column  # what moving each item costs (beta_s of its share)
    current: Channels
    home: Channels
    migration: float  # cost before any item is placed: keys that lose their entry and go home
    ideal_migration: float  # cost of moving an equal share to each channel, the unit of the migration penalty


@njit(cache=True)
def utility(kind: int, balance_penalty: float, migration_penalty: float) -> float:
    """Return the utility of a table, lower being better; U of rho and gamma in section 4.3 of Gedik.

    `kind` is a position in `UTILITIES`.

    >>> [round(utility(kind, 1.245018, 1.363636), 4) for kind in range(5)]
    [1.245, 2.6087, 2.1052, 2.9428, 2.316]
    """
    if kind == 0:
        return balance_penalty
    if kind == 1:
        return balance_penalty + migration_penalty
    if kind == 2:
        return balance_penalty + math.log(1.0 + migration_penalty)
    if kind == 3:
        return balance_penalty * (1.0 + migration_penalty)
    return balance_penalty * (1.0 + math.log(1.0 + migration_penalty))


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
