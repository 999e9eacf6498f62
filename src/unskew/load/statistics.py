"""What the channels report at the end of an interval."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import StatisticsError, require_number

if TYPE_CHECKING:
    from unskew.load.channels import ChannelUse

Column = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Statistics:
    """The load of one interval: tracked keys one by one, everything else by slot.

    A tracked key is not counted in its slot's remainder, so totals are sums over both. Keys are unique and sorted by
    hash; use `combine` to add up several reports of one key.

    Parameters
    ----------
    hashes
        Tracked keys, by 64-bit hash.
    tuples, cost, state
        Per tracked key: rows of the interval, what they cost (seconds, or rows if nothing was measured), and bytes of
        state held.
    slot_tuples, slot_cost, slot_state
        Per slot: the same for all keys that are not tracked.
    distinct_keys
        Estimated number of different keys, tracked or not.
    keys
        The tracked keys themselves, if known, for reports; null for those without rows.
    use
        How busy the channels were and what memory they have, if known; `combine` leaves it out.

    Examples
    --------
    >>> s = Statistics.of_keys([7, 3], cost=[5.0, 1.0])
    >>> s.hashes.tolist(), s.cost.tolist(), s.state.tolist(), s.total_cost
    ([3, 7], [1.0, 5.0], [1.0, 5.0], 6.0)
    """

    hashes: NDArray[np.int64]
    tuples: Column
    cost: Column
    state: Column
    slot_tuples: Column = field(default_factory=lambda: np.zeros(1))
    slot_cost: Column = field(default_factory=lambda: np.zeros(1))
    slot_state: Column = field(default_factory=lambda: np.zeros(1))
    distinct_keys: float = 0.0
    keys: pa.Array | None = None
    use: ChannelUse | None = None

    def __post_init__(self) -> None:
        hashes = _hash_column(self.hashes)
        order = np.argsort(hashes, kind="stable")
        object.__setattr__(self, "hashes", hashes[order])
        for name in ("tuples", "cost", "state"):
            object.__setattr__(self, name, checked_column(getattr(self, name), len(hashes), name)[order])
        slots = len(floats(self.slot_tuples, "slot_tuples"))
        for name in ("slot_tuples", "slot_cost", "slot_state"):
            object.__setattr__(self, name, checked_column(getattr(self, name), slots, name))
        if self.keys is not None:
            if not isinstance(self.keys, pa.Array | pa.ChunkedArray) or len(self.keys) != len(hashes):
                raise StatisticsError("keys must be an Arrow array with a key for each hash", got=self.keys)
            object.__setattr__(self, "keys", self.keys.take(pa.array(order)))
        require_number("distinct_keys", self.distinct_keys, most=2.0**64, whole=False)
        object.__setattr__(self, "distinct_keys", max(float(self.distinct_keys), float(len(hashes))))
        repeated = self.hashes[1:][self.hashes[1:] == self.hashes[:-1]]
        if len(repeated):
            raise StatisticsError("a key is reported twice", got=int(repeated[0]), hint="add reports up with combine()")

    @classmethod
    def of_keys(
        cls, hashes: object, cost: object, state: object = None, tuples: object = None, keys: pa.Array | None = None
    ) -> Statistics:
        """Build statistics that list every key; state and tuples default to the cost."""
        return cls(
            _hash_column(hashes),
            tuples=floats(cost if tuples is None else tuples, "tuples"),
            cost=floats(cost, "cost"),
            state=floats(cost if state is None else state, "state"),
            keys=keys,
        )

    def cost_and_state(self, hashes: NDArray[np.int64]) -> tuple[Column, Column]:
        """Return the cost and state of the given keys, 0 if they are not tracked.

        >>> Statistics.of_keys([3, 7], cost=[1.0, 5.0]).cost_and_state(np.array([7, 4]))[0].tolist()
        [5.0, 0.0]
        """
        place = np.searchsorted(self.hashes, hashes)
        known = (place < len(self.hashes)) & (np.append(self.hashes, 0)[place] == hashes)
        cost, state = (np.where(known, np.append(column, 0.0)[place], 0.0) for column in (self.cost, self.state))
        return cost, state

    def without(self, hashes: NDArray[np.int64]) -> Statistics:
        """Return the statistics without some keys and their load.

        >>> Statistics.of_keys([3, 7], cost=[1.0, 5.0]).without(np.array([7])).total_cost
        1.0
        """
        left = np.flatnonzero(~np.isin(self.hashes, hashes))
        columns = {name: getattr(self, name)[left] for name in ("hashes", "tuples", "cost", "state")}
        keys = None if self.keys is None else self.keys.take(pa.array(left))
        return replace(self, keys=keys, distinct_keys=self.distinct_keys - len(self.hashes) + len(left), **columns)

    def by_slot(self, slots: int) -> tuple[Column, Column, Column]:
        """Return the tuples, cost and state of each of `slots` slots; all 0 if the statistics list every key."""
        columns = self.slot_tuples, self.slot_cost, self.slot_state
        if len(self.slot_tuples) == slots:
            return columns
        if any(column.any() for column in columns):
            raise StatisticsError(f"the statistics have {len(self.slot_tuples)} slots, the table has {slots}")
        return np.zeros(slots), np.zeros(slots), np.zeros(slots)

    @property
    def total_tuples(self) -> float:
        return float(self.tuples.sum() + self.slot_tuples.sum())

    @property
    def total_cost(self) -> float:
        return float(self.cost.sum() + self.slot_cost.sum())

    @property
    def total_state(self) -> float:
        return float(self.state.sum() + self.slot_state.sum())


def combine(reports: list[Statistics]) -> Statistics:
    """Add up what several channels reported for the same interval.

    The load of keys that several channels report is added up. Other keys count as different.
    """
    if not reports:
        return Statistics.of_keys([], [])
    hashes, where = np.unique(np.concatenate([r.hashes for r in reports]), return_inverse=True)
    added = {
        name: add_up(np.concatenate([getattr(r, name) for r in reports]), where, len(hashes))
        for name in ("tuples", "cost", "state")
    }
    slots = max(len(r.slot_tuples) for r in reports)
    remainder = {name: np.zeros(slots) for name in ("slot_tuples", "slot_cost", "slot_state")}
    for report in reports:
        for name, total in remainder.items():
            column = getattr(report, name)
            total[: len(column)] += column
    keys = None
    if all(r.keys is not None for r in reports):
        names = pa.concat_arrays([r.keys for r in reports])
        last = np.lexsort((-np.arange(len(where)), names.is_valid()))  # so that the first name of each key wins
        first = np.full(len(hashes), -1)
        first[where[last]] = last
        keys = names.take(pa.array(first))
    distinct = sum(r.distinct_keys for r in reports) - (len(where) - len(hashes))
    return Statistics(hashes, distinct_keys=distinct, keys=keys, use=None, **added, **remainder)


def add_intervals(intervals: list[Statistics]) -> Statistics:
    """Add up the load of consecutive intervals: rows and cost are sums, state is that of the last one.

    >>> first, second = Statistics.of_keys([1], [2.0], state=[10.0]), Statistics.of_keys([1, 2], [3.0, 1.0])
    >>> both = add_intervals([first, second])
    >>> both.cost.tolist(), both.state.tolist()
    ([5.0, 1.0], [3.0, 1.0])
    """
    total, last = combine(intervals), intervals[-1]
    state = last.cost_and_state(total.hashes)[1]
    return replace(total, state=state, slot_state=last.slot_state, distinct_keys=last.distinct_keys, use=last.use)


def add_up(values: NDArray[Any], by: NDArray[Any], count: int) -> Column:
    """Return the sum of `values` for each of `count` groups; ``by[i]`` is the group of ``values[i]``."""
    return np.bincount(by, values, count).astype(np.float64, copy=False)


def floats(values: object, name: str) -> Column:
    """Return `values` as a column of float64; raise `StatisticsError` if they are not numbers."""
    try:
        column = np.atleast_1d(np.asarray(values, np.float64))
    except (TypeError, ValueError, OverflowError):
        raise StatisticsError(f"{name} must be a list of numbers", got=values) from None
    if column.ndim != 1:
        raise StatisticsError(f"{name} must be a list of numbers", got=values)
    return column


def _hash_column(values: object) -> NDArray[np.int64]:
    try:
        hashes = np.asarray(values)
    except ValueError:  # lists of unequal length
        hashes = np.asarray(None)
    if hashes.ndim != 1 or (hashes.size and hashes.dtype != np.int64 and not np.can_cast(hashes.dtype, np.int64)):
        raise StatisticsError("hashes must be a list of whole numbers with 64 bits", got=values)
    return hashes.astype(np.int64, copy=False)


def checked_column(values: object, length: int, name: str) -> Column:
    """Return `values` as float64 after checking length, NaN, infinity and sign; errors name the row."""
    column = floats(values, name)
    if len(column) != length:
        raise StatisticsError(f"{name} has {len(column)} rows where {length} are needed")
    bad = np.flatnonzero(~(np.isfinite(column) & (column >= 0)))
    if len(bad):
        what, hint = f"{name} must be a finite number of at least 0", "drop the row or report 0"
        raise StatisticsError(what, where=f"row {bad[0]}", got=float(column[bad[0]]), hint=hint)
    return column
