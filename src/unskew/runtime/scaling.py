"""How many channels a query needs, judged by how long its batches take beside the time between two of them."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from unskew.errors import ArgumentError

GROW_ABOVE, SHRINK_BELOW = 0.9, 0.35  # busy shares of the trigger's interval beyond which to act
BATCHES = 3  # batches looked at; their median counts


class Scaling:
    """Grows when batches outlast the trigger and shrinks when they idle; between the two limits it does nothing.

    The work of a batch is taken to spread over the channels: n channels that are busy for a share u of the trigger's
    interval would be busy for ``u * n / m`` as m channels. A change aims at the middle between the limits. The next
    change waits for `BATCHES` more batches, so that each change is judged by its effect.

    >>> scaling = Scaling(trigger_seconds=10.0, max_channels=16)
    >>> [scaling.after_batch(4, seconds) for seconds in (11.0, 12.0, 14.0)]
    [None, None, 8]
    >>> [scaling.after_batch(8, seconds) for seconds in (6.0, 7.0, 6.0, 1.0, 1.0, 1.0)]
    [None, None, None, None, 2, None]
    """

    def __init__(self, trigger_seconds: float, max_channels: int) -> None:
        if not trigger_seconds > 0:
            raise ArgumentError(
                'channels="auto" needs a trigger with an interval', hint='trigger(processingTime="10 seconds")'
            )
        self._trigger_seconds, self._max_channels = trigger_seconds, max_channels
        self._shares: deque[float] = deque(maxlen=BATCHES)

    def after_batch(self, channels: int, seconds: float) -> int | None:
        """Take in how long a batch took; return how many channels there should be, None for no change."""
        self._shares.append(seconds / self._trigger_seconds)
        share = median(self._shares)
        if len(self._shares) < BATCHES or SHRINK_BELOW <= share <= GROW_ABOVE:
            return None
        middle = (GROW_ABOVE + SHRINK_BELOW) / 2
        wanted = min(max(1, math.ceil(channels * share / middle)), self._max_channels)
        if wanted == channels:
            return None
        self._shares.clear()
        return wanted
