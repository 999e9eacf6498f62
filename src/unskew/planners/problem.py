"""The question every owner-per-key planner answers: which channel for each key?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.load.channels import ChannelUse
from unskew.load.statistics import Statistics, add_up
from unskew.routing.table import RoutingTable

Column = NDArray[np.float64]
Channels = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Problem:
    """Keys to place on channels. Key i is the i-th entry of each column; ties go to the lower i.

    The background is the load of keys that are not listed and stay with their slots.
    """

    channels: int  # of the table to come
    channels_before: int  # of the table in force
    hashes: NDArray[np.int64]
    tuples: Column
    cost: Column
    state: Column
    current: Channels  # owner in force; may be >= channels when that channel leaves
    home: Channels  # where the slots of the table to come put the key; an entry is needed only to live elsewhere
    background_tuples: Column  # per channel of the table to come
    background_cost: Column
    background_state: Column
    background_cost_before: Column  # per channel of the table in force
    background_state_moved: float  # state of slots that change owner between the two tables
    distinct_keys: float  # estimate of how many keys there are, listed or not
    use: ChannelUse | None = None  # for Flux, whose keys are slots: entries of `use.spilled` are in their order

    @classmethod
    def of_keys(
        cls,
        cost: object,
        *,
        channels: int,
        current: object,
        home: object,
        state: object = None,
        tuples: object = None,
        hashes: object = None,
        channels_before: int | None = None,
        use: ChannelUse | None = None,
    ) -> Problem:
        """Build a problem that lists every key; state and tuples equal the cost where not given.

        Examples
        --------
        >>> p = Problem.of_keys([7, 4, 2], channels=2, current=[0, 0, 1], home=[0, 1, 1])
        >>> p.loads(p.current).tolist(), p.mean_load
        ([11.0, 2.0], 6.5)
        """
        column = np.asarray(cost, np.float64)
        owners = np.asarray(current, np.int32)
        before = channels_before or max(channels, int(owners.max(initial=-1)) + 1)
        return cls(
            channels=channels,
            channels_before=before,
            hashes=np.arange(len(column), dtype=np.int64) if hashes is None else np.asarray(hashes, np.int64),
            tuples=column if tuples is None else np.asarray(tuples, np.float64),
            cost=column,
            state=column if state is None else np.asarray(state, np.float64),
            current=owners,
            home=np.asarray(home, np.int32),
            background_tuples=np.zeros(channels),
            background_cost=np.zeros(channels),
            background_state=np.zeros(channels),
            background_cost_before=np.zeros(before),
            background_state_moved=0.0,
            distinct_keys=float(len(column)),
            use=use,
        )

    @classmethod
    def of_statistics(cls, statistics: Statistics, before: RoutingTable, after: RoutingTable) -> Problem:
        """Build the problem of going from table `before` to a table on the slots and channels of `after`.

        Keys with an entry that nobody reported are listed without load, so that planners see the whole table. Split
        keys are not listed: each of their candidates carries an equal part of their load as background.
        """
        silent = np.setdiff1d(before.explicit_hashes, statistics.hashes)
        hashes = np.concatenate([statistics.hashes, silent])
        order = np.argsort(hashes, kind="stable")
        hashes, nothing = hashes[order], np.zeros(len(silent))
        tuples, cost, state = (
            np.concatenate([column, nothing])[order]
            for column in (statistics.tuples, statistics.cost, statistics.state)
        )
        slot_tuples, slot_cost, slot_state = statistics.by_slot(len(after.slots))
        whole = ~np.isin(hashes, before.split_keys)
        shares_after, shares_before = _split_shares(hashes[~whole], after), _split_shares(hashes[~whole], before)
        return cls(
            channels=after.channels,
            channels_before=before.channels,
            hashes=hashes[whole],
            tuples=tuples[whole],
            cost=cost[whole],
            state=state[whole],
            current=before.lookup(hashes[whole]),
            home=after.home(hashes[whole]),
            background_tuples=_per_channel(after, slot_tuples) + tuples[~whole] @ shares_after,
            background_cost=_per_channel(after, slot_cost) + cost[~whole] @ shares_after,
            background_state=_per_channel(after, slot_state) + state[~whole] @ shares_after,
            background_cost_before=_per_channel(before, slot_cost) + cost[~whole] @ shares_before,
            background_state_moved=float(slot_state[before.slots != after.slots].sum()),
            distinct_keys=statistics.distinct_keys,
            use=statistics.use,
        )

    @property
    def total_cost(self) -> float:
        """Cost of all keys, listed or not."""
        return float(self.cost.sum() + self.background_cost.sum())

    @property
    def total_tuples(self) -> float:
        """Tuples of all keys, listed or not."""
        return float(self.tuples.sum() + self.background_tuples.sum())

    @property
    def mean_load(self) -> float:
        """Mean cost per channel of the table to come."""
        return self.total_cost / self.channels

    def loads(self, owner: Channels) -> Column:
        """Return the cost per channel if `owner` owns the listed keys."""
        return self.background_cost + add_up(self.cost, owner, self.channels)

    def loads_before(self) -> Column:
        """Return the cost per channel of the table in force."""
        return self.background_cost_before + add_up(self.cost, self.current, self.channels_before)


def _per_channel(table: RoutingTable, per_slot: Column) -> Column:
    return add_up(per_slot, table.slots, table.channels)


def _split_shares(hashes: NDArray[np.int64], table: RoutingTable) -> NDArray[np.float64]:
    """Return the share of each split key that each channel carries, taken as equal parts."""
    shares = np.zeros((len(hashes), table.channels))
    for row, key in zip(shares, hashes.tolist(), strict=True):
        candidates = table.candidates(key)
        row[list(candidates)] = 1 / len(candidates)
    return shares
