"""Lognormal keys, among them the two of Partial Key Grouping."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from unskew.workloads.base import Seeded
from unskew.workloads.span import KEYS, Span

NEGLIGIBLE = 1e-7


@dataclass(frozen=True, kw_only=True)
class LogNormal(Seeded, name="lognormal"):
    """Keys that are rounded lognormal numbers.

    Rounding to the nearest is the recipe that gives the published number of keys and share of the top key.
    There is no largest key.

    Parameters
    ----------
    mu, sigma
        Mean and standard deviation of the number's logarithm.

    Examples
    --------
    >>> skewed = LogNormal(mu=1.789, sigma=2.366)
    >>> round(float(skewed.probabilities().max()), 4)
    0.1471
    >>> skewed.keys(interval=0, n=6).tolist()
    [251, 2, 24, 0, 4, 15]

    References
    ----------
    Nasir et al., Partial Key Grouping, Table 1 (LN1, LN2).
    """

    mu: float = 1.789
    sigma: float = 2.366

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("sigma", self.sigma, self.sigma > 0, "above 0")

    def draw(self, span: Span) -> NDArray[np.int64]:
        """Return rounded draws, by inversion of the normal law."""
        with np.errstate(divide="ignore"):
            numbers = np.exp(self.mu + self.sigma * ndtri(span.uniforms(self.seed, KEYS)))
        return np.rint(numbers).astype(np.int64)

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        """Return the probabilities of keys 0, 1, ... up to the one beyond which lies less than 1e-7."""
        largest = int(np.exp(self.mu + self.sigma * ndtri(1 - NEGLIGIBLE))) + 1
        upper_edges = np.arange(largest + 1) + 0.5
        return np.diff(ndtr((np.log(upper_edges) - self.mu) / self.sigma), prepend=0.0)


@dataclass(frozen=True, kw_only=True)
class LN1(LogNormal, name="ln1"):
    """Partial Key Grouping's LN1: 10 million messages have 16 thousand keys, the top one 14.71 %.

    Examples
    --------
    >>> LN1().mu, LN1().sigma
    (1.789, 2.366)
    """


@dataclass(frozen=True, kw_only=True)
class LN2(LogNormal, name="ln2"):
    """Partial Key Grouping's LN2: 10 million messages have 1.1 thousand keys, the top one 7.01 %.

    Examples
    --------
    >>> round(float(LN2().probabilities().max()), 4)
    0.0701
    """

    mu: float = 2.245
    sigma: float = 1.133
