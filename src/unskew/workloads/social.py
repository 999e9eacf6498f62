"""A stand-in for Fang's Social data: words of a microblog, whose popularity drifts slowly."""

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
class Social(DriftingNames, name="social"):
    """Words of a microblog: 180,000 of them by Zipf's law, each slowly gaining and losing popularity.

    The logarithm of a word's weight swings as a sine with a phase and a period of its own. An interval is a day;
    the original has more than a million rows a day. The paper publishes the number of words and that they drift
    slowly. We chose exponent and swing so that no word outweighs one of 15 channels, which its results require.

    Source: Fang et al., section V.A.

    >>> social = Social()
    >>> social.rows(interval=0, n=4)["key"].to_pylist()
    ['word-129022', 'word-000515', 'word-029692', 'word-000018']
    >>> today, tomorrow = social.probabilities(0), social.probabilities(1)
    >>> float(np.abs(today - tomorrow).sum() / 2) < 0.1
    True
    """

    prefix: ClassVar[str] = "word-"
    digits: ClassVar[int] = 6

    exponent: float = exponent_option(0.85)  # Zipf's law of the weights
    key_count: int = keys_option(180_000, above=0, at_most=MOST_KEYS)
    # amplitude of the logarithm: 0.5 lets a word's weight vary between 0.6 and 1.6 times its mean
    swing: float = option(0.5, at_least=0)
    period_intervals: float = option(10.0, above=0)  # shortest period; the longest is three times as long

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        chance = uniforms(self.seed, 0, DRIFT, 2 * self.key_count).reshape(2, -1)
        period = self.period_intervals * (1 + 2 * chance[0])
        popularity = np.exp(self.swing * np.sin(2 * np.pi * (interval / period + chance[1])))
        weights = power_law(self.exponent, self.key_count).weights(0, self.key_count) * popularity
        law: NDArray[np.float64] = weights / weights.sum()
        return law
