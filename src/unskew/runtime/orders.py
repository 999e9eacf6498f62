"""What a channel is told about a batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unskew.routing.lookup import slot_of
from unskew.routing.moves import Moves
from unskew.routing.table import RoutingTable
from unskew.state.files import Piece

Hashes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Order:
    """One channel's part of a batch; travels through the shuffle beside the channel's rows.

    Parameters
    ----------
    channel
        Who is told.
    manifest
        Where the record of the batch before says the channel's state lies; None if it has none.
    enclosed
        The manifest itself, where tasks cannot read it.
    moves
        What leaves this channel.
    listed
        Keys that do not travel with their slot, because the table before or the new one has an entry for them.
    shared
        Split keys that this channel has a part of.
    memory_bytes
        State that the channel may hold in its local copy; None: as much as there is room for.
    called
        Whether the channel has to report although it gets nothing: state leaves, a deadline has come, a key that is
        split has rows elsewhere, or all state is put out in every batch.
    """

    channel: int
    manifest: Piece | None = None
    moves: Moves = field(default_factory=Moves.none)
    listed: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    shared: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    memory_bytes: int | None = None
    called: bool = False
    enclosed: bytes = b""

    def leaving(self) -> Iterator[tuple[int, Hashes, NDArray[np.int32]]]:
        """Yield for every channel that gets something: the channel, the keys and the slots."""
        moves = self.moves
        for target in np.union1d(moves.key_targets, moves.slot_targets).tolist():
            yield int(target), moves.keys[moves.key_targets == target], moves.slots[moves.slot_targets == target]

    def leaving_slots(self, slots: int) -> NDArray[np.bool_]:
        """Tell for each slot whether it, or a key in it, leaves."""
        chosen = np.zeros(slots, np.bool_)
        chosen[self.moves.slots] = chosen[slot_of(self.moves.keys, slots)] = True
        return chosen


def orders_for(
    before: RoutingTable,
    table: RoutingTable,
    moves: Moves,
    manifests: dict[int, Piece],
    due: set[int],
    split_rows: Hashes,
    memory_bytes: tuple[int, ...],
) -> list[Order]:
    """Return an order for every channel of either table.

    Parameters
    ----------
    before, table, moves
        The table of the batch before, that of this batch, and the difference.
    manifests
        Where the state of each channel lies.
    due
        Channels in which a deadline has come, or that put out all they hold.
    split_rows
        Split keys that have rows in this batch; every channel that shares one must tell its part.
    memory_bytes
        State that each channel may hold; empty: no limit.
    """
    listed = np.unique(np.append(before.listed_keys, table.listed_keys)) if len(moves) else np.empty(0, np.int64)
    shared: dict[int, list[int]] = {}
    for key, channels in table.split.items():
        for channel in channels:
            shared.setdefault(channel, []).append(key)
    telling = {channel for key in split_rows.tolist() for channel in table.split.get(key, ())}
    losing = {*moves.slot_sources.tolist(), *moves.key_sources.tolist()} & set(manifests)
    return [
        Order(
            channel,
            manifests.get(channel),
            _of(moves, channel) if channel in losing else Moves.none(),
            listed if channel in losing else np.empty(0, np.int64),
            np.array(shared.get(channel, ()), np.int64),
            memory_bytes[min(channel, len(memory_bytes) - 1)] if memory_bytes else None,
            channel in losing or channel in due or channel in telling,
        )
        for channel in range(max(before.channels, table.channels))
    ]


def _of(moves: Moves, channel: int) -> Moves:
    return moves.only(moves.slot_sources == channel, moves.key_sources == channel)
