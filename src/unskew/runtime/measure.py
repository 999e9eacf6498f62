"""What a channel measures in a batch, and reports to the driver at the end of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.load.statistics import Statistics, add_up
from unskew.routing.lookup import slot_of
from unskew.runtime.record import ChannelState
from unskew.state import Groups, KeyedState


@dataclass(frozen=True, eq=False)
class ChannelReport:
    """One channel's report of one batch."""

    statistics: Statistics
    state: ChannelState | None = None  # None for a channel without state
    rows: int = 0
    late_rows: int = 0  # too late to count
    keys: int = 0  # that had rows
    installed: int = 0  # keys whose state came
    extracted: int = 0  # keys whose state went
    moved_bytes: int = 0  # size of the state that came
    seconds: float = 0.0  # in the operator
    move_seconds: float = 0.0  # for taking in and giving away state
    measured: bool = False  # whether the cost in `statistics` is seconds; else it is rows
    worker_rows: tuple[int, ...] = ()  # under a splitting scheme: rows that each worker combined for this channel
    spilled_bytes: int = 0  # state that the channel's memory has no room for
    spilled_slots: tuple[int, ...] = ()  # slots that make up the spilled state
    found: str = "new"  # what it found of its state; see `unskew.state.recovery.Found`
    place: str = ""  # where its local copy is now


def channel_statistics(
    state: KeyedState,
    groups: Groups,
    tuples: NDArray[np.float64],
    cost: NDArray[np.float64],
    listed_keys: NDArray[np.int64],
    tracked_keys: int | None,
) -> Statistics:
    """Return the load of a batch: the heaviest keys one by one, the rest by slot.

    Lists the `tracked_keys` keys that cost most, at about 50 bytes each plus the key's text. Keys with an entry in the
    table are always listed, even without rows, because their state may have to move. Keys that share a hash are one.
    """
    hashes, first, entry = np.unique(groups.hashes, return_index=True, return_inverse=True)
    rows = add_up(tuples, entry, len(hashes))
    costs = add_up(cost, entry, len(hashes))
    held = add_up(state.sizes(groups), entry, len(hashes))
    listed = np.isin(hashes, listed_keys)
    if tracked_keys is None or len(hashes) <= tracked_keys:
        listed[:] = True
    else:
        listed[np.argpartition(-costs, tracked_keys)[:tracked_keys]] = True
    silent, silent_bytes = _silent(state, np.setdiff1d(listed_keys, hashes))
    slots = len(state.slot_rows)
    slot, rest = slot_of(hashes, slots), ~listed
    slot_state = state.slot_bytes - add_up(held[listed], slot[listed], slots)
    slot_state -= add_up(silent_bytes, slot_of(silent, slots), slots)
    nothing = np.zeros(len(silent))
    texts = key_text(groups.keys.take(pa.array(first[listed])))
    return Statistics(
        np.append(hashes[listed], silent),
        tuples=np.append(rows[listed], nothing),
        cost=np.append(costs[listed], nothing),
        state=np.append(held[listed], silent_bytes),
        slot_tuples=add_up(rows[rest], slot[rest], slots),
        slot_cost=add_up(costs[rest], slot[rest], slots),
        slot_state=np.maximum(slot_state, 0),
        distinct_keys=state.rows,
        keys=pa.concat_arrays([texts, pa.nulls(len(silent), texts.type)]),
    )


def statistics_of_few(
    state: KeyedState, groups: Groups, tuples: NDArray[np.float64], cost: NDArray[np.float64], count: int
) -> Statistics:
    """Return the load of a batch in which no key weighs much: the `count` keys with most rows, the rest by slot."""
    most = np.argpartition(-tuples, count)[:count] if len(tuples) > count else np.arange(len(tuples))
    _, first = np.unique(groups.hashes[most], return_index=True)  # keys that share a hash are listed once
    listed = np.zeros(len(groups), np.bool_)
    listed[most[first]] = True
    chosen = groups.subset(listed)
    slots, held = len(state.slot_rows), state.sizes(groups, listed).astype(np.float64)
    slot = slot_of(groups.hashes[~listed], slots)
    slot_state = state.slot_bytes - add_up(held, slot_of(chosen.hashes, slots), slots)
    return Statistics(
        chosen.hashes,
        tuples=tuples[listed],
        cost=cost[listed],
        state=held,
        slot_tuples=add_up(tuples[~listed], slot, slots),
        slot_cost=add_up(cost[~listed], slot, slots),
        slot_state=np.maximum(slot_state, 0),
        distinct_keys=state.rows,
        keys=key_text(chosen.keys),
    )


def _silent(state: KeyedState, hashes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return which keys without rows have state, and how much."""
    found, sizes = state.held(hashes)
    silent, entry = np.unique(found, return_inverse=True)
    return silent, add_up(sizes, entry, len(silent))


def spilled_slots(spilled_bytes: NDArray[np.int64], slot_bytes: NDArray[np.int64]) -> tuple[int, ...]:
    """Return slots whose state adds up to what is spilled, beginning with those of which the largest share is spilled.

    Keys are spilled one by one, the least recently written first, so every slot may be spilled in part. Planners move
    slots, so they are told these.

    >>> spilled_slots(np.array([5, 30, 0, 18]), np.array([50, 40, 30, 20]))
    (3, 1)
    """
    if not spilled_bytes.any():
        return ()
    share = spilled_bytes / np.maximum(slot_bytes, 1)
    order = np.argsort(-share, kind="stable")
    before = np.cumsum(slot_bytes[order]) - slot_bytes[order]
    return tuple(order[(before < spilled_bytes.sum()) & (share[order] > 0)].tolist())


def key_text(keys: pa.Table) -> pa.Array:
    """Return keys as people read them: ``ada``, or ``ada, 3`` for several columns."""
    texts = [_text(column.combine_chunks()) for column in keys.columns]
    return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, ", ", null_handling="replace")


def _text(column: pa.Array) -> pa.Array:
    try:
        text = column.cast(pa.string())
    except pa.ArrowException:  # nested keys and bytes that are no text
        text = pa.array([str(value.as_py()) for value in column], pa.string())
    return pc.fill_null(text, "null")
