"""Go from one table to another in steps, so that a large migration spreads over several batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unskew.routing.moves import Moves
from unskew.routing.table import RoutingTable


def step_towards(table: RoutingTable, target: RoutingTable, done: Moves, version: int) -> RoutingTable:
    """Return the table in force once `done`, some of the moves from `table` to `target`, have happened.

    Keys that either table lists keep an entry of their own on the way, so that a slot never takes along a key that
    moves by itself. What is left to do is ``result.moves_to(target)``; when nothing is left, the result is `target`.
    Channels leave a split key one by one as their parts move; a key that the target splits becomes split with the last
    step.
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
    return between if len(between.moves_to(target)) else replace(target, version=version, names={})


def _still_sharing(table: RoutingTable, done: Moves) -> dict[int, tuple[int, ...]]:
    """Return the channels that still hold a part of each split key; the one that collects the parts comes first."""
    sharing = dict(table.split)
    for key, source, target in zip(done.keys.tolist(), done.key_sources, done.key_targets, strict=True):
        if key in sharing:
            sharing[key] = (int(target), *(c for c in sharing[key] if c not in (source, target)))
    return sharing
