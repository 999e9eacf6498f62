"""What schemes with one channel per key remember: the owner of every key seen so far."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from unskew.routing.lookup import HashIndex
from unskew.splitters.base import Routed, Splitter
from unskew.splitters.choices import Channels, Hashes, Loads

UNKNOWN = np.full(1, -1, np.int32)


@dataclass(frozen=True, eq=False)
class Owners:
    """The channel of each key, one entry per key: 12 bytes each, and what coordination it takes to share them."""

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.int64))
    channels: Channels = field(default_factory=lambda: np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.hashes)

    def lookup(self, hashes: Hashes) -> Channels:
        """Return the channel of each key, -1 where it is not known."""
        return HashIndex(self.hashes, self.channels).lookup(hashes, UNKNOWN)


@dataclass(frozen=True, kw_only=True)
class WholeKeys(Splitter):
    """A scheme that chooses a channel for a key once, and keeps to it. Its memory is `Owners`."""

    shares_memory: ClassVar[bool] = True

    def _route(self, hashes: Hashes, loads: Loads, memory: Any) -> Routed:
        owners: Owners = memory or Owners()
        encoded = pa.array(hashes).dictionary_encode()
        keys, key_of = encoded.dictionary.to_numpy(), encoded.indices.to_numpy()
        known = owners.lookup(keys)
        new = known < 0
        channels = np.empty(len(hashes), np.int32)
        self._follow(keys, key_of, known, loads, channels)
        return Routed(
            channels,
            loads,
            Owners(np.append(owners.hashes, keys[new]), np.append(owners.channels, known[new])),
        )

    @abstractmethod
    def _follow(self, keys: Hashes, key_of: Channels, owner: Channels, loads: Loads, channels: Channels) -> None:
        """Go through the tuples, whose keys are ``keys[key_of]``; fill `owner` where it is -1, `loads`, `channels`."""
