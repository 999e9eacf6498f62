"""A whole stream through several sources, each with its own idea of the loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ArgumentError, require_number
from unskew.sketches.base import Column, hash_column
from unskew.splitters.base import Splitter
from unskew.splitters.choices import MOST_WORKERS, Channels, Hashes, Loads, candidates, check_workers

Estimate = Literal["global", "local", "probed"]
Feed = Literal["round-robin", "hash"]

PROBE_TUPLES = 10_000
_FEED_SEED = 2**62  # hash functions that no scheme uses


@dataclass(frozen=True, eq=False)
class SplitStream:
    """Where the tuples of a stream went."""

    hashes: Hashes  # of the tuples' keys
    sources: Channels  # of each tuple
    channels: Channels  # of each tuple
    source_count: int
    workers: int

    @property
    def loads(self) -> Loads:
        """Tuples per channel at the end."""
        return np.bincount(self.channels, minlength=self.workers)


def feed_sources(hashes: Column, sources: int, feed: Feed = "round-robin") -> Channels:
    """Return the source of each tuple.

    ``"round-robin"`` deals tuples out in turn. ``"hash"`` gives all tuples of a key to one source, so that sources have
    unequal parts of the stream, and each sees keys of its own. Hashes of something else, such as the vertex where an
    edge begins, feed the sources by that.
    """
    column = hash_column(hashes)
    require_number("sources", sources, most=MOST_WORKERS)
    if sources < 1:
        raise ArgumentError("there must be at least one source", got=sources)
    if feed not in get_args(Feed):
        raise ArgumentError("there is no such feed", got=feed, hint=f"one of {', '.join(get_args(Feed))}")
    if feed == "hash":
        return candidates(column, sources, 1, seed=_FEED_SEED)[:, 0]
    return (np.arange(len(column)) % sources).astype(np.int32)


def split_stream(
    scheme: Splitter,
    hashes: Column,
    workers: int,
    *,
    sources: int | Channels = 1,
    estimate: Estimate = "local",
    probe_tuples: int = PROBE_TUPLES,
) -> SplitStream:
    """Route a stream as several sources would, tuple by tuple; section 3.2 of Partial Key Grouping.

    The sum of the sources' imbalances bounds the imbalance of all, so a source that balances its own tuples does its
    part. Under local estimation sources are independent of each other, and run here one after the other.

    Parameters
    ----------
    scheme
        How to route.
    hashes
        64-bit hashes of the tuples' keys, in order of time.
    workers
        How many channels there are.
    sources
        How many sources there are, fed in turn; or the source of each tuple, see `feed_sources`.
    estimate
        What sources know of the loads. ``"global"``: the truth, all of it, always (G). ``"local"``: what they have sent
        themselves (L). ``"probed"``: as local, but every `probe_tuples` tuples of the stream the truth takes its place
        (LP). A scheme that asks for no loads runs the same under all three.
    probe_tuples
        Tuples of the whole stream between two probes.

    Examples
    --------
    >>> from unskew.splitters import splitter
    >>> keys = np.random.default_rng(seed=0).zipf(1.4, size=100_000)
    >>> for scheme in (splitter("key"), splitter("pkg", distinct=True)):
    ...     loads = split_stream(scheme, keys, workers=5, sources=3).loads
    ...     print(scheme.name, round(float(loads.max() / loads.mean()), 2))
    key 2.12
    pkg 1.06
    """
    column = hash_column(hashes)
    check_workers(workers)
    of = feed_sources(column, sources) if isinstance(sources, int) else np.asarray(sources, np.int32)
    if of.shape != column.shape or (len(of) and of.min() < 0):
        raise ArgumentError("there must be one source, not negative, per tuple", got=of.shape)
    count = sources if isinstance(sources, int) else int(of.max(initial=0)) + 1
    if estimate not in get_args(Estimate):
        raise ArgumentError("there is no such estimate", got=estimate, hint=f"one of {', '.join(get_args(Estimate))}")
    if probe_tuples < 1:
        raise ArgumentError("probe_tuples must be at least 1", got=probe_tuples)
    if scheme.shares_memory and estimate != "global" and count > 1:
        raise ArgumentError(
            f"{scheme.name} keeps one owner per key, on which all sources have to agree",
            got=f"{estimate} estimates of {count} sources",
            hint="use the global estimate, or one source",
        )
    if scheme.estimates_load and (estimate == "global" or count == 1):
        channels = scheme.route(column, np.zeros(workers)).channels
    elif estimate == "probed" and scheme.estimates_load:
        channels = _probed(scheme, column, of, count, workers, probe_tuples)
    else:
        channels = _local(scheme, column, of, count, workers)
    return SplitStream(column, of, channels, count, workers)


def _local(scheme: Splitter, hashes: Hashes, of: Channels, sources: int, workers: int) -> Channels:
    channels = np.empty(len(hashes), np.int32)
    for rows in _rows_by_source(of, sources):
        channels[rows] = scheme.route(hashes[rows], np.zeros(workers)).channels
    return channels


def _probed(scheme: Splitter, hashes: Hashes, of: Channels, sources: int, workers: int, probe_tuples: int) -> Channels:
    channels = np.empty(len(hashes), np.int32)
    truth = np.zeros(workers, np.int64)
    known: list[tuple[Loads, Any]] = [(truth, None)] * sources
    for start in range(0, len(hashes), probe_tuples):
        span = slice(start, start + probe_tuples)
        part, filled = hashes[span], channels[span]
        for source, rows in enumerate(_rows_by_source(of[span], sources)):
            routed = scheme.route(part[rows], *known[source])
            filled[rows] = routed.channels
            known[source] = (routed.loads, routed.memory)
        truth = truth + np.bincount(filled, minlength=workers)
        known = [(truth, memory) for _, memory in known]
    return channels


def _rows_by_source(of: Channels, sources: int) -> list[NDArray[np.int64]]:
    """Return the rows of each source, in order."""
    small = of.astype(np.int16) if sources < 2**15 else of  # which numpy sorts by radix
    order = np.argsort(small, kind="stable")
    ends = np.cumsum(np.bincount(of, minlength=sources))
    return np.split(order, ends[:-1])
