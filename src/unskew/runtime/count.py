"""The rows of a batch, counted by key before they are routed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.codec import load
from unskew.load.statistics import Statistics, add_up
from unskew.routing.lookup import slot_of
from unskew.routing.table import RoutingTable
from unskew.runtime.costs import Costs
from unskew.runtime.held import Held

Column = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Counts:
    """The rows of one partition, or of a whole batch: heavy keys one by one, ascending by hash, the rest by slot."""

    sources: tuple[int, ...]  # the partitions that were counted
    rows: int = 0
    hashes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    tuples: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    names: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))  # keys as people read them
    places: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))  # Spark's hash; 0 if not known
    slot_tuples: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    slot_keys: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    # All rows, by the partition in which Spark's hash would put them; empty if not known.
    place_rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def total(cls, blobs: Iterable[bytes], slots: int) -> Counts:
        """Add up what the partitions of a batch counted, each dumped as bytes."""
        nothing = cls((), slot_tuples=np.zeros(slots), slot_keys=np.zeros(slots))
        parts = [nothing, *(load(cls, blob) for blob in blobs)]
        hashes, first, entry = np.unique(
            np.concatenate([part.hashes for part in parts]), return_index=True, return_inverse=True
        )
        known = [part.place_rows for part in parts if len(part.place_rows)]
        return cls(
            tuple(sorted(source for part in parts for source in part.sources)),
            sum(part.rows for part in parts),
            hashes,
            add_up(np.concatenate([part.tuples for part in parts]), entry, len(hashes)),
            pa.concat_arrays([part.names.cast(pa.string()) for part in parts]).take(pa.array(first)),
            np.concatenate([part.places for part in parts])[first],
            np.sum([part.slot_tuples for part in parts if len(part.slot_tuples)], axis=0),
            np.sum([part.slot_keys for part in parts if len(part.slot_keys)], axis=0),
            np.sum(known, axis=0) if known else np.empty(0, np.int64),
        )

    def may_have(self, hashes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which keys may have rows: heavy ones, and all in a slot that has rows of keys that are not listed."""
        listed, slot = np.isin(hashes, self.hashes), slot_of(hashes, len(self.slot_tuples))
        unknown = self.rows > self.tuples.sum() + self.slot_tuples.sum()  # nothing was counted by key
        return np.asarray(listed | (self.slot_tuples[slot] > 0) | unknown)

    def load(self, costs: Costs, held: Held, table: RoutingTable) -> Statistics:
        """Return what the batch will cost, with the state of its keys and of those that the table lists."""
        silent = np.setdiff1d(table.listed_keys, self.hashes)
        hashes, tuples = np.append(self.hashes, silent), np.append(self.tuples, np.zeros(len(silent)))
        names = pa.array([table.names.get(key) for key in silent.tolist()], pa.string())
        key_state, slot_state = held.beside(hashes, table)
        return Statistics(
            hashes,
            tuples=tuples,
            cost=costs.of_keys(hashes, tuples),
            state=key_state,
            slot_tuples=self.slot_tuples,
            slot_cost=costs.of_slots(self.slot_keys, self.slot_tuples),
            slot_state=slot_state,
            keys=pa.concat_arrays([self.names, names]),
        )

    def under_hash(self, measured: Statistics) -> Column | None:
        """Return the load of each partition if Spark's own hash had placed these rows, by their measured cost.

        None where the places are not known.
        """
        if not len(self.place_rows):
            return None
        partitions = len(self.place_rows)
        cost = measured.cost_and_state(self.hashes)[0]
        known = cost > 0
        place = np.mod(self.places, partitions)[known]
        rest = self.place_rows - add_up(self.tuples[known], place, partitions)
        rest_rows = float(rest.sum())
        rest_cost = max(measured.total_cost - float(cost[known].sum()), 0.0)
        price = rest_cost / rest_rows if rest_rows > 0 else 0.0
        return add_up(cost[known], place, partitions) + price * rest
