"""Keys that no single owner can carry."""

from __future__ import annotations

import numpy as np

from unskew.load.statistics import Statistics
from unskew.routing.table import RoutingTable

COOL = 0.5


def hot_keys(statistics: Statistics, table: RoutingTable, tolerance: float) -> dict[int, tuple[int, ...]]:
    """Return the keys to split, and the channels that share each: all of them, the one that owns it first.

    A key is split if it alone costs more than one channel may have, ``1 + tolerance`` times the mean, and stays split
    until it costs less than half of that. All others stay whole: splitting costs a partial state on every channel.

    Examples
    --------
    >>> loads = Statistics.of_keys([1, 2, 3], [60.0, 30.0, 10.0])
    >>> hot_keys(loads, RoutingTable.initial(2, 16), tolerance=0.1)
    {1: (1, 0)}
    """
    if table.channels == 1:
        return {}
    limit = (1 + tolerance) * statistics.total_cost / table.channels
    split = table.split_keys
    warm = split[statistics.cost_and_state(split)[0] >= COOL * limit]
    hot = np.union1d(statistics.hashes[statistics.cost > limit], warm)
    return {
        key: (owner, *(channel for channel in range(table.channels) if channel != owner))
        for key, owner in zip(hot.tolist(), table.lookup(hot).tolist(), strict=True)
    }
