"""Whether moving a stream pays when its consumer keeps state for it: inequality (4) and what was meant by it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.errors import ArgumentError

RULES = ("none", "printed", "backlog")


class Costs(NamedTuple):
    """What the rule weighs. A named tuple, so that compiled code can take it whole.

    Parameters
    ----------
    rule
        Position in `RULES`.
    message_seconds
        Time to process a message (t_msg).
    accumulation_seconds
        For how long messages pile up (tau), where backlogs are not measured.
    lag
        Messages waiting per channel; empty where not measured.
    """

    rule: int
    message_seconds: float
    accumulation_seconds: float
    lag: NDArray[np.float64]


@njit(cache=True, error_model="numpy")
def kernel_worth_moving(
    costs: Costs, move_seconds: float, rate: float, source_rate: float, target_rate: float, source: int, target: int
) -> bool:
    """Tell whether a stream should move from channel `source` to `target`; rates are messages per second."""
    if costs.rule == 0:
        return True
    t = costs.message_seconds
    if costs.rule == 1:
        stays = t * (1.0 + (1.0 - rate / source_rate))
        return stays > move_seconds + t * (1.0 + (1.0 - 1.0 / target_rate))
    if len(costs.lag):
        return bool(t * (costs.lag[source] - costs.lag[target]) > move_seconds)
    return move_seconds < t * costs.accumulation_seconds * ((source_rate - rate) - (target_rate - 1.0))


def worth_moving(
    rule: str,
    *,
    message_seconds: float,
    move_seconds: float,
    rate: float = 1.0,
    source_rate: float = 1.0,
    target_rate: float = 1.0,
    accumulation_seconds: float = 1.0,
    source_lag: float | None = None,
    target_lag: float | None = None,
) -> bool:
    """Tell whether moving a stream and its state pays.

    Parameters
    ----------
    rule
        ``"none"``: always. ``"printed"``: the paper's inequality (4) as it stands, which holds for next to no stream,
        because it compares shares of messages where counts are meant. ``"backlog"``: if the messages ahead of the
        stream take longer than on the other channel by more than moving the state takes.
    message_seconds, move_seconds
        Time to process one message (t_msg) and to move the stream's state (t_SM).
    rate, source_rate, target_rate
        Messages per second of the stream, of hot streams where it is, and of hot streams where it would go.
    accumulation_seconds
        For how long messages pile up (tau); for ``"backlog"`` without lags.
    source_lag, target_lag
        Messages waiting on both channels, where measured.

    Examples
    --------
    >>> numbers = dict(message_seconds=50e-6, rate=6000, source_rate=30000, target_rate=12000)
    >>> worth_moving("printed", move_seconds=0, **numbers), worth_moving("backlog", move_seconds=0.6, **numbers)
    (False, True)
    >>> worth_moving("backlog", message_seconds=50e-6, move_seconds=4.9, source_lag=100_000, target_lag=0)
    True

    References
    ----------
    Bhattacharya and Wood, section II, inequality (4).
    """
    lag = np.empty(0) if source_lag is None or target_lag is None else np.array([source_lag, target_lag], np.float64)
    costs = Costs(rule_number(rule), float(message_seconds), float(accumulation_seconds), lag)
    return bool(
        kernel_worth_moving(costs, float(move_seconds), float(rate), float(source_rate), float(target_rate), 0, 1)
    )


def rule_number(rule: str) -> int:
    """Return the rule as compiled code knows it."""
    if rule not in RULES:
        raise ArgumentError("there is no rule of that name", got=rule, hint=f"one of {', '.join(RULES)}")
    return RULES.index(rule)
