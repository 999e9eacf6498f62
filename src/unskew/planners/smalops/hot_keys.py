"""Which keys are hot, and a counting window that finds them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unskew.load.statistics import Statistics, add_up
from unskew.planners.base import check
from unskew.planners.problem import Column
from unskew.routing.lookup import slot_of
from unskew.sketches import LossyCounting
from unskew.sketches.base import Column as Counts

HOT_BY = ("share", "abs", "cover", "listed")
ROUNDING = 1e-12
COVER_ERROR = 1e-5  # of the messages: a tenth of the 10,000th heaviest key at the flattest


def hot_positions(
    counts: Column, total: float, hot_by: str, threshold: float, undercount: Column | float = 0.0
) -> NDArray[np.int64]:
    """Return the positions of the hot keys, ascending. A key without messages is never hot.

    Parameters
    ----------
    counts
        Messages of each key in a window.
    total
        Messages of the window, those of keys not listed included.
    hot_by, threshold
        ``"share"``: keys with at least `threshold` of all messages. ``"abs"``: with at least so many messages.
        ``"cover"``: the fewest keys, heaviest first, that together have that share of all messages. ``"listed"``: all,
        because whoever counted has chosen.
    undercount
        By how much counts may be low (lossy counting). A key counts as hot if it may be.

    Examples
    --------
    >>> counts = np.array([40.0, 5.0, 25.0, 0.0])
    >>> [hot_positions(counts, 100.0, by, t).tolist() for by, t in (("share", 0.2), ("abs", 5), ("cover", 0.5))]
    [[0, 2], [0, 1, 2], [0, 2]]
    """
    some = counts > 0
    if hot_by == "listed":
        return np.flatnonzero(some)
    if hot_by == "cover":
        order = np.argsort(-counts, kind="stable")
        reached = np.searchsorted(np.cumsum(counts[order]), threshold * total * (1 - ROUNDING)) + 1
        chosen = order[: int(reached)]
        return np.sort(chosen[some[chosen]])
    least = threshold * total if hot_by == "share" else threshold
    return np.flatnonzero(some & (counts + undercount >= least * (1 - ROUNDING)))


def check_threshold(hot_by: str, threshold: float) -> None:
    """Raise `ArgumentError` unless there is such a way to tell hot keys, and such a threshold."""
    check(hot_by in HOT_BY, "there is no such way to tell hot keys", hot_by, f"one of {', '.join(HOT_BY)}")
    if hot_by in ("share", "cover"):
        check(0 < threshold <= 1, "hot_threshold must be a share, above 0 and at most 1", threshold)
    if hot_by == "abs":
        check(threshold > 0, "hot_threshold must be above 0", threshold, "100 messages in SMALOPS' long run")


class HotKeyWindow:
    """Counts keys and says, at the end of each window, which were hot; then forgets all (a tumbling window).

    No hot key is missed while the window has at most ten times `expected_tuples`: a key counts as hot if the counter
    cannot rule it out (count plus greatest undercount reach the threshold). Its load is the count itself, low by at
    most a tenth of the threshold. Keys that are not hot are added up by slot. Holds about ``ln(error * n) / error``
    counters; a row takes constant time.

    Plan its statistics with ``planner("smalops", hot_by="listed")``: the keys listed are the hot ones. See section II
    of Bhattacharya and Wood, and Manku and Motwani, "Approximate frequency counts over data streams".

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
        check(hot_by != "listed", "a window has to know which keys are hot", hot_by, "share, abs or cover")
        check(slots >= 1, "a table has at least one slot", slots)
        self.hot_by, self.hot_threshold, self.slots, self._error = hot_by, hot_threshold, slots, error
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
        self._count_slots(hashes, np.ones(len(hashes)))

    def update_counts(self, hashes: Counts, counts: Counts) -> None:
        """Count a batch that was counted before: row i stands for ``counts[i]`` messages of ``hashes[i]``."""
        self._counter.update_counts(hashes, counts)
        self._count_slots(hashes, counts)

    def close(self) -> Statistics:
        """Return the window's hot keys and the load of all others by slot; begin the next window."""
        entries = self._counter.entries()
        hashes = entries["hash"].to_numpy().astype(np.int64)
        counts, undercount = (entries[name].to_numpy().astype(np.float64) for name in ("count", "max_undercount"))
        hot = hot_positions(counts, self._counter.n, self.hot_by, self.hot_threshold, undercount)
        listed: Column = counts[hot]
        rest = self._slot_tuples - add_up(listed, slot_of(hashes[hot], self.slots), self.slots)
        statistics = Statistics(hashes[hot], listed, listed, np.zeros(len(hot)), rest, rest, np.zeros(self.slots))
        self._open(max(self._counter.n, 1))
        return statistics

    def _count_slots(self, hashes: Counts, counts: Counts) -> None:
        slot = slot_of(np.asarray(hashes, np.int64), self.slots)
        self._slot_tuples += add_up(np.asarray(counts, np.float64), slot, self.slots)

    def _open(self, expected: int) -> None:
        error = self._error
        if error is None:
            tenth = 0.1 * self.hot_threshold
            error = {"share": tenth, "abs": tenth / expected, "cover": COVER_ERROR}[self.hot_by]
        self._counter = LossyCounting(min(error, 0.1))
        self._slot_tuples = np.zeros(self.slots)
