"""How much of a resource a key takes, as a function of its share of the tuples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from unskew.errors import ArgumentError

Column = NDArray[np.float64]

_SAMPLES = np.concatenate([[0.0], np.geomspace(1e-12, 1.0, 121)])


@dataclass(frozen=True)
class ResourceFunction:
    """Load that a key with a given share of the tuples puts on a resource (beta_k in Gedik).

    `constant`, `linear` and `quadratic` are ready made: a fixed-size aggregate per key, a window of fixed length, a
    join of such a window with itself. Write another one for an operator of yours.

    Parameters
    ----------
    name
        What it is called in messages.
    function
        Takes an array of shares in 0..1 and returns an array of loads of the same length: finite, not negative,
        and never falling as the share grows.
    inverse
        The share at which the load reaches a given value, where a formula exists; else it is found numerically.

    References
    ----------
    Gedik, section 3.1 (resource functions) and section 4.1.3 (threshold).

    Examples
    --------
    >>> n_log_n = ResourceFunction("sorting", lambda share: share * np.log2(1 + 1e6 * share))
    >>> n_log_n([0.0, 0.5]).round(3).tolist(), n_log_n.is_constant
    ([0.0, 9.466], False)
    >>> round(n_log_n.largest_share_within(9.466), 3)
    0.5
    """

    name: str
    function: Callable[[Column], Column]
    inverse: Callable[[float], float] | None = None

    def __post_init__(self) -> None:
        loads = self(_SAMPLES)
        if loads.shape != _SAMPLES.shape:
            raise ArgumentError(
                f"resource function {self.name!r} must return one load per share", got=loads.shape, hint="use numpy"
            )
        if not (np.isfinite(loads).all() and (loads >= 0).all()):
            raise ArgumentError(f"resource function {self.name!r} must be finite and not negative on 0..1")
        falls = np.flatnonzero(np.diff(loads) < -1e-12 * np.abs(loads[1:]))
        if len(falls):
            raise ArgumentError(
                f"resource function {self.name!r} must not fall as the share grows",
                where=f"share {_SAMPLES[falls[0] + 1]:.3g}",
            )

    def __call__(self, share: ArrayLike) -> Column:
        """Return the load of keys with these shares of the tuples."""
        return np.asarray(self.function(np.asarray(share, np.float64)), np.float64)

    @cached_property
    def is_constant(self) -> bool:
        """Whether every key takes the same, so that no choice of channel for hot keys can balance it."""
        ends = self([0.0, 1.0])
        return bool(ends[0] == ends[1])

    def largest_share_within(self, load: float) -> float:
        """Return the greatest share in 0..1 of a key whose load is at most `load`.

        A constant function answers 1: it never asks for a key to be tracked.
        """
        if self.is_constant:
            return 1.0
        if self.inverse is not None:
            return min(1.0, float(self.inverse(load)))
        lowest, highest = self([0.0, 1.0])
        if load >= highest:
            return 1.0
        if load <= lowest:
            return 0.0
        return float(brentq(lambda share: float(self([share])[0]) - load, 0.0, 1.0, xtol=1e-15, rtol=1e-12))

    def least_total(self, keys: float) -> float:
        """Return the least total load that `keys` keys can have, whatever their shares.

        Even shares give it if the function is convex, everything on one key if it is concave; the smaller of both
        is taken.
        """
        if self == LINEAR:
            return 1.0
        even, alone, silent = self([1.0 / keys, 1.0, 0.0])
        return float(min(keys * even, alone + (keys - 1.0) * silent))

    def estimated_total(self, known_shares: Column, keys: float) -> float:
        """Return the total load of `keys` keys if those not among `known_shares` share the rest evenly."""
        if self == LINEAR:
            return 1.0
        others = keys - len(known_shares)
        total = float(self(known_shares).sum())
        if others > 0:
            rest = max(0.0, 1.0 - float(known_shares.sum()))
            total += others * float(self([rest / others])[0])
        return total

    def times_share(self) -> ResourceFunction:
        """Return the function multiplied by the share itself, as the printed Eq. 3 of Gedik has it for computation."""
        if self.is_constant and self([0.0])[0] == 1.0:
            return LINEAR
        if self == LINEAR:
            return QUADRATIC
        return ResourceFunction(f"share x {self.name}", lambda share: share * self(share))


CONSTANT = ResourceFunction("constant", np.ones_like)
LINEAR = ResourceFunction("linear", np.positive, np.positive)
QUADRATIC = ResourceFunction("quadratic", np.square, np.sqrt)

_BY_NAME = {function.name: function for function in (CONSTANT, LINEAR, QUADRATIC)}


def resource_function(choice: str | ResourceFunction) -> ResourceFunction:
    """Return the resource function of that name; a `ResourceFunction` passes through.

    Examples
    --------
    >>> resource_function("quadratic")([0.5]).tolist()
    [0.25]
    """
    if isinstance(choice, ResourceFunction):
        return choice
    if choice not in _BY_NAME:
        raise ArgumentError(
            "there is no resource function of that name",
            got=choice,
            hint=f"one of {', '.join(_BY_NAME)}, or a ResourceFunction",
        )
    return _BY_NAME[choice]
