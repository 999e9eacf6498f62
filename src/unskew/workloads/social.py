"""A stand-in for Fang's Social data: words of a microblog, whose popularity drifts slowly."""

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
class Social(DriftingNames, name="social"):
    """Words of a microblog: 180,000 of them by Zipf's law, each slowly gaining and losing popularity.

    The logarithm of a word's weight swings as a sine with a phase and a period of its own. An interval is a day;
    the original has more than a million rows a day. The paper publishes the number of words and that they drift
    slowly; exponent and swing are ours, such that no word outweighs one of 15 channels, which its results require.

    Parameters
    ----------
    exponent, key_count
        Zipf's law of the weights.
    swing
        Amplitude of the logarithm: 0.5 lets a word's weight vary between 0.6 and 1.6 times its mean.
    period_intervals
        Shortest period; the longest is three times as long.

    Examples
    --------
    >>> social = Social()
    >>> social.rows(interval=0, n=4)["key"].to_pylist()
    ['word-129022', 'word-000515', 'word-029692', 'word-000018']
    >>> today, tomorrow = social.probabilities(0), social.probabilities(1)
    >>> float(np.abs(today - tomorrow).sum() / 2) < 0.1
    True

    References
    ----------
    Fang et al., section V.A.
    """

    prefix: ClassVar[str] = "word-"
    digits: ClassVar[int] = 6

    exponent: float = 0.85
    key_count: int = keys_option(180_000)
    swing: float = 0.5
    period_intervals: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("swing", self.swing, self.swing >= 0, "0 or more")
        self.check("period_intervals", self.period_intervals, self.period_intervals > 0, "above 0")

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        """Return the law of one interval."""
        chance = uniforms(self.seed, 0, DRIFT, 2 * self.key_count).reshape(2, -1)
        period = self.period_intervals * (1 + 2 * chance[0])
        popularity = np.exp(self.swing * np.sin(2 * np.pi * (interval / period + chance[1])))
        weights = power_law(self.exponent, self.key_count).weights(0, self.key_count) * popularity
        law: NDArray[np.float64] = weights / weights.sum()
        return law
