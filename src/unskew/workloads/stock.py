"""A stand-in for Fang's Stock data: transactions of few ids, with abrupt bursts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unskew.workloads.base import exponent_option, keys_option, option
from unskew.workloads.drifting_names import MOST_KEYS, DriftingNames
from unskew.workloads.power_law import power_law
from unskew.workloads.span import DRIFT, uniforms


@dataclass(frozen=True, kw_only=True)
class Stock(DriftingNames, name="stock"):
    """Stock transactions: 1,036 ids by Zipf's law, a few of which burst at once and calm down as fast.

    Every interval some ids start a burst: from one interval to the next they gain up to `burst_share` of the
    undisturbed load. An interval is a day; the original has two million rows a day. The paper publishes the number of
    ids and that changes are abrupt. We chose exponent and bursts so that no id outweighs one of 15 channels.

    Source: Fang et al., section V.A.

    >>> stock = Stock()
    >>> stock.rows(interval=0, n=4)["key"].to_pylist()
    ['stock-0952', 'stock-0090', 'stock-0595', 'stock-0013']
    >>> before, after = stock.probabilities(0), stock.probabilities(1)
    >>> float(np.abs(before - after).max()) > 0.02
    True
    """

    prefix: ClassVar[str] = "stock-"
    digits: ClassVar[int] = 4

    exponent: float = exponent_option(0.6)  # Zipf's law of the calm ids
    key_count: int = keys_option(1_036, above=0, at_most=MOST_KEYS)
    bursts: int = option(3, at_least=0)  # how many start in every interval
    burst_share: float = option(0.05, at_least=0)  # a burst adds a fifth of it to all of it, as a part of the calm load
    lasts_intervals: int = option(2, above=0)  # the longest burst

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        weights = power_law(self.exponent, self.key_count).probabilities()
        for start in range(max(0, interval - self.lasts_intervals + 1), interval + 1):
            which, strength, length = uniforms(self.seed, start, DRIFT, 3 * self.bursts).reshape(3, -1)
            on = interval - start < 1 + np.floor(length * self.lasts_intervals)
            added = self.burst_share * (0.2 + 0.8 * strength)
            np.add.at(weights, (which * self.key_count).astype(np.int64)[on], added[on])
        law: NDArray[np.float64] = weights / weights.sum()
        return law
