"""From one table to another in steps, so that a large migration spreads over several batches."""

from __future__ import annotations

import numpy as np

from unskew.routing.moves import Moves
from unskew.routing.table import RoutingTable


def step_towards(table: RoutingTable, target: RoutingTable, done: Moves, version: int) -> RoutingTable:
    """Return the table in force once `done`, some of the moves from `table` to `target`, have happened.

    Keys that either table lists keep an entry of their own on the way, so that a slot never carries along a key that
    moves by itself; what is left to do is ``result.moves_to(target)``. When nothing is left the result is `target`.
    A key that was split is shared by fewer and fewer channels until the last of them has given its part away; a key
    that the target splits is so only with the last step.

    Examples
    --------
    >>> old = RoutingTable(2, [0, 0, 1, 1])
    >>> new = RoutingTable(2, [1, 0, 1, 1], [5], [1])
    >>> moves = old.moves_to(new)
    >>> halfway = step_towards(old, new, moves.only(slots=[True], keys=[False]), version=7)
    >>> halfway.lookup([0, 5]).tolist(), [move.id for move in halfway.moves_to(new)]
    ([1, 0], [5])
    """
    slots = table.slots.copy()
    slots[done.slots] = done.slot_targets
    sharing = _still_sharing(table, done)
    split = {key: channels for key, channels in sharing.items() if len(channels) > 1}
    listed = np.setdiff1d(np.union1d(table.listed_keys, target.listed_keys), np.array(list(split), np.int64))
    owner = table.lookup(listed)
    moved = np.isin(done.keys, listed)
    owner[np.searchsorted(listed, done.keys[moved])] = done.key_targets[moved]
    between = RoutingTable(max(table.channels, target.channels), slots, listed, owner, split, version)
    if len(between.moves_to(target)):
        return between
    return RoutingTable(
        target.channels, target.slots, target.explicit_hashes, target.explicit_channels, target.split, version
    )


def _still_sharing(table: RoutingTable, done: Moves) -> dict[int, tuple[int, ...]]:
    """Return the channels that have a part of each key that was split, who takes in the others' parts first."""
    sharing = dict(table.split)
    for key, source, target in zip(done.keys.tolist(), done.key_sources, done.key_targets, strict=True):
        if key in sharing:
            sharing[key] = (int(target), *(c for c in sharing[key] if c not in (source, target)))
    return sharing
