"""How a load lies on its keys, and on the partitions or channels that own them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unskew.load.statistics import Statistics, add_up
from unskew.planners import planner
from unskew.routing.table import DEFAULT_SLOTS, RoutingTable
from unskew.runtime.reach import within_reach

Column = NDArray[np.float64]
Hashes = NDArray[np.int64]

FINER = 4  # other keys are added up so that up to this many times the partitions can be tried


@dataclass(frozen=True, eq=False)
class KeyLoads:
    """The heaviest keys one by one, heaviest first; all others added up, by partition and by slot.

    Examples
    --------
    >>> keys = KeyLoads.of_keys(["ada", "bob", "eve"], [6.0, 3.0, 1.0], [0, 2, 3], [10, 11, 12])
    >>> keys.by_partition(2).tolist(), keys.balanced(2).tolist()
    ([9.0, 1.0], [6.0, 4.0])
    """

    names: tuple[str, ...]
    load: Column
    spark_hashes: Hashes  # Spark's ``hash(key)``, by which its shuffle chooses the partition
    hashes: Hashes  # Spark's ``xxhash64(key)``, by which unskew chooses the slot
    rest_by_residue: Column  # other keys, by ``pmod(hash(key), len)``; a multiple of any number of partitions tried
    rest_by_slot: Column
    distinct_keys: int

    @classmethod
    def of_keys(
        cls, names: list[str], load: object, spark_hashes: object, hashes: object, *, residues: int = 64
    ) -> KeyLoads:
        """List every key; nothing is left to add up."""
        column = np.asarray(load, np.float64)
        order = np.argsort(-column, kind="stable")
        return cls(
            names=tuple(names[place] for place in order),
            load=column[order],
            spark_hashes=np.asarray(spark_hashes, np.int64)[order],
            hashes=np.asarray(hashes, np.int64)[order],
            rest_by_residue=np.zeros(residues),
            rest_by_slot=np.zeros(DEFAULT_SLOTS),
            distinct_keys=len(column),
        )

    @property
    def total(self) -> float:
        return float(self.load.sum() + self.rest_by_slot.sum())

    def by_partition(self, partitions: int) -> Column:
        """Return the load of each partition under Spark's hash."""
        residues = np.arange(len(self.rest_by_residue)) % partitions
        listed = add_up(self.load, np.mod(self.spark_hashes, partitions), partitions)
        return listed + add_up(self.rest_by_residue, residues, partitions)

    def balanced(self, channels: int) -> Column:
        """Return the load of each channel as unskew's default planner would place whole keys."""
        if self.total <= 0:
            return np.zeros(channels)
        table = RoutingTable.initial(channels, len(self.rest_by_slot))
        rest = self.rest_by_slot
        statistics = Statistics(
            self.hashes, self.load, self.load, self.load, rest, rest, rest, distinct_keys=self.distinct_keys
        )
        planned = within_reach(planner("mixed"), statistics, table).plan(statistics, table).table
        return add_up(self.load, planned.lookup(self.hashes), channels) + add_up(rest, planned.slots, channels)

    def split(self, channels: int) -> Column:
        """Return the load of each channel if keys with more than a channel's share are divided among all."""
        heavy = self.load > self.total / channels
        return self.only(~heavy).balanced(channels) + float(self.load[heavy].sum()) / channels

    def scaled(self, total: float) -> KeyLoads:
        """Return the same shares of another total."""
        factor = total / self.total if self.total > 0 else 0.0
        rest = {name: getattr(self, name) * factor for name in ("rest_by_residue", "rest_by_slot")}
        return replace(self, load=self.load * factor, **rest)

    def combined(self, readers: int) -> KeyLoads:
        """Return the load if every reader combines its rows first, so that it sends one row per key.

        The rows of a key may lie anywhere. Other keys count in full, which is at most too much.
        """
        sent = readers * -np.expm1(self.load * np.log1p(-1 / readers)) if readers > 1 else np.minimum(self.load, 1.0)
        return replace(self, load=np.minimum(sent, self.load))

    def only(self, chosen: NDArray[np.bool_]) -> KeyLoads:
        """Return the load without some of the listed keys."""
        return replace(
            self,
            names=tuple(np.array(self.names, object)[chosen]),
            load=self.load[chosen],
            spark_hashes=self.spark_hashes[chosen],
            hashes=self.hashes[chosen],
        )
