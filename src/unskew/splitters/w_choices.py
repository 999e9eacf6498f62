"""W-Choices: the hottest keys may go everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unskew.splitters.choices import Hashes
from unskew.splitters.heavy import HeavyKeys
from unskew.splitters.split_keys import SplitKeys


@dataclass(frozen=True, kw_only=True)
class WChoices(HeavyKeys):
    """Sends tuples of the head to the least loaded of all channels, those of the tail to the less loaded of two.

    The best balance that splitting can give, at the price of state of each key of the head on every channel; see
    `DChoices` for fewer.

    Parameters
    ----------
    threshold, refresh_tuples, distinct
        See `HeavyKeys`.

    References
    ----------
    Nasir, De Francisci Morales, Kourtellis and Serafini, When two choices are not enough: balancing at scale in
    distributed stream processing, ICDE 2016, section III.

    Examples
    --------
    >>> tuples = np.random.default_rng(seed=0).zipf(1.5, size=100_000)
    >>> loads = WChoices().route(tuples, np.zeros(20)).loads
    >>> bool(loads.max() - loads.mean() < 2)
    True
    """

    name: ClassVar[str] = "w-choices"
    summary: ClassVar[str] = "two choices, and for the hottest keys all channels"

    def most_channels(self, workers: int) -> int:
        """Return the number of workers."""
        return workers

    def split(self, hashes: Hashes, shares: NDArray[np.float64], workers: int) -> SplitKeys:
        """Return all channels for the keys of the head."""
        return SplitKeys.everywhere(hashes, workers)
