"""The counts of all partitions, added up: the load of a batch before it is routed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.load.statistics import Statistics, add_up
from unskew.routing.lookup import slot_of
from unskew.routing.table import RoutingTable
from unskew.runtime.costs import Costs
from unskew.runtime.held import Held
from unskew.runtime.prepare import Counts

Column = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Counted:
    """A batch's rows, by heavy key and by slot.

    Parameters
    ----------
    rows, sources
        Rows of the batch, and the partitions that they are in.
    hashes, tuples, names, places
        Heavy keys, ascending by hash: rows, the key as people read it, Spark's own hash of it.
    slot_tuples, slot_keys
        Rows and keys of all others.
    place_rows
        All rows by the partition in which Spark's hash would put them; empty where not known.
    """

    rows: int
    sources: tuple[int, ...]
    hashes: NDArray[np.int64]
    tuples: Column
    names: pa.Array
    places: NDArray[np.int32]
    slot_tuples: Column
    slot_keys: Column
    place_rows: NDArray[np.int64]

    @classmethod
    def of(cls, parts: Sequence[Counts], slots: int) -> Counted:
        """Add up what partitions counted."""
        everything = np.concatenate([np.empty(0, np.int64), *(part.hashes for part in parts)])
        hashes, first, entry = np.unique(everything, return_index=True, return_inverse=True)
        tuples = add_up(np.concatenate([np.empty(0), *(part.tuples for part in parts)]), entry, len(hashes))
        names = pa.concat_arrays([pa.array([], pa.string()), *(part.names.cast(pa.string()) for part in parts)])
        places = np.concatenate([np.empty(0, np.int32), *(part.places for part in parts)])
        slot_tuples, slot_keys, place_rows = np.zeros(slots), np.zeros(slots), np.empty(0, np.int64)
        for part in parts:
            if len(part.slot_tuples):
                slot_tuples += part.slot_tuples
                slot_keys += part.slot_keys
            if len(part.place_rows):
                place_rows = part.place_rows if not len(place_rows) else place_rows + part.place_rows
        return cls(
            sum(part.rows for part in parts),
            tuple(sorted(part.source for part in parts)),
            hashes,
            tuples,
            names.take(pa.array(first)),
            places[first],
            slot_tuples,
            slot_keys,
            place_rows,
        )

    def may_have(self, hashes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which keys may have rows: heavy ones, and all in a slot that has rows of keys that are not listed."""
        listed, slot = np.isin(hashes, self.hashes), slot_of(hashes, len(self.slot_tuples))
        unknown = self.rows > self.tuples.sum() + self.slot_tuples.sum()  # nothing was counted by key
        return np.asarray(listed | (self.slot_tuples[slot] > 0) | unknown)

    def load(self, costs: Costs, held: Held, table: RoutingTable) -> Statistics:
        """Return what the batch will cost, and the state of its keys and of those that the table lists."""
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
        """Return the load of each partition if Spark's own hash had placed these rows; None where that is not known.

        Parameters
        ----------
        measured
            What the batch's keys have cost in the end.
        """
        if not len(self.place_rows):
            return None
        partitions = len(self.place_rows)
        place = np.mod(self.places, partitions)
        cost = measured.cost_and_state(self.hashes)[0]
        known = cost > 0
        rest = self.place_rows - add_up(self.tuples[known], place[known], partitions)
        rest_rows = float(rest.sum())
        rest_cost = max(measured.total_cost - float(cost[known].sum()), 0.0)
        price = rest_cost / rest_rows if rest_rows > 0 else 0.0
        return add_up(cost[known], place[known], partitions) + price * rest
