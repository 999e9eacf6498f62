"""Schemes with one channel per key: static power of two choices, On-Greedy and Off-Greedy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numba import njit

from unskew.routing.lookup import HashIndex
from unskew.splitters.base import Routed, Splitter
from unskew.splitters.choices import Channels, Hashes, Loads, Salts, salts
from unskew.splitters.pkg import two_choices

UNKNOWN = np.full(1, -1, np.int32)


@dataclass(frozen=True, eq=False)
class Owners:
    """The channel of each key seen so far, 12 bytes each. Sources have to coordinate to share it."""

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.int64))
    channels: Channels = field(default_factory=lambda: np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.hashes)


@dataclass(frozen=True, kw_only=True)
class WholeKeys(Splitter):
    """A scheme that chooses a channel for a key once, and keeps to it. Its memory is `Owners`."""

    shares_memory: ClassVar[bool] = True

    def _route(self, hashes: Hashes, loads: Loads, memory: Any) -> Routed:
        owners: Owners = memory or Owners()
        encoded = pa.array(hashes).dictionary_encode()
        keys, key_of = encoded.dictionary.to_numpy(), encoded.indices.to_numpy()
        known = HashIndex(owners.hashes, owners.channels).lookup(keys, UNKNOWN)
        new = known < 0
        channels = np.empty(len(hashes), np.int32)
        self._follow(keys, key_of, known, loads, channels)
        after = Owners(np.append(owners.hashes, keys[new]), np.append(owners.channels, known[new]))
        return Routed(channels, loads, after)

    @abstractmethod
    def _follow(self, keys: Hashes, key_of: Channels, owner: Channels, loads: Loads, channels: Channels) -> None:
        """Go through the tuples, whose keys are ``keys[key_of]``; fill `owner` where it is -1, `loads`, `channels`."""


@dataclass(frozen=True, kw_only=True)
class StaticPoTC(WholeKeys):
    """Gives a key, when it first appears, the less loaded of its two candidates for good (PoTC in the paper).

    Keys stay whole, so one channel carries all tuples of the hottest key, and all sources have to agree on every key's
    owner. A tie goes to the first candidate. Sections 3 and 6.2 of Partial Key Grouping.

    Parameters
    ----------
    distinct
        Whether the two candidates of a key are always different; see `candidates`.

    Examples
    --------
    >>> routed = StaticPoTC(distinct=True).route(np.array([42, 42, 7, 42]), loads=[1, 0, 0, 0, 0])
    >>> routed.channels.tolist(), len(routed.memory)
    ([2, 2, 0, 2], 2)
    """

    name: ClassVar[str] = "static-potc"
    summary: ClassVar[str] = "a new key gets the less loaded of two choices, and stays there"

    distinct: bool = False

    def _follow(self, keys: Hashes, key_of: Channels, owner: Channels, loads: Loads, channels: Channels) -> None:
        distinct = self.distinct and len(loads) > 1
        _kernel_first_sight(keys, key_of, salts(self.seed, 2), distinct, owner, loads, channels)


@dataclass(frozen=True, kw_only=True)
class OnGreedy(WholeKeys):
    """Gives a key, when it first appears, the least loaded of all channels for good; the lowest number among equals.

    Keys stay whole, and all sources have to agree on every key's owner. Section 6.2 of Partial Key Grouping.

    Examples
    --------
    >>> OnGreedy().route(np.array([42, 42, 7, 8, 42]), loads=[1, 0, 0]).channels.tolist()
    [1, 1, 2, 0, 1]
    """

    name: ClassVar[str] = "on-greedy"
    summary: ClassVar[str] = "a new key gets the least loaded channel, and stays there"

    def _follow(self, keys: Hashes, key_of: Channels, owner: Channels, loads: Loads, channels: Channels) -> None:
        _kernel_first_sight(keys, key_of, salts(self.seed, 0), False, owner, loads, channels)


@dataclass(frozen=True, kw_only=True)
class OffGreedy(WholeKeys):
    """Places whole keys by falling frequency, each on the least loaded channel; it sees all tuples beforehand.

    The best that one can hope for with one channel per key, and not something a stream could run: only the loads at the
    end mean something. Equal frequencies are taken by hash, equal loads by channel number. Section 6.2 of Partial Key
    Grouping.

    Examples
    --------
    >>> OffGreedy().route(np.array([7, 8, 8, 9, 9, 9]), loads=np.zeros(2)).channels.tolist()
    [1, 1, 1, 0, 0, 0]
    """

    name: ClassVar[str] = "off-greedy"
    summary: ClassVar[str] = "knows all keys beforehand, places the most frequent first (a yardstick)"
    online: ClassVar[bool] = False

    def _follow(self, keys: Hashes, key_of: Channels, owner: Channels, loads: Loads, channels: Channels) -> None:
        tuples = np.bincount(key_of, minlength=len(keys))
        np.add.at(loads, owner[owner >= 0], tuples[owner >= 0])
        _kernel_place(np.lexsort((keys, -tuples)), tuples, owner, loads)
        channels[:] = owner[key_of]


@njit(cache=True)
def _kernel_first_sight(
    keys: Hashes, key_of: Channels, salts: Salts, distinct: bool, owner: Channels, loads: Loads, channels: Channels
) -> None:
    """Give each new key the less loaded of two choices, or without salts the least loaded of all channels."""
    hashed = len(salts) > 0
    for row in range(len(key_of)):
        key = key_of[row]
        if owner[key] < 0:
            owner[key] = np.int32(two_choices(keys[key], salts, distinct, loads)) if hashed else np.argmin(loads)
        loads[owner[key]] += 1
        channels[row] = owner[key]


@njit(cache=True)
def _kernel_place(order: Loads, tuples: Loads, owner: Channels, loads: Loads) -> None:
    for key in order:
        if owner[key] < 0:
            owner[key] = np.int32(np.argmin(loads))
            loads[owner[key]] += tuples[key]
