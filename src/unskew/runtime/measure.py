"""What a channel measures about its keys and slots in a batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.load.statistics import Statistics, add_up
from unskew.routing.lookup import slot_of
from unskew.state import Groups, KeyedState


def channel_statistics(
    state: KeyedState,
    groups: Groups,
    tuples: NDArray[np.float64],
    cost: NDArray[np.float64],
    listed_keys: NDArray[np.int64],
    tracked_keys: int | None,
) -> Statistics:
    """Return the load of a batch: the heaviest keys one by one, the rest by slot.

    At most `tracked_keys` keys are listed (about 50 bytes each, and the key's text), those that cost most; keys with
    an entry of their own are listed in any case, also those without rows, whose state may have to move. Two keys that
    share a hash are one entry.
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
    slot_rows = add_up(rows[rest], slot[rest], slots)
    slot_state = state.slot_bytes - add_up(held[listed], slot[listed], slots)
    slot_state -= add_up(silent_bytes, slot_of(silent, slots), slots)
    nothing = np.zeros(len(silent))
    texts = key_text(groups.keys.take(pa.array(first[listed])))
    return Statistics(
        np.append(hashes[listed], silent),
        tuples=np.append(rows[listed], nothing),
        cost=np.append(costs[listed], nothing),
        state=np.append(held[listed], silent_bytes),
        slot_tuples=slot_rows,
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
    hashes, first = np.unique(groups.hashes[most], return_index=True)
    listed = np.zeros(len(groups), np.bool_)
    listed[most[first]] = True
    chosen = groups.subset(listed)
    order = np.argsort(chosen.hashes)
    slots, held = len(state.slot_rows), state.sizes(groups, listed)[order].astype(np.float64)
    slot = slot_of(groups.hashes[~listed], slots)
    slot_state = state.slot_bytes - add_up(held, slot_of(hashes, slots), slots)
    return Statistics(
        hashes,
        tuples=tuples[listed][order],
        cost=cost[listed][order],
        state=held,
        slot_tuples=add_up(tuples[~listed], slot, slots),
        slot_cost=add_up(cost[~listed], slot, slots),
        slot_state=np.maximum(slot_state, 0),
        distinct_keys=state.rows,
        keys=key_text(chosen.keys.take(pa.array(order))),
    )


def _silent(state: KeyedState, hashes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return which of some hashes have state although they had no rows, and how much."""
    found, sizes = state.held(hashes)
    silent, entry = np.unique(found, return_inverse=True)
    return silent, add_up(sizes, entry, len(silent))


def spilled_slots(spilled_bytes: NDArray[np.int64], slot_bytes: NDArray[np.int64]) -> tuple[int, ...]:
    """Return as many slots as make up what is spilled, those first of which most is.

    Keys are spilled one by one, those put least recently, so every slot may be spilled in part; to a planner that moves
    slots, the channel spills these.

    Examples
    --------
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
