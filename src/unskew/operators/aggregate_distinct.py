"""The approximate number of different values."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from numba import njit, uint64
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.hashing import xxhash64
from unskew.operators.aggregate_functions import Result, anything
from unskew.operators.base import Floats, Numbers
from unskew.operators.lists import cut, spread_out
from unskew.operators.reductions import valid_rows
from unskew.state.groups import Groups
from unskew.state.index import fixed

Entries = NDArray[np.uint16 | np.uint32]

_RANK_BITS = 6
_RANKS = (1 << _RANK_BITS) - 1
_FEWEST_BITS, _MOST_BITS = 4, 18
_FEW = 24
_DEFAULT_ERROR = "0.05"

# up to so many values linear counting is better, for 2^4, 2^5, ... registers; found by experiment by Heule et al.
_LINEAR_COUNTING_UP_TO = (
    10, 20, 40, 80, 220, 400, 900, 1800, 3100, 6500, 11500, 20000, 50000, 120000, 350000,
)  # fmt: skip


class ApproximateDistinct(Result):
    """``approx_count_distinct(x)``: the number of different values, by HyperLogLog++.

    The registers are those of Spark's function of this name: same hash, same precision. With Spark's 512 registers the
    standard error is 4.6 %; up to about 400 different values, where both count linearly, the result is exactly Spark's.
    Beyond, both are estimates with the same error; ours needs no table of corrections.
    ``approx_count_distinct(x, 0.01)`` asks for a smaller error; memory grows with its inverse square.

    A key's state is the list of its registers that are not zero, two bytes each (four below an error of 0.03), so that
    keys with few values take little. Merging takes the greatest of each register: any order gives the same result.

    References
    ----------
    Heule, Nunkesser and Hall, HyperLogLog in Practice, EDBT 2013. Ertl, New cardinality estimation algorithms for
    HyperLogLog sketches, 2017, section 2.4.
    """

    most_options = 1
    fits = staticmethod(anything)
    spelling = "(x[, error])"
    kind = pa.int64()

    def __post_init__(self) -> None:
        xxhash64([pa.nulls(0, self.columns[0].type)], names=[self.columns[0].name])  # raises if it cannot be hashed
        try:
            bits = self.bits
        except ValueError:
            bits = 0
        if not _FEWEST_BITS <= bits <= _MOST_BITS:
            hint = "a number from 0.0022 to 0.27, by default 0.05"
            raise ArgumentError("this is not a relative error", where=self.name, got=self.option, hint=hint)

    @property
    def bits(self) -> int:
        """Number of bits that choose a register."""
        return math.ceil(2 * math.log2(1.106 / float(self.option or _DEFAULT_ERROR)))

    @property
    def state(self) -> list[pa.Field]:
        """Registers that are not zero: number of the register, shifted by six bits, and its value."""
        return [pa.field(self.name, pa.list_(pa.from_numpy_dtype(self._entry)))]

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        hashes = xxhash64([columns[0]], names=[self.columns[0].name])
        if columns[0].null_count:
            valid = valid_rows(columns[0])
            hashes, groups = hashes[valid], Groups(groups.hashes, groups.keys, groups.group_of_row[valid])
        entries = np.empty(len(hashes), self._entry)
        _kernel_entries(fixed(hashes), self.bits, entries)
        return [self._union(entries, np.empty(0, np.int32), groups)]

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        entries, starts = spread_out(states[0])
        return [self._union(entries.to_numpy(), starts, groups)]

    def finish(self, states: list[pa.Array]) -> pa.Array:
        entries, starts = spread_out(states[0])
        threshold = _LINEAR_COUNTING_UP_TO[self.bits - _FEWEST_BITS]
        estimates = _kernel_estimates(fixed(entries.to_numpy()), fixed(starts), self.bits, threshold)
        return pa.array(np.floor(estimates + 0.5).astype(np.int64))

    @property
    def _entry(self) -> type[np.uint16] | type[np.uint32]:
        return np.uint16 if self.bits + _RANK_BITS <= 16 else np.uint32

    def _union(self, entries: Entries, starts: NDArray[np.int32], groups: Groups) -> pa.Array:
        order, group_starts = fixed(groups.order), fixed(groups.starts)
        kept, lengths = _kernel_union(fixed(entries), fixed(starts), order, group_starts, self.bits)
        return cut(pa.array(kept), lengths)


@njit(cache=True)
def _kernel_entries(hashes: Numbers, bits: int, entries: Entries) -> None:
    """Return register and rank of each hash: its first bits, and how many zeros follow plus one."""
    for row in range(len(hashes)):
        hashed = uint64(hashes[row])
        rest = (hashed << uint64(bits)) | (uint64(1) << uint64(bits - 1))
        rank = 1
        while rest >> uint64(63) == 0:
            rest <<= uint64(1)
            rank += 1
        entries[row] = ((hashed >> uint64(64 - bits)) << uint64(_RANK_BITS)) | uint64(rank)


@njit(cache=True)
def _kernel_union(
    entries: Entries, starts: NDArray[np.int32], order: Numbers, group_starts: Numbers, bits: int
) -> tuple[Entries, Numbers]:
    """Return the entries of each group, one per register, in the order of registers, and how many each has.

    The entries of row n begin at ``starts[n]``; without `starts` each row has one. All in one function, as calls for
    every entry would take longer than what they do.
    """
    registers, touched = np.zeros(1 << bits, entries.dtype), np.empty(1 << bits, np.int64)
    kept, lengths = np.empty(len(entries), entries.dtype), np.empty(len(group_starts) - 1, np.int64)
    lists, total = len(starts) > 0, 0
    for group in range(len(lengths)):
        seen = 0
        for place in range(group_starts[group], group_starts[group + 1]):
            row = order[place]
            at, stop = (np.int64(starts[row]), np.int64(starts[row + 1])) if lists else (row, row + 1)
            while at < stop:
                entry = entries[at]
                register = np.int64(entry) >> _RANK_BITS
                if registers[register] == 0:
                    touched[seen] = register
                    seen += 1
                registers[register] = max(registers[register], entry)
                at += 1
        if seen > _FEW:
            touched[:seen].sort()
        else:  # by insertion: most keys have few, and a call of a sort takes longer
            for place in range(1, seen):
                number, before = touched[place], place - 1
                while before >= 0 and touched[before] > number:
                    touched[before + 1] = touched[before]
                    before -= 1
                touched[before + 1] = number
        for place in range(seen):
            kept[total] = registers[touched[place]]
            registers[touched[place]] = 0
            total += 1
        lengths[group] = seen
    return kept[:total].copy(), lengths


@njit(cache=True)
def _kernel_estimates(entries: Entries, starts: NDArray[np.int32], bits: int, threshold: int) -> Floats:
    """Estimate the number of values behind each group's registers: by linear counting if few, else by Ertl's."""
    size, most = 1 << bits, 64 - bits
    estimates = np.empty(len(starts) - 1)
    for group in range(len(estimates)):
        zeros = size - (starts[group + 1] - starts[group])
        if zeros > 0:
            linear = size * math.log(size / zeros)
            if linear <= threshold:
                estimates[group] = linear
                continue
        counts = np.zeros(most + 2)
        for place in range(starts[group], starts[group + 1]):
            counts[entries[place] & _RANKS] += 1
        z = size * _tau(1 - counts[most + 1] / size)
        for rank in range(most, 0, -1):
            z = 0.5 * (z + counts[rank])
        z += size * _sigma(zeros / size)
        estimates[group] = size * size / (2 * math.log(2.0) * z)
    return estimates


@njit(cache=True)
def _sigma(x: float) -> float:
    """Sum up x + x^2 + 2 x^4 + 4 x^8 ...: what registers that are still zero add."""
    if x == 1.0:
        return math.inf
    y, z, before = 1.0, x, -1.0
    while z != before:
        x *= x
        before = z
        z += x * y
        y += y
    return z


@njit(cache=True)
def _tau(x: float) -> float:
    """Sum up what registers that are full add."""
    if not 0.0 < x < 1.0:
        return 0.0
    y, z, before = 1.0, 1 - x, -1.0
    while z != before:
        x = math.sqrt(x)
        before = z
        y *= 0.5
        z -= (1 - x) ** 2 * y
    return z / 3
