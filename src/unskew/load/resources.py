"""How much of a resource a key takes, as a function of its share of the tuples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.errors import ArgumentError

Column = NDArray[np.float64]

_SAMPLES = np.concatenate([[0.0], np.geomspace(1e-12, 1.0, 121)])


@dataclass(frozen=True)
class ResourceFunction:
    """The load that a key with a given share of the tuples puts on a resource (beta_k in Gedik).

    `constant`, `linear` and `quadratic` are ready made: a fixed-size aggregate per key, a window of fixed length, and a
    join of such a window with itself. You can write another one for your operator.

    Parameters
    ----------
    name
        The name in messages.
    function
        Takes an array of shares in 0..1 and returns an array of loads of the same length: finite, not negative,
        and never falling as the share grows.
    inverse
        The share at which the load reaches a given value, if there is a formula; otherwise it is found by bisection.

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
        function = f"resource function {self.name!r}"
        if loads.shape != _SAMPLES.shape:
            raise ArgumentError(f"{function} must return one load per share", got=loads.shape, hint="use numpy")
        if not (np.isfinite(loads).all() and (loads >= 0).all()):
            raise ArgumentError(f"{function} must be finite and not negative on 0..1")
        falls = np.flatnonzero(np.diff(loads) < -1e-12 * np.abs(loads[1:]))
        if len(falls):
            where = f"share {_SAMPLES[falls[0] + 1]:.3g}"
            raise ArgumentError(f"{function} must not fall as the share grows", where=where)

    def __call__(self, share: ArrayLike) -> Column:
        return np.asarray(self.function(np.asarray(share, np.float64)), np.float64)

    @cached_property
    def is_constant(self) -> bool:
        """Tell whether every key takes the same, so that moving hot keys cannot balance it."""
        ends = self([0.0, 1.0])
        return bool(ends[0] == ends[1])

    def largest_share_within(self, load: float) -> float:
        """Return the greatest share in 0..1 of a key whose load is at most `load`; 1 if the function is constant."""
        if self.is_constant:
            return 1.0
        if self.inverse is not None:
            return min(1.0, float(self.inverse(load)))
        lowest, highest = self([0.0, 1.0])
        if load >= highest:
            return 1.0
        if load <= lowest:
            return 0.0
        low, high = 0.0, 1.0
        while low < (middle := (low + high) / 2) < high:
            low, high = (middle, high) if self([middle])[0] <= load else (low, middle)
        return low

    def least_total(self, keys: float) -> float:
        """Return the least total load that `keys` keys can have, whatever their shares.

        A convex function has it at even shares, a concave one with everything on one key.
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
        """Return the function multiplied by the share, as Eq. 3 of Gedik is printed for computation."""
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

    >>> resource_function("quadratic")([0.5]).tolist()
    [0.25]
    """
    if isinstance(choice, ResourceFunction):
        return choice
    if not isinstance(choice, str) or choice not in _BY_NAME:
        hint = f"one of {', '.join(_BY_NAME)}, or a ResourceFunction"
        raise ArgumentError("there is no resource function of that name", got=choice, hint=hint)
    return _BY_NAME[choice]
