"""What has to move when one routing table replaces another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Move:
    """One key (by its hash) or one slot moves from channel `source` to channel `target`."""

    kind: Literal["key", "slot"]
    id: int
    source: int
    target: int


@dataclass(frozen=True, eq=False)
class Moves:
    """Moves as columns; iterating yields each `Move`, slots first.

    The move of a slot stands for all of its keys that neither table lists. Listed keys have moves of their own.
    """

    slots: NDArray[np.int32]
    slot_sources: NDArray[np.int32]
    slot_targets: NDArray[np.int32]
    keys: NDArray[np.int64]
    key_sources: NDArray[np.int32]
    key_targets: NDArray[np.int32]

    @classmethod
    def none(cls) -> Moves:
        few, hashes = np.empty(0, np.int32), np.empty(0, np.int64)
        return cls(few, few, few, hashes, few, few)

    def only(self, slots: ArrayLike, keys: ArrayLike) -> Moves:
        """Return the moves selected by two masks, one over the slots and one over the keys."""
        slot, key = np.asarray(slots, bool), np.asarray(keys, bool)
        of_slots = self.slots[slot], self.slot_sources[slot], self.slot_targets[slot]
        return Moves(*of_slots, self.keys[key], self.key_sources[key], self.key_targets[key])

    def __len__(self) -> int:
        return len(self.slots) + len(self.keys)

    def __iter__(self) -> Iterator[Move]:
        for slot, source, target in zip(self.slots, self.slot_sources, self.slot_targets, strict=True):
            yield Move("slot", int(slot), int(source), int(target))
        for key, source, target in zip(self.keys, self.key_sources, self.key_targets, strict=True):
            yield Move("key", int(key), int(source), int(target))
