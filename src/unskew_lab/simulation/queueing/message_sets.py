"""Message sets: the parts of a key's stream between two moves, and where each begins and ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.routing.moves import Moves

Numbers = NDArray[np.int64]


class MessageSets:
    """Grows with every move: the old set of the key is closed on its partition, a new one begins on another.

    Closing a set puts a marker behind all messages that the partition was sent before. A key that has never moved has
    no set; when it first moves, what it sent so far becomes one.

    >>> from unskew.routing import RoutingTable
    >>> sets = MessageSets(np.array([40, 51, 62]), partitions=4)
    >>> before = RoutingTable(4, np.arange(4))
    >>> sets.move(before.moves_to(before.with_explicit([51], [0])), now=10.0)
    >>> sets.set_of_key.tolist(), sets.columns()["partition"].tolist(), sets.columns()["previous"].tolist()
    ([-1, 1, -1], [3, 0], [-1, 0])
    """

    def __init__(self, hashes: Numbers, partitions: int) -> None:
        self.set_of_key = np.full(len(hashes), -1, np.int32)
        self.sent = np.zeros(partitions, np.int64)  # messages sent to each partition so far; whoever routes adds to it
        self._keys = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._keys]
        self._partition: list[NDArray[np.int32]] = []
        self._previous: list[Numbers] = []
        self._count = 0
        self._markers: list[tuple[Numbers, NDArray[np.int32], Numbers, NDArray[np.float64]]] = []

    def __len__(self) -> int:
        return self._count

    def move(self, moves: Moves, now: float) -> None:
        """Close the sets of keys that move, and begin new ones."""
        if len(moves.slots):
            raise ArgumentError("message sets belong to keys, and slots have moved", hint="take another planner")
        keys = self._keys[np.searchsorted(self._hashes, moves.keys)]
        first = self.set_of_key[keys] < 0
        self.set_of_key[keys[first]] = self._add(moves.key_sources[first], np.full(int(first.sum()), -1))
        old = self.set_of_key[keys].astype(np.int64)
        self.set_of_key[keys] = self._add(moves.key_targets, old)
        when = np.full(len(keys), now)
        self._markers.append((old, moves.key_sources, self.sent[moves.key_sources], when))

    def columns(self) -> dict[str, NDArray[np.int32] | Numbers]:
        """Return the sets: the partition of each, and the set of the same key before it, -1 for the first."""
        partition = np.concatenate([np.empty(0, np.int32), *self._partition])
        return {"partition": partition, "previous": np.concatenate([np.empty(0, np.int64), *self._previous])}

    def markers(self) -> tuple[Numbers, NDArray[np.int32], Numbers, NDArray[np.float64]]:
        """Return what closes the sets: set, partition, messages of the partition ahead of it, and time.

        Sorted by partition, then by place.
        """
        empty = (np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0))
        closed, partition, ahead, when = (
            np.concatenate(columns) for columns in zip(empty, *self._markers, strict=True)
        )
        order = np.lexsort((ahead, partition))
        return closed[order], partition[order], ahead[order], when[order]

    def _add(self, partition: NDArray[np.int32], previous: Numbers) -> NDArray[np.int32]:
        numbers = np.arange(self._count, self._count + len(partition), dtype=np.int32)
        self._partition.append(partition.astype(np.int32))
        self._previous.append(previous.astype(np.int64))
        self._count += len(partition)
        return numbers
