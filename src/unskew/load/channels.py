"""How busy the channels were, and how much memory they have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.errors import StatisticsError, require_fields
from unskew.load.statistics import checked_column, floats

Column = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ChannelUse:
    """How busy the channels were in an interval, and their memory. What was not measured is None.

    >>> ChannelUse(window_seconds=10.0, idle_seconds=[0.0, 2.5]).utilisation.tolist()
    [1.0, 0.75]
    """

    window_seconds: float  # length of the interval
    idle_seconds: Column | None = None  # per channel: time spent waiting for rows
    memory_bytes: Column | None = None  # per channel: memory that it may use for state
    spilled: NDArray[np.bool_] | None = None  # per slot: whether its state is on disk for lack of memory
    move_seconds: float = 0.0  # the last plan's moves, from the decision to the last installation
    lag_tuples: Column | None = None  # per channel: rows that wait for it at the end of the interval

    def __post_init__(self) -> None:
        require_fields(self)
        if not self.window_seconds > 0:
            raise StatisticsError("a window must last longer than 0 seconds", got=self.window_seconds)
        if not self.move_seconds >= 0:
            raise StatisticsError("moves cannot take negative time", got=self.move_seconds)
        for name in ("idle_seconds", "memory_bytes", "lag_tuples"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, checked_column(given, len(floats(given, name)), name))
        if self.spilled is not None:
            object.__setattr__(self, "spilled", np.atleast_1d(np.asarray(self.spilled, bool)))

    @property
    def utilisation(self) -> Column | None:
        """The busy share of the window per channel, never below 0; None if idle time was not measured."""
        if self.idle_seconds is None:
            return None
        return np.maximum(1.0 - self.idle_seconds / self.window_seconds, 0.0)
