"""Key grouping and shuffle grouping, the two extremes: a key has one channel, or all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unskew.splitters.base import Routed, Splitter
from unskew.splitters.choices import Hashes, Loads, candidates


@dataclass(frozen=True, kw_only=True)
class KeyGrouping(Splitter):
    """Sends every tuple of a key to one channel, the key's first choice (KG, or H, in Partial Key Grouping, section 2).

    Sources need to know nothing. One channel carries all tuples of the hottest key.

    Examples
    --------
    >>> routed = KeyGrouping().route(np.array([1, 2, 1, 1]), loads=np.zeros(10))
    >>> routed.channels.tolist(), routed.loads.tolist()
    ([7, 2, 7, 7], [0, 0, 1, 0, 0, 0, 0, 3, 0, 0])
    """

    name: ClassVar[str] = "key"
    summary: ClassVar[str] = "key grouping: a hash decides, a key has one channel"
    estimates_load: ClassVar[bool] = False

    def _route(self, hashes: Hashes, loads: Loads, memory: Any) -> Routed:
        channels = candidates(hashes, len(loads), 1, seed=self.seed)[:, 0]
        return Routed(channels, loads + np.bincount(channels, minlength=len(loads)))


@dataclass(frozen=True, kw_only=True)
class ShuffleGrouping(Splitter):
    """Deals tuples out to the channels in turn, each source for itself (SG in Partial Key Grouping, section 2).

    The channels of one source never differ by more than one tuple. A key may live on all channels, with state up to as
    many times larger. Whose turn it is follows from how many tuples the source has sent: the sum of its loads.

    Examples
    --------
    >>> ShuffleGrouping().route(np.array([7, 7, 7, 7]), loads=[1, 0, 0]).channels.tolist()
    [1, 2, 0, 1]
    """

    name: ClassVar[str] = "shuffle"
    summary: ClassVar[str] = "shuffle grouping: channels in turn, a key lives everywhere"
    estimates_load: ClassVar[bool] = False

    def most_channels(self, workers: int) -> int:
        return workers

    def _route(self, hashes: Hashes, loads: Loads, memory: Any) -> Routed:
        sent = int(loads.sum())
        channels = ((sent + np.arange(len(hashes))) % len(loads)).astype(np.int32)
        return Routed(channels, loads + np.bincount(channels, minlength=len(loads)))
