"""How busy the channels were, and how much memory they have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.errors import StatisticsError
from unskew.load.statistics import checked_column

Column = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ChannelUse:
    """What an interval took of the channels themselves. Whatever was not measured is None.

    Parameters
    ----------
    window_seconds
        Length of the interval.
    idle_seconds
        Per channel: time of the interval in which it waited for rows.
    memory_bytes
        Per channel: memory that it may use for state.
    spilled
        Per slot: whether its state lies on disk because its channel's memory did not suffice.
    move_seconds
        How long the moves of the last plan took, from the decision to the last installation.
    lag_tuples
        Per channel: rows that wait for it at the end of the interval.

    Examples
    --------
    >>> ChannelUse(window_seconds=10.0, idle_seconds=[0.0, 2.5]).utilisation.tolist()
    [1.0, 0.75]
    """

    window_seconds: float
    idle_seconds: Column | None = None
    memory_bytes: Column | None = None
    spilled: NDArray[np.bool_] | None = None
    move_seconds: float = 0.0
    lag_tuples: Column | None = None

    def __post_init__(self) -> None:
        if not self.window_seconds > 0:
            raise StatisticsError("a window must last longer than 0 seconds", got=self.window_seconds)
        if not self.move_seconds >= 0:
            raise StatisticsError("moves take no negative time", got=self.move_seconds)
        for name in ("idle_seconds", "memory_bytes", "lag_tuples"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, checked_column(given, len(given), name))
        if self.spilled is not None:
            object.__setattr__(self, "spilled", np.asarray(self.spilled, bool))

    @property
    def utilisation(self) -> Column | None:
        """Busy share of the window per channel, never below 0; None where idle time was not measured."""
        if self.idle_seconds is None:
            return None
        return np.maximum(1.0 - self.idle_seconds / self.window_seconds, 0.0)
