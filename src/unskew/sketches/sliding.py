"""Lossy counting over the recent past: staggered counters that take turns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import ArgumentError, require_number
from unskew.sketches import _arrow
from unskew.sketches.base import MOST_TUPLES, Column, Sketch, count_column, hash_column
from unskew.sketches.lossy_counting import LossyCounting

MOST_COUNTERS = 1024


class SlidingLossyCounting(Sketch):
    """Frequent keys among the last `window` tuples or a few more, so that keys that cooled down are forgotten.

    Several lossy counters start `stagger` tuples apart and all count every tuple. The oldest that covers the window
    answers; when the next one is old enough it takes over, and the first starts again from nothing.

    Parameters
    ----------
    window
        The number of most recent tuples that an answer covers at least (W). Rounded up until the stagger is a whole
        number of the counters' own windows; the attribute `window` has the result.
    error
        Share of the covered tuples by which a count may be low (epsilon).
    counters
        Number of counters (x), from 2 to 1024. More follow the stream more closely and cost more.

    Notes
    -----
    With ``stagger = window / (counters - 1)``, counter ``q mod counters`` starts afresh before tuple ``q * stagger``,
    counting from 0. Answers cover the last `size` tuples and no others: ``size = window + n mod stagger``, so that
    ``window <= size < window * counters / (counters - 1)``, or ``size = n`` while ``n < window``. All guarantees of
    `LossyCounting` hold over these tuples. Time and memory are those of `LossyCounting`, times `counters`.

    References
    ----------
    Gedik, Partitioning functions for stateful data parallelism in stream processing, VLDB Journal 2014, section 4.1.2
    and Figure 2.

    Examples
    --------
    >>> sketch = SlidingLossyCounting(window=1000, error=0.01)
    >>> sketch.update(np.full(5000, 1))
    >>> sketch.update(np.full(1500, 2))
    >>> sketch
    SlidingLossyCounting(window=1000, error=0.01, counters=3, n=6500, size=1000, entries=3)
    >>> sketch.query(threshold=0.5).to_pylist()
    [{'hash': 2, 'count': 1000, 'max_undercount': 0}]
    """

    def __init__(self, window: int, error: float, counters: int = 3) -> None:
        require_number("window", window, most=MOST_TUPLES)
        if window < 1:
            raise ArgumentError("window must be at least one tuple", got=window)
        require_number("counters", counters, most=MOST_COUNTERS)
        if counters < 2:
            raise ArgumentError("there must be 2 counters or more", got=counters, hint="use LossyCounting for one")
        self.counters = counters
        self._counters = [LossyCounting(error) for _ in range(counters)]
        self.error = self._counters[0].error
        step = self._counters[0].window * (counters - 1)
        self.window = -(-window // step) * step
        self.stagger = self.window // (counters - 1)
        self._n = 0

    @property
    def n(self) -> int:
        return self._n

    @property
    def size(self) -> int:
        """The number of most recent tuples that answers cover."""
        return self.active.n

    @property
    def active(self) -> LossyCounting:
        """The counter that answers now. It belongs to this sketch: copy it to keep it."""
        if self._n < self.window:
            return self._counters[0]
        return self._counters[(self._n // self.stagger - (self.counters - 1)) % self.counters]

    def __len__(self) -> int:
        return sum(len(counter) for counter in self._counters)

    def __repr__(self) -> str:
        return (
            f"SlidingLossyCounting(window={self.window}, error={self.error!r}, counters={self.counters}, "
            f"n={self._n}, size={self.size}, entries={len(self)})"
        )

    def update(self, hashes: Column) -> None:
        column = hash_column(hashes)
        start = 0
        while start < len(column):
            stop = min(len(column), start + self.stagger - self._n % self.stagger)
            for counter in self._started(stop - start):
                counter.update(column[start:stop])
            self._n += stop - start
            start = stop

    def update_counts(self, hashes: Column, counts: Column) -> None:
        """Count a batch that was counted before.

        It cannot be cut, so a counter that should start within the batch starts before it. The upper limit of `size`
        grows by less than the tuples of that batch.
        """
        column = hash_column(hashes)
        weights = count_column(counts, len(column), self._n)
        total = int(weights.sum())
        for counter in self._started(total):
            counter.update_counts(column, weights)
        self._n += total

    def estimate(self, hashes: Column) -> NDArray[np.int64]:
        return self.active.estimate(hashes)

    def entries(self) -> pa.Table:
        return self.active.entries()

    def query(self, threshold: float) -> pa.Table:
        return self.active.query(threshold)

    def merge(self, other: SlidingLossyCounting, *, disjoint: bool = False) -> LossyCounting:
        """Return a plain sketch of what both cover now: their tuples have no common order to slide over."""
        return self.active.merge(other.active, disjoint=disjoint)

    def to_arrow(self) -> pa.Table:
        joined = pa.concat_tables([counter.entries() for counter in self._counters])
        turn = np.repeat(np.arange(self.counters, dtype=np.int64), [len(counter) for counter in self._counters])
        header = {
            "error": self.error,
            "window": self.window,
            "counters": self.counters,
            "n": self._n,
            "counter_n": [counter.n for counter in self._counters],
            "counter_undercount_bound": [counter.undercount_bound for counter in self._counters],
        }
        columns = {"counter": turn, **{name: joined[name].to_numpy() for name in joined.column_names}}
        return _arrow.pack("sliding_lossy_counting", columns, header)

    @classmethod
    def from_arrow(cls, packed: pa.Table) -> SlidingLossyCounting:
        """Read what `to_arrow` wrote; raises `FormatError` if the table is not such a sketch."""
        names = LossyCounting.columns
        header, (turn, *columns) = _arrow.unpack(packed, "sliding_lossy_counting", ("counter", *names))
        error, n = _arrow.share(header, "error"), _arrow.whole(header, "n")
        counters, window = _arrow.whole(header, "counters"), _arrow.whole(header, "window")
        fits = 2 <= counters <= MOST_COUNTERS and window >= 1
        _arrow.require(fits, "there are too few counters or tuples, or too many", (counters, window))
        each_n, each_bound = header.get("counter_n", []), header.get("counter_undercount_bound", [])
        for values in (each_n, each_bound):
            _arrow.require(isinstance(values, list) and len(values) == counters, "a counter is missing", values)
        sketch = cls(window, error, counters)
        _arrow.require(sketch.window == window, "the window does not fit error and counters", window)
        _arrow.require(bool(((turn >= 0) & (turn < counters)).all()), "a row belongs to no counter")
        for index in range(counters):
            entries = {name: column[turn == index] for name, column in zip(names, columns, strict=True)}
            parameters = {"error": error, "n": each_n[index], "undercount_bound": each_bound[index]}
            sketch._counters[index] = LossyCounting.from_arrow(_arrow.pack("lossy_counting", entries, parameters))
        sketch._n = n
        fits = all(counter.n <= n for counter in sketch._counters) and sketch.size >= min(n, window)
        _arrow.require(fits, "the counters do not cover the window", each_n)
        return sketch

    def _started(self, tuples: int) -> list[LossyCounting]:
        """Restart the counters whose turn falls among the next tuples, and return all that count these tuples."""
        first, last = -(-self._n // self.stagger), -(-(self._n + tuples) // self.stagger)
        for turn in range(max(first, last - self.counters), last):
            self._counters[turn % self.counters] = LossyCounting(self.error)
        return self._counters[:last]
