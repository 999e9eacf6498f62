"""SpaceSaving: the most frequent keys in a fixed number of entries, never undercounted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.sketches import _arrow
from unskew.sketches._hash_table import EMPTY, Entries, Held, allocate, build, held, home, kernel_add, kernel_find
from unskew.sketches.base import Column, Sketch, count_column, hash_column, share

_COLUMNS = ("hash", "count", "error")


class SpaceSaving(Sketch):
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
    - the counts add up to n at most (exactly n if nothing was merged), so ``least_count <= n / capacity``.

    A tuple takes constant time on average. Entries with the least count are found by a cursor that walks the table once
    for every value of the least count, and there are at most ``n / capacity`` of these. A pre-counted batch so never
    takes longer than its tuples one by one, and one row at most the time of one walk.

    References
    ----------
    Metwally, Agrawal and El Abbadi, Efficient computation of frequent and top-k elements in data streams, ICDT 2005.
    Agarwal et al., Mergeable summaries, PODS 2012, section 3. Cafaro, Pulimeno and Tempesta, A parallel Space Saving
    algorithm for frequent items and the Hurwitz zeta distribution, Information Sciences 2016.
    Nasir et al., Partial Key Grouping: load-balanced partitioning of distributed streams, section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(seed=0)
    >>> sketch = SpaceSaving(capacity=100)
    >>> sketch.update(rng.zipf(1.5, size=100_000))
    >>> sketch
    SpaceSaving(capacity=100, n=100000, entries=100)
    >>> sketch.top(2).to_pylist()
    [{'hash': 1, 'count': 38097, 'error': 0}, {'hash': 2, 'count': 13577, 'error': 0}]
    """

    def __init__(self, capacity: int) -> None:
        if not 1 <= capacity <= 2**28:
            raise ArgumentError("capacity must be at least one entry and at most 2**28", got=capacity)
        self.capacity = capacity
        self._n = 0
        self._used = 0
        self._entries = allocate(capacity)

    @property
    def n(self) -> int:
        """Tuples seen, weights included."""
        return self._n

    @property
    def least_count(self) -> int:
        """The most tuples that a key which is not held can have: the least count, or 0 while there is room."""
        return int(self._entries.count_of.min()) if self._used == self.capacity else 0

    def __len__(self) -> int:
        return self._used

    def __repr__(self) -> str:
        return f"SpaceSaving(capacity={self.capacity}, n={self._n}, entries={self._used})"

    def update(self, hashes: Column) -> None:
        """Count one tuple for each row, in order."""
        column = hash_column(hashes)
        self._used = _kernel_count(column, None, self._entries, self._used)
        self._n += len(column)

    def update_counts(self, hashes: Column, counts: Column) -> None:
        """Count a batch that was counted before: a row of weight c raises its count by c. All guarantees hold."""
        column = hash_column(hashes)
        weights = count_column(counts, len(column), self._n)
        self._used = _kernel_count(column, weights, self._entries, self._used)
        self._n += int(weights.sum())

    def estimate(self, hashes: Column) -> NDArray[np.int64]:
        """Count of each hash, `least_count` where it is not held: never low, high by at most `error_of`."""
        return self._look_up(hash_column(hashes))[0]

    def error_of(self, hashes: Column) -> NDArray[np.int64]:
        """How much too high the estimate of each hash may be; `least_count` where it is not held."""
        return self._look_up(hash_column(hashes))[1]

    def entries(self) -> pa.Table:
        """All entries (hash, count, error), the most frequent first, equal counts by hash."""
        return _arrow.ranked(_COLUMNS, self._held())

    def top(self, k: int) -> pa.Table:
        """Select the k entries with the greatest counts."""
        return self.entries().slice(0, k)

    def query(self, threshold: float) -> pa.Table:
        """Entries with ``count >= threshold * n``.

        Every key with ``true >= threshold * n`` is among them, none with ``true < threshold * n - n / capacity``.
        Those with ``count - error >= threshold * n`` are certain.
        """
        asked = share(threshold, "threshold")
        if asked * self.capacity <= 1:
            raise ArgumentError(
                f"threshold must be more than 1 / capacity = 1/{self.capacity}, or keys above it may be missing",
                got=threshold,
                hint="build the sketch with a greater capacity",
            )
        return _arrow.ranked(_COLUMNS, self._held(), self._held()[1] >= math.ceil(asked * self._n))

    def merge(self, other: SpaceSaving) -> SpaceSaving:
        """Make the sketch of both streams together; `self` and `other` stay as they are.

        Its capacity k is the smaller of the two. Counts and errors are added; a key that one side does not hold may
        have up to that side's `least_count` there, so this is added to both. The k greatest counts stay.

        Notes
        -----
        All guarantees of the class hold for the merged sketch, in particular ``error <= n / k``. Proof. Let m be the
        sum of both least counts. A key held on either side has ``count - error <= true <= count`` by
        addition, and ``error <= m <= count``. A key held by neither has ``true <= m``; one that is cut off has
        ``true <= count``, not above the k counts that stay; so whatever is not held has ``true <= least_count``.
        Each count is m plus what the two sides held above their least counts. In all the sides held at most
        ``n - k * m`` above them, so that the k counts that stay add up to at most ``n - k * m + k * m = n``.
        """
        capacity = min(self.capacity, other.capacity)
        table = combined_estimates([self, other]).slice(0, capacity)
        hash_of, count, error = (table[name].to_numpy() for name in _COLUMNS)
        return SpaceSaving(capacity)._resume(self._n + other._n, (hash_of, count, error))

    def copy(self) -> SpaceSaving:
        """Make an independent sketch in the same state."""
        return SpaceSaving(self.capacity)._resume(self._n, self._held())

    def to_arrow(self) -> pa.Table:
        """The whole sketch as an Arrow table: the entries in the order of the table, capacity and n in the metadata."""
        columns = dict(zip(_COLUMNS, self._held(), strict=True))
        return _arrow.pack("space_saving", columns, {"capacity": self.capacity, "n": self._n})

    @classmethod
    def from_arrow(cls, packed: pa.Table) -> SpaceSaving:
        """Read what `to_arrow` wrote and go on from there; raises `FormatError` if it cannot be such a table."""
        header, (hash_of, count, error) = _arrow.unpack(packed, "space_saving", _COLUMNS)
        capacity, n = _arrow.whole(header, "capacity"), _arrow.whole(header, "n")
        _arrow.require(max(1, len(hash_of)) <= capacity <= 2**28, "the capacity does not fit the entries", capacity)
        _arrow.check_entries(hash_of, count, n)
        _arrow.require(bool(((error >= 0) & (error < count)).all()), "an error is not less than its count")
        return cls(capacity)._resume(n, (hash_of, count, error))

    def _resume(self, n: int, entries: Held) -> SpaceSaving:
        self._n, self._used = n, len(entries[0])
        self._entries = build(self.capacity, entries)
        return self

    def _held(self) -> Held:
        return held(self._entries, self._used)

    def _look_up(self, hashes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        found, least = kernel_find(self._entries, hashes), self.least_count
        missing = found == EMPTY
        return np.where(missing, least, self._entries.count_of[found]), np.where(
            missing, least, self._entries.slack_of[found]
        )


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
        Channels that may have seen each hash, as an array with one row for each hash: two columns under partial key
        grouping, one under key grouping. Left out: any channel may have.

    Returns
    -------
    pyarrow.Table
        Columns hash, count and error, the most frequent first, with ``count - error <= true <= count``. The error is
        the sum of the key's errors over the channels that may have seen it and no others: two terms under partial key
        grouping, all of them when tuples are shuffled.

    References
    ----------
    Nasir et al., Partial Key Grouping: load-balanced partitioning of distributed streams, section 4.2.

    Examples
    --------
    >>> import numpy as np
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
            raise ArgumentError(
                f"channel {channel} holds a key of which it is no candidate", got=int(hashes[stray.argmax()])
            )
        channel_count, channel_error = sketch._look_up(hashes)
        count += np.where(may_hold, channel_count, 0)
        error += np.where(may_hold, channel_error, 0)
    return _arrow.ranked(_COLUMNS, (hashes, count, error))


@njit(cache=True)
def _kernel_count(hashes: NDArray[np.int64], counts: NDArray[np.int64] | None, entries: Entries, used: int) -> int:
    """Add all rows; once the table is full, a new hash replaces the first entry with the least count.

    No entry falls back to a count once passed, so a cursor that visits the entries of one least count in order always
    stands at or before the first of them.
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
    """Give an entry to another hash: free its slot without leaving a gap in any probe sequence, then take a new one."""
    slots, hash_of = entries.slots, entries.hash_of
    last = len(slots) - 1
    gap = home(slots, hash_of[entry])
    while slots[gap] != entry:
        gap = (gap + 1) & last
    slot = (gap + 1) & last
    while slots[slot] != EMPTY:
        if ((slot - home(slots, hash_of[slots[slot]])) & last) >= ((slot - gap) & last):
            slots[gap] = slots[slot]
            gap = slot
        slot = (slot + 1) & last
    slots[gap] = EMPTY
    hash_of[entry] = key_hash
    slot = home(slots, key_hash)
    while slots[slot] != EMPTY:
        slot = (slot + 1) & last
    slots[slot] = entry
