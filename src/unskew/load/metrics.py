"""Measures of balance and migration from the papers. Loads are arrays with one number per channel, in any unit."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.errors import ArgumentError

Column = NDArray[np.float64]


def overload(loads: ArrayLike) -> float:
    """Return how far the fullest channel is above the mean, max/mean - 1: what `tolerance` limits everywhere."""
    column, mean = _loads(loads)
    return float(column.max() / mean - 1) if mean > 0 else 0.0


def skewness(loads: ArrayLike) -> float:
    """Return max/mean, as Fang et al. plot it."""
    return overload(loads) + 1


def balancing_error(loads: ArrayLike) -> float:
    """Return the sum of all distances from the mean (E_LB of SMALOPS)."""
    column, mean = _loads(loads)
    return float(np.abs(column - mean).sum())


def balance_ratio(loads: ArrayLike) -> float:
    """Return max/min (r of Gedik); infinite if a channel has nothing and another has something."""
    column, mean = _loads(loads)
    if mean <= 0:
        return 1.0
    return float(column.max() / column.min()) if column.min() > 0 else float("inf")


def relative_imbalance(loads: ArrayLike, ratio_allowed: float) -> float:
    """Return the balance ratio over the allowed ratio (b_k of Gedik); at most 1 if the constraint holds."""
    return balance_ratio(loads) / ratio_allowed


def combined_imbalance(relative_imbalances: ArrayLike) -> float:
    """Return the geometric mean of the resources' relative imbalances (b of Gedik), constant resources included."""
    return float(np.exp(np.log(np.asarray(relative_imbalances, np.float64)).mean()))


def ratio_of_tolerance(tolerance: float, channels: int) -> float:
    """Return the max/min ratio that allows the fullest channel the same overload as `tolerance`.

    With one channel at ``1 + tolerance`` times the mean and the others level, the ratio is
    ``(1+t)(N-1)/(N-1-t)``. Infinite where all load on one channel would still be tolerated.
    """
    if tolerance < 0:
        raise ArgumentError("tolerance must not be negative", got=tolerance)
    room = channels - 1 - tolerance
    return (1 + tolerance) * (channels - 1) / room if room > 0 else float("inf")


def tolerated_deviation(ratio_allowed: float, channels: int) -> float:
    """Return how far any channel may be from the mean if max/min stays within the ratio (theta of Gedik).

    The inverse of `ratio_of_tolerance`; 0 for one channel.
    """
    if ratio_allowed < 1:
        raise ArgumentError("a max/min ratio is at least 1", got=ratio_allowed)
    if channels == 1:
        return 0.0
    if np.isinf(ratio_allowed):
        return float(channels - 1)
    return ratio_allowed * channels / (ratio_allowed + channels - 1) - 1


def migration_cost(state: ArrayLike, before: ArrayLike, after: ArrayLike) -> float:
    """Return the state of all keys whose owner differs before and after (M of Gedik and Fang)."""
    moved = np.asarray(before) != np.asarray(after)
    return float(np.asarray(state, np.float64)[moved].sum())


def relative_migration(cost: float, total_state: float, channels_before: int, channels: int) -> float:
    """Return the migration cost over what an ideal resize would move (m of Gedik).

    The ideal is ``total * |N' - N| / max(N, N')``: for one more channel, total/N' as in the paper. If the number of
    channels stays the same, it is one channel's share.
    """
    steps = max(1, abs(channels - channels_before))
    ideal = total_state * steps / max(channels, channels_before)
    return cost / ideal if ideal > 0 else 0.0


def _loads(loads: ArrayLike) -> tuple[Column, float]:
    column = np.asarray(loads, np.float64)
    if column.ndim != 1 or not len(column):
        raise ArgumentError("loads need one number per channel", got=np.shape(column))
    return column, float(column.mean())
