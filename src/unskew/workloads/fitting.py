"""Fits Zipf's law to what is published about a data set."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.workloads.power_law import HEAD, PowerLaw, power_sum

NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(96)
MOST_EXPONENT = 20.0


@dataclass(frozen=True)
class Fit:
    """Zipf's law over `universe` keys."""

    universe: int
    exponent: float


@lru_cache(maxsize=32)
def fit(messages: int, distinct_keys: int, top_share: float) -> Fit:
    """Return the Zipf law whose `messages` draws are expected to meet `distinct_keys`, the first with `top_share`.

    The exponent z solves ``top_share = 1 / H(U, z)`` for each universe U, and U is the one where the expected number of
    distinct keys, the sum of ``1 - (1 - p) ** messages``, is right. Takes about a tenth of a second, once per process.

    Examples
    --------
    >>> slashdot = fit(messages=905_000, distinct_keys=77_000, top_share=0.0328)
    >>> round(slashdot.universe, -2), round(slashdot.exponent, 3)
    (80200, 0.849)

    References
    ----------
    Nasir et al., Partial Key Grouping, Table 1.
    """
    figures = {"messages": messages, "keys": distinct_keys, "top_share": top_share}
    if not (0 < distinct_keys <= messages and 1 / distinct_keys <= top_share < 1):
        hint = "there are at least as many messages as keys, and no key has less than the top one"
        raise ArgumentError("no Zipf law has these figures", got=figures, hint=hint)

    def missing(log_universe: float) -> float:
        universe = round(math.exp(log_universe))
        law = PowerLaw(solve_exponent(universe, top_share), universe)
        return math.log(expected_distinct(law, messages) / distinct_keys)

    low, high = math.log(distinct_keys), math.log(distinct_keys) + math.log(1e4)
    if missing(high) < 0:
        raise ArgumentError("no Zipf law has these figures", got=figures, hint="give fewer keys or a smaller top share")
    universe = round(math.exp(brent_root(missing, low, high, tolerance=1e-7)))
    return Fit(universe, solve_exponent(universe, top_share))


def solve_exponent(universe: int, top_share: float) -> float:
    """Return the exponent at which the first of `universe` keys has `top_share`."""
    return brent_root(lambda exponent: 1 / power_sum(exponent, universe) - top_share, 0.0, MOST_EXPONENT, 1e-9)


def expected_distinct(law: PowerLaw, messages: int) -> float:
    """Return how many keys `messages` draws are expected to meet.

    Exact over the tabulated head, Gauss-Legendre over the logarithm of the rank beyond it.
    """
    found = float(np.sum(_chance_seen(law.weights(0, min(law.keys, HEAD)) / law.total, messages)))
    if law.keys > HEAD:
        low, high = math.log(law.offset + HEAD - 0.5), math.log(law.offset + law.keys - 0.5)
        places = np.exp((high + low) / 2 + (high - low) / 2 * NODES)
        seen = _chance_seen(places**-law.exponent / law.total, messages)
        found += float(np.dot(NODE_WEIGHTS, seen * places) * (high - low) / 2)
    return found


def brent_root(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Return where `function` crosses zero between `low` and `high`, by Brent's method, step by step as SciPy's brentq.

    Fitted exponents, and so all streams of stand-ins, depend on the last digits: the steps must stay as they are.
    """
    before, now = low, high
    f_before, f_now = function(before), function(now)
    if f_before == 0:
        return before
    if f_now != 0 and (f_before < 0) == (f_now < 0):
        raise ArgumentError("the function has the same sign at both ends", got=(f_before, f_now))
    other, f_other, step, last_step = before, f_before, now - before, now - before
    while True:
        if f_before != 0 and f_now != 0 and (f_before < 0) != (f_now < 0):
            other, f_other = before, f_before
            last_step = step = now - before
        if abs(f_other) < abs(f_now):
            before, now, other = now, other, now
            f_before, f_now, f_other = f_now, f_other, f_now
        smallest = (tolerance + 4 * np.finfo(float).eps * abs(now)) / 2
        half = (other - now) / 2
        if f_now == 0 or abs(half) < smallest:
            return now
        tried = math.inf
        if abs(last_step) > smallest and abs(f_now) < abs(f_before):
            if before == other:
                tried = -f_now * (now - before) / (f_now - f_before)
            else:
                slope, other_slope = (f_before - f_now) / (before - now), (f_other - f_now) / (other - now)
                bend = f_other * other_slope - f_before * slope
                tried = -f_now * bend / (other_slope * slope * (f_other - f_before))
        short = 2 * abs(tried) < min(abs(last_step), 3 * abs(half) - smallest)
        last_step, step = (step, tried) if short else (half, half)
        before, f_before = now, f_now
        now += step if abs(step) > smallest else math.copysign(smallest, half)
        f_now = function(now)


def _chance_seen(probabilities: NDArray[np.float64], messages: int) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        missed: NDArray[np.float64] = np.log1p(-np.minimum(probabilities, 1.0))
    return -np.expm1(messages * missed)
