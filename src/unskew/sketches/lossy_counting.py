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
    Held,
    allocate,
    build,
    held,
    kernel_add,
    kernel_find,
    kernel_index,
    kernel_resize,
)
from unskew.sketches.base import Column, Sketch, count_column, hash_column, share

_COLUMNS = ("hash", "count", "max_undercount")
_FEWEST = 64


class LossyCounting(Sketch):
    """Frequent keys with counts that are low by at most `error` times the length of the stream.

    The stream is cut into windows of ``ceil(1 / error)`` tuples. A new key enters with the count 1 and with
    `max_undercount`, the number of windows closed so far: what an earlier, evicted entry of it may have counted.
    When window i closes, entries with ``count + max_undercount <= i`` are evicted.

    Parameters
    ----------
    error
        Share of the stream by which a count may be low (epsilon). A tenth of the smallest threshold that will be
        asked for is usual.

    Notes
    -----
    Guarantees, for every key, with ``bound = undercount_bound <= error * n``:

    - ``true - bound <= count <= true``, where a key without an entry counts as 0;
    - a held key also has ``true <= count + max_undercount``;
    - `query` returns every key with ``true >= threshold * n`` and none with ``true < (threshold - error) * n``.

    When window i closes at most ``window * (1 + 1/2 + ... + 1/i)`` entries remain, about ``ln(error * n) / error``;
    until the next close each tuple may add one. `update` takes constant time a tuple, sweeps included.

    References
    ----------
    Manku and Motwani, Approximate frequency counts over data streams, VLDB 2002, section 4.2.
    Gedik, Partitioning functions for stateful data parallelism in stream processing, VLDB Journal 2014, section 4.1.2.

    Examples
    --------
    >>> import numpy as np
    >>> a, b, c, d = 1, 2, 3, 4
    >>> sketch = LossyCounting(error=0.25)
    >>> sketch.update(np.array([a, b, a, c, a, a, b, d]))
    >>> sketch.entries().to_pylist()
    [{'hash': 1, 'count': 4, 'max_undercount': 0}]

    >>> rng = np.random.default_rng(seed=0)
    >>> sketch = LossyCounting(error=0.001)
    >>> sketch.update(rng.zipf(1.5, size=100_000))
    >>> sketch
    LossyCounting(error=0.001, n=100000, entries=74)
    >>> sketch.query(threshold=0.05)["hash"].to_pylist()
    [1, 2, 3]
    """

    def __init__(self, error: float) -> None:
        share(error, "error")
        self.error = float(error)
        self.window = math.ceil(1 / self.error)
        self._n = 0
        self._bound = 0
        self._used = 0
        self._entries = allocate(_FEWEST)

    @property
    def n(self) -> int:
        """Tuples seen, weights included."""
        return self._n

    @property
    def undercount_bound(self) -> int:
        """The most tuples that any key, held or not, may have beyond its count; never above ``error * n``."""
        return self._bound

    def __len__(self) -> int:
        return self._used

    def __repr__(self) -> str:
        return f"LossyCounting(error={self.error!r}, n={self._n}, entries={self._used})"

    def update(self, hashes: Column) -> None:
        """Count one tuple for each row, exactly as if each were inserted by itself.

        Window ends fall where they must, inside a column or across several: only the stream matters, not its cuts.
        """
        column = hash_column(hashes)
        self._entries, self._used, self._bound = _kernel_count(
            column, self._entries, self._used, self._n, self._bound, self.window
        )
        self._n += len(column)

    def update_counts(self, hashes: Column, counts: Column) -> None:
        """Count a batch that was counted before and is not cut at window ends.

        All rows are added first; if the batch reached a window end, one sweep follows, with i the number of whole
        windows in the n tuples seen by then.

        Notes
        -----
        The guarantees of the class hold unchanged. Proof. Let B be `undercount_bound`, the i of the last sweep. Two
        facts hold at the start and are kept by every call: (1) a key that is not held has ``true <= B``; (2) a held
        key has ``count <= true <= count + max_undercount``, with ``max_undercount <= B``. Adding to a held key moves
        both sides of (2) alike. A key that enters was not held, so by (1) it had at most B tuples before, and B becomes
        its `max_undercount`: (2). A sweep raises B to i and evicts only where ``count + max_undercount <= i``, so what
        it evicts has by (2) ``true <= i``: (1). Nowhere did it matter that a sweep falls on a window end. Finally
        ``B = floor(n / window) <= error * n``, as n never shrinks.

        Until the sweep, the sketch holds every different key of the batch. After it, at most
        ``window * (1 + 1/2 + ... + 1/(i+1))`` entries: one that entered under the bound B' and survived has more than
        ``i - B'`` tuples, all of them among the last ``n - B' * window``.
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
        """Count of each hash, 0 where it is not held: never high, low by at most `undercount_bound`."""
        found = kernel_find(self._entries, hash_column(hashes))
        return np.where(found == EMPTY, 0, self._entries.count_of[found])

    def entries(self) -> pa.Table:
        """All entries (hash, count, max_undercount), the most frequent first, equal counts by hash."""
        return _arrow.ranked(_COLUMNS, self._held())

    def query(self, threshold: float) -> pa.Table:
        """Entries with ``count >= (threshold - error) * n``.

        Every key with ``true >= threshold * n`` is among them, none with ``true < (threshold - error) * n``.
        The comparison is exact, not rounded.
        """
        error = max(share(self.error, "error"), Fraction(1, self.window))
        asked = share(threshold, "threshold")
        if asked <= error:
            raise ArgumentError(
                f"threshold must be more than the sketch's error {self.error!r}, or keys above it may be missing",
                got=threshold,
                hint="build the sketch with a tenth of the threshold as its error",
            )
        least_count = math.ceil((asked - error) * self._n)
        return _arrow.ranked(_COLUMNS, self._held(), self._held()[1] >= least_count)

    def possible(self, least_count: int) -> pa.Table:
        """Entries of the keys that may have `least_count` tuples or more: ``count + max_undercount >= least_count``.

        No such key is missing as long as ``least_count > undercount_bound``.
        """
        _, count, max_undercount = self._held()
        return _arrow.ranked(_COLUMNS, self._held(), count + max_undercount >= least_count)

    def merge(self, other: LossyCounting, *, disjoint: bool = False) -> LossyCounting:
        """Make the sketch of both streams together; `self` and `other` stay as they are.

        Its error is the greater of the two. Counts add up, and so do undercounts: a key that one side does not hold
        may have its whole `undercount_bound` there. So ``max_undercount`` becomes the sum over both sides of
        what the side holds or else of its bound, and no key is low by more than
        ``self.undercount_bound + other.undercount_bound <= self.error * self.n + other.error * other.n``.
        Nothing is evicted: there are at most as many entries as in both. The merged sketch can be updated further,
        and its next sweep comes with the next window end of n.

        Parameters
        ----------
        other
            A sketch of another part of the stream, say of another channel.
        disjoint
            Promise that no key was seen on both sides, as when each key has one channel. Then nothing of a key is
            missed on the other side, and no key is low by more than the greater of the two bounds.
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

        merged = LossyCounting(max(self.error, other.error))
        bound = max(self._bound, other._bound) if disjoint else self._bound + other._bound
        return merged._resume(
            self._n + other._n,
            bound,
            (
                np.concatenate([hash_left, hash_right[only_right]]),
                np.concatenate([count_left, count_right[only_right]]),
                np.concatenate([undercount_left, undercount_right[only_right]]),
            ),
        )

    def copy(self) -> LossyCounting:
        """Make an independent sketch in the same state."""
        return LossyCounting(self.error)._resume(self._n, self._bound, self._held())

    def to_arrow(self) -> pa.Table:
        """The whole sketch as an Arrow table: the entries, and error, n and bound in the metadata."""
        columns = self.entries()
        header = {"error": self.error, "n": self._n, "undercount_bound": self._bound}
        return _arrow.pack("lossy_counting", {name: columns[name].to_numpy() for name in _COLUMNS}, header)

    @classmethod
    def from_arrow(cls, packed: pa.Table) -> LossyCounting:
        """Read what `to_arrow` wrote and go on from there; raises `FormatError` if it cannot be such a table."""
        header, (hash_of, count, max_undercount) = _arrow.unpack(packed, "lossy_counting", _COLUMNS)
        sketch = cls(_arrow.share(header, "error"))
        n, bound = _arrow.whole(header, "n"), _arrow.whole(header, "undercount_bound")
        _arrow.require(bound <= n // sketch.window, "the undercount bound is too high for n and error", bound)
        _arrow.check_entries(hash_of, count, n)
        within = (max_undercount >= 0) & (max_undercount <= bound)
        _arrow.require(bool(within.all()), "a max_undercount is not within the undercount bound", bound)
        return sketch._resume(n, bound, (hash_of, count, max_undercount))

    def _resume(self, n: int, bound: int, entries: Held) -> LossyCounting:
        self._n, self._bound, self._used = n, bound, len(entries[0])
        self._entries = build(max(_FEWEST, 2 * self._used), entries)
        return self

    def _held(self) -> Held:
        return held(self._entries, self._used)


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
    """Add rows `start` to `stop`, making room as needed."""
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
    """Count single tuples, with a sweep at every window end."""
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
