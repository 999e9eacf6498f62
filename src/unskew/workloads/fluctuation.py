"""Fang's fluctuation: keys trade frequencies until some channel's load has changed by a given rate."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.hashing import xxhash64
from unskew.workloads.base import Drift, option
from unskew.workloads.discrete import DiscreteTable
from unskew.workloads.span import Span, uniforms


@njit(cache=True, inline="always")
def _trade(one, two, key_of, channel_of, share, change):  # type: ignore[no-untyped-def]
    """Let two ranks swap their keys; return how far some channel's load has changed, in mean loads."""
    change[channel_of[key_of[one]]] += share[two] - share[one]
    change[channel_of[key_of[two]]] += share[one] - share[two]
    key_of[one], key_of[two] = key_of[two], key_of[one]
    return np.abs(change).max() * change.size


@njit(cache=True)
def _kernel_step(key_of, channel_of, share, by_share, hot, other, rate, channels, swaps):  # type: ignore[no-untyped-def]
    """Swap in `key_of` until a channel's load has changed by `rate`; return the swaps made and the rate achieved."""
    change = np.zeros(channels)
    made, achieved = 0, 0.0
    for draw in range(hot.size):
        if achieved >= rate:
            return made, achieved
        one, two = hot[draw], other[draw]
        if channel_of[key_of[one]] == channel_of[key_of[two]] or share[one] == share[two]:
            continue
        achieved = _trade(one, two, key_of, channel_of, share, change)
        swaps[made, 0], swaps[made, 1] = one, two
        made += 1
    target = np.argmax(change)  # chance was not enough: hot keys now go to the channel that has gained most
    hottest, coldest = 0, by_share.size - 1
    while achieved < rate:
        while hottest < coldest and channel_of[key_of[by_share[hottest]]] == target:
            hottest += 1
        while hottest < coldest and channel_of[key_of[by_share[coldest]]] != target:
            coldest -= 1
        one, two = by_share[hottest], by_share[coldest]
        if share[one] <= share[two]:
            break
        achieved = _trade(one, two, key_of, channel_of, share, change)
        swaps[made, 0], swaps[made, 1] = one, two
        made += 1
    return made, achieved


@njit(cache=True)
def _kernel_swap(key_of, swaps):  # type: ignore[no-untyped-def]
    for index in range(swaps.shape[0]):
        one, two = swaps[index]
        key_of[one], key_of[two] = key_of[two], key_of[one]


class _History:
    """The swaps of all intervals so far, and the keys after the interval visited last.

    A swap undoes itself, so getting from one interval to another costs the swaps between them.
    """

    def __init__(self, drift: Fluctuation) -> None:
        law = drift.base.probabilities(0)
        if law is None or law.size != drift.domain:
            hint = "choose a generated base such as zipf"
            raise ArgumentError("the base's distribution is not known", where="workload 'fluctuation'", hint=hint)
        self._drift, self._share = drift, law
        self._by_share = np.argsort(-law, kind="stable")
        self._table = DiscreteTable(law)
        every_key = drift.base.names(np.arange(drift.domain))
        self._channel_of = np.mod(xxhash64([every_key]), drift.channels)
        self._key_of = np.arange(drift.domain)
        self._at = 0
        self._swaps: list[NDArray[np.int32]] = [np.empty((0, 2), np.int32)]
        self._achieved = [0.0]
        self._lock = threading.Lock()

    def rename(self, interval: int, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        with self._lock:
            self._visit(interval)
            return self._key_of[ids]

    def achieved(self, interval: int) -> float:
        with self._lock:
            self._visit(interval)
            return self._achieved[interval]

    def _visit(self, interval: int) -> None:
        while self._at > interval:
            _kernel_swap(self._key_of, self._swaps[self._at][::-1])
            self._at -= 1
        while self._at < interval:
            self._at += 1
            if self._at < len(self._swaps):
                _kernel_swap(self._key_of, self._swaps[self._at])
            else:
                self._step(self._at)

    def _step(self, interval: int) -> None:
        drift, most = self._drift, self._drift.most_swaps
        chance = uniforms(drift.seed, interval, drift.stream, 2 * most)
        hot, other = self._table.quantile(chance[:most]), (chance[most:] * drift.domain).astype(np.int64)
        swaps = np.empty((most + drift.domain, 2), np.int32)
        shares = (self._channel_of, self._share, self._by_share)
        made, achieved = _kernel_step(self._key_of, *shares, hot, other, drift.rate, drift.channels, swaps)
        self._swaps.append(swaps[:made].copy())
        self._achieved.append(achieved)


@lru_cache(maxsize=4)
def _history(drift: Fluctuation) -> _History:
    return _History(drift)


@dataclass(frozen=True, kw_only=True)
class Fluctuation(Drift, name="fluctuation"):
    """Another workload whose keys trade frequencies before every interval, until some channel's load has changed.

    Pairs of keys on different channels swap frequencies until, for some channel, the load under hash routing has
    changed by at least `rate` times the mean load. One key of a pair is drawn by frequency, the other evenly. If
    `most_swaps` draws are not enough, hot keys are steered to the channel that has gained most. If even that is not
    enough (uniform keys, few channels), `achieved` says how far it got. Interval 0 is the base itself; the
    base must have a known law, the same in every interval.

    The first visit of an interval computes all those before it, a fraction of a millisecond each, once per process.

    Source: Fang et al., section V.A.

    >>> from unskew.workloads import workload
    >>> drift = workload("fluctuation", base="zipf", exponent=0.85, keys=10_000, rate=0.5)
    >>> drift.achieved(1) >= 0.5
    True
    >>> [int(drift.probabilities(interval).argmax()) for interval in range(4)]
    [0, 7008, 8166, 823]
    """

    rate: float = option(1.0, at_least=0)  # f in the paper, 0 to 2
    channels: int = option(15, above=0)  # channels on which load is measured: pmod(xxhash64(key), channels)
    most_swaps: int = option(1_000, at_least=0)  # draws before steering begins

    def achieved(self, interval: int) -> float:
        """Return the largest change of a channel's load since the interval before, in mean loads."""
        return _history(self).achieved(interval)

    def draw(self, span: Span) -> NDArray[np.int64]:
        return _history(self).rename(span.interval, self.base.draw(span))

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        law = self.base.probabilities(0)
        assert law is not None
        named = np.empty(self.domain)
        named[_history(self).rename(interval, np.arange(self.domain))] = law
        return named
