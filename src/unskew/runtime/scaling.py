"""How many channels a query needs, judged by how long its batches take beside the time between two of them."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from statistics import median

from unskew.errors import ArgumentError


@dataclass(eq=False)
class Scaling:
    """Grows when batches outlast the trigger, shrinks when they idle; between the two limits it does nothing.

    The work of a batch is taken to spread over the channels: n channels that are busy for a share u of the trigger's
    interval would be busy for ``u * n / m`` as m channels. A change aims at the middle between the limits, and is
    followed by as many batches without another one as are looked at, so that it is judged by what it brought.

    Parameters
    ----------
    trigger_seconds
        Time between the starts of two batches.
    max_channels
        The most channels there may be.
    grow_above, shrink_below
        Busy shares of the interval beyond which to act.
    batches
        Batches looked at; their median counts.

    Examples
    --------
    >>> scaling = Scaling(trigger_seconds=10.0, max_channels=16)
    >>> [scaling.after_batch(4, seconds) for seconds in (11.0, 12.0, 14.0)]
    [None, None, 8]
    >>> [scaling.after_batch(8, seconds) for seconds in (6.0, 7.0, 6.0, 1.0, 1.0, 1.0)]
    [None, None, None, None, 2, None]
    """

    trigger_seconds: float
    max_channels: int
    grow_above: float = 0.9
    shrink_below: float = 0.35
    batches: int = 3
    _shares: deque[float] = field(init=False)

    def __post_init__(self) -> None:
        if not self.trigger_seconds > 0:
            raise ArgumentError(
                'channels="auto" needs an interval to keep to', hint='trigger(processingTime="10 seconds")'
            )
        self._shares = deque(maxlen=self.batches)

    def after_batch(self, channels: int, seconds: float) -> int | None:
        """Take in how long a batch took with that many channels; return how many there should be, None: no change."""
        self._shares.append(seconds / self.trigger_seconds)
        if len(self._shares) < self.batches:
            return None
        share = median(self._shares)
        if self.shrink_below <= share <= self.grow_above:
            return None
        middle = (self.grow_above + self.shrink_below) / 2
        wanted = min(max(1, math.ceil(channels * share / middle)), self.max_channels)
        if wanted == channels:
            return None
        self._shares.clear()
        return wanted
