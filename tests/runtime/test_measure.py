"""What channels measure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from unskew.hashing import hash_keys
from unskew.planners import planner
from unskew.routing.moves import Moves
from unskew.routing.table import RoutingTable
from unskew.runtime.measure import channel_statistics
from unskew.runtime.planning import Controller
from unskew.runtime.settings import Planning, Splitting
from unskew.state import KeyedState, MemoryStore


def test_a_migration_of_keys_that_had_no_rows_keeps_within_its_bytes() -> None:
    """Two hundred keys with an entry and 1 KB of state each; one of them has rows in this batch."""
    names = pa.table({"user": [f"user {number}" for number in range(200)]})
    hashes = hash_keys(names, "user")
    home = RoutingTable.initial(2, 16)
    table = home.with_explicit(hashes, np.zeros(200, np.int32))
    with KeyedState.open(MemoryStore(), names.schema, pa.schema({"text": pa.string()}), slots=16) as state:
        state.put(state.group(names, hashes), pa.table({"text": ["x" * 1000] * 200}))
        one = state.group(names.slice(0, 1), hashes[:1])
        statistics = channel_statistics(state, one, np.ones(1), np.ones(1), table.listed_keys, tracked_keys=1)
        held = state.bytes
    assert statistics.total_state == held
    assert statistics.slot_state.sum() == 0, "all are listed"
    assert (len(statistics.hashes), statistics.total_tuples) == (200, 1)
    assert statistics.keys is not None and statistics.keys.null_count == 199
    away: Moves = table.moves_to(home.with_explicit(hashes, np.ones(200, np.int32)))
    controller = Controller(Planning(planner("mixed"), max_move_bytes=held // 4), Splitting())
    first, left = controller._portion(away, statistics, 16)
    assert 40 <= len(first) <= 50
    assert len(first) + len(left) == len(away)
