"""Keys that have candidate channels of their own, in a form that kernels can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from unskew.errors import ArgumentError, RoutingError
from unskew.routing.lookup import HashIndex
from unskew.sketches.base import Column, hash_column
from unskew.splitters.base import Routed, own_loads
from unskew.splitters.choices import Channels, Hashes, Loads, Salts, candidates
from unskew.splitters.pkg import two_choices

_PLACE_BITS = 20
_PLACES = (1 << _PLACE_BITS) - 1
_WORST = np.int64(2**63 - 1)
_SHORT = np.uint64(40)


@dataclass(frozen=True, eq=False)
class SplitKeys:
    """A few keys, and the channels that share each of them.

    Examples
    --------
    >>> split = SplitKeys.of_table({42: (3, 1), 7: (0, 1, 2)})
    >>> len(split), split.candidates(42), split.candidates(8)
    (2, (3, 1), ())
    """

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.int64))  # all different
    list_of: Channels = field(default_factory=lambda: np.empty(0, np.int32))  # keys may share a list of candidates
    offsets: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))  # where each list begins
    channels: Channels = field(default_factory=lambda: np.empty(0, np.int32))  # candidates; ties go to the first

    @classmethod
    def of_table(cls, split: Mapping[int, Sequence[int]]) -> SplitKeys:
        """Return the split entries of a routing table: candidates by hash."""
        lists = list(split.values())
        lengths = np.array([len(channels) for channels in lists], np.int64)
        if lists and not lengths.min():
            raise RoutingError("a split key needs candidates", got=next(key for key in split if not split[key]))
        flat = np.concatenate([*lists, np.empty(0)]).astype(np.int32)
        hashes = np.fromiter(split, np.int64, len(split))
        return cls(hashes, np.arange(len(lists), dtype=np.int32), np.append(0, np.cumsum(lengths)), flat)

    @classmethod
    def by_hash(cls, hashes: Hashes, workers: int, choices: int, *, seed: int = 0, distinct: bool = False) -> SplitKeys:
        """Return keys with as many candidates as there are `choices`, by their hash functions; see `candidates`."""
        found = candidates(hashes, workers, choices, seed=seed, distinct=distinct)
        offsets = np.arange(len(hashes) + 1) * found.shape[1]
        return cls(np.array(hashes), np.arange(len(hashes), dtype=np.int32), offsets, found.ravel())

    @classmethod
    def everywhere(cls, hashes: Hashes, workers: int) -> SplitKeys:
        """Return keys that may go to every channel."""
        lists = np.zeros(len(hashes), np.int32)
        return cls(np.array(hashes), lists, np.array([0, workers]), np.arange(workers, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.hashes)

    def candidates(self, key_hash: int) -> tuple[int, ...]:
        """Return the channels that share a key; none if it is not split."""
        found = self.list_of[self.hashes == key_hash]
        return tuple(self.channels[self.offsets[found[0]] : self.offsets[found[0] + 1]].tolist()) if len(found) else ()

    def route(self, hashes: Column, owners: Channels, loads: ArrayLike) -> Routed:
        """Send tuples of split keys to the least loaded of their candidates, all others to their owners, in order.

        Pure, and the same however the tuples are cut into calls; one look-up for each tuple, and for those of split
        keys on average fewer comparisons than there are candidates.

        Parameters
        ----------
        hashes
            64-bit hashes of the tuples' keys.
        owners
            The channel of each tuple if it were not split, as a routing table's `lookup` gives it.
        loads
            Tuples per channel that the source knows of so far, whole keys' included. Not changed.

        Examples
        --------
        >>> split = SplitKeys.of_table({42: (1, 2)})
        >>> routed = split.route(np.array([7, 42, 42, 7, 42]), np.zeros(5, np.int32), loads=[0, 1, 0])
        >>> routed.channels.tolist(), routed.loads.tolist()
        ([0, 2, 1, 0, 2], [2, 2, 2])
        """
        column, after = hash_column(hashes), own_loads(loads)
        if len(owners) != len(column):
            raise ArgumentError("there must be one owner per tuple", got=(len(column), len(owners)))
        if len(self.channels) and self.channels.max() >= len(after):
            raise RoutingError(f"channel {self.channels.max()} is not in 0..{len(after) - 1}", where="a split key")
        channels = np.array(owners, np.int32)
        self.follow(column, np.empty(0, np.uint64), False, after, channels)
        return Routed(channels, after)

    def follow(self, hashes: Hashes, salts: Salts, distinct: bool, loads: Loads, channels: Channels) -> None:
        """Fill in loads and channels; keys that are not split have two choices, or without salts the channels given."""
        index, lists = self._index, (self.offsets, self.channels)
        _kernel_split(hashes, index.shift, index.keys, index.values, *lists, salts, distinct, loads, channels)

    @cached_property
    def _index(self) -> HashIndex:
        return HashIndex(self.hashes, self.list_of)


@njit(cache=True, inline="always")
def _word(loads: Loads, candidates: Channels, at: Any, first: Any) -> Any:
    """Return the load of a candidate, and behind it its place in the list: the smaller, the better."""
    return loads[np.uint64(candidates[at])] << _PLACE_BITS | np.int64(at - first)


@njit(cache=True)
def _kernel_split(
    hashes: Hashes,
    shift: np.uint64,
    index_keys: Hashes,
    index_values: Channels,
    offsets: NDArray[np.int64],
    candidates: Channels,
    salts: Salts,
    distinct: bool,
    loads: Loads,
    channels: Channels,
) -> None:
    """Send tuples with a list to its least loaded candidate, the first of several; others by two choices.

    Without salts the others stay on the channels that they have. The least load is found by a scan over words that hold
    load and place, in four independent minima: no branch, and no step that waits for the one before.

    Long lists are seldom scanned. Loads only grow, so once the least load of a list is known (`level`), the candidates
    before `position` lie above it for good, and the next one still on that level is the answer. All are compared only
    when none is left. At first, and always for short lists, `position` is the end of the list.

    It is one function with unsigned indices because calls with arrays and checks for negative indices would take most
    of the time.
    """
    position, level = offsets[1:].copy(), np.zeros(len(offsets) - 1, np.int64)
    hashed, last = len(salts) > 0, np.uint64(len(index_keys) - 1)
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    for row in range(len(hashes)):
        bucket = np.uint64(hashes[row]) >> shift
        which = index_values[bucket]
        while which >= 0 and index_keys[bucket] != hashes[row]:
            bucket = (bucket + one) & last
            which = index_values[bucket]
        if which >= 0:
            at, end, least = np.uint64(position[which]), np.uint64(offsets[which + 1]), level[which]
            while at < end and loads[np.uint64(candidates[at])] > least:
                at += one
            if at == end:
                first = np.uint64(offsets[which])
                i, best = first, _WORST
                best_1, best_2, best_3 = best, best, best
                while i + four <= end:
                    best = min(best, _word(loads, candidates, i, first))
                    best_1 = min(best_1, _word(loads, candidates, i + one, first))
                    best_2 = min(best_2, _word(loads, candidates, i + two, first))
                    best_3 = min(best_3, _word(loads, candidates, i + three, first))
                    i += four
                while i < end:
                    best = min(best, _word(loads, candidates, i, first))
                    i += one
                best = min(best, best_1, best_2, best_3)
                at, least = first + np.uint64(best & _PLACES), best >> _PLACE_BITS
            if end - np.uint64(offsets[which]) > _SHORT:
                position[which], level[which] = at, least
            chosen = np.uint64(candidates[at])
        elif hashed:
            chosen = two_choices(hashes[row], salts, distinct, loads)
        else:
            chosen = np.uint64(channels[row])
        loads[chosen] += 1
        channels[row] = chosen
