"""Measures of balance and migration, one plain name for each figure of the five papers.

Loads are arrays with one number per channel, in any unit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.errors import ArgumentError

Column = NDArray[np.float64]


def overload(loads: ArrayLike) -> float:
    """Return how far the fullest channel lies above the mean: max/mean - 1. Zero load is balanced.

    This is what `tolerance` limits everywhere in unskew.

    >>> overload([3.0, 1.0, 2.0])
    0.5
    """
    column, mean = _loads(loads)
    return float(column.max() / mean - 1) if mean > 0 else 0.0


def skewness(loads: ArrayLike) -> float:
    """Return max/mean, as Fang et al. plot it.

    >>> skewness([3.0, 1.0, 2.0])
    1.5
    """
    return overload(loads) + 1


def deviation(loads: ArrayLike) -> float:
    """Return the largest distance from the mean, to either side, over the mean (theta of Fang et al.).

    >>> round(deviation([1.08, 1.08, 1.08, 1.08, 1.08, 0.60]), 12)
    0.4
    """
    column, mean = _loads(loads)
    return float(np.abs(column - mean).max() / mean) if mean > 0 else 0.0


def imbalance(loads: ArrayLike) -> float:
    """Return max - mean in the loads' own unit (I(t) of Partial Key Grouping).

    >>> imbalance([3.0, 1.0, 2.0])
    1.0
    """
    column, mean = _loads(loads)
    return float(column.max() - mean)


def balancing_error(loads: ArrayLike) -> float:
    """Return the sum of all distances from the mean (E_LB of SMALOPS).

    >>> balancing_error([110.0, 50.0, 20.0])
    100.0
    """
    column, mean = _loads(loads)
    return float(np.abs(column - mean).sum())


def balance_ratio(loads: ArrayLike) -> float:
    """Return max/min (r of Gedik); infinite if a channel has nothing and another has something.

    >>> round(balance_ratio([8.0, 7.0, 7.0]), 6)
    1.142857
    """
    column, mean = _loads(loads)
    if mean <= 0:
        return 1.0
    return float(column.max() / column.min()) if column.min() > 0 else float("inf")


def relative_imbalance(loads: ArrayLike, ratio_allowed: float) -> float:
    """Return the balance ratio over the ratio allowed (b_k of Gedik); at most 1 where the constraint holds.

    >>> round(relative_imbalance([7.0, 7.0, 8.0], 1.2), 6)
    0.952381
    """
    return balance_ratio(loads) / ratio_allowed


def combined_imbalance(relative_imbalances: ArrayLike) -> float:
    """Return the geometric mean of the resources' relative imbalances (b of Gedik), constant resources included.

    >>> round(combined_imbalance([0.952381, 1.022727, 0.952381]), 6)
    0.975275
    """
    return float(np.exp(np.log(np.asarray(relative_imbalances, np.float64)).mean()))


def ratio_of_tolerance(tolerance: float, channels: int) -> float:
    """Return the max/min ratio that allows the same overload of the fullest channel as `tolerance` does.

    With one channel at ``1 + tolerance`` times the mean and the others level, the ratio is
    ``(1+t)(N-1)/(N-1-t)``. Infinite where all load on one channel would still be tolerated.

    >>> round(ratio_of_tolerance(3 / 17, 10), 12)
    1.2
    """
    if tolerance < 0:
        raise ArgumentError("tolerance must not be negative", got=tolerance)
    room = channels - 1 - tolerance
    return (1 + tolerance) * (channels - 1) / room if room > 0 else float("inf")


def ratio_of_capacity(channels: int, total_load: float, capacity: float) -> float:
    """Return the max/min ratio that keeps every channel within `capacity` when all of them carry `total_load`.

    >>> round(ratio_of_capacity(4, total_load=10, capacity=3), 4)
    1.2857
    """
    if not total_load / channels <= capacity < total_load:
        raise ArgumentError(
            f"a channel's capacity must lie between the mean load {total_load / channels:g} and {total_load:g}",
            got=capacity,
        )
    return (channels - 1) * capacity / (total_load - capacity)


def tolerated_deviation(ratio_allowed: float, channels: int) -> float:
    """Return how far any channel may lie from the mean if max/min stays within the ratio (theta of Gedik).

    The inverse of `ratio_of_tolerance`; 0 for one channel.

    >>> [round(tolerated_deviation(1.2, n), 7) for n in (1, 2, 3, 10, 32)]
    [0.0, 0.0909091, 0.125, 0.1764706, 0.1925466]
    """
    if ratio_allowed < 1:
        raise ArgumentError("a max/min ratio is at least 1", got=ratio_allowed)
    if channels == 1:
        return 0.0
    if np.isinf(ratio_allowed):
        return float(channels - 1)
    return ratio_allowed * channels / (ratio_allowed + channels - 1) - 1


def migration_cost(state: ArrayLike, before: ArrayLike, after: ArrayLike) -> float:
    """Return the state of all keys whose owner differs before and after (M of Gedik and Fang).

    >>> migration_cost([5, 3, 2], before=[0, 0, 1], after=[0, 1, 0])
    5.0
    """
    moved = np.asarray(before) != np.asarray(after)
    return float(np.asarray(state, np.float64)[moved].sum())


def migration_share(state: ArrayLike, before: ArrayLike, after: ArrayLike) -> float:
    """Return the migration cost as a share of all state (Fang's migration cost in percent).

    >>> migration_share([5, 3, 2], before=[0, 0, 1], after=[0, 1, 0])
    0.5
    """
    total = float(np.asarray(state, np.float64).sum())
    return migration_cost(state, before, after) / total if total > 0 else 0.0


def relative_migration(cost: float, total_state: float, channels_before: int, channels: int) -> float:
    """Return the migration cost over what an ideal resize would move (m of Gedik).

    Ideal is ``total * |N' - N| / max(N, N')``: for one channel more, total/N' as in the paper; with the number of
    channels unchanged, one channel's share.

    >>> round(relative_migration(7, 22, channels_before=2, channels=3), 6)
    0.954545
    """
    steps = max(1, abs(channels - channels_before))
    ideal = total_state * steps / max(channels, channels_before)
    return cost / ideal if ideal > 0 else 0.0


def final_imbalance_fraction(loads: ArrayLike) -> float:
    """Return the imbalance at the end of a run over its messages (F_end; Table 2 of Partial Key Grouping).

    >>> final_imbalance_fraction([2, 2, 2, 2, 3]) * 11
    0.7999999999999998
    """
    column, mean = _loads(loads)
    return imbalance(column) / float(column.sum()) if mean > 0 else 0.0


def average_imbalance_fraction(loads_over_time: ArrayLike) -> float:
    """Return the imbalance averaged over checkpoints, over the messages of the run (F_avg).

    `loads_over_time` has one row per equally spaced checkpoint, one column per worker, and counts from the start.

    >>> average_imbalance_fraction([[1, 0], [2, 0]])
    0.375
    """
    rows = np.asarray(loads_over_time, np.float64)
    total = rows[-1].sum()
    return float((rows.max(axis=1) - rows.mean(axis=1)).mean() / total) if total > 0 else 0.0


def relative_imbalance_fraction(loads_over_time: ArrayLike) -> float:
    """Return the mean over checkpoints of imbalance over messages so far (F_rel); empty checkpoints are left out.

    >>> relative_imbalance_fraction([[1, 0], [2, 0]])
    0.5
    """
    rows = np.asarray(loads_over_time, np.float64)
    rows = rows[rows.sum(axis=1) > 0]
    return float(((rows.max(axis=1) - rows.mean(axis=1)) / rows.sum(axis=1)).mean()) if len(rows) else 0.0


def agreement(choices: ArrayLike, other_choices: ArrayLike) -> float:
    """Return the share of messages that two schemes send to the same worker.

    >>> agreement([0, 1, 1, 2], [0, 1, 2, 2])
    0.75
    """
    return float(np.mean(np.asarray(choices) == np.asarray(other_choices)))


def jaccard(share_equal: float) -> float:
    """Return the Jaccard overlap of two sets of (message, worker) pairs that agree on `share_equal` of the messages.

    >>> round(jaccard(0.68), 2)
    0.52
    """
    return share_equal / (2 - share_equal)


def utilisation(idle_seconds: ArrayLike, window_seconds: float) -> Column:
    """Return the busy share of a window per channel (u of Flux).

    >>> utilisation([0.0, 2.5], window_seconds=10.0).tolist()
    [1.0, 0.75]
    """
    if window_seconds <= 0:
        raise ArgumentError("a window must last longer than 0 seconds", got=window_seconds)
    return 1.0 - np.asarray(idle_seconds, np.float64) / window_seconds


def excess_memory(budget_bytes: ArrayLike, held_bytes: ArrayLike) -> Column:
    """Return the memory left per channel (E of Flux), negative where a channel spills.

    >>> excess_memory([512, 1000], [768, 768]).tolist()
    [-256.0, 232.0]
    """
    return np.asarray(budget_bytes, np.float64) - np.asarray(held_bytes, np.float64)


def estimation_error(true_loads: ArrayLike, estimated_loads: ArrayLike) -> Column:
    """Return the distance from true loads over true loads, per channel (Fang et al.); 0 where both are 0.

    >>> estimation_error([10.0, 0.0], [9.0, 0.0]).tolist()
    [0.1, 0.0]
    """
    true = np.asarray(true_loads, np.float64)
    gap = np.abs(true - np.asarray(estimated_loads, np.float64))
    return np.divide(gap, true, out=np.where(gap > 0, np.inf, 0.0), where=true > 0)


def _loads(loads: ArrayLike) -> tuple[Column, float]:
    column = np.asarray(loads, np.float64)
    if column.ndim != 1 or not len(column):
        raise ArgumentError("loads need one number per channel", got=np.shape(column))
    return column, float(column.mean())
