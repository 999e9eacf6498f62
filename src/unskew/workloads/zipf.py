"""Zipf's law: the usual model of skewed keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.workloads.base import Keyed, exponent_option, keys_option
from unskew.workloads.power_law import PowerLaw, power_law
from unskew.workloads.span import KEYS, Span


@dataclass(frozen=True, kw_only=True)
class Zipf(Keyed, name="zipf"):
    """Keys by Zipf's law: key k has probability proportional to (k + 1) ** -exponent.

    Key 0 is the hottest. A draw takes O(1), and the tables stay under a megabyte, however many keys there are.

    Source: Nasir et al., Partial Key Grouping, Table 1 (ZF); Fang et al., section V.

    >>> zipf = Zipf(exponent=1.2, key_count=1_000_000, seed=7)
    >>> zipf.keys(interval=0, n=6).tolist()
    [619, 0, 33, 3008, 193, 0]
    >>> float(zipf.probabilities()[0].round(3))
    0.19
    >>> zipf.rows(interval=2, n=2).select(["key", "event_time", "value"]).to_pylist()[0]["event_time"].isoformat()
    '2024-01-01T00:00:20+00:00'
    """

    exponent: float = exponent_option(1.0)  # 0 is uniform, 1 is words of a language, 2 gives the first key 61 %
    key_count: int = keys_option(100_000)  # how many keys there are

    @property
    def law(self) -> PowerLaw:
        return power_law(self.exponent, self.key_count)

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        return self.law.probabilities()

    def draw(self, span: Span) -> NDArray[np.int64]:
        return self.law.quantile(span.uniforms(self.seed, KEYS))
