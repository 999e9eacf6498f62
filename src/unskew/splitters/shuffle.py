"""Shuffle grouping: the next channel, whatever the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unskew.splitters.base import Routed, Splitter
from unskew.splitters.choices import Hashes, Loads


@dataclass(frozen=True, kw_only=True)
class ShuffleGrouping(Splitter):
    """Deals tuples out to the channels in turn, each source for itself (SG in the paper).

    The channels of one source never differ by more than one tuple. A key may live on all channels, with state up to as
    many times larger. Whose turn it is follows from how many tuples the source has sent: the sum of its loads.

    References
    ----------
    Nasir et al., Partial Key Grouping, section 2.

    Examples
    --------
    >>> ShuffleGrouping().route(np.array([7, 7, 7, 7]), loads=[1, 0, 0]).channels.tolist()
    [1, 2, 0, 1]
    """

    name: ClassVar[str] = "shuffle"
    summary: ClassVar[str] = "shuffle grouping: channels in turn, a key lives everywhere"
    estimates_load: ClassVar[bool] = False

    def most_channels(self, workers: int) -> int:
        """Return the number of workers."""
        return workers

    def _route(self, hashes: Hashes, loads: Loads, memory: Any) -> Routed:
        sent = int(loads.sum())
        channels = ((sent + np.arange(len(hashes))) % len(loads)).astype(np.int32)
        return Routed(channels, loads + np.bincount(channels, minlength=len(loads)))
