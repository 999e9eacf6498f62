"""From which share of the tuples on a key deserves an entry of its own."""

from __future__ import annotations

from collections.abc import Sequence

from unskew.load.resources import ResourceFunction
from unskew.planners.problem import Column


def threshold_before_counting(
    resources: Sequence[ResourceFunction], deviations: Sequence[float], channels: int, keys: float, scale: float = 0.1
) -> float:
    """Return the least share of a key to be tracked, when only the number of keys is known (delta in Gedik).

    A single untracked key may then shift a channel by at most `scale` times the deviation that is tolerated:
    ``beta_k(delta) <= scale * deviation_k * mean load_k`` for each resource k, the mean taken as low as it can be.
    Size a sketch with it: lossy counting with ``epsilon = 0.1 * delta`` finds every such key. Section 4.1.3 of Gedik.

    `deviations` are the tolerated distances of a channel from the mean, over the mean, for each resource (theta in
    Gedik). `scale` is the part of them left to keys that are not tracked (sigma), in 0..1. Constant resources never ask
    for a key to be tracked.

    >>> from unskew.load.resources import CONSTANT, LINEAR, QUADRATIC
    >>> round(threshold_before_counting([LINEAR, CONSTANT], [3 / 17] * 2, channels=10, keys=1e6), 10)
    0.0017647059
    >>> f"{threshold_before_counting([LINEAR, QUADRATIC], [3 / 17] * 2, channels=10, keys=1e6):.6e}"
    '4.200840e-05'
    """
    totals = [resource.least_total(max(keys, 1.0)) for resource in resources]
    return _threshold(resources, deviations, totals, channels, scale)


def threshold_after_counting(
    resources: Sequence[ResourceFunction],
    deviations: Sequence[float],
    shares: Column,
    channels: int,
    keys: float,
    scale: float = 0.1,
) -> float:
    """Return the least share of a key to be tracked, now that the shares of the frequent keys are known.

    The total load of each resource is estimated again: exactly over the keys that `threshold_before_counting` lets in,
    evenly over the others. For resources that are not linear this makes the table much smaller. Section 4.1.3 of Gedik,
    where the print omits that the mean is the estimated total over the number of channels.

    >>> import numpy as np
    >>> from unskew.load.resources import LINEAR, QUADRATIC
    >>> round(threshold_after_counting([QUADRATIC], [1 / 3], np.array([0.5, 0.2]), channels=4, keys=100), 8)
    0.04923738
    """
    first = threshold_before_counting(resources, deviations, channels=channels, keys=keys, scale=scale)
    frequent = shares[shares >= first]
    totals = [resource.estimated_total(frequent, max(keys, 1.0)) for resource in resources]
    return _threshold(resources, deviations, totals, channels, scale)


def _threshold(
    resources: Sequence[ResourceFunction],
    deviations: Sequence[float],
    totals: Sequence[float],
    channels: int,
    scale: float,
) -> float:
    limits = [scale * deviation * total / channels for deviation, total in zip(deviations, totals, strict=True)]
    return min(resource.largest_share_within(limit) for resource, limit in zip(resources, limits, strict=True))
