"""Lognormal keys, among them the two of Partial Key Grouping."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.workloads.base import Seeded, option
from unskew.workloads.normal import normal_cdf, normal_quantile
from unskew.workloads.span import KEYS, Span

NEGLIGIBLE = 1e-7


@dataclass(frozen=True, kw_only=True)
class LogNormal(Seeded, name="lognormal"):
    """Keys that are rounded lognormal numbers.

    Rounding to the nearest integer reproduces the published number of keys and share of the top key.
    There is no largest key.

    Source: Nasir et al., Partial Key Grouping, Table 1 (LN1, LN2).

    >>> skewed = LogNormal(mu=1.789, sigma=2.366)
    >>> round(float(skewed.probabilities().max()), 4)
    0.1471
    >>> skewed.keys(interval=0, n=6).tolist()
    [251, 2, 24, 0, 4, 15]
    """

    mu: float = 1.789  # mean of the logarithm
    sigma: float = option(2.366, above=0)  # standard deviation of the logarithm

    def draw(self, span: Span) -> NDArray[np.int64]:
        numbers = np.exp(self.mu + self.sigma * normal_quantile(span.uniforms(self.seed, KEYS)))
        return np.rint(numbers).astype(np.int64)

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        """Return the probabilities of keys 0, 1, ... up to the one beyond which lies less than 1e-7."""
        (last,) = normal_quantile(np.array([1 - NEGLIGIBLE]))
        largest = int(np.exp(self.mu + self.sigma * last)) + 1
        upper_edges = np.arange(largest + 1) + 0.5
        return np.diff(normal_cdf((np.log(upper_edges) - self.mu) / self.sigma), prepend=0.0)


@dataclass(frozen=True, kw_only=True)
class LN1(LogNormal, name="ln1"):
    """Partial Key Grouping's LN1: 10 million messages have 16 thousand keys, the top one 14.71 %."""


@dataclass(frozen=True, kw_only=True)
class LN2(LogNormal, name="ln2"):
    """Partial Key Grouping's LN2: 10 million messages have 1.1 thousand keys, the top one 7.01 %."""

    mu: float = 2.245
    sigma: float = option(1.133, above=0)
