"""Zipf's law: the usual model of skewed keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.workloads.base import Seeded, keys_option
from unskew.workloads.power_law import power_law
from unskew.workloads.span import KEYS, Span


@dataclass(frozen=True, kw_only=True)
class Zipf(Seeded, name="zipf"):
    """Keys by Zipf's law: key k has probability proportional to (k + 1) ** -exponent.

    Key 0 is the hottest. O(1) a draw and under a megabyte of tables, however many keys there are.

    Parameters
    ----------
    exponent
        0 is uniform, 1 is words of a language, 2 gives the first key 61 %.
    key_count
        How many keys there are.

    Examples
    --------
    >>> zipf = Zipf(exponent=1.2, key_count=1_000_000, seed=7)
    >>> zipf.keys(interval=0, n=6).tolist()
    [619, 0, 33, 3008, 193, 0]
    >>> float(zipf.probabilities()[0].round(3))
    0.19
    >>> zipf.rows(interval=2, n=2).select(["key", "event_time", "value"]).to_pylist()[0]["event_time"].isoformat()
    '2024-01-01T00:00:20+00:00'

    References
    ----------
    Nasir et al., Partial Key Grouping, Table 1 (ZF); Fang et al., section V.
    """

    exponent: float = 1.0
    key_count: int = keys_option(100_000)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("exponent", self.exponent, 0 <= self.exponent < 100, "0 or more")
        self.check("keys", self.key_count, self.key_count > 0, "above 0")

    @property
    def domain(self) -> int:
        """The number of keys."""
        return self.key_count

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        """Return Zipf's law, the same in every interval."""
        return power_law(self.exponent, self.key_count).probabilities()

    def draw(self, span: Span) -> NDArray[np.int64]:
        """Return ranks, drawn by inversion."""
        return power_law(self.exponent, self.key_count).quantile(span.uniforms(self.seed, KEYS))
