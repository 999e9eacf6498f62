"""Keys drawn by Zipf's law."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def zipf_shares(keys: int, exponent: float) -> NDArray[np.float64]:
    """Return the share of each key, the heaviest first."""
    weight = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    return np.asarray(weight / weight.sum())


def zipf_ranks(rng: np.random.Generator, count: int, keys: int, exponent: float) -> NDArray[np.int64]:
    """Draw ranks of keys, from 0."""
    return np.searchsorted(np.cumsum(zipf_shares(keys, exponent)), rng.random(count)).clip(0, keys - 1)


def zipf_hashes(tuples: int, exponent: float = 1.0, keys: int = 1_000_000, seed: int = 0) -> NDArray[np.int64]:
    """Return hashes of keys that are drawn."""
    rng = np.random.default_rng(seed)
    hashes: NDArray[np.int64] = rng.integers(-(2**63), 2**63 - 1, keys)
    return np.take(hashes, zipf_ranks(rng, tuples, keys, exponent))
