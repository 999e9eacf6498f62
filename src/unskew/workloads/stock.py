"""A stand-in for Fang's Stock data: transactions of few ids, with abrupt bursts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unskew.workloads.base import keys_option
from unskew.workloads.drifting_names import DriftingNames
from unskew.workloads.power_law import power_law
from unskew.workloads.span import DRIFT, uniforms


@dataclass(frozen=True, kw_only=True)
class Stock(DriftingNames, name="stock"):
    """Stock transactions: 1,036 ids by Zipf's law, a few of which burst at once and calm down as fast.

    Every interval some ids start a burst: from one interval to the next they gain up to `burst_share` of the
    undisturbed load. An interval is a day; the original has two million rows a day. The paper publishes the number of
    ids and that changes are abrupt; exponent and bursts are ours, such that no id outweighs one of 15 channels.

    Parameters
    ----------
    exponent, key_count
        Zipf's law of the calm ids.
    bursts
        How many start in every interval.
    burst_share
        The most that one adds, as a part of the calm load; a burst adds between a fifth of it and all of it.
    lasts_intervals
        The longest that one lasts.

    Examples
    --------
    >>> stock = Stock()
    >>> stock.rows(interval=0, n=4)["key"].to_pylist()
    ['stock-0952', 'stock-0090', 'stock-0595', 'stock-0013']
    >>> before, after = stock.probabilities(0), stock.probabilities(1)
    >>> float(np.abs(before - after).max()) > 0.02
    True

    References
    ----------
    Fang et al., section V.A.
    """

    prefix: ClassVar[str] = "stock-"
    digits: ClassVar[int] = 4

    exponent: float = 0.6
    key_count: int = keys_option(1_036)
    bursts: int = 3
    burst_share: float = 0.05
    lasts_intervals: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("bursts", self.bursts, self.bursts >= 0, "0 or more")
        self.check("burst_share", self.burst_share, self.burst_share >= 0, "0 or more")
        self.check("lasts_intervals", self.lasts_intervals, self.lasts_intervals > 0, "above 0")

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        """Return the calm law plus the bursts that are on."""
        weights = power_law(self.exponent, self.key_count).probabilities()
        for start in range(max(0, interval - self.lasts_intervals + 1), interval + 1):
            which, strength, length = uniforms(self.seed, start, DRIFT, 3 * self.bursts).reshape(3, -1)
            on = interval - start < 1 + np.floor(length * self.lasts_intervals)
            added = self.burst_share * (0.2 + 0.8 * strength)
            np.add.at(weights, (which * self.key_count).astype(np.int64)[on], added[on])
        law: NDArray[np.float64] = weights / weights.sum()
        return law
