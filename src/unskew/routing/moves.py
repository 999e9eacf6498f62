"""What has to move when one routing table takes the place of another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Move:
    """One key, by its hash, or one slot goes from channel `source` to channel `target`."""

    kind: Literal["key", "slot"]
    id: int
    source: int
    target: int


@dataclass(frozen=True, eq=False)
class Moves:
    """Moves as columns; iterating yields one `Move` each, slots first.

    A slot's move concerns every key of the slot that neither table lists; listed keys have moves of their own.
    """

    slots: NDArray[np.int32]
    slot_sources: NDArray[np.int32]
    slot_targets: NDArray[np.int32]
    keys: NDArray[np.int64]
    key_sources: NDArray[np.int32]
    key_targets: NDArray[np.int32]

    @classmethod
    def none(cls) -> Moves:
        """Return no moves at all."""
        few, hashes = np.empty(0, np.int32), np.empty(0, np.int64)
        return cls(few, few, few, hashes, few, few)

    def only(self, slots: ArrayLike, keys: ArrayLike) -> Moves:
        """Return the moves that two masks, one over the slots and one over the keys, select."""
        slot, key = np.asarray(slots, bool), np.asarray(keys, bool)
        return Moves(
            self.slots[slot],
            self.slot_sources[slot],
            self.slot_targets[slot],
            self.keys[key],
            self.key_sources[key],
            self.key_targets[key],
        )

    def __len__(self) -> int:
        return len(self.slots) + len(self.keys)

    def __iter__(self) -> Iterator[Move]:
        for slot, source, target in zip(self.slots, self.slot_sources, self.slot_targets, strict=True):
            yield Move("slot", int(slot), int(source), int(target))
        for key, source, target in zip(self.keys, self.key_sources, self.key_targets, strict=True):
            yield Move("key", int(key), int(source), int(target))
