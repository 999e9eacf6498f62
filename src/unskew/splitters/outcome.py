"""What splitting a stream costs and brings: imbalance over time, state, agreement with an oracle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.splitters.choices import Channels, Loads
from unskew.splitters.stream import SplitStream

Column = NDArray[np.float64]

CHECKPOINTS = 1000


@dataclass(frozen=True, eq=False)
class ImbalanceCurve:
    """The imbalance ``I(t) = max - mean`` of the loads, in tuples, as the stream goes on.

    See sections 2 and 3.2 of Partial Key Grouping. The bound is never less than the imbalance.
    """

    tuples: NDArray[np.int64]  # of the stream up to each checkpoint; the last one is the end
    imbalance: Column  # of the channels' loads
    bound: Column  # sum over the sources of the imbalance of the loads that each has caused

    @property
    def at_end(self) -> float:
        """Imbalance at the end over all tuples, ``I(m) / m``: what the paper's Table 2 shows."""
        return float(self.imbalance[-1] / self.tuples[-1]) if len(self.tuples) else 0.0

    @property
    def average(self) -> float:
        """Mean imbalance over all tuples, ``mean I(t) / m``: what the paper says that it shows."""
        return float(self.imbalance.mean() / self.tuples[-1]) if len(self.tuples) else 0.0

    @property
    def relative(self) -> float:
        """Mean of the imbalance over the tuples so far, ``mean I(t) / t``."""
        return float((self.imbalance / self.tuples).mean()) if len(self.tuples) else 0.0


def imbalance_curve(stream: SplitStream, checkpoints: int = CHECKPOINTS) -> ImbalanceCurve:
    """Return the imbalance at equally spaced checkpoints.

    Examples
    --------
    >>> from unskew.splitters import splitter
    >>> from unskew.splitters.stream import split_stream
    >>> curve = imbalance_curve(split_stream(splitter("key"), np.array([1, 1, 2, 1]), workers=2), checkpoints=4)
    >>> curve.imbalance.tolist(), curve.at_end
    ([0.5, 1.0, 0.5, 1.0], 0.25)
    """
    if checkpoints < 1:
        raise ArgumentError("there must be at least one checkpoint", got=checkpoints)
    tuples = len(stream.channels)
    ends = np.unique(np.linspace(0, tuples, min(checkpoints, tuples) + 1).astype(np.int64))[1:]
    shape = (stream.source_count, stream.workers)
    imbalance, bound = _kernel_imbalance(stream.channels, stream.sources, np.zeros(shape, np.int64), ends)
    return ImbalanceCurve(ends, imbalance, bound)


@dataclass(frozen=True, eq=False)
class Counters:
    """State that a count per key takes: one counter wherever a key has been."""

    per_worker: Loads
    keys: int  # distinct keys, which is what key grouping takes
    most_channels: int  # of the key that lives on the most of them

    @property
    def total(self) -> int:
        """Counters on all channels."""
        return int(self.per_worker.sum())

    @property
    def relative_to_key_grouping(self) -> float:
        """Counters on all channels over those of key grouping; 1 for an empty stream."""
        return self.total / self.keys if self.keys else 1.0


def count_counters(stream: SplitStream) -> Counters:
    """Return how many counters a stream has left where. Takes a bit per key and channel.

    Examples
    --------
    >>> from unskew.splitters import splitter
    >>> from unskew.splitters.stream import split_stream
    >>> counters = count_counters(split_stream(splitter("shuffle"), np.array([1, 1, 2, 1]), workers=2))
    >>> counters.per_worker.tolist(), counters.keys, counters.most_channels, counters.relative_to_key_grouping
    ([2, 1], 2, 2, 1.5)
    """
    encoded = pa.array(stream.hashes).dictionary_encode()
    keys = len(encoded.dictionary)
    seen = np.zeros((keys, (stream.workers + 63) // 64), np.uint64)
    per_worker, per_key = np.zeros(stream.workers, np.int64), np.zeros(keys, np.int32)
    _kernel_counters(encoded.indices.to_numpy(), stream.channels, seen, per_worker, per_key)
    return Counters(per_worker, keys, int(per_key.max(initial=0)))


@dataclass(frozen=True)
class Agreement:
    """How alike two runs over the same stream chose."""

    equal: float  # share of the tuples that went to the same channel

    @property
    def jaccard(self) -> float:
        """Overlap of the two sets of (tuple, channel): ``equal / (2 - equal)``."""
        return self.equal / (2 - self.equal)


def agreement(one: SplitStream, other: SplitStream) -> Agreement:
    """Compare the channels of two runs.

    Examples
    --------
    >>> from unskew.splitters import splitter
    >>> from unskew.splitters.stream import split_stream
    >>> keys = np.random.default_rng(seed=0).zipf(1.2, size=10_000)
    >>> runs = [split_stream(splitter("pkg"), keys, 10, sources=5, estimate=e) for e in ("global", "local")]
    >>> alike = agreement(*runs)
    >>> 0.5 < alike.jaccard < alike.equal < 1
    True
    """
    if len(one.channels) != len(other.channels):
        raise ArgumentError("the runs are of different streams", got=(len(one.channels), len(other.channels)))
    return Agreement(float((one.channels == other.channels).mean()) if len(one.channels) else 1.0)


@njit(cache=True)
def _kernel_imbalance(
    channels: Channels, sources: Channels, loads: Loads, ends: NDArray[np.int64]
) -> tuple[Column, Column]:
    workers = loads.shape[1]
    total, imbalance, bound = np.zeros(workers, np.int64), np.empty(len(ends)), np.empty(len(ends))
    start = 0
    for point in range(len(ends)):
        for row in range(start, ends[point]):
            loads[np.uint64(sources[row]), np.uint64(channels[row])] += 1
        start = ends[point]
        total[:] = 0
        largest = 0
        for source in range(len(loads)):
            most = 0
            for worker in range(workers):
                total[worker] += loads[source, worker]
                most = max(most, loads[source, worker])
            largest += most
        mean = start / workers
        imbalance[point], bound[point] = total.max() - mean, largest - mean
    return imbalance, bound


@njit(cache=True)
def _kernel_counters(
    key_of: Channels, channels: Channels, seen: NDArray[np.uint64], per_worker: Loads, per_key: Channels
) -> None:
    for row in range(len(key_of)):
        key, channel = np.uint64(key_of[row]), np.uint64(channels[row])
        word, bit = channel >> np.uint64(6), np.uint64(1) << (channel & np.uint64(63))
        if not seen[key, word] & bit:
            seen[key, word] |= bit
            per_worker[channel] += 1
            per_key[key] += 1
