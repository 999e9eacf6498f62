"""Hot keys of a counting window: one lossy counter, emptied at the window's end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.load.statistics import Statistics, add_up
from unskew.planners.smalops.hot_keys import check_threshold, hot_positions
from unskew.routing.lookup import slot_of
from unskew.sketches import LossyCounting
from unskew.sketches.base import Column as Counts

COVER_ERROR = 1e-5  # of the messages: a tenth of the 10,000th heaviest key at the flattest


class HotKeyWindow:
    """Counts keys and says, at the end of each window, which were hot; then forgets all (a tumbling window).

    No hot key is missed while the window has at most ten times `expected_tuples`: a key counts as hot if the counter
    cannot rule it out (count plus greatest undercount reach the threshold). Its load is the count itself, low by at
    most a tenth of the threshold. Keys that are not hot are added up by slot. Holds about ``ln(error * n) / error``
    counters; a row takes constant time.

    Plan what it returns with ``planner("smalops", hot_by="listed")``: the keys listed are the hot ones.

    Parameters
    ----------
    hot_by, hot_threshold
        As for `hot_positions`.
    slots
        Slots of the routing table.
    expected_tuples
        Messages to expect in the first window, for ``"abs"``; later windows expect what the last one had.
    error
        Share of a window's messages by which a count may be low (epsilon); by default a tenth of the threshold, and
        0.00001 with ``"cover"``.

    Examples
    --------
    >>> window = HotKeyWindow("share", 0.2, slots=4)
    >>> window.update(np.array([7, 7, 7, 9, 7, 8, 7, 6, 5, 4]))
    >>> closed = window.close()
    >>> closed.hashes.tolist(), closed.cost.tolist(), closed.slot_cost.tolist()
    ([7], [5.0], [2.0, 2.0, 1.0, 0.0])
    >>> window.tuples
    0

    References
    ----------
    Bhattacharya and Wood, "Load Balancing and Generalized Split State Reconciliation in Event Driven Systems",
    section II. Manku and Motwani, "Approximate frequency counts over data streams".
    """

    def __init__(
        self,
        hot_by: str = "share",
        hot_threshold: float = 0.001,
        *,
        slots: int,
        expected_tuples: int = 1_000_000,
        error: float | None = None,
    ) -> None:
        check_threshold(hot_by, hot_threshold)
        if hot_by == "listed":
            raise ArgumentError("a window has to know which keys are hot", got=hot_by, hint="share, abs or cover")
        if slots < 1:
            raise ArgumentError("a table has at least one slot", got=slots)
        self.hot_by, self.hot_threshold, self.slots = hot_by, hot_threshold, slots
        self._error = error
        self._open(expected_tuples)

    @property
    def tuples(self) -> int:
        """Messages of the window so far."""
        return self._counter.n

    @property
    def counters(self) -> int:
        """Counters held."""
        return len(self._counter)

    def update(self, hashes: Counts) -> None:
        """Count one message for each row."""
        self._counter.update(hashes)
        column = np.asarray(hashes, np.int64)
        self._slot_tuples += add_up(np.ones(len(column)), slot_of(column, self.slots), self.slots)

    def update_counts(self, hashes: Counts, counts: Counts) -> None:
        """Count a batch that was counted before: row i stands for ``counts[i]`` messages of ``hashes[i]``."""
        self._counter.update_counts(hashes, counts)
        column = np.asarray(hashes, np.int64)
        self._slot_tuples += add_up(np.asarray(counts, np.float64), slot_of(column, self.slots), self.slots)

    def close(self) -> Statistics:
        """Return the window's hot keys and the load of all others by slot; begin the next window."""
        entries = self._counter.entries()
        hashes, counts, undercount = (
            entries[name].to_numpy().astype(kind)
            for name, kind in (("hash", np.int64), ("count", np.float64), ("max_undercount", np.float64))
        )
        hot = hot_positions(counts, self._counter.n, self.hot_by, self.hot_threshold, undercount)
        listed: NDArray[np.float64] = counts[hot]
        rest = self._slot_tuples - add_up(listed, slot_of(hashes[hot], self.slots), self.slots)
        nothing = np.zeros(self.slots)
        seen = max(self._counter.n, 1)
        statistics = Statistics(hashes[hot], listed, listed, np.zeros(len(hot)), rest, rest, nothing)
        self._open(seen)
        return statistics

    def _open(self, expected: int) -> None:
        error = self._error
        if error is None:
            tenth = 0.1 * self.hot_threshold
            error = {"share": tenth, "abs": tenth / expected, "cover": COVER_ERROR}[self.hot_by]
        self._counter = LossyCounting(min(error, 0.1))
        self._slot_tuples = np.zeros(self.slots)
