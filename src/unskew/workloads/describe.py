"""How skewed a workload is, and what channels would suffer under hashing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ArgumentError, require_number
from unskew.hashing import xxhash64
from unskew.workloads.base import Workload

CHANNELS = (4, 8, 16, 32, 64)


@dataclass(frozen=True)
class KeyShare:
    """A hot key and the part of all rows that it has; null keys are named ``None``."""

    key: int | str | None
    share: float


@dataclass(frozen=True)
class ChannelLoads:
    """How many rows hashing gives each of a number of channels.

    A batch takes as long as its fullest channel.
    """

    channels: int
    rows: tuple[int, ...]
    times_shorter: float  # how much shorter a balanced batch would be
    times_shorter_whole_keys: float  # the same if no key may be split: some channel has all of the hottest key


@dataclass(frozen=True)
class Description:
    """The skew of one interval of a workload."""

    workload: str
    interval: int
    rows: int
    distinct_keys: int
    top_share: float
    keys_for_half: int
    top_keys: tuple[KeyShare, ...]
    loads: tuple[ChannelLoads, ...]


def describe(
    workload: Workload, n: int = 1_000_000, channels: Sequence[int] = CHANNELS, *, interval: int = 0, top: int = 10
) -> Description:
    """Describe the skew of an interval of `n` rows, for several numbers of channels, with its `top` hottest keys.

    Rows go to channel ``pmod(xxhash64(key), channels)``. Spark's own ``groupBy`` shuffles by its Murmur3 ``hash``
    instead, which puts other keys together; statistically the two are alike.

    Examples
    --------
    >>> from unskew.workloads import workload as named
    >>> skew = describe(named("zipf", exponent=1.2, keys=100_000), n=100_000, channels=[8])
    >>> skew.distinct_keys, round(skew.top_share, 2), skew.keys_for_half
    (11233, 0.2, 12)
    >>> round(skew.loads[0].times_shorter, 2)
    2.14
    """
    if not isinstance(workload, Workload):
        raise ArgumentError("this is not a workload", got=workload, hint='make one with workload("zipf")')
    require_number("n", n, most=2**40)
    if n < 1:
        raise ArgumentError("there must be rows to describe", got=n)
    require_number("interval", interval, 0)
    require_number("top", top, 0)
    if not isinstance(channels, Sequence) or not channels:
        raise ArgumentError("there must be numbers of channels", got=channels, hint="such as [8, 16]")
    for number in channels:
        require_number("channels", number)
        if number < 1:
            raise ArgumentError("numbers of channels must be 1 or more", got=tuple(channels))
    ids, counts = _counted(workload.keys(interval, n))
    hottest_first = np.argsort(-counts, kind="stable")
    ids, counts = ids[hottest_first], counts[hottest_first]
    hashes = xxhash64([workload.names(ids)])
    shares = counts / n
    names = workload.names(ids[:top]).to_pylist()
    return Description(
        workload=workload.name,
        interval=interval,
        rows=n,
        distinct_keys=ids.size,
        top_share=float(shares[0]),
        keys_for_half=int(np.searchsorted(np.cumsum(counts), n / 2)) + 1,
        top_keys=tuple(KeyShare(key, float(share)) for key, share in zip(names, shares, strict=False)),
        loads=tuple(_loads(hashes, counts, number) for number in channels),
    )


def _counted(ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return distinct ids, ascending, and their counts; without sorting when ids are small numbers."""
    if ids.max() > 8 * ids.size:
        return np.unique(ids, return_counts=True)
    counts = np.bincount(ids)
    distinct = np.flatnonzero(counts)
    return distinct, counts[distinct]


def _loads(hashes: NDArray[np.int64], counts: NDArray[np.int64], channels: int) -> ChannelLoads:
    rows = np.zeros(channels, dtype=np.int64)
    np.add.at(rows, np.mod(hashes, channels), counts)
    fullest, mean, hottest = float(rows.max()), float(rows.mean()), float(counts[0])
    return ChannelLoads(channels, tuple(rows.tolist()), fullest / mean, fullest / max(mean, hottest))
