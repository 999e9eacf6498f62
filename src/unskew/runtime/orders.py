"""What a channel is told about a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unskew.routing.lookup import slot_of
from unskew.routing.moves import Moves
from unskew.routing.table import RoutingTable
from unskew.state.files import Piece

Hashes = NDArray[np.int64]


def _none() -> Hashes:
    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Order:
    """One channel's part of a batch; travels through the shuffle beside the channel's rows."""

    channel: int
    manifest: Piece | None = None  # where the last record says the channel's state lies
    moves: Moves = field(default_factory=Moves.none)  # what leaves this channel
    listed: NDArray[np.int64] = field(default_factory=_none)  # keys in either table, which do not travel with a slot
    shared: NDArray[np.int64] = field(default_factory=_none)  # split keys that this channel has a part of
    memory_bytes: int | None = None  # state that the local copy may hold; None: no limit
    called: bool = False  # whether the channel must report even if it gets no rows and no state
    enclosed: bytes = b""  # the manifest itself, where tasks cannot read it

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

    A channel is called if it loses state, if it is `due` (a deadline has come, or it puts out all it holds), or if it
    shares one of `split_rows`, the split keys that have rows in this batch: then it must tell its part.
    """
    listed = np.union1d(before.listed_keys, table.listed_keys) if len(moves) else _none()
    shared: dict[int, list[int]] = defaultdict(list)
    for key, channels in table.split.items():
        for channel in channels:
            shared[channel].append(key)
    telling = {channel for key in split_rows.tolist() for channel in table.split.get(key, ())}
    losing = {*moves.slot_sources.tolist(), *moves.key_sources.tolist()} & manifests.keys()
    called = losing | due | telling
    return [
        Order(
            channel,
            manifests.get(channel),
            moves.only(moves.slot_sources == channel, moves.key_sources == channel)
            if channel in losing
            else Moves.none(),
            listed if channel in losing else _none(),
            np.array(shared.get(channel, ()), np.int64),
            memory_bytes[min(channel, len(memory_bytes) - 1)] if memory_bytes else None,
            channel in called,
        )
        for channel in range(max(before.channels, table.channels))
    ]


def dealt_out(orders: list[Order], sources: tuple[int, ...]) -> dict[int, tuple[Order, ...]]:
    """Deal orders out to the sources that carry them; reading state takes time, so each source gets some of that."""
    moving = [order for order in orders if len(order.moves)]
    errands = {source: moving[number :: len(sources)] for number, source in enumerate(sources)}
    errands[sources[0]] += [order for order in orders if not len(order.moves)]
    return {source: tuple(each) for source, each in errands.items()}
