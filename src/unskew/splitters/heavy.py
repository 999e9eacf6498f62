"""Schemes that give more than two choices to the hottest keys only, and find these as they go."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.errors import ArgumentError, StatisticsError
from unskew.sketches import SpaceSaving
from unskew.sketches.base import Column, hash_column
from unskew.splitters.base import Routed, Splitter, own_loads
from unskew.splitters.choices import Channels, Hashes, Loads, salts
from unskew.splitters.split_keys import SplitKeys

TUPLES_TO_BELIEVE = 10
ENTRIES_PER_HEAD_KEY = 10


@dataclass(frozen=True, eq=False)
class Watch:
    """What a source knows about its hottest keys."""

    sketch: SpaceSaving  # counts of the source's tuples
    head: SplitKeys  # the keys that were hot when the source last looked, with their candidates
    look_at: int  # after how many tuples it looks again


@dataclass(frozen=True, kw_only=True)
class HeavyKeys(Splitter):
    """Keys of the *head*, those above a threshold, get more choices; all others, the *tail*, keep two.

    Every source counts its tuples with `SpaceSaving`. It looks for the head when a key at the threshold has had ten
    tuples, then whenever its tuples have doubled, at the latest after `refresh_tuples`. Between two looks the head is
    fixed. The sketch has ten entries for every key that the head may hold: no key above the threshold is missed, none
    below nine tenths of it gets in.

    Parameters
    ----------
    threshold
        Share of the tuples from which on a key belongs to the head (theta); by default ``1 / (5 * workers)``, the
        share up to which two choices are proven to be enough.
    refresh_tuples
        Most tuples between two looks.
    distinct
        Whether the candidates of a key are all different; see `candidates`.
    """

    threshold: float | None = None
    refresh_tuples: int = 100_000
    distinct: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threshold is not None and not 1e-6 <= self.threshold <= 1:
            raise ArgumentError("threshold must be a share of the tuples", where=self.name, got=self.threshold)
        if self.refresh_tuples < 1:
            raise ArgumentError("refresh_tuples must be at least 1", where=self.name, got=self.refresh_tuples)

    @abstractmethod
    def split(self, hashes: Hashes, shares: NDArray[np.float64], workers: int) -> SplitKeys:
        """Return candidates for the keys of the head, given with their shares of all tuples, the hottest first."""

    def head(self, hashes: ArrayLike, tuples: ArrayLike, total: float, workers: int) -> SplitKeys:
        """Return the head, with candidates, of keys that were counted elsewhere, in any order.

        Keys below the threshold are left out. `total` counts the tuples of all keys, listed or not.
        """
        keys, counts = np.asarray(hashes, np.int64), np.asarray(tuples, np.float64)
        if keys.shape != counts.shape or counts.sum() > total * (1 + 1e-9) or (len(counts) and counts.min() < 0):
            raise StatisticsError("keys have more tuples than there are in all, or fewer than none", got=total)
        hot = np.flatnonzero(counts >= self.threshold_for(workers) * total) if total > 0 else np.empty(0, np.int64)
        hot = hot[np.lexsort((keys[hot], -counts[hot]))]
        return self.split(keys[hot], counts[hot] / total, workers) if len(hot) else SplitKeys()

    def threshold_for(self, workers: int) -> float:
        """Return the share from which on a key belongs to the head."""
        return 1 / (5 * workers) if self.threshold is None else self.threshold

    def watch(self, workers: int) -> Watch:
        """Return what a source knows before its first tuple."""
        threshold = self.threshold_for(workers)
        first = min(math.ceil(TUPLES_TO_BELIEVE / threshold), self.refresh_tuples)
        return Watch(SpaceSaving(math.ceil(ENTRIES_PER_HEAD_KEY / threshold)), SplitKeys(), first)

    def route_under(self, head: SplitKeys, hashes: Column, loads: ArrayLike) -> Routed:
        """Choose with a head that was decided elsewhere and stays as it is."""
        column, after = hash_column(hashes), own_loads(loads)
        channels = np.empty(len(column), np.int32)
        self._follow(head, column, after, channels)
        return Routed(channels, after)

    def _follow(self, head: SplitKeys, hashes: Hashes, loads: Loads, channels: Channels) -> None:
        head.follow(hashes, salts(self.seed, 2), self.distinct and len(loads) > 1, loads, channels)

    def _route(self, hashes: Hashes, loads: Loads, memory: Any) -> Routed:
        watch: Watch = memory or self.watch(len(loads))
        sketch, head, look_at = watch.sketch.copy(), watch.head, watch.look_at
        channels, start = np.empty(len(hashes), np.int32), 0
        while start < len(hashes):
            span = slice(start, start + look_at - sketch.n)
            self._follow(head, hashes[span], loads, channels[span])
            sketch.update(hashes[span])
            start = span.stop
            if sketch.n == look_at:
                hot = sketch.query(self.threshold_for(len(loads)) * (1 - 1e-9))  # `head` draws the line itself
                head = self.head(hot["hash"].to_numpy(), hot["count"].to_numpy(), sketch.n, len(loads))
                look_at = min(2 * look_at, look_at + self.refresh_tuples)
        return Routed(channels, loads, Watch(sketch, head, look_at))
