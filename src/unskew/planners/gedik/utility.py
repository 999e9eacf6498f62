"""How balance and migration weigh against each other: five utilities, lower is better."""

from __future__ import annotations

import math

from numba import njit

UTILITIES = ("a", "apm", "aplm", "atm", "atlm")
"""Balance alone; plus migration; plus its logarithm; times migration; times its logarithm."""


@njit(cache=True)
def utility(kind: int, balance_penalty: float, migration_penalty: float) -> float:
    """Return the utility of a table, `kind` being its position in `UTILITIES` (U of rho and gamma in Gedik).

    References
    ----------
    Gedik, section 4.3.

    Examples
    --------
    >>> [round(utility(kind, 1.245018, 1.363636), 4) for kind in range(5)]
    [1.245, 2.6087, 2.1052, 2.9428, 2.316]
    """
    if kind == 0:
        return balance_penalty
    if kind == 1:
        return balance_penalty + migration_penalty
    if kind == 2:
        return balance_penalty + math.log(1.0 + migration_penalty)
    if kind == 3:
        return balance_penalty * (1.0 + migration_penalty)
    return balance_penalty * (1.0 + math.log(1.0 + migration_penalty))
