"""Group labels that Spark's own hash sends to a partition of our choice."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

SPARK_HASH_SEED = 42


@lru_cache(maxsize=32)
def channel_labels(partitions: int) -> tuple[int, ...]:
    """Return one integer per partition: grouped by it, label i lands in partition i of that many.

    Spark places a group in partition ``pmod(hash(label), partitions)``. With these labels channel i *is* state
    partition i, so that its state stays where it is. Deterministic: the smallest such integers.

    Examples
    --------
    >>> channel_labels(4)
    (12, 6, 2, 0)
    """
    labels = np.full(partitions, -1, np.int64)
    first, block = 0, max(1024, 8 * partitions)
    while (labels < 0).any():
        candidates = np.arange(first, first + block, dtype=np.int32)
        placed = spark_hash_int(candidates).astype(np.int64) % partitions
        found, at = np.unique(placed, return_index=True)
        new = labels[found] < 0
        labels[found[new]] = candidates[at[new]]
        first += block
    return tuple(labels.tolist())


def spark_hash_int(values: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return Spark's ``hash`` of an int column: MurmurHash3 x86 32 of one word, seed 42."""
    with np.errstate(over="ignore"):
        word = values.astype(np.uint32) * np.uint32(0xCC9E2D51)
        word = _rotate(word, 15) * np.uint32(0x1B873593)
        mixed = _rotate(np.uint32(SPARK_HASH_SEED) ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        mixed ^= np.uint32(4)
        mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (mixed ^ (mixed >> np.uint32(16))).astype(np.int32)


def _rotate(word: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (word << np.uint32(bits)) | (word >> np.uint32(32 - bits))
