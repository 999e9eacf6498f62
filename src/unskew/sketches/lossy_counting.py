"""Lossy counting: frequent keys of a whole stream, never overcounted."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.sketches import _arrow
from unskew.sketches._hash_table import (
    EMPTY,
    Entries,
    TableSketch,
    kernel_add,
    kernel_find,
    kernel_index,
    kernel_resize,
)
from unskew.sketches.base import Column, count_column, hash_column, share

_FEWEST = 64


class LossyCounting(TableSketch):
    """Frequent keys with counts that are low by at most `error` times the length of the stream.

    The stream is cut into windows of ``ceil(1 / error)`` tuples. A new key enters with the count 1 and with
    `max_undercount`, the number of windows closed so far: what an earlier, evicted entry of it may have counted.
    When window i closes, entries with ``count + max_undercount <= i`` are evicted.

    Parameters
    ----------
    error
        Share of the stream by which a count may be low (epsilon). A good value is a tenth of the smallest threshold
        that you will ask for.

    Notes
    -----
    Guarantees, for every key, with ``bound = undercount_bound <= error * n``:

    - ``true - bound <= count <= true``, where a key without an entry counts as 0;
    - a held key also has ``true <= count + max_undercount``;
    - `query` returns every key with ``true >= threshold * n`` and none with ``true < (threshold - error) * n``.

    When window i closes at most ``window * (1 + 1/2 + ... + 1/i)`` entries remain, about ``ln(error * n) / error``;
    until the next close each tuple may add one. `update` takes constant time per tuple, sweeps included.

    References
    ----------
    Manku and Motwani, Approximate frequency counts over data streams, VLDB 2002, section 4.2.
    Gedik, Partitioning functions for stateful data parallelism in stream processing, VLDB Journal 2014, section 4.1.2.

    Examples
    --------
    >>> a, b, c, d = 1, 2, 3, 4
    >>> sketch = LossyCounting(error=0.25)
    >>> sketch.update(np.array([a, b, a, c, a, a, b, d]))
    >>> sketch.entries().to_pylist()
    [{'hash': 1, 'count': 4, 'max_undercount': 0}]

    >>> sketch = LossyCounting(error=0.001)
    >>> sketch.update(np.random.default_rng(seed=0).zipf(1.5, size=100_000))
    >>> sketch
    LossyCounting(error=0.001, n=100000, entries=74)
    >>> sketch.query(threshold=0.05)["hash"].to_pylist()
    [1, 2, 3]
    """

    columns = ("hash", "count", "max_undercount")

    def __init__(self, error: float) -> None:
        share(error, "error")
        self.error = float(error)
        self.window = math.ceil(1 / self.error)
        self._bound = 0
        super().__init__(_FEWEST)

    @property
    def undercount_bound(self) -> int:
        """The most tuples that any key, held or not, may have beyond its count; never above ``error * n``."""
        return self._bound

    def __repr__(self) -> str:
        return f"LossyCounting(error={self.error!r}, n={self._n}, entries={self._used})"

    def update(self, hashes: Column) -> None:
        """Count one tuple for each row. The result does not depend on how the stream is cut into columns."""
        column = hash_column(hashes)
        self._entries, self._used, self._bound = _kernel_count(
            column, self._entries, self._used, self._n, self._bound, self.window
        )
        self._n += len(column)

    def update_counts(self, hashes: Column, counts: Column) -> None:
        """Count a batch that was counted before: all rows are added, then one sweep follows if a window has closed.

        Until the sweep, the sketch holds every different key of the batch. After it, at most
        ``window * (1 + 1/2 + ... + 1/(i+1))`` entries remain.

        All guarantees hold wherever a sweep falls. With B the `undercount_bound`, every call keeps two facts: (1) a key
        that is not held has ``true <= B``; (2) a held key has ``count <= true <= count + max_undercount``. A key that
        enters had at most B tuples, by (1), and gets B as its `max_undercount`, hence (2). A sweep raises B to
        ``floor(n / window)`` and evicts only keys with no more tuples than that, by (2), hence (1).
        """
        column = hash_column(hashes)
        weights = count_column(counts, len(column), self._n)
        self._entries, self._used = _kernel_add_all(
            column, weights, 0, len(column), self._entries, self._used, self._bound
        )
        closed = self._n // self.window
        self._n += int(weights.sum())
        if self._n // self.window > closed:
            self._bound = self._n // self.window
            self._used = _kernel_evict(self._entries, self._used, self._bound)
            if len(self._entries.hash_of) > max(_FEWEST, 16 * self._used):
                self._entries = kernel_resize(self._entries, self._used, max(_FEWEST, 2 * self._used))

    def estimate(self, hashes: Column) -> NDArray[np.int64]:
        """Return the count of each hash, 0 if it is not held: never high, low by at most `undercount_bound`."""
        found = kernel_find(self._entries, hash_column(hashes))
        return np.where(found == EMPTY, 0, self._entries.count_of[found])

    def query(self, threshold: float) -> pa.Table:
        """Return the entries with ``count >= (threshold - error) * n``.

        They include every key with ``true >= threshold * n`` and none with ``true < (threshold - error) * n``.
        The comparison is exact, not rounded.
        """
        error = max(share(self.error, "error"), Fraction(1, self.window))
        asked = share(threshold, "threshold")
        if asked <= error:
            what = f"threshold must be more than the sketch's error {self.error!r}, or keys above it may be missing"
            hint = "build the sketch with a tenth of the threshold as its error"
            raise ArgumentError(what, got=threshold, hint=hint)
        return self._ranked(self._held()[1] >= math.ceil((asked - error) * self._n))

    def possible(self, least_count: int) -> pa.Table:
        """Return the entries of keys that may have `least_count` tuples: ``count + max_undercount >= least_count``.

        No such key is missing as long as ``least_count > undercount_bound``.
        """
        _, count, max_undercount = self._held()
        return self._ranked(count + max_undercount >= least_count)

    def merge(self, other: LossyCounting, *, disjoint: bool = False) -> LossyCounting:
        """Return the sketch of both streams together; `self` and `other` stay as they are.

        Its error is the greater of the two. Counts add up, and so do undercounts: a key that one side does not hold
        may have that side's whole `undercount_bound` there. So no key is low by more than
        ``self.undercount_bound + other.undercount_bound <= self.error * self.n + other.error * other.n``.
        Nothing is evicted, and you can update the merged sketch further.

        With `disjoint` you promise that no key was seen on both sides, as when each key has one channel. Then no key is
        low by more than the greater of the two bounds.
        """
        hash_left, count_left, undercount_left = self._held()
        hash_right, count_right, undercount_right = other._held()
        in_right = kernel_find(other._entries, hash_left)
        both, only_right = in_right != EMPTY, kernel_find(self._entries, hash_right) == EMPTY
        if disjoint and both.any():
            raise ArgumentError("the sketches are not disjoint, both hold a key", got=int(hash_left[both][0]))
        missed_left, missed_right = (0, 0) if disjoint else (self._bound, other._bound)
        count_left = count_left + np.where(both, other._entries.count_of[in_right], 0)
        undercount_left = undercount_left + np.where(both, other._entries.slack_of[in_right], missed_right)
        undercount_right = undercount_right + missed_left

        bound = max(self._bound, other._bound) if disjoint else self._bound + other._bound
        entries = (
            np.concatenate([hash_left, hash_right[only_right]]),
            np.concatenate([count_left, count_right[only_right]]),
            np.concatenate([undercount_left, undercount_right[only_right]]),
        )
        return LossyCounting(max(self.error, other.error))._resume(self._n + other._n, bound, entries)

    def to_arrow(self) -> pa.Table:
        columns = self.entries()
        header = {"error": self.error, "n": self._n, "undercount_bound": self._bound}
        return _arrow.pack("lossy_counting", {name: columns[name].to_numpy() for name in self.columns}, header)

    @classmethod
    def from_arrow(cls, packed: pa.Table) -> LossyCounting:
        """Read what `to_arrow` wrote; raises `FormatError` if the table is not such a sketch."""
        header, (hash_of, count, max_undercount) = _arrow.unpack(packed, "lossy_counting", cls.columns)
        sketch = cls(_arrow.share(header, "error"))
        n, bound = _arrow.whole(header, "n"), _arrow.whole(header, "undercount_bound")
        _arrow.require(bound <= n // sketch.window, "the undercount bound is too high for n and error", bound)
        _arrow.check_entries(hash_of, count, n)
        within = (max_undercount >= 0) & (max_undercount <= bound)
        _arrow.require(bool(within.all()), "a max_undercount is not within the undercount bound", bound)
        return sketch._resume(n, bound, (hash_of, count, max_undercount))

    def _resume(self, n: int, bound: int, entries: _arrow.Held) -> LossyCounting:
        self._n, self._bound = n, bound
        self._fill(max(_FEWEST, 2 * len(entries[0])), entries)
        return self


@njit(cache=True)
def _kernel_add_all(
    hashes: NDArray[np.int64],
    counts: NDArray[np.int64] | None,
    start: int,
    stop: int,
    entries: Entries,
    used: int,
    bound: int,
) -> tuple[Entries, int]:
    while True:
        start, used = kernel_add(hashes, counts, start, stop, entries, used, bound)
        if start == stop:
            return entries, used
        entries = kernel_resize(entries, used, 2 * used)


@njit(cache=True)
def _kernel_evict(entries: Entries, used: int, bound: int) -> int:
    """Keep the entries that may have more than `bound` tuples, in their order."""
    hash_of, count, slack = entries.hash_of, entries.count_of, entries.slack_of
    kept = 0
    for entry in range(used):
        if count[entry] + slack[entry] > bound:
            hash_of[kept], count[kept], slack[kept] = hash_of[entry], count[entry], slack[entry]
            kept += 1
    kernel_index(entries, kept)
    return kept


@njit(cache=True)
def _kernel_count(
    hashes: NDArray[np.int64], entries: Entries, used: int, n: int, bound: int, window: int
) -> tuple[Entries, int, int]:
    start = 0
    while start < len(hashes):
        stop = min(len(hashes), start + window - n % window)
        entries, used = _kernel_add_all(hashes, None, start, stop, entries, used, bound)
        n += stop - start
        start = stop
        if n % window == 0:
            bound = n // window
            used = _kernel_evict(entries, used, bound)
    return entries, used, bound
