"""What rows cost: learned from past batches, to weigh the counts of the next one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from unskew.load.statistics import Statistics, add_up

Column = NDArray[np.float64]

DECAY = 0.8  # how much of a batch counts in the next one
PRIOR_SECONDS = 0.02  # a key or slot with less measured work than this is taken to cost what all others do
TRACKED = 4096


def _none() -> Column:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Costs:
    """Cost = factor x (calls x per call + rows x per row), the factor by key for heavy ones and by slot for the rest.

    A new hot key costs what rows cost elsewhere, without the price of a call that every light key pays. Without
    measurements a row costs 1.

    >>> rows = np.array([1.0, 100.0, 1000.0])
    >>> seen = Statistics.of_keys([1, 2, 3], cost=0.001 + 0.002 * rows, tuples=rows)
    >>> costs = Costs().learn(seen, keys=3, seconds=2.2, measured=True)
    >>> [round(price, 4) for price in costs.prices]
    [0.001, 0.002]
    >>> costs.of_keys(np.array([9]), np.array([500.0])).round(3).tolist()
    [1.001]
    """

    # Sums over past work, to which the two prices are fitted: calls x calls, calls x rows, rows x rows,
    # calls x seconds, rows x seconds. Empty if nothing was measured.
    moments: NDArray[np.float64] = field(default_factory=_none)
    hashes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # heavy keys
    key_seconds: NDArray[np.float64] = field(default_factory=_none)  # measured
    key_expected: NDArray[np.float64] = field(default_factory=_none)  # as the two prices alone would have it
    slot_seconds: NDArray[np.float64] = field(default_factory=_none)  # the same for all other keys
    slot_expected: NDArray[np.float64] = field(default_factory=_none)
    seconds_per_row: float = 0.0  # of the operator as a whole, known even where keys are not measured one by one

    @property
    def prices(self) -> tuple[float, float]:
        """Seconds per call and per row; 0 and 1 where nothing was measured."""
        if not len(self.moments):
            return 0.0, 1.0
        calls, both, rows, call_seconds, row_seconds = self.moments.tolist()
        determinant = calls * rows - both * both
        if determinant > 1e-9 * calls * rows:
            per_call = (call_seconds * rows - row_seconds * both) / determinant
            per_row = (row_seconds * calls - call_seconds * both) / determinant
            if per_call >= 0 and per_row >= 0:
                return per_call, per_row
        by_row, by_call = row_seconds / rows if rows else 0.0, call_seconds / calls if calls else 0.0
        # one price alone: the one that leaves less unexplained
        left_by_row = by_row * (by_row * rows - 2 * row_seconds)
        left_by_call = by_call * (by_call * calls - 2 * call_seconds)
        return (0.0, by_row) if left_by_row <= left_by_call else (by_call, 0.0)

    def of_keys(self, hashes: NDArray[np.int64], tuples: Column) -> Column:
        """Return what the rows of heavy keys will cost."""
        per_call, per_row = self.prices
        expected = per_call * (tuples > 0) + per_row * tuples
        if not len(self.hashes):
            return expected
        place = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        factor = _factor(self.key_seconds[place], self.key_expected[place])
        return np.where(self.hashes[place] == hashes, factor, 1.0) * expected

    def of_slots(self, keys: Column, tuples: Column) -> Column:
        """Return what the rows of all other keys will cost, by slot."""
        per_call, per_row = self.prices
        expected = per_call * np.minimum(keys, tuples) + per_row * tuples
        if len(self.slot_seconds) != len(tuples):
            return expected
        return _factor(self.slot_seconds, self.slot_expected) * expected

    def seconds(self, cost: float, rows: float) -> float:
        """Return how long work of that cost will take in the operator."""
        return cost if len(self.moments) else self.seconds_per_row * rows

    def learn(self, statistics: Statistics, keys: int, seconds: float, measured: bool) -> Costs:
        """Return what is known after a batch in which `keys` keys had rows and the operator took `seconds`.

        If `measured`, the cost in the statistics is seconds; otherwise only the overall price is learned.
        """
        rows = statistics.total_tuples
        if rows <= 0:
            return self
        overall = seconds / rows
        if self.seconds_per_row:
            overall = DECAY * self.seconds_per_row + (1 - DECAY) * overall
        if not measured:
            return replace(self, seconds_per_row=overall)
        with_rows = statistics.tuples > 0
        hashes = statistics.hashes[with_rows]
        tuples, cost = statistics.tuples[with_rows], statistics.cost[with_rows]
        rest_keys = max(float(keys) - len(hashes), 0.0)
        rest_rows, rest_cost = float(statistics.slot_tuples.sum()), float(statistics.slot_cost.sum())
        calls = np.append(np.ones(len(hashes)), rest_keys)
        row, took = np.append(tuples, rest_rows), np.append(cost, rest_cost)
        # hot keys are few and large: weigh each piece of work by its size, so that small ones count together
        weight = 1.0 / np.maximum(calls + row, 1.0)
        pairs = ((calls, calls), (calls, row), (row, row), (calls, took), (row, took))
        now = np.array([one @ (weight * other) for one, other in pairs])
        moments = now if not len(self.moments) else DECAY * self.moments + now
        priced = replace(self, moments=moments, seconds_per_row=overall)
        return priced._factors(statistics, hashes, tuples, cost, rest_keys)

    def _factors(
        self, statistics: Statistics, hashes: NDArray[np.int64], tuples: Column, cost: Column, rest_keys: float
    ) -> Costs:
        per_call, per_row = self.prices
        together, entry = np.unique(np.append(self.hashes, hashes), return_inverse=True)
        seconds = add_up(np.append(DECAY * self.key_seconds, cost), entry, len(together))
        expected = np.append(DECAY * self.key_expected, per_call + per_row * tuples)
        expected = add_up(expected, entry, len(together))
        if len(together) > TRACKED:
            kept = np.sort(np.argpartition(-expected, TRACKED)[:TRACKED])
            together, seconds, expected = together[kept], seconds[kept], expected[kept]
        rows = statistics.slot_tuples
        share = rest_keys / rows.sum() if rows.sum() else 0.0
        slot_expected = per_call * share * rows + per_row * rows
        slot_seconds = statistics.slot_cost
        if len(self.slot_seconds) == len(rows):
            slot_seconds = DECAY * self.slot_seconds + slot_seconds
            slot_expected = DECAY * self.slot_expected + slot_expected
        return replace(
            self,
            hashes=together,
            key_seconds=seconds,
            key_expected=expected,
            slot_seconds=slot_seconds,
            slot_expected=slot_expected,
        )


def _factor(seconds: Column, expected: Column) -> Column:
    factor: Column = (seconds + PRIOR_SECONDS) / (expected + PRIOR_SECONDS)
    return factor
