"""SpaceSaving: the most frequent keys in a fixed number of entries, never undercounted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from unskew.errors import ArgumentError, require_number
from unskew.sketches import _arrow
from unskew.sketches._hash_table import EMPTY, Entries, TableSketch, home, kernel_add, kernel_find, probe
from unskew.sketches.base import Column, count_column, hash_column, share

MOST_ENTRIES = 2**28


class SpaceSaving(TableSketch):
    """The `capacity` most frequent keys, with counts that are high by at most ``n / capacity``.

    A new key takes a free entry, or else the entry with the least count: it inherits that count as its `error`
    and adds its own. Among several least counts the first entry of the table gives way.

    Parameters
    ----------
    capacity
        Number of entries. Keys with a share of more than ``1 / capacity`` are always among them.

    Notes
    -----
    Guarantees, with ``least_count`` the smallest count held, or 0 while there are free entries:

    - a held key has ``count - error <= true <= count``, with ``error <= least_count``;
    - a key that is not held has ``true <= least_count``;
    - the counts add up to at most n (exactly n if nothing was merged), so ``least_count <= n / capacity``.

    A tuple takes constant time on average: a cursor finds the entries with the least count by walking the table once
    for every value of the least count, of which there are at most ``n / capacity``.

    References
    ----------
    Metwally, Agrawal and El Abbadi, Efficient computation of frequent and top-k elements in data streams, ICDT 2005.
    Agarwal et al., Mergeable summaries, PODS 2012, section 3. Cafaro, Pulimeno and Tempesta, A parallel Space Saving
    algorithm for frequent items and the Hurwitz zeta distribution, Information Sciences 2016.
    Nasir et al., Partial Key Grouping: load-balanced partitioning of distributed streams, section 4.2.

    Examples
    --------
    >>> sketch = SpaceSaving(capacity=100)
    >>> sketch.update(np.random.default_rng(seed=0).zipf(1.5, size=100_000))
    >>> sketch
    SpaceSaving(capacity=100, n=100000, entries=100)
    >>> sketch.top(2).to_pylist()
    [{'hash': 1, 'count': 38097, 'error': 0}, {'hash': 2, 'count': 13577, 'error': 0}]
    """

    columns = ("hash", "count", "error")

    def __init__(self, capacity: int) -> None:
        require_number("capacity", capacity, 1, MOST_ENTRIES)
        self.capacity = capacity
        super().__init__(capacity)

    @property
    def least_count(self) -> int:
        """The most tuples that a key which is not held can have: the least count, or 0 while there is room."""
        return int(self._entries.count_of.min()) if self._used == self.capacity else 0

    def __repr__(self) -> str:
        return f"SpaceSaving(capacity={self.capacity}, n={self._n}, entries={self._used})"

    def update(self, hashes: Column) -> None:
        column = hash_column(hashes)
        self._used = _kernel_count(column, None, self._entries, self._used)
        self._n += len(column)

    def update_counts(self, hashes: Column, counts: Column) -> None:
        column = hash_column(hashes)
        weights = count_column(counts, len(column), self._n)
        self._used = _kernel_count(column, weights, self._entries, self._used)
        self._n += int(weights.sum())

    def estimate(self, hashes: Column) -> NDArray[np.int64]:
        """Return the count of each hash, `least_count` if it is not held: never low, high by at most `error_of`."""
        return self._look_up(hash_column(hashes))[0]

    def error_of(self, hashes: Column) -> NDArray[np.int64]:
        """Return how much too high the estimate of each hash may be."""
        return self._look_up(hash_column(hashes))[1]

    def top(self, k: int) -> pa.Table:
        require_number("k", k, 0)
        return self.entries().slice(0, min(k, self.capacity))

    def query(self, threshold: float) -> pa.Table:
        """Return the entries with ``count >= threshold * n``.

        They include every key with ``true >= threshold * n`` and none with ``true < threshold * n - n / capacity``.
        Those with ``count - error >= threshold * n`` are certain.
        """
        asked = share(threshold, "threshold")
        if asked * self.capacity <= 1:
            what = f"threshold must be more than 1 / capacity = 1/{self.capacity}, or keys above it may be missing"
            raise ArgumentError(what, got=threshold, hint="build the sketch with a greater capacity")
        return self._ranked(self._held()[1] >= math.ceil(asked * self._n))

    def merge(self, other: SpaceSaving) -> SpaceSaving:
        """Return the sketch of both streams together; `self` and `other` stay as they are.

        Its capacity k is the smaller of the two. Counts and errors are added; a key that one side does not hold may
        have up to that side's `least_count` there, so this is added to both. The k greatest counts stay.

        All guarantees of the class hold. With m the sum of both least counts, a held key has ``error <= m <= count``; a
        key held by neither has ``true <= m``, and one that is cut off has no more than the k counts that stay. Each
        count is m plus what both sides held above their least counts, in all at most ``n - k * m``: the k counts that
        stay add up to at most n.
        """
        capacity = min(self.capacity, other.capacity)
        table = combined_estimates([self, other]).slice(0, capacity)
        hash_of, count, error = (table[name].to_numpy() for name in self.columns)
        return SpaceSaving(capacity)._resume(self._n + other._n, (hash_of, count, error))

    def to_arrow(self) -> pa.Table:
        columns = dict(zip(self.columns, self._held(), strict=True))
        return _arrow.pack("space_saving", columns, {"capacity": self.capacity, "n": self._n})

    @classmethod
    def from_arrow(cls, packed: pa.Table) -> SpaceSaving:
        """Read what `to_arrow` wrote; raises `FormatError` if the table is not such a sketch."""
        header, (hash_of, count, error) = _arrow.unpack(packed, "space_saving", cls.columns)
        capacity, n = _arrow.whole(header, "capacity"), _arrow.whole(header, "n")
        _arrow.require(
            max(1, len(hash_of)) <= capacity <= MOST_ENTRIES, "the capacity does not fit the entries", capacity
        )
        _arrow.check_entries(hash_of, count, n)
        _arrow.require(bool(((error >= 0) & (error < count)).all()), "an error is not less than its count")
        return cls(capacity)._resume(n, (hash_of, count, error))

    def _resume(self, n: int, entries: _arrow.Held) -> SpaceSaving:
        self._n = n
        self._fill(self.capacity, entries)
        return self

    def _look_up(self, hashes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        found, least = kernel_find(self._entries, hashes), self.least_count
        missing, counts, slacks = found == EMPTY, self._entries.count_of, self._entries.slack_of
        return np.where(missing, least, counts[found]), np.where(missing, least, slacks[found])


def combined_estimates(
    sketches: Sequence[SpaceSaving],
    candidates: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None,
) -> pa.Table:
    """Add up what the sketches of several channels know of each key that any of them holds.

    Parameters
    ----------
    sketches
        One for each channel.
    candidates
        Returns the channels that may have seen each hash, as an array with one row per hash: two columns under partial
        key grouping, one under key grouping. By default any channel may have seen any key.

    Returns
    -------
    pyarrow.Table
        Columns hash, count and error, the most frequent first, with ``count - error <= true <= count``. The error is
        the sum of the key's errors over the channels that may have seen it.

    References
    ----------
    Nasir et al., Partial Key Grouping: load-balanced partitioning of distributed streams, section 4.2.

    Examples
    --------
    >>> left, right = SpaceSaving(capacity=2), SpaceSaving(capacity=2)
    >>> left.update(np.array([1, 1, 1, 3, 5]))
    >>> right.update(np.array([2, 2, 2, 4, 6]))
    >>> combined_estimates([left, right]).slice(0, 1).to_pylist()
    [{'hash': 1, 'count': 5, 'error': 2}]
    >>> parity = combined_estimates([left, right], candidates=lambda hashes: 1 - hashes[:, np.newaxis] % 2)
    >>> parity.slice(0, 1).to_pylist()
    [{'hash': 1, 'count': 3, 'error': 0}]
    """
    hashes = np.unique(np.concatenate([sketch._held()[0] for sketch in sketches]))
    channels = None if candidates is None else candidates(hashes)
    count, error = np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.int64)
    for channel, sketch in enumerate(sketches):
        may_hold = np.ones(len(hashes), np.bool_) if channels is None else (channels == channel).any(axis=1)
        stray = ~may_hold & (kernel_find(sketch._entries, hashes) != EMPTY)
        if stray.any():
            what = f"channel {channel} holds a key of which it is no candidate"
            raise ArgumentError(what, got=int(hashes[stray.argmax()]))
        channel_count, channel_error = sketch._look_up(hashes)
        count += np.where(may_hold, channel_count, 0)
        error += np.where(may_hold, channel_error, 0)
    return _arrow.ranked(SpaceSaving.columns, (hashes, count, error))


@njit(cache=True)
def _kernel_count(hashes: NDArray[np.int64], counts: NDArray[np.int64] | None, entries: Entries, used: int) -> int:
    """Add all rows; once the table is full, a new hash replaces the first entry with the least count.

    Counts never fall, so a cursor that visits the entries of one least count in order never passes one of them by.
    """
    row, used = kernel_add(hashes, counts, 0, len(hashes), entries, used, 0)
    least_count, cursor = 0, used
    while row < len(hashes):
        while cursor < used and entries.count_of[cursor] > least_count:
            cursor += 1
        if cursor == used:
            least_count, cursor = entries.count_of.min(), 0
            continue
        _kernel_replace(entries, cursor, hashes[row])
        entries.slack_of[cursor] = least_count
        row, used = kernel_add(hashes, counts, row, len(hashes), entries, used, 0)
    return used


@njit(cache=True)
def _kernel_replace(entries: Entries, entry: int, key_hash: np.int64) -> None:
    """Give an entry to another hash: free its slot, close the gap in the probe sequences, and take a new slot."""
    slots, hash_of = entries.slots, entries.hash_of
    last = len(slots) - 1
    gap = probe(entries, hash_of[entry])
    slot = (gap + 1) & last
    while slots[slot] != EMPTY:
        if ((slot - home(slots, hash_of[slots[slot]])) & last) >= ((slot - gap) & last):
            slots[gap] = slots[slot]
            gap = slot
        slot = (slot + 1) & last
    slots[gap] = EMPTY
    hash_of[entry] = key_hash
    slots[probe(entries, key_hash)] = entry
