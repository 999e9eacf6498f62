"""The normal law and its inverse over arrays. The inverse is that of the Cephes library and SciPy, to the last bit."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

_TAIL = 0.13533528323661269189  # exp(-2)
# Rational approximations by Moshier: near the middle, and in the tails for x = sqrt(-2 log p) below 8 and above.
# fmt: off
_P0 = (-5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1, 1.39312609387279679503e1,
       -1.23916583867381258016e0)
_Q0 = (1.0, 1.95448858338141759834e0, 4.67627912898881538453e0, 8.63602421390890590575e1, -2.25462687854119370527e2,
       2.00260212380060660359e2, -8.20372256168333339912e1, 1.59056225126211695515e1, -1.18331621121330003142e0)
_P1 = (4.05544892305962419923e0, 3.15251094599893866154e1, 5.71628192246421288162e1, 4.40805073893200834700e1,
       1.46849561928858024014e1, 2.18663306850790267539e0, -1.40256079171354495875e-1, -3.50424626827848203418e-2,
       -8.57456785154685413611e-4)
_Q1 = (1.0, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.13172038254672030440e1, 1.50425385692907503408e1,
       2.50464946208309415979e0, -1.42182922854787788574e-1, -3.80806407691578277194e-2, -9.33259480895457427372e-4)
_P2 = (3.23774891776946035970e0, 6.91522889068984211695e0, 3.93881025292474443415e0, 1.33303460815807542389e0,
       2.01485389549179081538e-1, 1.23716634817820021358e-2, 3.01581553508235416007e-4, 2.65806974686737550832e-6,
       6.23974539184983293730e-9)
_Q2 = (1.0, 6.02427039364742014255e0, 3.67983563856160859403e0, 1.37702099489081330271e0, 2.16236993594496635890e-1,
       1.34204006088543189037e-2, 3.28014464682127739104e-4, 2.89247864745380683936e-6, 6.79019408009981274425e-9)
# fmt: on


@njit(cache=True)
def _polynomial(x, coefficients):  # type: ignore[no-untyped-def]
    value = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


@njit(cache=True)
def _kernel_quantile(probabilities, found):  # type: ignore[no-untyped-def]
    for row in range(probabilities.size):
        p = probabilities[row]
        if p <= 0.0 or p >= 1.0:
            found[row] = -math.inf if p <= 0.0 else math.inf
            continue
        upper = p > 1.0 - _TAIL
        p = 1.0 - p if upper else p
        if p > _TAIL:
            p -= 0.5
            square = p * p
            ratio = square * _polynomial(square, _P0) / _polynomial(square, _Q0)
            found[row] = (p + p * ratio) * 2.50662827463100050242  # sqrt(2 pi)
            continue
        x = math.sqrt(-2.0 * math.log(p))
        z = 1.0 / x
        if x < 8.0:
            correction = z * _polynomial(z, _P1) / _polynomial(z, _Q1)
        else:
            correction = z * _polynomial(z, _P2) / _polynomial(z, _Q2)
        size = x - math.log(x) / x - correction
        found[row] = size if upper else -size


@njit(cache=True)
def _kernel_cdf(numbers, found):  # type: ignore[no-untyped-def]
    for row in range(numbers.size):
        found[row] = 0.5 * math.erfc(-numbers[row] / math.sqrt(2.0))


def normal_quantile(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where the standard normal law reaches each probability; infinite at 0 and 1.

    >>> normal_quantile(np.array([0.0, 0.025, 0.5])).round(3).tolist()
    [-inf, -1.96, 0.0]
    """
    found = np.empty_like(probabilities)
    _kernel_quantile(probabilities, found)
    return found


def normal_cdf(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that a standard normal number is at most each of `numbers`."""
    found = np.empty_like(numbers)
    _kernel_cdf(numbers, found)
    return found
