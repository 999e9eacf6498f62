"""How fast keys are hashed and their channels looked up, on one core.

All figures include writing the result into fresh memory. That is what bounds the hashing of integers; strings are bound
by mispredicted branches on their lengths, look-ups by mispredicted branches between explicit and other keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.hashing import xxhash64
from unskew.routing import RoutingTable
from unskew_lab.bench.harness import Benchmark, Row, interleave

Contenders = Mapping[str, Callable[[], NDArray[Any]]]

OURS = "unskew"
CHANNELS = 16
EXPLICIT_ENTRIES = 3_000


class RoutingBenchmark(Benchmark):
    """Hash integers and short strings, and look channels up in a table with 3,000 explicit entries.

    Each next to what a Python user would otherwise call; the ratio is to the fastest of those.
    """

    name: ClassVar[str] = "routing"
    summary: ClassVar[str] = "hash keys and look up their channels, on one core"

    def run(self, quick: bool) -> list[Row]:
        rows, repeats = (1_000_000, 7) if quick else (10_000_000, 15)
        rng = np.random.default_rng(0)
        return [
            *_measure("hash int64", hash_integers(rng, rows), repeats, target=100),
            *_measure("hash strings of 8 to 16 bytes", hash_strings(rng, rows // 5), repeats, target=20),
            *_measure("look up, half of the rows explicit", look_up(rng, rows, explicit_share=0.5), repeats, target=50),
            *_measure("look up, no row explicit", look_up(rng, rows, explicit_share=0.0), repeats, target=50),
        ]


def hash_integers(rng: np.random.Generator, rows: int) -> Contenders:
    """Return ways to hash a column of integers."""
    values = rng.integers(-(2**63), 2**63, rows)
    column = pa.array(values)
    return {OURS: lambda: xxhash64([column]), "pandas hash_array": lambda: pd.util.hash_array(values)}


def hash_strings(rng: np.random.Generator, rows: int) -> Contenders:
    """Return ways to hash a column of ASCII strings of 8 to 16 bytes; pandas gets Python strings."""
    offsets = np.concatenate([[0], np.cumsum(rng.integers(8, 17, rows))]).astype(np.int32)
    letters = rng.integers(ord("a"), ord("z") + 1, offsets[-1], dtype=np.uint8)
    column = pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])
    strings = column.to_numpy(zero_copy_only=False)
    return {
        OURS: lambda: xxhash64([column]),
        "pandas hash_array": lambda: pd.util.hash_array(strings, categorize=False),
    }


def look_up(rng: np.random.Generator, rows: int, explicit_share: float) -> Contenders:
    """Return ways to look up channels; hits are on explicit keys with frequencies 1, 1/2, 1/3, ..."""
    explicit = np.unique(rng.integers(-(2**63), 2**63, EXPLICIT_ENTRIES))
    owners = rng.integers(0, CHANNELS, explicit.size, dtype=np.int32)
    table = RoutingTable.initial(CHANNELS).with_explicit(explicit, owners)
    frequencies = 1 / np.arange(1, explicit.size + 1)
    hits = rng.permutation(explicit)[rng.choice(explicit.size, rows, p=frequencies / frequencies.sum())]
    hashes = np.where(rng.random(rows) < explicit_share, hits, rng.integers(-(2**63), 2**63, rows))
    column, value_set = pa.array(hashes), pa.array(explicit)

    def by_searchsorted() -> NDArray[np.int32]:
        places = np.minimum(np.searchsorted(explicit, hashes), explicit.size - 1)
        return np.where(explicit[places] == hashes, owners[places], table.home(hashes))

    def by_index_in() -> NDArray[np.int32]:
        places = pc.index_in(column, value_set).fill_null(-1).to_numpy()
        return np.where(places >= 0, owners[places], table.home(hashes))

    return {OURS: lambda: table.lookup(hashes), "numpy searchsorted": by_searchsorted, "pyarrow index_in": by_index_in}


def _measure(name: str, contenders: Contenders, repeats: int, target: float) -> list[Row]:
    rows = contenders[OURS]().size
    timings = interleave(contenders, repeats=repeats)
    speeds = {contender: rows / timing.median_seconds / 1e6 for contender, timing in timings.items()}
    samples = {contender: timing.rates(rows / 1e6) for contender, timing in timings.items()}
    fastest_peer = max(speed for contender, speed in speeds.items() if contender != OURS)
    return [
        Row(name, OURS, speed, "M rows/s", ratio=speed / fastest_peer, target=target, samples=samples[contender])
        if contender == OURS
        else Row(name, contender, speed, "M rows/s", samples=samples[contender])
        for contender, speed in speeds.items()
    ]
